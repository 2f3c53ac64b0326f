"""How asyncio waits for operations."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from ._rackmem import Operation

# Turns of the event loop before the first sleep, for operations that take microseconds.
TURNS = 200

# Seconds of the first and of the longest sleep.
NAPS = (0.00005, 0.001)


def until_done(operation: Operation) -> Generator[Any, None, Optional[int]]:
    """Looks whether an operation has completed, in each turn of the event loop at first, then every millisecond."""
    turns, nap = 0, NAPS[0]
    while not operation.done():
        if turns < TURNS:
            turns += 1
            yield
        else:
            yield from asyncio.sleep(nap).__await__()
            nap = min(2 * nap, NAPS[1])
    return operation.result(0)
