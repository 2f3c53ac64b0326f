"""Pages about results, by the command `rackmem report`."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from .command import call
from .errors import CommandError
from .result import Result


def report(results: Iterable[Result] | Mapping[str, Result], file: str | Path = "report.html") -> Path:
    """Writes one page about results, side by side, that opens offline: breakdowns, histograms, heat maps of links and
    parts, what limited each run, how their machines differ. Returns its path. Results of a mapping have its names,
    where their machines differ in more than a few keys.

    Raises `CommandError` if there are no results or more than a page can show, or the page cannot be written.
    """
    if isinstance(results, Result):
        results = [results]
    named = results.items() if isinstance(results, Mapping) else ((f"run {n}", r) for n, r in enumerate(results, 1))
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, (name, result) in enumerate(named):
            # Each in a folder of its own, as names may be equal once they are names of files.
            place = Path(folder) / str(number) / re.sub(r"[/\0]", "-", str(name))[:100]
            place.mkdir(parents=True)
            result.save(place / "report.json")
            files.append(str(place))
        if not files:
            raise CommandError("there are no results to write a page about")
        call("report", f"--out={file}", "--", *files)
    return Path(file)
