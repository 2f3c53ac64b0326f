"""Errors: each says what is wrong, where, and what to do."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ._rackmem import Error, MachineError, RunError

if TYPE_CHECKING:
    from .result import Execution

T = TypeVar("T")

__all__ = [
    "ArrayError",
    "ClosedError",
    "CommandError",
    "Error",
    "LeaseError",
    "MachineError",
    "NodeError",
    "NodeLostError",
    "PathError",
    "ProgramError",
    "RackError",
    "RangeError",
    "RightsError",
    "RunError",
    "StoreError",
    "WaitTimeout",
]


class ProgramError(RunError):
    """A process ended with another status than 0, or crashed. `execution` has its output."""

    def __init__(self, text: str, execution: Execution) -> None:
        super().__init__(text)
        self.execution = execution

    def __reduce__(self):
        return (ProgramError, (str(self), self.execution))


class PathError(Error, KeyError):
    """A report has no member, and a machine no key, of this path. The text names the nearest."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class StoreError(Error, OSError):
    """A file or folder of results cannot be written or read."""


def stored(call: Callable[..., T], *arguments: Any) -> T:
    """Calls what reads or writes files. Raises `StoreError` for what the operating system refuses."""
    try:
        return call(*arguments)
    except OSError as error:
        raise StoreError(str(error)) from error


def count(name: str, value: Any, least: int, most: int, kind: type[Error] = Error) -> int:
    """A number of such things, also one of NumPy's. Raises `kind` if it is none, or not in the range."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        raise kind(f"{name}: {value!r} is no number of {name} from {least} to {most}")
    return number


class CommandError(Error):
    """The command `rackmem` failed, or is not there."""


class ArrayError(Error, BufferError, TypeError):
    """An object cannot be the buffer of an operation: no buffer, read-only, not contiguous, or of objects."""


class RangeError(Error, IndexError):
    """An offset or a length leaves the segment, or the offset of an atomic is no multiple of 8."""


class NodeError(Error, ConnectionError):
    """The rack has no such node, or the node has not joined the context or has left it."""


class NodeLostError(NodeError):
    """A node's process or daemon died, or its host cannot be reached."""


class RackError(Error, OSError):
    """There is no rack, daemon or context to join, or it refuses."""


class RightsError(RackError, PermissionError):
    """The context was joined for reading only."""


class WaitTimeout(Error, TimeoutError):
    """A wait ended before what it waited for happened."""


class ClosedError(Error, ValueError):
    """The object was closed, or belongs to the process that forked this one."""


class LeaseError(Error, OSError):
    """Memory cannot be borrowed: nobody lends so much, or the host does not permit it."""
