"""Sweeps: a machine with all combinations of some settings, each run in a file of its own."""

from __future__ import annotations

import functools
import itertools
import json
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _rackmem
from .errors import Error, RunError, StoreError
from .frames import frame
from .machine import Machine, Setting, check_nodes, read_program
from .paths import leaves
from .progress import Progress
from .result import Execution, Result, to_result

if TYPE_CHECKING:
    import pandas


# Members of reports that are no columns of a table.
LISTS = ("stats", "recipe", "links", "windows", "latencies")


@dataclass
class Point:
    """A run of a sweep: its settings, and its result or the error that it ended with."""

    settings: dict[str, Setting]
    program: tuple[str, ...] | None
    machine: Machine | None
    key: str
    result: Result | None = None
    error: str | None = None


@dataclass
class Job:
    """What a worker of an executor needs for a point. It may be another process, or another host."""

    machine: Machine
    program: tuple[str, bytes] | None
    arguments: list[str]
    nodes: int
    stop: Stop | None = None


@dataclass
class Stop:
    """Ends runs in threads of this process."""

    event: threading.Event = field(default_factory=threading.Event)

    def __call__(self, _cycles: int) -> None:
        if self.event.is_set():
            raise RunError("interrupted")


class Sweep:
    """A machine with all combinations of some settings: of `{"noc.vcs": [1, 2]}` the last key changes fastest.

    Each run has a file in `folder`, named by what decides its result: the machine with all its keys, the program, and
    the version of the model. What is there is not run again, so a sweep that was killed goes on where it was.

    `programs` are executed in place of the machine's workload: each a name of `rackmem.programs()` or a path, or such
    a name followed by arguments.
    """

    def __init__(
        self,
        machine: Machine | str | Path,
        vary: Mapping[str, Sequence[Setting]],
        *,
        programs: Sequence[str | Sequence[str]] = (),
        nodes: int = 1,
        folder: str | Path = "sweep",
    ) -> None:
        base = machine if isinstance(machine, Machine) else Machine.load(machine)
        check_nodes(nodes)
        vary = {key: to_values(key, values) for key, values in vary.items()}
        if isinstance(programs, (str, bytes, Path)):
            raise Error(f"programs: {programs!r}; give a list of programs")
        self.folder = Path(folder)
        self.nodes = nodes
        self._base = base
        self._programs = {name: read_program(name) for name in {to_argv(program)[0] for program in programs}}
        combinations = itertools.product(*vary.values())
        argvs: list[tuple[str, ...] | None] = [to_argv(program) for program in programs] or [None]
        self.points = [
            self._point(dict(zip(vary, values)), argv) for values in combinations for argv in argvs
        ]

    def run(self, executor: Executor | None = None, *, progress: bool = True) -> Sweep:
        """Makes the runs that have no file yet, and returns the sweep.

        `executor` is any executor of `concurrent.futures`, such as a process pool or the one of a Dask client; without
        one, there is a thread for each core. A run that fails is a row with its error, and is made again the next
        time. After Ctrl-C, `points` and `df()` have what is done; runs in other processes end when these do.

        Raises `StoreError` if the folder cannot be written to, `RunError` if a worker dies.
        """
        todo: dict[str, list[Point]] = {}
        for point in self.points:
            if point.machine is not None and not self._take(point):
                todo.setdefault(point.key, []).append(point)
        shown = Progress(len(self.points), len(self.points) - sum(map(len, todo.values())), progress)
        # Threads of this process see it; others cannot be told.
        stop = Stop() if executor is None or isinstance(executor, ThreadPoolExecutor) else None
        with pool(executor, stop) as workers, shown:
            waiting: dict[Future[str], list[Point]] = {}
            try:
                for points in todo.values():
                    waiting[workers.submit(make, self._job(points[0], stop))] = points
                for future in as_completed(waiting):
                    self._done(waiting.pop(future), future)
                    shown.step()
            except BrokenExecutor as error:
                self._give_up(waiting, stop)
                raise RunError(f"a worker of the executor died ({error}); run the sweep again to go on") from error
            except BaseException:
                self._give_up(waiting, stop)
                raise
        return self

    def df(self) -> pandas.DataFrame:
        """A row for each run: settings, program, error, and all numbers of its report. Needs pandas."""
        return frame(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """The same as dicts."""
        return [row(point) for point in self.points]

    def to_csv(self, file: str | Path) -> None:
        """Writes `df()` as CSV, whole or not at all."""
        write_whole(Path(file), self.df().to_csv(index=False).encode())

    def to_parquet(self, file: str | Path) -> None:
        """Writes `df()` as Parquet, whole or not at all. Needs pyarrow."""
        write_whole(Path(file), self.df().to_parquet(index=False))

    def _point(self, settings: dict[str, Setting], argv: tuple[str, ...] | None) -> Point:
        try:
            # No result depends on the number of threads: the others are for other runs.
            machine = self._base.set({**settings, "run.threads": 1})
        except Error as error:
            return Point(settings, argv, None, "", error=str(error))
        program = [self._programs[argv[0]][0], *argv[1:], str(self.nodes)] if argv else []
        binary = _rackmem.fingerprint(self._programs[argv[0]][1]) if argv else ""
        decides = json.dumps([model_version(), machine.toml, program, binary])
        return Point(settings, argv, machine, _rackmem.fingerprint(decides.encode()).replace(":", "-"))

    def _job(self, point: Point, stop: Stop | None) -> Job:
        assert point.machine is not None
        argv = point.program
        program = self._programs[argv[0]] if argv else None
        return Job(point.machine, program, list(argv[1:]) if argv else [], self.nodes, stop)

    def _file(self, point: Point) -> Path:
        return self.folder / f"{point.key}.json"

    def _take(self, point: Point) -> bool:
        """Takes the result of an earlier run; whether there is one."""
        try:
            text = self._file(point).read_bytes()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StoreError(f"{self._file(point)}: {error.strerror}") from error
        point.result = to_result(text, str(self._file(point)))
        return True

    def _done(self, points: list[Point], future: Future[str]) -> None:
        """Stores the result of a run, of which there may be several points, or its error."""
        try:
            text = future.result()
        except Error as error:
            for point in points:
                point.error = str(error)
            return
        write_whole(self._file(points[0]), text.encode())
        for point in points:
            point.result, point.error = to_result(text, "a run"), None

    def _give_up(self, waiting: dict[Future[str], list[Point]], stop: Stop | None) -> None:
        """Ends the runs under way, and keeps those that are done."""
        if stop:
            stop.event.set()
        for future, points in waiting.items():
            if not future.cancel() and future.done() and future.exception() is None:
                self._done(points, future)


def to_values(key: str, values: Sequence[Setting]) -> list[Setting]:
    """The values of a key that is varied."""
    try:
        found = [] if isinstance(values, (str, bytes, Mapping)) else list(values)
    except TypeError:
        found = []
    if not found:
        raise Error(f"{key} is varied over {values!r}; give a list of values")
    return found


@functools.cache
def model_version() -> str:
    """Tells versions of the model apart, and builds of one version."""
    binary = Path(str(_rackmem.__file__)).read_bytes()
    return f"{_rackmem.__version__} {_rackmem.fingerprint(binary)}"


def to_argv(program: str | Path | Sequence[str]) -> tuple[str, ...]:
    """A program with its arguments."""
    argv = (str(program),) if isinstance(program, (str, Path)) else tuple(map(str, program))
    if not argv or isinstance(program, bytes):
        raise Error(f"{program!r} is no program: expected a name or a path, or a list of it and its arguments")
    return argv


def make(job: Job) -> str:
    """Makes a run, wherever it is called; the report as JSON, always the same bytes."""
    if job.program is None:
        return job.machine.run(told=job.stop).json()
    name, binary = job.program
    return job.machine.execute_binary(binary, [name, *job.arguments], [], job.nodes, None, job.stop).json()


def row(point: Point) -> dict[str, Any]:
    """Settings, program, error and numbers of a run."""
    cells: dict[str, Any] = dict(point.settings)
    if point.program is not None:
        cells["program"] = " ".join(point.program)
    cells["error"] = point.error
    if point.result is None:
        return cells
    report = point.result.report
    members = {name: member for name, member in report.items() if name not in LISTS}
    numbers = ((path, value) for path, value in leaves(members) if isinstance(value, (bool, int, float)))
    cells.update((path, value) for path, value in numbers)
    for stage in point.result.breakdown:
        cells[f"breakdown.{stage.name}"] = stage.mean_cycles
    for index in range(len(point.result.breakdown)):
        cells.pop(f"breakdown[{index}].mean_cycles", None)
    if isinstance(point.result, Execution):
        cells.update(output_cells(point.result))
    cells.update(point.result.stats)
    return cells


def output_cells(execution: Execution) -> Iterator[tuple[str, Any]]:
    """Numbers that a program printed as JSON."""
    try:
        printed = execution.output
    except ValueError:
        return iter(())
    return ((f"output.{path}", value) for path, value in leaves(printed) if not isinstance(value, str))


def write_whole(file: Path, content: bytes) -> None:
    """Writes a file so that it is there whole or not at all; what is there and no file gets the content as it is."""
    temporary, file = None, Path(os.path.realpath(file))
    try:
        if file.exists() and not file.is_file():
            file.write_bytes(content)
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".", suffix=".part", dir=file.parent)
        with os.fdopen(handle, "wb") as part:
            part.write(content)
            part.flush()
            os.fsync(part.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, file)
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror}") from error
    finally:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)


@contextmanager
def pool(executor: Executor | None, stop: Stop | None) -> Iterator[Executor]:
    """The executor that is given, or threads of our own, which end at once when something is raised."""
    if executor is not None:
        yield executor
        return
    threads = ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0)))
    try:
        yield threads
    except BaseException:
        if stop:
            stop.event.set()
        raise
    finally:
        threads.shutdown(cancel_futures=True)
