"""What tests share."""

import pytest

import rackmem

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
