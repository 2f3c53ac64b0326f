"""Parts shared by bench/faults and bench/programs: users, lenders, network namespaces, limits of memory, waiting."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
LIBRARY = "librackmem_preload.so"
STRANGER = "nobody"


class Failed(Exception):
    """Something outside of what is tested did not work."""


def wait_until(is_done, bound, pause=0.05):
    """Returns the first true result of `is_done`, or None after `bound` seconds."""
    end = time.monotonic() + bound
    while True:
        result = is_done()
        if result:
            return result
        if time.monotonic() > end:
            return None
        time.sleep(pause)


def end_by_signals():
    """SIGTERM and SIGINT end the script in order, also where the shell had the latter ignored (`script &`)."""
    def interrupt(*_):
        raise KeyboardInterrupt
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, interrupt)


def sh(*command, check=True):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if check and done.returncode:
        raise Failed(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def is_root():
    return os.geteuid() == 0


def find_rackmem(given):
    """The command and its library; without a path the newest build of this repository."""
    target = HERE.parent / "target"
    places = [Path(given)] if given else [target / kind / "rackmem" for kind in ("release", "debug")]
    found = [place for place in places if place.is_file()]
    if not found:
        raise Failed(f"there is no {' or '.join(map(str, places))}: run `cargo build`, or name it by --rackmem")
    command = max(found, key=lambda place: place.stat().st_mtime).resolve()
    libraries = [command.parent / part / LIBRARY for part in ("deps", "", "../lib")]
    library = next((path for path in libraries if path.is_file()), None)
    if not library:
        raise Failed(f"{LIBRARY} is not beside {command}: run `cargo build -p rackmem-preload`")
    return command, library


class User:
    """The user that runs the programs: this one, or for root also a stranger without rights."""

    def __init__(self, name):
        own = pwd.getpwuid(os.geteuid())
        entry = own if name in ("self", own.pw_name) else pwd.getpwnam(name)
        self.name, self.uid, self.gid = entry.pw_name, entry.pw_uid, entry.pw_gid
        is_own = entry.pw_uid == os.geteuid()
        self.prefix = [] if is_own else ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups", "--"]

    def own(self, path, mode=0o700):
        os.chmod(path, mode)
        if self.prefix:
            os.chown(path, self.uid, self.gid)

    @staticmethod
    def possible():
        own = pwd.getpwuid(os.geteuid()).pw_name
        return [own, STRANGER] if is_root() and shutil.which("setpriv") else [own]


class Scratch:
    """A directory with copies of the programs that every user may execute."""

    def __init__(self, name, rackmem):
        self.directory = Path(tempfile.mkdtemp(prefix=name))
        os.chmod(self.directory, 0o755)
        self.bin = self.directory / "bin"
        self.bin.mkdir(mode=0o755)
        self.command, self.library = find_rackmem(rackmem)
        self.rackmem = self.copy(self.command)
        self.preload = self.copy(self.library)

    def copy(self, path):
        copy = self.bin / path.name
        shutil.copy(path, copy)
        os.chmod(copy, 0o755)
        return copy

    def compile(self, source, name, *flags):
        built = self.bin / name
        sh("cc", "-O2", "-pthread", *flags[:1], "-o", str(built), str(source), *flags[1:])
        os.chmod(built, 0o755)
        return built

    def remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)


class Process:
    """A program in a session of its own, whose output goes to a file."""

    def __init__(self, command, log, env, space=None):
        self.log = Path(log)
        inside = ["ip", "netns", "exec", space] if space else []
        with open(self.log, "w") as output:
            self.child = subprocess.Popen([*inside, *map(str, command)], env=env, stdin=subprocess.DEVNULL,
                                          stdout=output, stderr=output, start_new_session=True)

    @property
    def pid(self):
        return self.child.pid

    def signal(self, number, group=False):
        """Signals the process, or all of its session that stayed in its group."""
        if self.child.poll() is None or group:
            try:
                (os.killpg if group else os.kill)(self.pid, number)
            except ProcessLookupError:
                pass

    def poll(self):
        return self.child.poll()

    def wait(self, bound):
        try:
            return self.child.wait(bound)
        except subprocess.TimeoutExpired:
            return None

    def held_bytes(self):
        """Bytes that a lender keeps for borrowers at the moment: those in use of its memory without a name."""
        held = 0
        for entry in Path(f"/proc/{self.pid}/fd").glob("*"):
            try:
                if "memfd:" in os.readlink(entry):
                    held += entry.stat().st_blocks * 512
            except OSError:
                pass
        return held

    def end(self):
        for number in (signal.SIGKILL, signal.SIGCONT):
            self.signal(number, group=True)
        self.child.wait()

    def text(self):
        return self.log.read_text(errors="replace")

    def descriptors(self):
        """The kernel's names of its descriptors."""
        names = []
        try:
            for entry in os.scandir(f"/proc/{self.pid}/fd"):
                try:
                    names.append(os.readlink(entry.path))
                except OSError:
                    pass
        except OSError:
            pass
        return names


class Rack:
    """Lenders that one user has started in a directory of his own, and the programs that borrow from them."""

    def __init__(self, scratch, directory, user, grace=1):
        self.scratch, self.directory, self.user, self.grace = scratch, Path(directory), user, grace
        self.racks = self.directory / "racks"
        for path in (self.directory, self.racks):
            path.mkdir(parents=True, exist_ok=True)
            user.own(path)
        self.secret = self.directory / "secret"
        self.secret.write_text(os.urandom(24).hex() + "\n")
        user.own(self.secret, 0o600)
        self.env = {key: value for key, value in os.environ.items() if not key.startswith("RACKMEM_")}
        self.env |= {"RACKMEM_DIR": str(self.racks), "RACKMEM_PRELOAD": str(scratch.preload),
                     "RACKMEM_SECRET": str(self.secret), "HOME": str(self.directory), "TMPDIR": str(self.directory)}
        self.processes, self.lenders = [], []

    def start(self, name, *command, space=None, env=None):
        log = self.directory / f"{name}-{len(self.processes)}.log"
        process = Process([*self.user.prefix, *command], log, self.env | (env or {}), space)
        self.processes.append(process)
        return process

    def lend(self, size, listen=None, space=None, bound=60):
        """A lender, which is known to the monitor."""
        where = ["--listen", listen] if listen else []
        lender = self.start("lend", self.scratch.rackmem, "lend", size, "--overcommit", "--grace", self.grace, *where,
                            space=space)
        wait_until(lambda: "lends" in lender.text() or lender.poll() is not None, bound)
        if "lends" not in lender.text():
            raise Failed(f"a lender did not start: {lender.text().strip()}")
        lender.listen, lender.space = listen, space
        self.lenders.append(lender)
        return lender

    def borrow(self, args, command, name="program", space=None, env=None):
        return self.start(name, self.scratch.rackmem, "borrow", *args, "--", *command, space=space, env=env)

    def ledger(self):
        """The monitor's ledger; None while there is no monitor."""
        done = subprocess.run([*self.user.prefix, self.scratch.rackmem, "leases", "--json"], env=self.env, timeout=60,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def holders(self, pid):
        """Living lenders that have a lease of this process."""
        listed = (self.ledger() or {}).get("lenders", [])
        found = {listing["offer"]["lender"]["pid"] for listing in listed
                 for lease in listing["leases"] if lease["borrower"]["pid"] == pid}
        return [lender for lender in self.lenders if lender.poll() is None and lender.pid in found]

    def strays(self):
        """Processes that were started for this rack and still are there, zombies excepted."""
        mark = f"RACKMEM_DIR={self.racks}\0".encode()
        found = []
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            try:
                if mark in Path(entry.path, "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
        return found

    def files(self):
        return sorted(str(path.relative_to(self.racks)) for path in self.racks.rglob("*"))

    def end(self):
        for process in self.processes:
            process.end()
        for pid in self.strays():
            os.kill(pid, signal.SIGKILL)


class Spaces:
    """Network namespaces: a borrower's, and one for each lender, joined by a bridge in the borrower's."""

    def __init__(self, name, lenders):
        self.name, self.count = name, lenders
        self.home = f"{name}b"
        self.number = 0

    def __enter__(self):
        sh("ip", "netns", "add", self.home)
        self.ip(self.home, "link set lo up")
        self.ip(self.home, "link add br0 type bridge")
        self.ip(self.home, "addr add 10.91.0.1/24 dev br0")
        self.ip(self.home, "link set br0 up")
        for number in range(self.count):
            space = self.lender(number)
            sh("ip", "netns", "add", space)
            self.ip(space, "link set lo up")
            sh("ip", "link", "add", f"p{number}", "netns", self.home, "type", "veth", "peer", "name", "e0", "netns", space)
            self.ip(self.home, f"link set p{number} master br0")
            self.ip(self.home, f"link set p{number} up")
            self.ip(space, f"addr add {self.address(number)}/24 dev e0")
            self.ip(space, "link set e0 up")
        return self

    def __exit__(self, *_):
        for space in [self.home, *map(self.lender, range(self.count))]:
            sh("ip", "netns", "del", space, check=False)

    @staticmethod
    def ip(space, command):
        return sh("ip", "-n", space, *command.split())

    def lender(self, number):
        return f"{self.name}l{number}"

    @staticmethod
    def address(number):
        return f"10.91.0.{number + 11}"

    def set_link(self, device, state):
        self.ip(self.home, f"link set {device} {state}")

    def interfaces(self):
        spaces = [self.home, *map(self.lender, range(self.count))]
        return [line.split(":")[1].strip() for space in spaces for line in self.ip(space, "-o link").splitlines()]

    @staticmethod
    def possible():
        if not is_root() or not shutil.which("ip"):
            return False
        name = f"rkp{os.getpid()}"
        try:
            with Spaces(name, 1):
                return True
        except Failed:
            sh("ip", "netns", "del", f"{name}b", check=False)
            return False


class MemoryGroup:
    """A control group that limits memory, of either version."""

    PLACES = [(Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
              (Path("/sys/fs/cgroup"), "memory.max", "memory.current")]

    def __init__(self, name):
        for parent, limit, usage in self.PLACES:
            self.path = parent / name
            try:
                self.path.mkdir()
                if (self.path / limit).exists():
                    self.limit, self.usage = self.path / limit, self.path / usage
                    return
                self.path.rmdir()
            except OSError:
                pass
        raise Failed("no control group can be made")

    def add(self, pid):
        (self.path / "cgroup.procs").write_text(str(pid))

    def used(self):
        return int(self.usage.read_text())

    def limit_to(self, size):
        self.limit.write_text(str(size))

    def remove(self):
        wait_until(self._is_gone, 30)

    def _is_gone(self):
        try:
            self.path.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    @staticmethod
    def possible():
        try:
            MemoryGroup(f"rkp{os.getpid()}").remove()
            return is_root()
        except Failed:
            return False
