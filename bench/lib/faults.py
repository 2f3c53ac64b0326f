"""A round of bench/faults: the case drawn from its seed, the fault, and the verdict."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from board import CHILDREN, THREADS, Board, Verdict, Watch
from rig import Failed, MemoryGroup, Rack, User, wait_until

KINDS = ["kill", "kill-early", "kill-pause", "stop-lender", "stop-borrower", "stop-both", "end", "end-stopped", "restart", "link", "oom", "away"]
WAYS = ["unix", "tcp", "namespaces"]
PAGES = 4096
# Children of fork keep what was away at the fork, so the lease has many times the room of the pages.
LENT, BORROWED = "160M", "128M"
CACHES = ["256K", "2M"]
GRACE_S = 1
LIVES, DIES, EITHER, REFUSED = "lives", "dies", "lives or dies", "is refused"


@dataclass
class Case:
    """Parameters of a round that are drawn from its seed."""

    seed: int
    kind: str
    mode: str
    copies: int
    user: str
    way: str
    spare: int
    region: bool
    cache: str


@dataclass
class Result:
    case: Case
    verdict: str = "passed"
    detail: str = ""
    end: str = ""
    seconds: float = 0
    pages: int = 0
    children: int = 0
    fetched: int = 0
    log: list = field(default_factory=list)


class Round:
    def __init__(self, case, bench, slot):
        self.case, self.bench, self.args = case, bench, bench.args
        self.random = random.Random(f"moments {case.seed}")
        self.spaces = bench.spaces[slot] if case.way == "namespaces" else None
        self.result = Result(case)
        self.began = time.monotonic()
        self.directory = bench.scratch.directory / f"r{case.seed}-{slot}-{time.monotonic_ns()}"
        self.group = None
        self.started = 0
        self.holders = []
        self.fate = LIVES

    def say(self, what):
        self.result.log.append(f"{time.monotonic() - self.began:.2f} {what}")

    # --- setting up ---

    def lend(self):
        number = self.started
        self.started += 1
        if self.case.way == "unix":
            lender = self.rack.lend(LENT)
        elif self.case.way == "tcp":
            lender = self.rack.lend(LENT, "127.0.0.1:0")
        else:
            number %= self.spaces.count
            lender = self.rack.lend(LENT, f"{self.spaces.address(number)}:0", self.spaces.lender(number))
            lender.device = f"p{number}"
        return lender

    def start(self):
        case, bench = self.case, self.bench
        user = User(case.user)
        self.rack = Rack(bench.scratch, self.directory, user, GRACE_S)
        for _ in range(case.copies + case.spare):
            self.lend()
        self.board = Board(self.directory / "board", user)
        command = [bench.region if case.region else bench.verify, self.board.path, PAGES, THREADS]
        space = self.spaces.home if self.spaces else None
        if case.region:
            env = {"VERIFY_COPIES": str(case.copies)} | ({"VERIFY_INLINE": "1"} if case.mode == "inline" else {})
            self.program = self.rack.start("program", *command, env=env)
        else:
            args = [BORROWED, "--cache", case.cache, "--threshold", 0, "--mode", case.mode, "--mirror", case.copies, "--json"]
            args += ["--network"] if case.way != "unix" else []
            if bench.has_patience and case.kind == "away":
                args += ["--patience", 5]
            self.program = self.rack.borrow(args, command, space=space)
        self.watch = Watch(self.board, self.program.pid, self.args.bound)
        if case.kind == "kill-early":
            return
        self.wait(lambda: self.board.is_ready and min(self.board.threads()) > 200 and self.has_child(0), "the start")
        self.holders = wait_until(lambda: self.rack.holders(self.program.pid), 30) or []
        if len(self.holders) < case.copies:
            raise Failed(f"{len(self.holders)} of {case.copies} leases: {self.program.text().strip()[-300:]}")
        self.victim = self.random.choice(self.holders)
        time.sleep(self.random.uniform(0, 0.5))

    # --- waiting ---

    def check(self):
        if self.board.wrong or self.board.bad:
            raise Verdict("wrong bytes", self.board.text or f"{self.board.bad} children")

    def wait(self, is_done, what, alive=True):
        """Until it is done, while all make progress; `alive`: the program must not end before."""
        end = time.monotonic() + 10 * self.args.bound
        while not is_done():
            self.check()
            if self.bench.is_interrupted:
                raise Failed("interrupted")
            if alive and self.program.poll() is not None:
                self.died(what)
            self.watch.look()
            if time.monotonic() > end:
                raise Verdict("hang", f"{what} does not come, though there is progress: {self.board.progress()}")
            time.sleep(0.02)
        self.check()

    def died(self, what):
        raise Verdict("died wrongly", f"{self.how_it_ended()} during {what}; {self.last_words()}")

    def how_it_ended(self):
        status = self.program.poll()
        if status is None:
            return "still runs"
        return signal.Signals(-status).name if status < 0 else f"status {status}"

    def last_words(self):
        return self.program.text().strip()[-300:] or "it said nothing"

    def has_child(self, after):
        return self.case.region or self.board.last_good > after

    def may_lose_children(self):
        """A program may go on without its only lender, with local memory or memory that it took elsewhere; its
        children have the lender that they were born with."""
        return self.case.copies == 1 and self.fate != LIVES

    # --- faults: each returns what must become of the program ---

    def only(self, fate):
        """The fate of a program: `fate` if it has no other copy."""
        return LIVES if self.case.copies > 1 else fate

    def seconds(self, least, most):
        """Short times are as likely as long ones."""
        return least * (most / least) ** self.random.random()

    def kill(self):
        self.victim.signal(signal.SIGKILL)
        self.victim.wait(60)
        return self.only(DIES)

    def kill_early(self):
        """It borrows, goes on with local memory as it got none, or is refused before it starts."""
        time.sleep(self.seconds(0.002, 1))
        self.victim = self.random.choice(self.rack.lenders)
        self.victim.signal(signal.SIGKILL)
        is_over = lambda: self.board.is_ready or self.program.poll() is not None
        self.wait(is_over, "the start", alive=False)
        if not self.board.is_ready and self.program.poll() in (1, 2):
            self.say(f"it is refused: {self.last_words()}")
            return REFUSED
        return self.only(EITHER)

    def kill_pause(self):
        others = [lender for lender in self.holders if lender is not self.victim]
        for lender in others:
            lender.signal(signal.SIGSTOP)
        self.victim.signal(signal.SIGKILL)
        time.sleep(self.seconds(0.1, 10))
        for lender in others:
            lender.signal(signal.SIGCONT)
        return self.only(DIES)

    def stop(self, lender, borrower):
        duration = self.seconds(0.1, 10)
        self.say(f"stops for {duration:.2f} s")
        group = []
        if borrower:
            group.append(lambda number: self.program.signal(number, group=True))
        if lender:
            group.append(self.victim.signal)
        for send in group:
            send(signal.SIGSTOP)
        time.sleep(duration)
        for send in group:
            send(signal.SIGCONT)
        return LIVES

    def end_one(self, lender):
        lender.signal(signal.SIGTERM)
        if lender.wait(10 * self.args.bound) is None:
            raise Verdict("hang", "a lender does not end after SIGTERM")

    def end(self):
        self.end_one(self.victim)
        return self.only(EITHER)

    def end_stopped(self):
        self.program.signal(signal.SIGSTOP, group=True)
        self.end_one(self.victim)
        time.sleep(self.seconds(0.01, 1))
        self.program.signal(signal.SIGCONT, group=True)
        return self.only(EITHER)

    def restart(self):
        for lender in self.holders:
            self.say(f"ends lender {lender.pid}")
            self.end_one(lender)
            self.lend()
            if self.case.copies > 1:
                self.wait_for_progress("the restart of a lender")
                self.wait_for_redundancy()
                # Children have the lenders that they were born with.
                born_before = self.board.pids()
                self.wait(lambda: not born_before & self.board.pids(), "the end of children")
        return self.only(EITHER)

    def link(self):
        device = self.random.choice([self.victim.device, "br0"])
        duration = self.seconds(0.5, 30)
        self.say(f"{device} is down for {duration:.1f} s")
        self.spaces.set_link(device, "down")
        time.sleep(duration)
        self.spaces.set_link(device, "up")
        return LIVES

    def oom(self):
        self.group = MemoryGroup(f"rkf{os.getpid()}-{self.case.seed}")
        self.group.add(self.victim.pid)
        # What it has used before counts for the group that it was in.
        self.group.limit_to(1 << 20)
        self.board.order(Board.GROW)
        if wait_until(lambda: self.victim.poll() is not None, self.args.bound):
            self.say("the kernel killed the lender")
            return self.only(DIES)
        self.say("the lender lives within its limit")
        self.group.limit_to(1 << 30)
        return LIVES

    def away(self):
        self.victim.signal(signal.SIGSTOP)
        if self.case.way == "unix":
            return LIVES  # Its memory is mapped: nobody asks it for anything.
        return self.only(DIES)

    def fault(self):
        kind = self.case.kind
        if kind.startswith("stop-"):
            return self.stop(kind != "stop-borrower", kind != "stop-lender")
        return getattr(self, kind.replace("-", "_"))()

    # --- what must become of it ---

    def is_all_here(self):
        """Whether all that the program has written is in local memory: pages may stay beyond the cache's size while
        evictors do not get to run. Then there is nothing to lose."""
        active = PAGES if self.board.orders & Board.GROW else PAGES // 2
        for line in Path(f"/proc/{self.program.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024 >= active * 4096
        return False

    def wait_for_progress(self, what):
        self.wait(self.has_gone_on(2000), what)

    def has_gone_on(self, pages):
        """Whether every thread has seen so many pages from now on, and a child that is born from now on has ended."""
        threads, forks, sigbus = self.board.threads(), self.board.forks, self.board.sigbus
        # Of those that die, the first may have been there.
        has_lost = lambda: self.may_lose_children() and self.board.sigbus > sigbus + CHILDREN
        return lambda: (all(now > was + pages for now, was in zip(self.board.threads(), threads))
                        and (self.has_child(forks) or has_lost()))

    def wait_for_redundancy(self):
        end = time.monotonic() + self.args.bound
        while len(self.rack.holders(self.program.pid)) < self.case.copies:
            self.check()
            if self.program.poll() is not None:
                self.died("the wait for a new copy")
            if time.monotonic() > end:
                raise Verdict("not redundant", "the ledger shows one lender with a lease, and another with room")
            time.sleep(0.1)
        self.wait_for_progress("the wait for a new copy")

    def lives(self):
        self.wait_for_progress("the time after the fault")
        sigbus = 0 if self.may_lose_children() else self.board.sigbus
        if sigbus or self.board.others or self.board.forks_refused:
            raise Verdict("died wrongly", f"of {self.board.forks} children {self.board.sigbus} died by SIGBUS, "
                                          f"{self.board.others} otherwise; {self.board.forks_refused} forks were refused")
        if self.case.copies > 1 and self.case.spare and self.case.kind in ("kill", "kill-pause", "end", "end-stopped", "oom"):
            self.wait_for_redundancy()
        self.board.order(Board.END)
        self.watch.bound *= 5
        self.wait(lambda: self.program.poll() is not None, "the end", alive=False)
        if self.program.poll() != 0:
            self.died("the end")
        for line in self.program.text().splitlines():
            if line.startswith("{"):
                self.result.fetched += json.loads(line).get("fetched", 0)

    def dies(self, must):
        before, has_gone_on = self.board.threads(), self.has_gone_on(5000)
        self.wait(lambda: self.program.poll() is not None or has_gone_on(), "the end by SIGBUS", alive=False)
        if self.program.poll() is None:
            if must and not self.is_all_here():
                raise Verdict("survived", f"no copy is left: {before} pages before, {self.board.threads()} now")
            self.say("it goes on")
            return self.lives()
        if self.program.poll() != -signal.SIGBUS:
            self.died("the loss of the only copy")
        self.board.order(Board.END)

    # --- the end ---

    def leftovers(self):
        rack, bound = self.rack, self.args.bound
        living = [lender for lender in rack.lenders if lender.poll() is None]
        lenders = {lender.pid for lender in living}
        for lender in living:
            lender.signal(signal.SIGCONT)
        if wait_until(lambda: not set(rack.strays()) - lenders, bound) is None:
            strays = {pid: Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0] for pid in set(rack.strays()) - lenders}
            self.dump(list(strays))
            raise Verdict("leftovers", f"processes {strays}")
        self.check()
        leased = lambda: [name for lender in living for name in lender.descriptors() if "rackmem-lease" in name]
        if wait_until(lambda: not leased(), bound) is None:
            raise Verdict("leftovers", f"memory of a lease that has ended: {leased()}")
        for lender in living:
            self.end_one(lender)
        files = rack.files()
        if files and living:
            raise Verdict("leftovers", f"files {', '.join(files)}")
        shared = [name for name in os.listdir("/dev/shm") for process in rack.processes if f"-{process.pid}" in name]
        if shared:
            raise Verdict("leftovers", f"/dev/shm/{', /dev/shm/'.join(shared)}")

    def dump(self, pids):
        """Writes the kernel's stack and call of each thread beside the logs that are kept."""
        for pid in pids:
            with open(self.directory / f"threads-{pid}", "w") as out:
                for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
                    for name in ("comm", "wchan", "syscall", "stack"):
                        try:
                            out.write(f"{task.name} {name}: {(task / name).read_text().strip()}\n")
                        except OSError:
                            pass
                out.flush()
                if self.args.keep and shutil.which("gdb"):
                    command = ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 24"]
                    subprocess.run(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, timeout=120)

    def run(self):
        try:
            self.start()
            self.say(f"{self.case.kind}; {len(self.holders)} lenders have copies")
            self.fate = self.fault()
            self.say(f"process {self.victim.pid} had it; the program {self.fate}")
            if self.fate == LIVES:
                self.lives()
            elif self.fate != REFUSED:
                self.dies(must=self.fate == DIES)
            self.result.end = self.how_it_ended()
            self.leftovers()
        except Verdict as verdict:
            self.result.verdict, self.result.detail = verdict.name, verdict.detail
            self.result.end = self.how_it_ended()
            if verdict.name in ("hang", "spin"):
                children = [int(name.split()[1]) for name in self.board.progress() if name.startswith("child")]
                self.dump([pid for pid in [self.program.pid, *children] if Path(f"/proc/{pid}/task").exists()])
        except (Failed, OSError, subprocess.SubprocessError) as error:
            self.result.verdict, self.result.detail = "not run", f"{type(error).__name__}: {error}"
        finally:
            self.clean_up()
        return self.result

    def clean_up(self):
        if hasattr(self, "board"):
            self.result.pages, self.result.children = sum(self.board.threads()), self.board.good
        if hasattr(self, "rack"):
            self.rack.end()
        if self.spaces:
            for device in ["br0", *(f"p{number}" for number in range(self.spaces.count))]:
                self.spaces.set_link(device, "up")
        if self.group:
            self.group.remove()
        self.result.seconds = round(time.monotonic() - self.began, 2)
        if self.args.keep and self.result.verdict not in ("passed", "not run"):
            kept = self.args.keep / f"{self.case.seed}-{self.case.kind}-{self.directory.name}"
            shutil.copytree(self.directory, kept, ignore=lambda *_: ["racks", "secret"])
            (kept / "round.json").write_text(json.dumps(asdict(self.result), indent=1) + "\n")
        shutil.rmtree(self.directory, ignore_errors=True)
