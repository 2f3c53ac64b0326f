"""Machines: chips and racks of the model, with their settings."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _rackmem
from .errors import Error, MachineError, PathError, ProgramError, count
from .paths import look_up
from .result import Execution, Result
from .session import LATEST, Checkpoint, Session
from .setting import Setting, as_toml

Told = Callable[[int], Any]

# In place of a value that is not given: None is a wrong one.
MISSING: Any = object()

# Nodes have numbers of 16 bits.
MOST_NODES = 65_535


def machines() -> dict[str, str]:
    """Names of the built-in machines, each with its description."""
    return dict(_rackmem.machines())


def programs() -> list[str]:
    """Names of the programs that are ready for the model."""
    return list(_rackmem.programs())


class Program:
    """A program for some nodes of a run whose other nodes execute others: `execute("server", beside=[Program("client")])`.

    The arguments are those of `Machine.execute`.
    """

    def __init__(
        self,
        program: str | Path | bytes,
        *arguments: str,
        nodes: int = 1,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        name, binary = read_program(program)
        self._part = (binary, [name, *map(str, arguments)], to_variables(environment), count_nodes(nodes))

    def __repr__(self) -> str:
        _, arguments, _, nodes = self._part
        return f"Program({', '.join(map(repr, arguments))}, nodes={nodes})"


class Machine:
    """A machine of the model: a built-in one or a TOML file, with settings of its own.

    Machines do not change: `set` gives another one.
    """

    def __init__(self, toml: str, keys: str, source: str, settings: dict[str, str] | None = None) -> None:
        # The text decides: what becomes of the file that it came from does not matter.
        self._toml = toml
        self._keys: dict[str, Any] = json.loads(keys)
        self._source = source
        self._settings = settings or {}

    @classmethod
    def load(cls, source: str | Path) -> Machine:
        """The built-in machine of this name (`rackmem.machines()`), or that of a TOML file as it is now.

        Raises `MachineError` if there is none, or the file is wrong.
        """
        return cls(*_rackmem.load(str(source)), str(source))

    def set(self, key: str | Mapping[str, Setting], value: Setting = MISSING) -> Machine:
        """This machine with another value of a key, or with other values of several: `set({"noc.vcs": 2})`.

        Numbers, truth values and arrays of NumPy are values, too.

        Raises `MachineError` if there is no such key (it names the nearest), no key has such a value, or the machine
        cannot be like that.
        """
        if isinstance(key, Mapping) and value is MISSING:
            changes = dict(key)
        elif value is MISSING:
            raise TypeError(f"set({key!r}) needs a value")
        else:
            changes = {key: value}
        changed = {path: as_toml(path, value) for path, value in changes.items()}
        kept = {path: value for path, value in self._settings.items() if path not in changed}
        return Machine(*_rackmem.change(self._toml, list(changed.items())), self._source, kept | changed)

    def __getitem__(self, key: str) -> Any:
        """The value of a key, such as `machine["noc.vcs"]`; a section is a dict."""
        return copy.deepcopy(look_up(self._keys, key, f"the machine {self.name}"))

    __iter__ = None

    def __contains__(self, key: object) -> bool:
        try:
            self[str(key)]
        except PathError:
            return False
        return True

    @property
    def name(self) -> str:
        """Name of the machine, as reports have it."""
        return str(self._keys["name"])

    @property
    def source(self) -> str:
        """The built-in machine or file that it was loaded from."""
        return self._source

    @property
    def settings(self) -> dict[str, str]:
        """What was set, as TOML values."""
        return dict(self._settings)

    @property
    def toml(self) -> str:
        """The machine with all its keys, as a file that loads to the same machine."""
        return self._toml

    def run(self, *, told: Told | None = None) -> Result:
        """Runs the machine's own workload until it is measured.

        `told` is called now and then with the number of simulated cycles; what it raises ends the run. Other threads
        of Python go on meanwhile, and Ctrl-C ends it.

        Raises `MachineError` if the machine cannot be built, `RunError` if the run does not come to an end.
        """
        return Result(json.loads(_rackmem.run(self._toml, told)))

    def execute(
        self,
        program: str | Path | bytes,
        *arguments: str,
        nodes: int = 1,
        environment: Mapping[str, str] | None = None,
        beside: Sequence[Program] = (),
        libraries: str | Path | None = None,
        max_cycles: int | None = None,
        told: Told | None = None,
    ) -> Execution:
        """Executes a RISC-V program with a process on each of so many nodes, and those `beside` it on the nodes after.

        `program` is one of `rackmem.programs()`, the path of an RV64GC program, or its bytes. `libraries` is the folder
        that stands for / where a dynamically linked program looks for its linker and its libraries, such as
        /usr/riscv64-linux-gnu; without it programs are static. `told` is as in `run`.

        Raises `ProgramError` if a process does not end with status 0, `MachineError` if the machine executes no
        programs, `RunError` if the program never ends.
        """
        parts = to_parts(Program(program, *arguments, nodes=nodes, environment=environment), *beside)
        if max_cycles is not None:
            max_cycles = count("max_cycles", max_cycles, 0, LATEST)
        report, failure = _rackmem.execute(self._toml, parts, max_cycles, to_folder(libraries), told)
        execution = Execution(json.loads(report))
        if failure is not None:
            raise ProgramError(failure, execution)
        return execution

    def session(
        self,
        program: str | Path | bytes,
        *arguments: str,
        nodes: int = 1,
        environment: Mapping[str, str] | None = None,
        beside: Sequence[Program] = (),
        libraries: str | Path | None = None,
    ) -> Session:
        """The same program to be executed piece by piece, with statistics in between. Nothing is executed yet."""
        parts = to_parts(Program(program, *arguments, nodes=nodes, environment=environment), *beside)
        return Session(self, _rackmem.Session(self._toml, parts, to_folder(libraries)))

    def restore(self, checkpoint: Checkpoint | str | Path, *, libraries: str | Path | None = None) -> Session:
        """A program that goes on from a checkpoint, or from the file of one, on this machine.

        A dynamically linked program needs its folder of `libraries` again. Raises `MachineError` if it has too few cores or too little memory, and `RunError` if the file is no checkpoint,
        or one that the program had open is not there any more.
        """
        taken = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint.load(checkpoint)
        return Session(self, _rackmem.Session.restore(self._toml, taken._checkpoint, to_folder(libraries)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Machine) and self._toml == other._toml

    def __hash__(self) -> int:
        return hash(self._toml)

    def __repr__(self) -> str:
        changes = "".join(f".set({path!r}, {value!r})" for path, value in self._settings.items())
        return f"Machine.load({self._source!r}){changes}"


def to_parts(*programs: Program) -> list[tuple[bytes, list[str], list[str], int]]:
    """Programs as the model takes them."""
    for program in programs:
        if not isinstance(program, Program):
            raise Error(f"beside: {program!r} is no Program")
    return [program._part for program in programs]


def count_nodes(nodes: Any) -> int:
    """Number of nodes of a rack. Raises `MachineError` if none can have so many."""
    return count("nodes", nodes, 1, MOST_NODES, MachineError)


def to_variables(environment: Mapping[str, str] | None) -> list[str]:
    """Variables as a process has them."""
    if not isinstance(environment, (Mapping, type(None))):
        raise Error(f"environment: {environment!r} is no mapping of names to values")
    return [f"{name}={value}" for name, value in (environment or {}).items()]


def to_folder(libraries: str | Path | None) -> Path | None:
    """The folder of libraries, if there is one."""
    return None if libraries is None else Path(libraries)


def read_program(program: str | Path | bytes) -> tuple[str, bytes]:
    """Name and bytes of a program."""
    if isinstance(program, (bytes, bytearray, memoryview)):
        return "program", bytes(program)
    if not isinstance(program, (str, Path)):
        raise Error(f"{program!r} is no program: expected a name, a path, or bytes")
    return _rackmem.read_program(str(program))
