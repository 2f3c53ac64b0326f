"""The programs of bench/programs: each function runs one and gives its answer."""

import hashlib
import signal
import socket

from rig import wait_until
from run import PATIENCE_S, PYTHON, Missing, Wrong, digest


def sqlite3(run, find):
    out = run.execute([find("sqlite3"), ":memory:"], stdin="""
PRAGMA temp_store=memory;
CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
  INSERT INTO t SELECT i, printf('%08x', i * 2654435761 % 4294967296) || printf('%0100d', i), i * 7919 % 10007 FROM n;
CREATE INDEX tb ON t(b);
CREATE INDEX tc ON t(c);
SELECT count(*), sum(length(b)), sum(c) FROM t;
SELECT c, count(*), min(b), max(b) FROM t GROUP BY c ORDER BY 2 DESC, 1 LIMIT 50;
SELECT count(*) FROM t x JOIN t y ON x.c = y.c AND x.a < y.a;
DELETE FROM t WHERE a % 3 = 0;
UPDATE t SET b = b || 'x' WHERE a % 5 = 0;
SELECT a, b FROM t ORDER BY b LIMIT 1000;
PRAGMA integrity_check;
""")
    return digest(out)


def postgresql(run, find):
    if run.rack.user.uid == 0:
        raise Missing("it refuses to run as root")
    data, psql = run.directory / "data", find("psql")
    run.execute([find("initdb"), "-D", data, "-A", "trust", "-U", "bench", "--no-sync"], borrow=False)
    options = {"work_mem": "256MB", "maintenance_work_mem": "256MB", "fsync": "off", "jit": "off",
               "max_parallel_workers_per_gather": "0", "listen_addresses": ""}
    words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    path = run.directory / ".s.PGSQL.5432"
    server = run.serve([find("postgres"), "-D", data, "-k", run.directory, *words], path.exists)
    query = """
CREATE TABLE t AS SELECT i AS a, md5(i::text) AS b, i * 7919 % 10007 AS c FROM generate_series(1, 80000) i;
SELECT count(*), md5(string_agg(b, '' ORDER BY b)) FROM t;
SELECT c, count(*), min(b) FROM t GROUP BY c ORDER BY 2 DESC, 1 LIMIT 50;
SELECT count(*), max(x.b) FROM t x JOIN t y ON x.b = y.b;
CREATE INDEX ON t(b);
SELECT md5(string_agg(d, ',' ORDER BY d)) FROM (SELECT DISTINCT left(b, 6) AS d FROM t) s;
"""
    out = wait_until(lambda: try_to(lambda: run.execute(
        [psql, "-h", run.directory, "-U", "bench", "-d", "postgres", "-At", "-v", "ON_ERROR_STOP=1"], stdin=query,
        borrow=False), "starting up"), 60)
    run.finish(server, signal.SIGINT)
    return digest(out)


def try_to(do, while_it_says):
    try:
        return do()
    except Wrong as wrong:
        if while_it_says in str(wrong):
            return None
        raise


class Connection:
    """A client of a server with a Unix socket."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(str(path))
        self.input = self.socket.makefile("rb")

    def redis(self, *words):
        self.send_redis(words)
        return self.reply()

    def send_redis(self, *commands):
        out = b""
        for words in commands:
            words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
            out += b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self.socket.sendall(out)

    def reply(self):
        line = self.input.readline()
        if not line:
            raise Wrong("the server hangs up")
        kind, rest = line[:1], line[1:].strip()
        if kind == b"$":
            return self.input.read(int(rest) + 2)[:-2] if int(rest) >= 0 else None
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind == b"-":
            raise Wrong(rest.decode())
        return rest


def can_connect(path):
    try:
        Connection(path).socket.close()
        return True
    except OSError:
        return False


def value(key, size=800):
    return hashlib.sha256(str(key).encode()).digest() * (size // 32)


def memcached(run, find):
    path = run.directory / "socket"
    # It changes to a user, and does not want to be root.
    user = ["-u", "root"] if run.rack.user.uid == 0 else []
    server = run.serve([find("memcached"), "-s", path, "-m", 512, "-t", 2, *user], lambda: can_connect(path))
    client, hashed = Connection(path), hashlib.sha256()
    for first in range(0, 30000, 100):
        keys = range(first, first + 100)
        client.socket.sendall(b"".join(b"set k%d 0 0 %d\r\n%s\r\n" % (key, len(value(key)), value(key)) for key in keys))
        for _ in keys:
            if client.input.readline() != b"STORED\r\n":
                raise Wrong("a value is not stored")
    for key in sorted(range(30000), key=lambda key: key * 7919 % 30011):
        client.socket.sendall(b"get k%d\r\n" % key)
        head = client.input.readline().split()
        if head[:2] != [b"VALUE", b"k%d" % key]:
            raise Wrong(f"key {key} is answered by {head}")
        found = client.input.read(int(head[3]) + 2)[:-2]
        if found != value(key):
            raise Wrong(f"key {key} has another value")
        hashed.update(found)
        client.input.readline()
    run.finish(server, signal.SIGTERM)
    return hashed.hexdigest()[:16]


def redis(run, find):
    path, data = run.directory / "socket", run.directory / "data"
    data.mkdir()
    run.rack.user.own(data)

    def server(borrow, *words):
        path.unlink(missing_ok=True)
        command = [find("redis-server"), "--port", 0, "--unixsocket", path, "--dir", data, "--save", "", "--appendfsync",
                   "no", "--enable-debug-command", "yes", *words]
        child = run.serve(command, lambda: can_connect(path), borrow=borrow)
        client = Connection(path)
        wait_until(lambda: b"\nloading:0" in client.redis("INFO", "persistence"), PATIENCE_S)
        return child, client

    def put(client, keys, generation):
        keys = list(keys)
        for first in range(0, len(keys), 500):
            part = keys[first:first + 500]
            client.send_redis(*(("SET", f"key:{key}", value(f"{key} {generation}")) for key in part))
            for _ in part:
                client.reply()

    def wait_for(client, field_name):
        def is_done():
            run.has_died()
            return f"{field_name}:0".encode() in client.redis("INFO", "persistence")
        if not wait_until(is_done, PATIENCE_S, 0.2):
            raise Wrong(f"{field_name} does not end")

    child, client = server(True, "--appendonly", "yes")
    put(client, range(30000), 0)
    answers = [client.redis("DEBUG", "DIGEST")]
    client.redis("BGSAVE")
    put(client, range(0, 30000, 7), 1)
    wait_for(client, "rdb_bgsave_in_progress")
    if b"rdb_last_bgsave_status:ok" not in client.redis("INFO", "persistence"):
        raise Wrong("BGSAVE failed")
    answers.append(digest((data / "dump.rdb").stat().st_size and b"saved"))
    client.redis("BGREWRITEAOF")
    put(client, range(0, 30000, 5), 2)
    wait_for(client, "aof_rewrite_in_progress")
    if b"aof_last_bgrewrite_status:ok" not in client.redis("INFO", "persistence"):
        raise Wrong("BGREWRITEAOF failed")
    answers.append(client.redis("DEBUG", "DIGEST"))
    run.finish(child, signal.SIGTERM)
    for words in (["--appendonly", "no"], ["--appendonly", "yes"]):
        child, client = server(False, *words)
        answers.append(client.redis("DEBUG", "DIGEST"))
        run.finish(child, signal.SIGTERM)
    if answers[0] != answers[3] or answers[2] != answers[4]:
        raise Wrong(f"what was saved is not what was there: {answers}")
    return digest(str(answers))


def duckdb(run, find):
    find.module("duckdb")
    return digest(run.execute([PYTHON, "-c", """
import duckdb
db = duckdb.connect()
db.execute("SET threads=2; SET memory_limit='400MB'; SET enable_progress_bar=false")
db.execute("CREATE TABLE t AS SELECT i AS a, md5(i::varchar) AS b, i * 7919 % 10007 AS c FROM range(300000) r(i)")
print(db.execute("SELECT c, count(*), min(b), max(b) FROM t GROUP BY c ORDER BY c LIMIT 500").fetchall())
print(db.execute("SELECT count(*), min(x.b), sum(y.c) FROM t x JOIN t y ON x.a = y.a + 1").fetchall())
print(db.execute("SELECT a, b FROM t ORDER BY b LIMIT 1000 OFFSET 100000").fetchall())
"""]))


def pandas(run, find):
    find.module("pandas")
    return digest(run.execute([PYTHON, "-c", """
import numpy, pandas
random = numpy.random.default_rng(1)
t = pandas.DataFrame({"a": random.integers(0, 5000, 150000), "b": random.random(150000),
                      "c": random.integers(0, 1 << 40, 150000)})
s = t.sort_values(["c", "a"], kind="stable")
print(s.head(100).to_csv(), s.tail(100).to_csv())
g = t.groupby("a").agg({"b": ["min", "max", "count"], "c": ["min", "max"]})
print(g.to_csv())
m = t.iloc[:50000].merge(g["c"], left_on="a", right_index=True)
print(len(m), int(m["min"].sum()), int((m["max"] - m["c"]).max()))
x = random.random((400, 400))
print(numpy.allclose(x @ numpy.linalg.inv(x), numpy.eye(400), atol=1e-6), hash(t["c"].to_numpy().tobytes()) != 0)
"""], env={"OPENBLAS_NUM_THREADS": "2"}))


def node(run, find):
    return digest(run.execute([find("node"), "--max-old-space-size=600", run.write("work.js", """
const crypto = require('crypto');
const map = new Map();
for (let i = 0; i < 30000; i++) map.set('key' + i, { number: i * 7919 % 10007, text: 'x'.repeat(i % 50) + i });
const buffers = [];
for (let i = 0; i < 200; i++) buffers.push(Buffer.alloc(64 << 10, String(i)));
const hash = crypto.createHash('sha256');
for (let round = 0; round < 3; round++) {
  for (const [key, value] of map) if (value.number % 3 === round) hash.update(key + value.text);
  for (const buffer of buffers) hash.update(buffer.subarray(round * 1000, round * 1000 + 20000));
}
const sorted = [...map.entries()].sort((a, b) => a[1].number - b[1].number || (a[0] < b[0] ? -1 : 1));
hash.update(JSON.stringify(sorted.slice(0, 15000)));
console.log(hash.digest('hex'));
""")]))


JAVA = """
import java.util.*;
public class Work {
    public static void main(String[] arguments) throws Exception {
        Thread[] threads = new Thread[3];
        long[] sums = new long[threads.length];
        for (int t = 0; t < threads.length; t++) {
            int number = t;
            threads[t] = new Thread(() -> sums[number] = work(number));
            threads[t].start();
        }
        for (Thread thread : threads) thread.join();
        System.out.println(Arrays.toString(sums));
    }
    static long work(int seed) {
        Random random = new Random(seed);
        Map<Integer, byte[]> map = new HashMap<>();
        TreeMap<Long, String> tree = new TreeMap<>();
        long sum = 0;
        for (int round = 0; round < 6000; round++) {
            int key = random.nextInt(3000);
            byte[] old = map.put(key, bytes(key, round));
            if (old != null) sum = sum * 31 + Arrays.hashCode(old);
            if (round % 4 == 0) tree.put(random.nextLong(), "text " + round);
            if (round % 16 == 0 && tree.size() > 500) sum = sum * 31 + tree.pollFirstEntry().getValue().hashCode();
        }
        for (int key = 0; key < 3000; key++) {
            byte[] value = map.get(key);
            if (value != null) sum = sum * 31 + Arrays.hashCode(value);
        }
        return sum;
    }
    static byte[] bytes(int key, int round) {
        byte[] value = new byte[1000];
        for (int i = 0; i < value.length; i++) value[i] = (byte) (key * 31 + round * 7 + i);
        return value;
    }
}
"""


def java(run, find):
    run.write("Work.java", JAVA)
    run.execute([find("javac"), "Work.java"], borrow=False)
    answers = [run.execute([find("java"), f"-XX:+Use{collector}GC", "-Xmx400m", "-Xmn6m",
                            f"-XX:ErrorFile={run.directory}/hs_err_%p.log", "Work"])
               for collector in ("Serial", "Parallel", "G1")]
    if len(set(answers)) != 1:
        raise Wrong(f"collectors differ: {answers}")
    return digest(answers[0])


def compiler(run, find):
    source = ["#include <map>", "#include <string>", "#include <vector>", "#include <functional>",
              "template <int N> struct T { std::map<int, std::vector<std::string>> m; int f(int x) {",
              "  m[x % N].push_back(std::to_string(x + N)); std::function<int(int)> g = [this](int y) { return y * N; };",
              "  return g(x) + int(m.size()); } };"]
    source += [f"int f{n}(int x) {{ T<{n + 1}> t; return t.f(x); }}" for n in range(12)]
    run.write("work.cc", "\n".join(source) + "\n")
    run.execute([find("g++"), "-O1", "-c", "work.cc", "-o", "work.o"])
    return digest((run.directory / "work.o").read_bytes())


def stress(run, find):
    for words in (["--vm", 2, "--vm-bytes", "24M", "--vm-method", "rand-set", "--vm-ops", 5000],
                  ["--vm", 1, "--vm-bytes", "24M", "--vm-keep", "--vm-method", "walk-0a", "--vm-ops", 2],
                  ["--malloc", 2, "--malloc-bytes", "64K", "--malloc-max", 1000, "--malloc-ops", 3000],
                  ["--mmap", 1, "--mmap-bytes", "24M", "--mmap-ops", 2],
                  ["--fork", 2, "--fork-ops", 20]):
        run.execute([find("stress-ng"), *words, "--verify", "--timeout", "300s", "--temp-path", run.directory])
    return "verified"


PROGRAMS = {"sqlite3": sqlite3, "postgresql": postgresql, "memcached": memcached, "redis": redis, "duckdb": duckdb,
            "pandas": pandas, "node": node, "java": java, "g++": compiler, "stress-ng": stress}
