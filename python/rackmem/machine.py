"""Machines: chips and racks of the model, with their settings."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Union

from . import _rackmem
from .errors import Error, MachineError, PathError, ProgramError
from .paths import look_up
from .result import Execution, Result
from .session import Session

Setting = Union[bool, int, float, str, list]
Settings = tuple[tuple[str, str], ...]
Told = Callable[[int], Any]

# Nodes have numbers of 16 bits.
MOST_NODES = 65_535


def machines() -> dict[str, str]:
    """Names of the built-in machines, each with its description."""
    return dict(_rackmem.machines())


def programs() -> list[str]:
    """Names of the programs that are ready for the model."""
    return list(_rackmem.programs())


class Machine:
    """A machine of the model: a built-in one or a TOML file, with settings of its own.

    Machines do not change: `set` gives another one.
    """

    def __init__(self, toml: str, keys: str, source: str, settings: Settings = ()) -> None:
        # The text decides: what becomes of the file that it came from does not matter.
        self._toml = toml
        self._keys: dict[str, Any] = json.loads(keys)
        self._source = source
        self._settings = settings

    @classmethod
    def load(cls, source: str | Path) -> Machine:
        """The built-in machine of this name (`rackmem.machines()`), or that of a TOML file as it is now.

        Raises `MachineError` if there is none, or the file is wrong.
        """
        return cls(*_rackmem.load(str(source)), str(source))

    def set(self, key: str | Mapping[str, Setting], value: Setting | None = None) -> Machine:
        """This machine with another value of a key, or with other values of several: `set({"noc.vcs": 2})`.

        Raises `MachineError` if there is no such key (it names the nearest), or the machine cannot be like that.
        """
        if isinstance(key, Mapping):
            changes = dict(key)
        elif value is None:
            raise TypeError(f"set({key!r}) needs a value")
        else:
            changes = {key: value}
        changed = [(path, as_toml(path, value)) for path, value in changes.items()]
        kept = tuple(setting for setting in self._settings if setting[0] not in changes)
        return Machine(*_rackmem.change(self._toml, changed), self._source, (*kept, *changed))

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
    def changes(self) -> Settings:
        """The same in their order."""
        return self._settings

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
        max_cycles: int | None = None,
        told: Told | None = None,
    ) -> Execution:
        """Executes a RISC-V program with a process on each of so many nodes.

        `program` is one of `rackmem.programs()`, the path of a static RV64GC program, or its bytes. `told` is as in
        `run`.

        Raises `ProgramError` if a process does not end with status 0, `MachineError` if the machine executes no
        programs, `RunError` if the program never ends.
        """
        name, binary = read_program(program)
        argv = [name, *map(str, arguments)]
        variables = [f"{name}={value}" for name, value in (environment or {}).items()]
        return self.execute_binary(binary, argv, variables, nodes, max_cycles, told)

    def session(
        self,
        program: str | Path | bytes,
        *arguments: str,
        nodes: int = 1,
        environment: Mapping[str, str] | None = None,
    ) -> Session:
        """The same program to be executed piece by piece, with statistics in between. Nothing is executed yet."""
        name, binary = read_program(program)
        check_nodes(nodes)
        variables = [f"{name}={value}" for name, value in (environment or {}).items()]
        return Session(self, _rackmem.Session(self._toml, binary, [name, *map(str, arguments)], variables, nodes))

    def execute_binary(
        self,
        binary: bytes,
        argv: list[str],
        environment: list[str],
        nodes: int,
        max_cycles: int | None,
        told: Told | None,
    ) -> Execution:
        """As `execute`: a program that has been read, with its name as the first argument."""
        check_nodes(nodes)
        name = argv[0]
        text = _rackmem.execute(self._toml, binary, argv, environment, nodes, max_cycles, told)
        execution = Execution(json.loads(text))
        if execution.status != 0:
            raise ProgramError(failure(name, execution), execution)
        return execution

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Machine) and self._toml == other._toml

    def __hash__(self) -> int:
        return hash(self._toml)

    def __repr__(self) -> str:
        changes = "".join(f".set({path!r}, {value!r})" for path, value in self._settings)
        return f"Machine.load({self._source!r}){changes}"


def check_nodes(nodes: int) -> None:
    """Raises `MachineError` unless a rack can have so many nodes."""
    if not isinstance(nodes, int) or not 1 <= nodes <= MOST_NODES:
        raise MachineError(f"nodes: {nodes!r} is no number of nodes from 1 to {MOST_NODES}")


def as_toml(path: str, value: Setting) -> str:
    """A value as a machine file has it."""
    if value is None:
        raise MachineError(f"{path}: None is no value")
    # NumPy's numbers are none of Python's.
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return json.dumps(list(value))
    return str(value)


def failure(name: str, execution: Execution) -> str:
    """The process whose failure ended the run, and what it said."""
    number, node = next(
        (number, node) for number, node in enumerate(execution.nodes) if node["exit_status"] == execution.status
    )
    said = node["stderr"].strip() or node["stdout"].strip()
    where = f"node {number} {node['end']} in cycle {node['cycle']}"
    return f"{name}: {where}: {said}" if said else f"{name}: {where}"


def read_program(program: str | Path | bytes) -> tuple[str, bytes]:
    """Name and bytes of a program."""
    if isinstance(program, (bytes, bytearray, memoryview)):
        return "program", bytes(program)
    if not isinstance(program, (str, Path)):
        raise Error(f"{program!r} is no program: expected a name, a path, or bytes")
    name = str(program)
    ready = _rackmem.program(name.removeprefix(":"))
    if ready is not None:
        return name.removeprefix(":"), ready
    try:
        return Path(name).name, Path(name).read_bytes()
    except OSError as error:
        ready_names = ", ".join(programs())
        raise Error(f"{name}: {error.strerror}; programs that are ready are {ready_names}") from error

