"""Programs that are executed piece by piece, with statistics in between."""

from __future__ import annotations

import json
import math
import operator
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from . import _rackmem
from .errors import Error
from .result import Execution
from .setting import is_text

if TYPE_CHECKING:
    from .machine import Machine


Region = Literal["begin", "end"]

# No run comes to a later cycle or instruction.
LATEST = (1 << 63) - 1


@dataclass(frozen=True)
class Mark:
    """A place in a run: its cycle, and a reading of all counters."""

    cycle: int
    reading: _rackmem.Reading = field(repr=False)


@dataclass
class Measurement:
    """What was counted between two marks: `stats` by path, of `cycles` cycles, which are `ns` simulated ns."""

    stats: dict[str, float] = field(default_factory=dict)
    cycles: int = 0
    ns: float = 0.0

    def __getitem__(self, path: str) -> float:
        return self.stats[path]


class Checkpoint:
    """The state of a program; `Session.checkpoint` makes one, and `Machine.restore` goes on from it.

    It holds what the program has done, and nothing of the machine: any machine with as many cores can go on from it, as
    often as one likes. Files that were open are opened again by their names.
    """

    def __init__(self, checkpoint: _rackmem.Checkpoint) -> None:
        self._checkpoint = checkpoint
        #: Name of the machine on which it was taken, and cycles and instructions before it.
        self.machine, self.cycle, self.instructions = checkpoint.taken()

    @classmethod
    def load(cls, path: str | Path) -> Checkpoint:
        """Reads a file, also one of `rackmem sim exec --checkpoint`. Raises `RunError` if it is none."""
        return cls(_rackmem.Checkpoint.load(Path(path)))

    def save(self, path: str | Path) -> None:
        """Writes a file, also for `rackmem sim exec --restore`.

        A link in the current folder may be one that a program on the model has made: one that leads out of the folder
        is a `RunError`.
        """
        self._checkpoint.save(Path(path))

    @property
    def nbytes(self) -> int:
        """Bytes of its file."""
        return self._checkpoint.size_bytes()

    def __reduce__(self) -> tuple[Any, ...]:
        # Its file, so that other processes can go on from it.
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "checkpoint"
            self.save(file)
            return of_bytes, (file.read_bytes(),)

    def __copy__(self) -> Checkpoint:
        return self

    def __deepcopy__(self, _memo: dict[int, Any]) -> Checkpoint:
        return self

    def __repr__(self) -> str:
        return f"<Checkpoint of {self.machine} after {self.instructions} instructions, {self.nbytes} bytes>"


def of_bytes(content: bytes) -> Checkpoint:
    """The checkpoint whose file has this content."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "checkpoint"
        file.write_bytes(content)
        return Checkpoint.load(file)


def to_limit(begin: int, length: Any, of: str) -> int:
    """The end of a piece of so many cycles or instructions."""
    try:
        number = operator.index(length)
    except TypeError:
        number = 0
    if number < 1:
        raise Error(f"a piece of {length!r} {of}; give 1 or more, as a whole number")
    return min(begin + number, LATEST)


class Session:
    """A program on a rack, executed piece by piece; `Machine.session` makes one.

    The pieces together are the run that goes through without a pause: the same results, to the byte.

        session = machine.session("pagerank", "graph.txt", nodes=2)
        session.run(us=20)
        with session.measure() as part:
            session.run(us=10)
        print(part["node[0].rgp.requests"])
        result = session.finish()
    """

    def __init__(self, machine: Machine, session: _rackmem.Session) -> None:
        self.machine = machine
        self._session = session

    def __reduce__(self) -> tuple[Any, ...]:
        raise Error("a session cannot be copied; `fork` it, or restore its `checkpoint()` in the other process")

    def run(
        self,
        *,
        cycles: int | None = None,
        us: float | None = None,
        until: str | None = None,
        instructions: int | None = None,
        region: Region | None = None,
        told: Callable[[int], Any] | None = None,
    ) -> bool:
        """Executes a piece: so many cycles or simulated us, to the end of the program without a limit.

        `until` is a text: the piece ends, at the latest, when node 0 has printed it; or after so many more
        `instructions` of all cores, or at the `region` of interest's "begin" or "end" (rackmem/region.h). Whether the
        program goes on. `told` is as in `Machine.run`; what it raises ends the run for good.

        Raises `RunError` if the session is over.
        """
        if cycles is not None and us is not None:
            raise Error("a piece is of so many cycles or of so many us; give one of them")
        if us is not None:
            if not isinstance(us, Real) or not math.isfinite(us):
                raise Error(f"a piece of {us!r} us; give a finite number")
            cycles = round(us * 1000 * self.machine["clock_ghz"])
        if until == "":
            raise Error("until: an empty text is printed at any time; give one that is not empty")
        if until is not None and not is_text(until):
            raise Error(f"until: {until!r} is no text")
        limit = None if cycles is None else to_limit(self.cycle, cycles, "cycles")
        place = self._place(instructions, region)
        return self._session.run(limit, until, *place, told)

    def fast_forward(
        self,
        instructions: int | None = None,
        *,
        region: Region | None = None,
        told: Callable[[int], Any] | None = None,
    ) -> bool:
        """Executes a piece without timing, an instruction a cycle. It ends as with `run`. Whether the program goes on.

        What is measured or run next begins with caches that are warm with what the piece has touched.

            session.fast_forward(100_000_000)
            with session.measure() as part:
                session.run(instructions=1_000_000)

        Instructions that reach borrowed memory or scratchpads have their timing, one by one.
        """
        return self._session.fast_forward(*self._place(instructions, region), told)

    def checkpoint(self) -> Checkpoint:
        """The state of the program where a fast-forward from its begin has ended.

        Operations of network interfaces that are under way come to their end before. Raises `RunError` if cores have
        executed with timing.
        """
        return Checkpoint(self._session.checkpoint())

    def fork(self, machines: Iterable[Machine]) -> list[Session]:
        """Sessions in which the program goes on from here on each of these machines; this one stays where it is.

            session.fast_forward(region="begin")
            for fork in session.fork(machine.set("llc.ways", ways) for ways in (4, 8, 16)):
                print(fork.finish()["cycles"])

        The network interfaces may have other places there (`ni.placement`). Raises as `checkpoint`, and `MachineError`
        if a machine has too few cores, too little memory, or network interfaces that cannot go on.
        """
        checkpoint = self.checkpoint()
        return [machine.restore(checkpoint, libraries=self._session.libraries) for machine in machines]

    def _place(self, instructions: int | None, region: Region | None) -> tuple[int | None, bool | None]:
        """The end of a piece, as the model takes it."""
        if region not in (None, "begin", "end"):
            raise Error(f'region: is {region!r}; "begin" or "end"')
        limit = None if instructions is None else to_limit(self.instructions, instructions, "instructions")
        return limit, None if region is None else region == "begin"

    @property
    def instructions(self) -> int:
        """Instructions that all cores have executed, with and without timing."""
        return self._session.instructions()

    @property
    def is_running(self) -> bool:
        """Whether the program goes on: not after its end, nor after Ctrl-C or what `told` raised in a piece."""
        return self._session.is_running

    @property
    def cycle(self) -> int:
        """The cycle that the slowest node has come to."""
        return self._session.cycle()

    @property
    def stdout(self) -> str:
        """What node 0 has printed so far."""
        return bytes(self._session.printed()).decode(errors="replace")

    def mark(self) -> Mark:
        """This place, to measure from or to."""
        reading = self._session.read()
        return Mark(self.cycle, reading)

    def between(self, begin: Mark, end: Mark | None = None) -> Measurement:
        """What was counted between two marks, or since one; means and shares are those of that time."""
        end = end or self.mark()
        if end.cycle < begin.cycle:
            raise Error(f"the mark of cycle {end.cycle} is before that of cycle {begin.cycle}; exchange them")
        cycles = end.cycle - begin.cycle
        return Measurement(dict(end.reading.since(begin.reading)), cycles, cycles / self.machine["clock_ghz"])

    @contextmanager
    def measure(self) -> Iterator[Measurement]:
        """Measures what the block runs: `with session.measure() as part: session.run(us=10)`."""
        begin, part = self.mark(), Measurement()
        try:
            yield part
        except BaseException:
            # It says what went wrong; that nothing can be read any more may only follow from it.
            with suppress(Error):
                self._measure(part, begin)
            raise
        self._measure(part, begin)

    def _measure(self, part: Measurement, begin: Mark) -> None:
        """Has a measurement end here."""
        part.__dict__.update(self.between(begin).__dict__)

    def finish(self) -> Execution:
        """Executes what is left, and gives the report of the whole run; the session is over.

        Raises `RunError` if a process fails, or the program never ends.
        """
        self.run()
        return Execution(json.loads(self._session.finish()))
