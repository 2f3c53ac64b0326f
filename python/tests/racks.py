"""Racks for tests: directories of their own, and programs that the command `rackmem run` starts as nodes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from rackmem.command import find_command

MODES = ["inline", "daemon", "packet"]

# Seconds after which a program hangs.
PATIENCE = 120

HEAD = """
import os, signal, sys, threading
import rackmem
from rackmem import Barrier, Lock, Messages

def raises(kind, call, *words):
    try:
        call()
    except kind as error:
        assert isinstance(error, rackmem.Error), error
        for word in words:
            assert word in str(error), (word, str(error))
        return error
    raise AssertionError(f"no {kind.__name__}")

is_armed = False

def interrupted(wait):
    # The signal comes again until the wait has met one; then it raises no more.
    global is_armed
    stop = threading.Event()
    def signals():
        while not stop.wait(0.05):
            os.kill(os.getpid(), signal.SIGUSR1)
    def handler(number, frame):
        global is_armed
        if is_armed:
            is_armed = False
            raise KeyError
    signal.signal(signal.SIGUSR1, handler)
    thread = threading.Thread(target=signals)
    try:
        is_armed = True
        thread.start()
        wait()
    except KeyError:
        return
    finally:
        stop.set()
        thread.join()
    raise AssertionError("the wait ended by itself")
"""


class Host:
    """A directory of racks, as if it were a host."""

    def __init__(self) -> None:
        # Sockets have short paths.
        self._folder = tempfile.TemporaryDirectory(prefix="rk")
        self.path = Path(self._folder.name)
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("RACKMEM_")}
        self.environment["RACKMEM_DIR"] = str(self.path / "racks")
        (self.path / "racks").mkdir(mode=0o700)

    def command(self, *arguments: str, **more) -> subprocess.CompletedProcess:
        """Runs the command `rackmem`."""
        line = [find_command(), *arguments]
        return subprocess.run(
            line, env=self.environment, capture_output=True, text=True, timeout=PATIENCE, **more
        )

    def ok(self, *arguments: str) -> str:
        """Its output; it succeeds."""
        done = self.command(*arguments)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def program(self, text: str) -> str:
        """A file with a program."""
        file = self.path / "program.py"
        file.write_text(HEAD + textwrap.dedent(text))
        return str(file)

    def run(self, text: str, nodes: int = 2, progress: str = "inline") -> str:
        """Runs a program as the nodes of a rack; all succeed."""
        program = self.program(text)
        return self.ok("run", "-n", str(nodes), "--progress", progress, "--", sys.executable, program)

    def alone(self, text: str) -> str:
        """Runs a program outside of any rack but those that are up; it succeeds."""
        line = [sys.executable, self.program(text)]
        done = subprocess.run(line, env=self.environment, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    def close(self) -> None:
        """Ends its racks."""
        self.command("down")
        self._folder.cleanup()


def may_borrow():
    """Whether this host permits userfaultfd, as `rackmem borrow` needs it."""
    return os.geteuid() == 0 or os.access("/dev/userfaultfd", os.R_OK | os.W_OK)
