"""One run of a program for bench/programs, and the search for programs."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

from rig import is_root, sh, wait_until

PATIENCE_S = 600
PAGE = 4096
PYTHON = "/usr/bin/python3"


class Missing(Exception):
    """The program cannot be run here, with the reason."""


class Wrong(Exception):
    """It ended as it should not."""


def digest(data):
    return hashlib.sha256(data if isinstance(data, bytes) else data.encode()).hexdigest()[:16]


class Peak:
    """The most that lenders held at a time while it is entered, in MiB."""

    PAUSE_S, LAST_RUN_S = 0.05, 30

    def __init__(self, lenders):
        self.lenders, self.mib, self.is_over = lenders, 0, threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def held(self):
        return sum(lender.held_bytes() for lender in self.lenders) >> 20

    def watch(self):
        while not self.is_over.wait(self.PAUSE_S):
            self.mib = max(self.mib, self.held())

    def __enter__(self):
        # Leases of the run before end a moment after its processes.
        wait_until(lambda: self.held() == 0, self.LAST_RUN_S)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


class Run:
    """One run of a program: its directory, and the words before its commands."""

    def __init__(self, rack, directory, borrow, prefix, seconds):
        self.rack, self.directory, self.borrow, self.prefix, self.seconds = rack, directory, borrow, prefix, seconds
        self.logs, self.servers = [], []
        directory.mkdir()
        rack.user.own(directory)

    def start(self, command, stdin=None, cwd=None, borrow=True, env=None):
        words = [*self.rack.user.prefix, *(self.borrow if borrow else []), *map(str, command)]
        out, err = self.directory / f"out-{len(self.logs)}", self.directory / f"err-{len(self.logs)}"
        self.logs.append((out, err))
        source = open(self.write("stdin", stdin)) if stdin is not None else subprocess.DEVNULL
        env = self.rack.env | self.prefix.environment() | {"LC_ALL": "C.UTF-8"} | (env or {})
        with open(out, "w") as out, open(err, "w") as err:
            return subprocess.Popen(words, stdin=source, stdout=out, stderr=err, cwd=cwd or self.directory,
                                    start_new_session=True, env=env)

    def text(self, which=-1):
        return tuple(path.read_text(errors="replace") for path in self.logs[which])

    def execute(self, command, **how):
        """The command's output; it has to succeed."""
        child = self.start(command, **how)
        try:
            status = child.wait(self.seconds)
        except subprocess.TimeoutExpired:
            raise Wrong(f"{command[0]} does not end within {self.seconds} s") from None
        finally:
            end(child)
        out, err = self.text()
        if status:
            raise Wrong(f"{how_it_ended(status)}: {last_words(err) or last_words(out)}")
        return out

    def serve(self, command, is_ready, **how):
        child = self.start(command, **how)
        self.servers.append(child)
        if not wait_until(lambda: is_ready() or child.poll() is not None, 120) or child.poll() is not None:
            raise Wrong(f"{command[0]} does not serve: {last_words(self.text()[1])}")
        return child

    def finish(self, server, number):
        """Ends a server in order."""
        server.send_signal(number)
        try:
            status = server.wait(self.seconds)
        except subprocess.TimeoutExpired:
            raise Wrong("the server does not end") from None
        if status not in (0, -number, 128 + number):
            raise Wrong(f"the server: {how_it_ended(status)}: {last_words(self.text(0)[1])}")

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        self.rack.user.own(path, 0o644)
        return path

    def has_died(self):
        for server in self.servers:
            if server.poll() is not None:
                raise Wrong(f"the server: {how_it_ended(server.poll())}: {last_words(self.text(0)[1])}")

    def statistics(self):
        """Of all processes that said them at their exit, which those do not that end by _exit."""
        total = {"processes": 0, "managed": 0, "out": 0, "in": 0}
        for _, err in self.logs:
            for line in err.read_text(errors="replace").splitlines():
                if not line.startswith('{"pid"'):
                    continue
                pages = json.loads(line)
                total["processes"] += 1
                total["managed"] += pages["first_touches"] * PAGE >> 20
                total["out"] += pages["written"] * PAGE >> 20
                total["in"] += (pages["fetched"] + pages["prefetched"]) * PAGE >> 20
        return total

    def end(self):
        for server in self.servers:
            end(server)


def end(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


def how_it_ended(status):
    return signal.Signals(-status).name if status < 0 else f"status {status}"


def last_words(text):
    lines = [line for line in text.strip().splitlines() if not line.startswith('{"pid"')]
    return " / ".join(lines[-3:])[-300:]


class Prefix:
    """Programs and modules that are not of the system."""

    PACKAGES = {"redis-server": "redis-server", "memcached": "memcached", "stress-ng": "stress-ng", "sqlite3": "sqlite3",
                "postgres": "postgresql", "node": "nodejs", "javac": "default-jdk-headless", "g++": "g++"}

    def __init__(self, directory):
        self.directory = directory
        self.modules = directory / "modules"

    def environment(self):
        if not self.directory.is_dir():
            return {}
        # A library of the prefix is needed by its programs alone, and by no program of the system.
        libraries = [self.directory / part for part in ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib")]
        return {"PYTHONPATH": str(self.modules), "LD_LIBRARY_PATH": ":".join(str(p) for p in libraries if p.is_dir())}

    def find(self, name):
        places = [self.directory / "usr" / part for part in ("bin", "sbin")]
        places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
        path = os.pathsep.join([*map(str, places), os.environ.get("PATH", ""), "/usr/bin", "/usr/sbin"])
        found = shutil.which(name, path=path)
        if not found:
            raise Missing(f"{name} is not installed (--install)")
        return found

    def module(self, name):
        test = [PYTHON, "-c", f"import {name}"]
        done = subprocess.run(test, env=os.environ | self.environment(), capture_output=True)
        if done.returncode:
            raise Missing(f"{PYTHON} has no module {name} (--install)")

    def install(self, wanted):
        self.directory.mkdir(exist_ok=True)
        missing = []
        for name in wanted:
            try:
                self.find(name)
            except Missing:
                missing.append(self.PACKAGES[name])
        if missing and is_root() and shutil.which("apt-get"):
            archives = self.directory / "archives"
            (archives / "partial").mkdir(parents=True, exist_ok=True)
            sh("apt-get", "update", "-qq", check=False)
            sh("apt-get", "install", "-y", "-qq", "--download-only", "--no-install-recommends",
               "-o", f"Dir::Cache::archives={archives}", *missing, check=False)
            for package in archives.glob("*.deb"):
                sh("dpkg", "-x", str(package), str(self.directory), check=False)
            shutil.rmtree(archives)
        elif missing:
            print(f"not installed: {' '.join(missing)}: needs root and apt-get", file=sys.stderr)
        for name in ("numpy", "pandas", "duckdb"):
            try:
                self.module(name)
            except Missing:
                sh(PYTHON, "-m", "pip", "install", "-q", "--target", str(self.modules), "--upgrade", name, check=False)
        sh("chmod", "-R", "a+rX", str(self.directory))
