"""The model, compiled. Use the package around it: `rackmem.Machine` and the others."""

from collections.abc import Callable
from typing import Any, Optional

__version__: str

class Error(Exception):
    """An error of rackmem: its text says what is wrong and what to do."""

class MachineError(Error):
    """A machine cannot be loaded or built as its settings describe it."""

class RunError(Error):
    """A run of the model did not come to its end."""

def machines() -> list[tuple[str, str]]: ...
def load(source: str) -> tuple[str, str]: ...
def change(text: str, settings: list[tuple[str, str]]) -> tuple[str, str]: ...
def statistics() -> list[tuple[str, str, str]]: ...
def fingerprint(bytes: bytes) -> str: ...
def run(machine: str, told: Optional[Callable[[int], Any]] = None) -> str: ...
def programs() -> list[str]: ...
def program(name: str) -> Optional[bytes]: ...
def execute(
    machine: str,
    program: bytes,
    arguments: list[str],
    environment: list[str],
    nodes: int,
    max_cycles: Optional[int] = None,
    told: Optional[Callable[[int], Any]] = None,
) -> str: ...
