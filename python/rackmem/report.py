"""Pages about results, by the command `rackmem report`."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from .command import call
from .errors import CommandError
from .result import Result
from .sweep import Sweep


def report(
    results: Sweep | Iterable[Result] | Mapping[str, Result], file: str | Path = "report.html"
) -> Path:
    """Writes one page about results, side by side, that opens offline: breakdowns, histograms, heat maps of links and
    parts, what limited each run, how their machines differ. Returns its path. Results of a mapping have its names,
    where their machines differ in more than a few keys. Of more than twelve results, such as those of a sweep, it has
    charts by setting, extremes and a table, and the rest for those with extremes only; runs of a sweep that failed are
    in it, with their errors.

    Raises `CommandError` if there are no results, or the page cannot be written.
    """
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(results, Sweep):
            files = [folder] if results._collect(Path(folder)) else []
        else:
            files = saved(results, Path(folder))
        if not files:
            raise CommandError("there are no results to write a page about")
        call("report", f"--out={file}", "--", *files)
    return Path(file)


def saved(results: Iterable[Result] | Mapping[str, Result], folder: Path) -> list[str]:
    """A folder for each result, as names may be equal once they are names of files."""
    if isinstance(results, Result):
        results = [results]
    named = results.items() if isinstance(results, Mapping) else ((f"run {n}", r) for n, r in enumerate(results, 1))
    places = []
    for number, (name, result) in enumerate(named):
        place = folder / str(number) / file_name(str(name), f"run {number + 1}")
        place.mkdir(parents=True)
        result.save(place / "report.json")
        places.append(str(place))
    return places


def file_name(name: str, otherwise: str) -> str:
    """The name as a file can have it."""
    name = re.sub(r"[/\0]", "-", name).encode(errors="replace")[:200].decode(errors="ignore")
    return otherwise if name in ("", ".", "..") else name
