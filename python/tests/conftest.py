"""What tests share."""

import os
import signal
import subprocess

import pytest
from racks import PATIENCE, Host

import rackmem
from rackmem.command import find_command

QUICK = {"workload.kind": "sync-read", "workload.transfer_bytes": 64, "run.reads": 4}


@pytest.fixture
def machine() -> rackmem.Machine:
    """A chip whose runs take a tenth of a second."""
    return rackmem.Machine.load("manycore-ni").set(QUICK)


@pytest.fixture
def endless() -> rackmem.Machine:
    """A chip whose runs take hours."""
    many = {"run.max_windows": 1_000_000, "run.precision_percent": 0.0001}
    return rackmem.Machine.load("manycore-ni").set(many)


@pytest.fixture
def host():
    host = Host()
    yield host
    host.close()


@pytest.fixture
def lender(host):
    """A host with a process that lends 128 MiB."""
    line = [find_command(), "lend", "128M"]
    process = subprocess.Popen(line, env=host.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = []
    for text in process.stdout:
        said.append(text)
        if text.startswith("lends"):
            break
    assert said and said[-1].startswith("lends"), said
    yield host
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
