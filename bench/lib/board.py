"""State that bench/peers/verify.c shares with bench/faults, and a check that the program makes progress."""

import mmap
import struct
import time
from pathlib import Path

THREADS, CHILDREN = 3, 2


class Verdict(Exception):
    """The reason for which a round failed."""

    def __init__(self, name, detail):
        super().__init__(f"{name}: {detail}")
        self.name, self.detail = name, detail


class Board:
    """The file that verify.c shares with us: see `struct board` there."""

    WORDS = ["orders", "is_ready", "wrong", "forks", "forks_refused", "good", "bad", "sigbus", "others"]
    AT_THREADS, AT_CHILDREN, AT_PIDS, LAST_GOOD, TEXT = 9, 17, 19, 21, 22
    GROW, END = 1, 2

    def __init__(self, path, user):
        self.path = path
        path.write_bytes(bytes(4096))
        user.own(path, 0o600)
        with open(path, "r+b") as file:
            self.bytes = mmap.mmap(file.fileno(), 4096)

    def word(self, number):
        return struct.unpack_from("<Q", self.bytes, 8 * number)[0]

    def __getattr__(self, name):
        return self.word(self.WORDS.index(name))

    def order(self, what):
        struct.pack_into("<Q", self.bytes, 0, self.orders | what)

    @property
    def last_good(self):
        return self.word(self.LAST_GOOD)

    @property
    def text(self):
        return self.bytes[8 * self.TEXT:8 * self.TEXT + 512].split(b"\0")[0].decode(errors="replace")

    def threads(self):
        return [self.word(self.AT_THREADS + number) for number in range(THREADS)]

    def pids(self):
        """The children that run."""
        return {pid for slot in range(CHILDREN) if (pid := self.word(self.AT_PIDS + slot))}

    def progress(self):
        """Counters that have to change: one of each thread, and of each child that runs."""
        found = {f"thread {number}": value for number, value in enumerate(self.threads())}
        for slot in range(CHILDREN):
            if pid := self.word(self.AT_PIDS + slot):
                found[f"child {pid}"] = self.word(self.AT_CHILDREN + slot)
        return found


def wanted_seconds(pid):
    """Processor time that the threads of a process had or waited for: on a busy machine one that spins has little."""
    total = 0
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            total += sum(map(int, (task / "schedstat").read_text().split()[:2]))
        except OSError:
            pass
    return total / 1e9


class Watch:
    """Sees to it that every counter moves."""

    def __init__(self, board, pid, bound):
        self.board, self.pid, self.bound = board, pid, bound
        self.seen = {}

    def look(self):
        now = time.monotonic()
        current = self.board.progress()
        for name, value in current.items():
            if name not in self.seen or self.seen[name][0] != value:
                self.seen[name] = (value, now)
        self.seen = {name: seen for name, seen in self.seen.items() if name in current}
        for name, (value, since) in self.seen.items():
            if now - since > self.bound:
                self.is_stuck(name, value)

    def is_stuck(self, name, value):
        pid = int(name.split()[1]) if name.startswith("child") else self.pid
        before = wanted_seconds(pid), self.board.threads()
        time.sleep(2)
        wanted = (wanted_seconds(pid) - before[0]) / 2
        spins = wanted > 0.5 and (pid != self.pid or self.board.threads() == before[1])
        raise Verdict("spin" if spins else "hang", f"{name} made no progress for {self.bound:.0f} s after {value} pages; "
                                                   f"its process wants {wanted:.0%} of a processor")
