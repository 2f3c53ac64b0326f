"""Pages about results, by the command `rackmem report`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from .command import call
from .result import Result


def report(results: Iterable[Result], file: str | Path = "report.html") -> Path:
    """Writes one page about results, side by side, that opens offline: breakdowns, histograms, heat maps of links and
    parts, what limited each run, how their machines differ. Returns its path.

    Raises `CommandError` if there are no results or more than a page can show, or the page cannot be written.
    """
    with tempfile.TemporaryDirectory() as folder:
        for number, result in enumerate(results):
            result.save(Path(folder) / f"{number:03}.json")
        call("report", folder, "-o", str(file))
    return Path(file)
