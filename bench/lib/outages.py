"""A round of bench/outages: the fault drawn from its seed, and the verdict."""

import os
import random
import signal
import struct
import subprocess
import time
from dataclasses import dataclass
from mmap import mmap

from .hosts import RACK
from .rig import Failed, Process, sh, wait_until

NETEM = ["loss", "delay", "reorder"]
KINDS = ["link", "stop-near", "stop-far", "stop-both", "kill-near", "kill-far", *NETEM]
PROGRESS = ["inline", "daemon", "packet"]
WIRES = ["sealed", "clear", "ucx"]

# Operations between two steps of a round: enough for every key to have been written.
ENOUGH = 300

WORDS = struct.Struct("<4Q")
BOARD_BYTES = 256


class Verdict(Exception):
    def __init__(self, name, detail):
        super().__init__(name, detail)
        self.name, self.detail = name, detail


@dataclass
class Case:
    """What is drawn from the seed of a round."""

    seed: int
    kind: str
    progress: str
    wire: str


@dataclass
class Result:
    case: Case
    verdict: str = "passed"
    detail: str = ""
    seconds: float = 0
    done: int = 0
    failed: int = 0


class Board:
    """The words that the program and this script share."""

    def __init__(self, path):
        self.path = path
        path.write_bytes(bytes(BOARD_BYTES))
        with open(path, "r+b") as file:
            self.map = mmap(file.fileno(), BOARD_BYTES)

    def words(self):
        return WORDS.unpack(self.map[:WORDS.size])

    done = property(lambda self: self.words()[0])
    failed = property(lambda self: self.words()[1])
    wrong = property(lambda self: self.words()[2])

    @property
    def text(self):
        return self.map[WORDS.size:].split(b"\0")[0].decode(errors="replace")

    def stop(self):
        self.map[24:32] = struct.pack("<Q", 1)


class Round:
    def __init__(self, case, hosts, command, program, bound):
        self.case, self.hosts, self.command, self.program, self.bound = case, hosts, command, program, bound
        self.random = random.Random(f"moments {case.seed}")
        self.result = Result(case)
        self.file = hosts.rack_file(case.wire == "sealed", "ucx" if case.wire == "ucx" else "tcp")
        self.env = [dict(os.environ, RACKMEM_DIR=str(hosts.directory(host)), RACKMEM_PROGRESS=case.progress)
                    for host in (0, 1)]
        self.runs = 0

    # --- the rack and the program ---

    def call(self, host, *words, check=True):
        command = [*self.hosts.on(host), str(self.command), *map(str, words)]
        try:
            done = subprocess.run(command, env=self.env[host], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                  timeout=self.bound)
        except subprocess.TimeoutExpired:
            raise Verdict("hang", f"rackmem {words[0]} on host {host}") from None
        if check and done.returncode:
            raise Failed(f"rackmem {words[0]}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def up(self, host):
        self.call(host, "up", "--rack-file", self.file, "--node", host)

    def wait_linked(self):
        is_up = lambda: all(" up " in self.call(host, "info", "--rack-file", self.file, check=False) for host in (0, 1))
        if not wait_until(is_up, self.bound, 0.2):
            raise Verdict("not back", self.call(0, "info", "--rack-file", self.file, check=False))

    def daemon(self, host):
        """Process of the daemon of a host."""
        return int((self.hosts.directory(host) / RACK / f"node-{host}.lock").read_text())

    def start(self):
        self.runs += 1
        self.board = Board(self.hosts.scratch / f"board-{self.case.seed}-{self.runs}")
        launcher = f"ip netns exec {self.hosts.names[1]} env RACKMEM_DIR={self.hosts.directory(1)}"
        words = [self.command, "run", "--rack-file", self.file, "--launcher", launcher, "-n", "2", "--", self.program]
        log = self.hosts.scratch / f"log-{self.case.seed}-{self.runs}"
        self.run_ = Process([*words, self.board.path], log, self.env[0], self.hosts.names[0])

    # --- waiting ---

    def check(self):
        if self.board.wrong:
            raise Verdict("wrong", self.board.text)

    def wait(self, is_done, what):
        """Until it is done; the bound begins anew with each operation that ends."""
        count, end = -1, 0
        while not is_done():
            self.check()
            if self.run_.poll() is not None:
                raise Verdict("died wrongly", f"status {self.run_.poll()} while {what}: {self.run_.text().strip()[-300:]}")
            now = self.board.done + self.board.failed
            if now != count:
                count, end = now, time.monotonic() + self.bound
            if time.monotonic() > end:
                raise Verdict("hang", f"no operation ends while {what}")
            time.sleep(0.02)

    def wait_for_success(self, what):
        """Until enough operations have succeeded; failing ones alone are no progress."""
        before, end = self.board.done, time.monotonic() + 10 * self.bound

        def is_done():
            if time.monotonic() > end:
                raise Verdict("not back", f"operations fail while {what}: {self.board.text}")
            return self.board.done > before + ENOUGH
        self.wait(is_done, what)

    def end(self, may_fail=False):
        self.board.stop()
        status = self.run_.wait(self.bound)
        self.check()
        if status is None:
            raise Verdict("hang", "the program does not end")
        if status and not may_fail:
            raise Verdict("died wrongly", f"status {status} at its end: {self.run_.text().strip()[-300:]}")

    # --- faults ---

    def seconds(self, least, most):
        """Short times are as likely as long ones."""
        return least * (most / least) ** self.random.random()

    def link(self):
        host = self.random.choice([0, 1])
        self.set_link(host, "down")
        time.sleep(self.seconds(0.1, 30))
        self.set_link(host, "up")

    def set_link(self, host, state):
        sh("ip", "-n", self.hosts.names[host], "link", "set", "e0", state)

    def stop(self, daemons):
        for daemon in daemons:
            os.kill(daemon, signal.SIGSTOP)
        time.sleep(self.seconds(0.1, 10))
        for daemon in daemons:
            os.kill(daemon, signal.SIGCONT)

    def netem(self):
        words = {"loss": ["loss", "1%"], "delay": ["delay", f"{self.seconds(1, 50):.0f}ms", "1ms"],
                 "reorder": ["delay", "2ms", "reorder", "75%", "25%"]}[self.case.kind]
        for name in self.hosts.names:
            sh("tc", "-n", name, "qdisc", "add", "dev", "e0", "root", "netem", *words)
        time.sleep(self.seconds(2, 10))
        self.clear_netem()

    def clear_netem(self):
        for name in self.hosts.names:
            sh("tc", "-n", name, "qdisc", "del", "dev", "e0", "root", check=False)

    def kill(self, host):
        """Operations fail, the program ends, and the next one finds everything as at the start."""
        failed = self.board.failed
        os.kill(self.daemon(host), signal.SIGKILL)
        is_over = lambda: self.board.failed > failed or self.run_.poll() is not None
        if not wait_until(is_over, self.bound):
            raise Verdict("hang", "operations go on as if nothing had happened, or do not end")
        self.end(may_fail=True)
        self.note()
        self.up(host)
        self.wait_linked()
        self.start()
        self.wait_for_success("it runs again")

    def fault(self):
        kind = self.case.kind
        if kind == "link":
            self.link()
        elif kind.startswith("stop-"):
            hosts = {"near": [0], "far": [1], "both": [0, 1]}[kind[5:]]
            self.stop([self.daemon(host) for host in hosts])
        elif kind.startswith("kill-"):
            self.kill(["near", "far"].index(kind[5:]))
        else:
            self.netem()

    # --- all of it ---

    def note(self):
        self.result.done += self.board.done
        self.result.failed += self.board.failed

    def run(self):
        began = time.monotonic()
        try:
            for host in (0, 1):
                self.up(host)
            self.wait_linked()
            self.start()
            self.wait_for_success("it starts")
            time.sleep(self.random.uniform(0, 0.5))
            self.fault()
            self.wait_for_success("the fault is over")
            self.end()
            self.note()
        except Verdict as verdict:
            self.result.verdict, self.result.detail = verdict.name, verdict.detail
        except (Failed, OSError) as error:
            self.result.verdict, self.result.detail = "not run", f"{type(error).__name__}: {error}"
        finally:
            self.clean_up()
        self.result.seconds = time.monotonic() - began
        return self.result

    def clean_up(self):
        if hasattr(self, "run_"):
            self.run_.end()
        self.set_link(0, "up")
        self.set_link(1, "up")
        for host in (0, 1):
            try:
                os.kill(self.daemon(host), signal.SIGCONT)
            except (OSError, ValueError):
                pass
            try:
                self.call(host, "down", "--rack-file", self.file, "--node", host, check=False)
            except Verdict as verdict:
                if self.result.verdict == "passed":
                    self.result.verdict, self.result.detail = verdict.name, verdict.detail
