"""Sweeps: a machine with all combinations of some settings, each run in a file of its own."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from . import _rackmem
from .errors import Error, RunError, stored
from .frames import frame
from .machine import Machine, count_nodes, read_program
from .progress import Progress
from .result import Result, to_result
from .setting import Setting, as_toml

if TYPE_CHECKING:
    import pandas


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

    machine: str
    program: bytes | None
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
        vary = {key: to_values(key, values) for key, values in vary.items()}
        if isinstance(programs, (str, bytes, Path)):
            raise Error(f"programs: {programs!r}; give a list of programs")
        self.folder = Path(folder)
        self.nodes = count_nodes(nodes)
        self._base = base.toml
        argvs = [to_argv(program) for program in programs]
        self._programs = {argv[0]: read_program(argv[0]) for argv in argvs}
        texts = [(key, [as_toml(key, value) for value in values]) for key, values in vary.items()]
        found = _rackmem.points(base.toml, texts, [self._named(argv) for argv in argvs], self.nodes)
        combinations = itertools.product(itertools.product(*vary.values()), argvs or [None])
        self.points = [
            to_point(base, dict(zip(vary, values)), argv, *one) for (values, argv), one in zip(combinations, found)
        ]

    def run(self, executor: Executor | None = None, *, progress: bool = True) -> Sweep:
        """Makes the runs that have no file yet, and returns the sweep.

        `executor` is any executor of `concurrent.futures`, such as a process pool or the one of a Dask client; without
        one, there is a thread for each core. A run that fails is a row with its error, and is made again the next
        time; the folder has the error for pages of `report()`. After Ctrl-C, `points` and `df()` have what is done; runs in other processes end when these do.

        Raises `StoreError` if the folder cannot be written to, `RunError` if a worker dies.
        """
        todo: dict[str, list[Point]] = {}
        for point in self.points:
            if point.machine is None:
                self._fail(point, self.folder)
            elif not self._take(point):
                todo.setdefault(point.key, []).append(point)
        shown = Progress(len(self.points), len(self.points) - sum(map(len, todo.values())), progress)
        # Threads of this process see it; others cannot be told.
        stop = Stop() if executor is None or isinstance(executor, ThreadPoolExecutor) else None
        with pool(executor, stop) as workers, shown:
            waiting: dict[Future[str], list[Point]] = {}
            ended: SimpleQueue[Future[str]] = SimpleQueue()
            try:
                for points in todo.values():
                    future = workers.submit(make, self._job(points[0], stop))
                    waiting[future] = points
                    future.add_done_callback(ended.put)
                while waiting:
                    # A signal that comes right before Python waits ends no wait, so none is long.
                    with suppress(Empty):
                        future = ended.get(timeout=0.1)
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
        stored(_rackmem.write_whole, Path(file), self.df().to_csv(index=False).encode())

    def to_parquet(self, file: str | Path) -> None:
        """Writes `df()` as Parquet, whole or not at all. Needs pyarrow."""
        stored(_rackmem.write_whole, Path(file), self.df().to_parquet(index=False))

    def _collect(self, folder: Path) -> int:
        """Makes a file for each point that has a result or an error, or a link to it; how many have."""
        known = [point for point in self.points if point.result is not None or point.error is not None]
        for number, point in enumerate(known):
            stored_in, file = self.folder.absolute() / f"{point.key}.json", folder / f"{number}.json"
            if point.result is None:
                self._fail(point, folder)
            elif stored_in.is_file():
                file.symlink_to(stored_in)
            else:
                point.result.save(file)
        return len(known)

    def _fail(self, point: Point, folder: Path) -> None:
        """Stores that a point has no result, and why."""
        settings = [(key, as_toml(key, value)) for key, value in point.settings.items()]
        argv = self._named(point.program)[0] if point.program else None
        stored(_rackmem.fail, folder, self._base, settings, argv, self.nodes, point.error or "")

    def _named(self, argv: tuple[str, ...]) -> tuple[list[str], bytes]:
        """Arguments with the program's short name, and the program."""
        name, binary = self._programs[argv[0]]
        return [name, *argv[1:]], binary

    def _job(self, point: Point, stop: Stop | None) -> Job:
        assert point.machine is not None
        argv, binary = self._named(point.program) if point.program else ([], None)
        return Job(point.machine.toml, binary, argv, self.nodes, stop)

    def _take(self, point: Point) -> bool:
        """Takes the result of an earlier run; whether there is one."""
        job = self._job(point, None)
        text = stored(_rackmem.take, self.folder, job.machine, job.program, job.arguments, job.nodes)
        if text is not None:
            point.result = to_result(text, str(self.folder / f"{point.key}.json"))
        return text is not None

    def _done(self, points: list[Point], future: Future[str]) -> None:
        """Stores the result of a run, of which there may be several points, or its error."""
        try:
            text = future.result()
        except Error as error:
            for point in points:
                point.error = str(error)
                self._fail(point, self.folder)
            return
        stored(_rackmem.put, self.folder, points[0].key, text)
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


def to_point(
    base: Machine,
    settings: dict[str, Setting],
    argv: tuple[str, ...] | None,
    run: tuple[str, str, str] | None,
    error: str | None,
) -> Point:
    """A point from what the model says of it: its machine and name, or an error."""
    if run is None:
        return Point(settings, argv, None, "", error=error)
    toml, keys, key = run
    changed = {path: as_toml(path, value) for path, value in settings.items()}
    return Point(settings, argv, Machine(toml, keys, base.source, base.settings | changed), key)


def to_argv(program: str | Path | Sequence[str]) -> tuple[str, ...]:
    """A program with its arguments."""
    argv = (str(program),) if isinstance(program, (str, Path)) else tuple(map(str, program))
    if not argv or isinstance(program, bytes):
        raise Error(f"{program!r} is no program: expected a name or a path, or a list of it and its arguments")
    return argv


def make(job: Job) -> str:
    """Makes a run, wherever it is called; the report as text, always the same bytes."""
    return _rackmem.make(job.machine, job.program, job.arguments, job.nodes, job.stop)


def row(point: Point) -> dict[str, Any]:
    """Settings, program, error and numbers of a run."""
    cells: dict[str, Any] = dict(point.settings)
    if point.program is not None:
        cells["program"] = " ".join(point.program)
    cells["error"] = point.error
    if point.result is not None:
        cells.update(json.loads(_rackmem.numbers(point.result.json())))
    return cells


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
