"""Errors: each says what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ._rackmem import Error, MachineError, RunError

if TYPE_CHECKING:
    from .result import Execution

T = TypeVar("T")

__all__ = ["CommandError", "Error", "MachineError", "PathError", "ProgramError", "RunError", "StoreError"]


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


class CommandError(Error):
    """The command `rackmem` failed, or is not there."""
