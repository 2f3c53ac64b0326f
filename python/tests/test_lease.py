"""Borrowed memory: a lender as a process of its own."""

import json

import pytest
from racks import may_borrow


def test_without_a_lender_the_error_names_the_command(host):
    host.alone(
        """
raises(rackmem.LeaseError, lambda: rackmem.Lease(1 << 20), "nobody lends", "rackmem lend")
raises(OSError, lambda: rackmem.Lease(0))
"""
    )


@pytest.mark.skipif(not may_borrow(), reason="userfaultfd is not permitted here")
def test_a_lease_is_memory_for_arrays(lender):
    pytest.importorskip("numpy")
    lender.alone(
        """
import numpy as np
with rackmem.Lease(64 << 20, cache_bytes=8 << 20) as lease:
    assert len(lease) == lease.nbytes == 64 << 20
    array = np.frombuffer(lease, dtype=np.uint64)
    assert not array.any()
    array[:] = np.arange(len(array))
    lease.evict()
    assert lease.pages() == (0, 16384)
    assert int(array.sum()) == 35184367894528
    assert lease.pages()[0] <= (8 << 20) // 4096
    lease.evict()
    lease.discard(4096, 63 << 20)
    assert sum(lease.pages()) == 256
    assert not array[512:1024].any() and array[511] == 511 and array[-1] == len(array) - 1
    raises(rackmem.LeaseError, lambda: lease.discard(8, 4096), "whole pages")
    raises(rackmem.LeaseError, lambda: lease.discard(64 << 20, 4096), "not within")
    view = memoryview(lease)
    view[:3] = b"abc"
    assert bytes(view[:3]) == b"abc"
# Views outlive it.
raises(rackmem.ClosedError, lambda: lease.discard(0, 4096), "lease is closed")
assert array[5] == 5
raises(rackmem.ClosedError, lambda: memoryview(lease) and None, "lease is closed")
raises(rackmem.ClosedError, lease.evict)
raises(rackmem.LeaseError, lambda: rackmem.Lease(100 << 20))
del array, view
import gc
gc.collect()
rackmem.Lease(100 << 20).close()
raises(rackmem.LeaseError, lambda: rackmem.Lease(1 << 50))
raises(rackmem.LeaseError, lambda: rackmem.Lease(1 << 20, copies=0), "0 copies")
raises(rackmem.LeaseError, lambda: rackmem.Lease(1 << 20, copies=2))
raises(rackmem.LeaseError, lambda: rackmem.Lease(1 << 20, cache_bytes=1), "local cache")
"""
    )


@pytest.mark.skipif(not may_borrow(), reason="userfaultfd is not permitted here")
def test_borrowing_of_a_lender_that_does_not_answer_ends_by_ctrl_c(lender):
    pid = json.loads(lender.ok("leases", "--json"))["lenders"][0]["offer"]["lender"]["pid"]
    lender.alone(
        f"""
os.kill({pid}, signal.SIGSTOP)
try:
    interrupted(lambda: rackmem.Lease(100 << 20))
finally:
    os.kill({pid}, signal.SIGCONT)
# What is lent too late goes back: there is room for one such lease.
while True:
    try:
        rackmem.Lease(100 << 20).close()
        break
    except rackmem.LeaseError:
        pass
"""
    )
