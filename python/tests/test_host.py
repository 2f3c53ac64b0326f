"""The runtime: programs as the nodes of a rack on one host."""

import json
import os
import signal

import pytest
from racks import MODES

OPEN = """
ctx = rackmem.Context(segment_bytes=1 << 20)
qp, other = ctx.queue_pair(), 1 - ctx.node
barrier = ctx.barrier(0)
DATA = 1 << 12
"""


@pytest.mark.parametrize("progress", MODES)
def test_buffers_of_any_kind_are_read_and_written(host, progress):
    host.run(
        OPEN
        + """
import array
assert ctx.progress == os.environ["RACKMEM_PROGRESS"] and ctx.nodes == 2
own = memoryview(ctx.segment)
own[DATA : DATA + 64] = bytes([7 + ctx.node]) * 64
barrier.wait(60)
for out in [bytearray(64), array.array("d", [0] * 8), memoryview(bytearray(64)), ctx.buffer(64)]:
    qp.read(other, DATA, out)
    assert memoryview(out).cast("B")[:64] == bytes([7 + other]) * 64
barrier.wait(60)
for n, data in enumerate([b"bytes...", array.array("q", [5]), memoryview(bytearray(b"12345678"))[::1], bytearray(8)]):
    qp.write(other, DATA + 1024 + 8 * n, data)
qp.write(other, DATA + 2048, b"")
barrier.wait(60)
assert bytes(own[DATA + 1024 : DATA + 1056]) == b"bytes..." + (5).to_bytes(8, "little") + b"12345678" + bytes(8)
barrier.wait(60)
ctx.close()
""",
        progress=progress,
    )


@pytest.mark.parametrize("progress", MODES)
def test_numpy_arrays_are_read_and_written(host, progress):
    pytest.importorskip("numpy")
    host.run(
        OPEN
        + """
import numpy as np
segment = np.frombuffer(ctx.segment, dtype=np.float64)
segment[DATA // 8 : DATA // 8 + 1000] = np.arange(1000) + ctx.node
barrier.wait(60)
out = np.zeros((10, 100))
qp.read(other, DATA, out)
assert (out.ravel() == np.arange(1000) + other).all()
part = np.zeros(8)
qp.read(other, DATA + 80, part[2:5])
assert list(part) == [0, 0, 10 + other, 11 + other, 12 + other, 0, 0, 0]
for _ in range(200):  # more than a context may have at a time
    ctx.buffer(8000)
buffer = np.frombuffer(ctx.buffer(8000), dtype=np.float64)
qp.read(other, DATA, buffer[:1000])
assert (buffer[:1000] == out.ravel()).all()
for wrong, words in [(np.zeros((4, 4))[:, ::2], "ascontiguousarray"), (np.array([None]), "pointers to objects"),
                     (np.zeros(2, dtype=[("O", "f4"), ("x", "O")]), "pointers to objects")]:
    raises(rackmem.ArrayError, lambda: qp.read(other, DATA, wrong), words)
qp.read(other, DATA, np.zeros(2, dtype=[("O", "f4"), ("x", "f4")]))
frozen = np.zeros(8)
frozen.flags.writeable = False
raises(rackmem.ArrayError, lambda: qp.read(other, DATA, frozen), "read-only")
barrier.wait(60)
ctx.close()
assert segment[DATA // 8 + 1] == segment[DATA // 8] + 1, "a view outlives its context"
buffer[0] = 1
""",
        progress=progress,
    )


@pytest.mark.parametrize("progress", MODES)
def test_atomics_count(host, progress):
    host.run(
        OPEN
        + """
barrier.wait(60)
seen = [qp.fetch_add(0, DATA, 1) for _ in range(500)]
seen += [op.result(60) for op in [qp.fetch_add_async(0, DATA, 1) for _ in range(500)]]
assert len(set(seen)) == 1000 and max(seen) < 2000
barrier.wait(60)
assert qp.fetch_add(0, DATA, 0) == 2000
barrier.wait(60)
if ctx.node == 1:
    assert qp.compare_swap(0, DATA, 1, 5) == 2000
    assert qp.compare_swap_async(0, DATA, 2000, 5).result() == 2000
    assert qp.fetch_add(0, DATA, -6) == 5
    assert qp.fetch_add(0, DATA, 2**64 - 1) == 2**64 - 1
barrier.wait(60)
ctx.close()
""",
        progress=progress,
    )


@pytest.mark.parametrize("progress", MODES)
def test_many_operations_are_in_flight(host, progress):
    host.run(
        OPEN
        + """
import asyncio
own = memoryview(ctx.segment)
for n in range(1000):
    own[DATA + 64 * n] = n % 251
barrier.wait(60)
outs = [bytearray(64) for _ in range(1000)]
operations = [qp.read_async(other, DATA + 64 * n, out) for n, out in enumerate(outs)]
assert all(operation.result(60) is None and operation.done() for operation in operations)
assert [out[0] for out in outs] == [n % 251 for n in range(1000)]

async def read(n):
    out = bytearray(64)
    await qp.read_async(other, DATA + 64 * n, out)
    return out[0]

async def all_of_them():
    ticks = 0
    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)
    ticking = asyncio.create_task(tick())
    assert await asyncio.gather(*map(read, range(1000))) == [n % 251 for n in range(1000)]
    ticking.cancel()
    try:
        await qp.read_async(other, 1 << 20, bytearray(1))
    except rackmem.RangeError as error:
        assert "leaves the node's segment" in str(error)
    else:
        raise AssertionError
    return await qp.fetch_add_async(other, DATA + 64 * 1000, 3)

assert asyncio.run(all_of_them()) == 0
# Nobody waits for these, nor keeps their buffers.
for n in range(300):
    qp.read_async(other, DATA, bytearray(1 << 14))
qp.read(other, DATA, outs[0])
barrier.wait(60)
ctx.close()
""",
        progress=progress,
    )


def test_a_transfer_of_several_entries_arrives_whole_or_not_at_all(host):
    host.run(
        """
ctx = rackmem.Context(segment_bytes=40 << 20)
barrier = ctx.barrier(0)
qp, other = ctx.queue_pair(2), 1 - ctx.node
size = 39 << 20
data = bytearray(os.urandom(1 << 20) * 39)
barrier.wait(60)
qp.write_async(other, 1 << 20, data).result(60)
back = bytearray(size)
qp.read(other, 1 << 20, back)
assert back == data
raises(rackmem.RangeError, lambda: qp.write(other, 2 << 20, bytes(size)), "leaves the node's segment")
qp.read(other, 1 << 20, back)
assert back == data
barrier.wait(60)
ctx.close()
""",
        progress="packet",
    )


@pytest.mark.parametrize("progress", ["daemon", "packet"])
def test_an_operation_in_flight_keeps_its_buffer(host, progress):
    host.run(
        OPEN
        + """
barrier.wait(60)
data = bytearray(64)
operation = qp.read_async(other, DATA, data)
try:
    data.append(1)
except BufferError:
    pass
else:
    raise AssertionError("the buffer was not exported")
operation.result(60)
data.append(1)
# A pair that is closed waits.
operation = qp.read_async(other, DATA, data)
qp.close()
assert operation.result(0) is None
data.append(1)
raises(rackmem.ClosedError, lambda: qp.read(other, 0, data), "queue pair is closed")
barrier.wait(60)
ctx.close()
""",
        progress=progress,
    )


def test_wrong_arguments_say_what_to_do(host):
    host.run(
        OPEN
        + """
out = bytearray(64)
barrier.wait(60)
raises(rackmem.ArrayError, lambda: qp.read(other, 0, b"bytes"), "read-only", "bytearray")
raises(TypeError, lambda: qp.read(other, 0, 5), "int is not a buffer", "ctx.buffer")
raises(rackmem.NodeError, lambda: qp.read(2, 0, out), "no such node: 0 to 1")
raises(ConnectionError, lambda: qp.read(-1, 0, out), "numbered from 0")
raises(rackmem.RangeError, lambda: qp.read(other, (1 << 20) - 63, out), "64 bytes at offset 1048513", "segment_bytes")
raises(IndexError, lambda: qp.write(other, -1, out), "bytes from 0")
raises(rackmem.RangeError, lambda: qp.read(other, 1 << 64, out), "no segment has")
raises(rackmem.RangeError, lambda: qp.fetch_add(other, 4, 1), "multiple of 8")
raises(rackmem.RackError, lambda: ctx.queue_pair(3), "3 entries", "power of two")
raises(rackmem.RackError, lambda: ctx.messages(1), "multiple of 64")
raises(rackmem.RangeError, lambda: ctx.messages(1 << 20), "leaves the segment")
messages = ctx.messages(DATA)
raises(rackmem.RackError, lambda: messages.send(ctx.node, b""), "to itself")
raises(rackmem.NodeError, lambda: messages.receive(5), "node 5", "ctx.nodes")
for call, kind in [(lambda: qp.read("1", 0, out), TypeError), (lambda: qp.read(other, 0.5, out), TypeError),
                   (lambda: barrier.wait(-1), ValueError), (lambda: barrier.wait(float("nan")), ValueError),
                   (lambda: qp.fetch_add(other, 0, 1 << 64), OverflowError),
                   (lambda: rackmem.Context(progress="fast"), ValueError)]:
    try:
        call()
    except kind:
        continue
    raise AssertionError("no " + kind.__name__)
barrier.wait(60)
ctx.close()
ctx.close()
for call in [lambda: ctx.node, lambda: ctx.segment, ctx.queue_pair, barrier.wait, lambda: messages.receive(0)]:
    raises(rackmem.ClosedError, call, "closed")
"""
    )


def test_a_context_is_for_reading_only_if_it_says_so(host):
    host.run(
        """
ctx = rackmem.Context(segment_bytes=4096)
if ctx.node == 0:
    with rackmem.Context(read_only=True, segment_bytes=4096) as reader:
        qp = reader.queue_pair()
        qp.read(0, 0, bytearray(8))
        raises(PermissionError, lambda: qp.write(0, 0, bytes(8)), "read_only")
        assert memoryview(reader.segment).readonly
ctx.close()
"""
    )


def test_without_a_rack_the_error_names_the_command(host):
    host.alone(
        """
raises(rackmem.RackError, rackmem.Context, "rack 'default' is not up", "rackmem up")
raises(OSError, lambda: rackmem.Context(rack="no/name"))
"""
    )


def test_nodes_that_have_left_and_nodes_that_died_are_told_apart(host):
    start = OPEN + "messages, out = ctx.messages(DATA), bytearray(8)\nbarrier.wait(60)"
    host.run(
        start
        + """
if ctx.node == 1:
    ctx.close()
    sys.exit()
while True:
    try:
        qp.read(1, 0, out)
    except rackmem.NodeError as error:
        if type(error) is rackmem.NodeError:
            assert "wait_joined" in str(error)
            break
ctx.close()
"""
    )
    host.run(
        start
        + """
if ctx.node == 1:
    os._exit(0)
raises(rackmem.NodeLostError, lambda: messages.receive(1, 60), "node 1", "rackmem status")
raises(rackmem.NodeLostError, lambda: qp.read(1, 0, out), "rackmem status")
raises(rackmem.NodeLostError, lambda: barrier.wait(60), "did not arrive")
raises(rackmem.ClosedError, lambda: barrier.wait(60))
ctx.close()
"""
    )


@pytest.mark.parametrize("progress", MODES)
def test_messages_arrive_in_order(host, progress):
    host.run(
        """
ctx = rackmem.Context(segment_bytes=1 << 20)
barrier, messages = ctx.barrier(0), ctx.messages(4096)
sizes = [0, 1, 56, 57, 4095, 4096, 70000, 0]
if ctx.node == 0:
    for size in sizes * 3:
        messages.send(1, bytes([size % 251]) * size)
    assert messages.receive_any(60) == (1, b"done")
else:
    for size in sizes:
        assert messages.receive(0, 60) == bytes([size % 251]) * size
    for size in sizes:
        assert messages.receive_any(60) == (0, bytes([size % 251]) * size)
    out = bytearray(65536)
    for size in sizes:
        if size > len(out):
            raises(rackmem.RangeError, lambda: messages.receive_into(0, out, 60), "70000 bytes", "65536")
            out = bytearray(size)
        assert messages.receive_into(0, out, 60) == size
        assert out[:size] == bytes([size % 251]) * size
    messages.send(0, b"done")
    raises(TimeoutError, lambda: messages.receive(0, 0.05), "has not come")
barrier.wait(60)
ctx.close()
""",
        progress=progress,
    )


@pytest.mark.parametrize("progress", MODES)
def test_a_lock_excludes(host, progress):
    host.run(
        OPEN
        + """
lock = ctx.lock(0, DATA, 4, 1 << 19)
assert Lock.area_bytes(4) > 0 and Barrier.area_bytes(2) > 0
word = bytearray(8)
barrier.wait(60)
for _ in range(200):
    with lock:
        qp.read(0, 1 << 18, word)
        word[:] = (int.from_bytes(word, "little") + 1).to_bytes(8, "little")
        qp.write(0, 1 << 18, word)
barrier.wait(60)
qp.read(0, 1 << 18, word)
assert int.from_bytes(word, "little") == 400
if ctx.node == 0:
    lock.acquire(60)
    raises(rackmem.RackError, lock.acquire, "already")
else:
    raises(rackmem.RackError, lock.release, "does not hold")
barrier.wait(60)
if ctx.node == 1:
    assert not lock.try_acquire()
    raises(rackmem.WaitTimeout, lambda: lock.acquire(0.05), "holds the lock")
barrier.wait(60)
if ctx.node == 0:
    os._exit(0)
while True:
    try:
        lock.acquire(60)
    except rackmem.NodeLostError:
        break
""",
        progress=progress,
    )


def test_waits_let_other_threads_go_on_and_end_by_ctrl_c(host):
    host.run(
        OPEN
        + """
messages = ctx.messages(DATA)
lock = ctx.lock(1, 1 << 19, 4, (1 << 19) + (1 << 16))
barrier.wait(60)
if ctx.node == 1:
    lock.acquire()
    messages.send(0, b"held")
    assert messages.receive(0, 60) == b"go on"
    messages.send(0, b"gone on")
    assert messages.receive(0, 60) == b"end"
    lock.release()
    assert messages.receive(0, 60) == b"had it"
else:
    assert messages.receive(1, 60) == b"held"
    pair = ctx.queue_pair()
    second = ctx.notifications
    interrupted(lambda: messages.receive(1, 60))
    interrupted(lambda: messages.receive_any())
    interrupted(lock.acquire)
    interrupted(lambda: ctx.wait_notify(second))
    # The thread that sends is another than the one that waits.
    waiting = threading.Thread(target=ctx.wait_notify, args=(second,))
    waiting.start()
    pair.notify(0)
    waiting.join(60)
    assert not waiting.is_alive()
    messages.send(1, b"go on")
    assert messages.receive(1, 60) == b"gone on"
    interrupted(barrier.wait)
    raises(rackmem.ClosedError, barrier.wait)
    messages.send(1, b"end")
    # The request that was interrupted stands in nobody's way.
    for _ in range(2):
        lock.acquire(60)
        lock.release()
    messages.send(1, b"had it")
ctx.close()
"""
    )


@pytest.mark.parametrize("where", ["handler", "thread"])
@pytest.mark.parametrize("wait", ["messages.receive(1)", "barrier.wait()", "lock.acquire()", "ctx.wait_notify(seen)"])
def test_closing_a_context_ends_its_waits(host, where, wait):
    host.run(
        OPEN
        + f"""
messages = ctx.messages(DATA)
lock = ctx.lock(1, 1 << 19, 4, (1 << 19) + (1 << 16))
barrier.wait(60)
done = sys.argv[0] + ".done"
if ctx.node == 1:
    lock.acquire()
    messages.send(0, b"held")
    import time
    while not os.path.exists(done):
        time.sleep(0.01)
    os._exit(0)
assert messages.receive(1, 60) == b"held"
seen, caught = ctx.notifications, []
def wait():
    try:
        {wait}
    except rackmem.ClosedError as error:
        caught.append(str(error))
if {where!r} == "handler":
    signal.signal(signal.SIGTERM, lambda number, frame: ctx.close())
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    wait()
else:
    waiting = threading.Thread(target=wait)
    waiting.start()
    threading.Timer(0.3, ctx.close).run()
    waiting.join(60)
open(done, "w").close()
assert "closed" in caught[0], caught
raises(rackmem.ClosedError, lambda: ctx.node, "closed")
"""
    )


def test_a_thread_that_waits_for_another_ends_by_ctrl_c(host):
    host.run(
        OPEN
        + """
messages = ctx.messages(DATA)
barrier.wait(60)
if ctx.node == 0:
    import time
    receiving = threading.Thread(target=messages.receive, args=(1,), daemon=True)
    receiving.start()
    time.sleep(0.5)
    def sends():
        # A message leaves only if the thread does not receive yet.
        while True:
            messages.send(1, b"x")
            time.sleep(0.01)
    interrupted(sends)
    barrier.wait(60)
    receiving.join(60)
    assert not receiving.is_alive()
else:
    barrier.wait(60)
    messages.send(0, b"at last")
ctx.close()
"""
    )


@pytest.mark.parametrize("progress", ["daemon", "packet"])
def test_a_buffer_that_ends_with_its_operation_may_use_the_pair(host, progress):
    host.run(
        OPEN
        + """
said = []
class Buffer(bytearray):
    def __del__(self):
        try:
            qp.fetch_add(other, 8 * 1024, 1)
        except rackmem.Error as error:
            said.append(str(error))
barrier.wait(60)
for _ in range(100):
    qp.read_async(other, DATA, Buffer(4096))
qp.read(other, DATA, bytearray(8))
assert all("in use by the same thread" in text for text in said), said
barrier.wait(60)
ctx.close()
""",
        progress=progress,
    )


def test_a_child_of_fork_is_refused_and_harms_nothing(host):
    host.run(
        OPEN
        + """
out = bytearray(8)
barrier.wait(60)
qp.read(other, 0, out)
child = os.fork()
if child == 0:
    raises(rackmem.ClosedError, lambda: qp.read(other, 0, out), "forked")
    raises(rackmem.ClosedError, lambda: ctx.node, "forked")
    ctx.close()
    del qp, ctx, barrier
    import gc
    gc.collect()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
qp.read(other, 0, out)
barrier.wait(60)
ctx.close()
"""
    )


@pytest.mark.parametrize("progress", ["daemon", "packet"])
def test_operations_of_a_stopped_daemon_wait_and_those_of_a_dead_one_fail(host, progress):
    host.ok("up", "--nodes", "2")
    host.ok("context", "create", "0")
    pids = [node["status"]["pid"] for node in json.loads(host.ok("status", "--json"))["nodes"]]
    host.alone(
        f"""
import asyncio, signal
pid, progress = {pids[0]}, {progress!r}
def stop():
    os.kill(pid, signal.SIGSTOP)
    states = lambda: [open(f"/proc/{{pid}}/task/{{task}}/stat").read().rpartition(")")[2].split()[0]
                      for task in os.listdir(f"/proc/{{pid}}/task")]
    while set(states()) != {{"T"}}:
        pass
one = rackmem.Context(node=1, context=0, segment_bytes=4096, wait=False, progress=progress)
ctx = rackmem.Context(node=0, context=0, segment_bytes=4096, progress=progress)
qp, out = ctx.queue_pair(), bytearray(64)
qp.write(1, 0, b"x" * 64)
stop()
operation = qp.read_async(1, 0, out)
raises(rackmem.WaitTimeout, lambda: operation.result(0.2), "goes on")
assert not operation.done() and qp.in_flight == 1
os.kill(pid, signal.SIGCONT)
operation.result(60)
assert out == b"x" * 64
stop()
first, second = qp.read_async(1, 0, out), qp.read_async(1, 0, bytearray(64))
os.kill(pid, signal.SIGKILL)
raises(rackmem.NodeLostError, lambda: first.result(60), "rackmem status")
async def wait():
    await second
raises(rackmem.NodeLostError, lambda: asyncio.run(wait()))
raises(rackmem.NodeLostError, lambda: qp.read(1, 0, out))
ctx.close()
one.close()
"""
    )
    for pid in pids[1:]:
        os.kill(pid, signal.SIGTERM)


def test_what_has_not_joined_is_waited_for(host):
    host.ok("up", "--nodes", "2")
    host.ok("context", "create", "0")
    host.alone(
        """
raises(rackmem.WaitTimeout, lambda: rackmem.Context(node=0, timeout=0.1), "have not joined")
ctx = rackmem.Context(node=0, segment_bytes=64, wait=False)
qp = ctx.queue_pair()
raises(rackmem.NodeError, lambda: qp.read(1, 0, bytearray(8)), "wait_joined(1)")
raises(rackmem.WaitTimeout, lambda: ctx.wait_joined(1, 0.1))
raises(rackmem.NodeError, lambda: ctx.wait_joined(2))
with rackmem.Context(node=1, segment_bytes=64) as one:
    ctx.wait_joined(1)
    qp.read(1, 0, bytearray(8))
ctx.close()
"""
    )
