"""Results: reports of runs, by path, as tables, and as notebooks show them."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _rackmem
from .errors import StoreError, stored
from .frames import frame
from .paths import leaves, look_up, no_member

if TYPE_CHECKING:
    import pandas


# What every report has.
MEMBERS = (("stats", dict), ("recipe", dict), ("machine", str), ("cycles", int))


class Stage(NamedTuple):
    """A part of the latency of a read."""

    name: str
    mean_cycles: float


class Result:
    """The report of a run of a machine's workload.

    `result[path]` is a statistic (`"rrpp.lines"`), or another member of the report (`"latency.mean_cycles"`).
    `rackmem sim stats` explains all of them.
    """

    def __init__(self, report: dict[str, Any]) -> None:
        self.report = report

    @classmethod
    def load(cls, file: str | Path) -> Result:
        """The result that `save`, or `rackmem sim run --out`, has written."""
        return to_result(stored(_rackmem.read_file, Path(file)), str(file))

    def json(self) -> str:
        """The report as JSON: the same run, the same bytes."""
        return json.dumps(self.report, indent=1, sort_keys=True) + "\n"

    def save(self, file: str | Path) -> None:
        """Writes the report as JSON, whole or not at all."""
        stored(_rackmem.write_whole, Path(file), self.json().encode())

    @property
    def stats(self) -> dict[str, float]:
        """All statistics, by path of the part."""
        return self.report["stats"]

    @property
    def breakdown(self) -> list[Stage]:
        """Mean time of a read in each stage, in the order of events; empty of runs without stages."""
        return [Stage(**stage) for stage in self.report.get("breakdown", [])]

    def __getitem__(self, path: str) -> Any:
        if path in self.stats:
            return self.stats[path]
        try:
            return look_up(self.report, path, "the report")
        except KeyError:
            known = (name for name, _ in self._members())
            raise no_member(path, known, f"the report of {self.report['machine']}") from None

    __iter__ = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and self.report == other.report

    __hash__ = None

    def __contains__(self, path: object) -> bool:
        try:
            self[str(path)]
        except KeyError:
            return False
        return True

    def query(self, pattern: str) -> dict[str, Any]:
        """All statistics and other members in whose paths the regular expression is found."""
        wanted = re.compile(pattern)
        return {path: value for path, value in self._members() if wanted.search(path)}

    def df(self) -> pandas.DataFrame:
        """All numbers with path, value, unit and meaning. Needs pandas."""
        known = {path: (unit, meaning) for path, unit, meaning in _rackmem.statistics()}
        rows = []
        for path, value in self._members():
            if isinstance(value, (int, float)):
                unit, meaning = known.get(re.sub(r"\[\d+\]", "[]", path), ("", ""))
                rows.append({"path": path, "value": float(value), "unit": unit, "meaning": meaning})
        return frame(rows, ["path", "value", "unit", "meaning"])

    def _members(self):
        yield from self.stats.items()
        rest = {name: member for name, member in self.report.items() if name not in ("stats", "recipe")}
        yield from leaves(rest)

    def headline(self) -> list[tuple[str, str]]:
        """What people ask for first: name and value."""
        report, lines = self.report, [("machine", str(self.report["machine"]))]
        if report.get("latency") and report["latency"]["mean_cycles"] is not None:
            lines.append(("latency", f"{report['latency']['mean_cycles']:.1f} cycles in the mean"))
        if report.get("windows"):
            lines.append(("application bandwidth", f"{report['app_gbps']:.1f} GB/s"))
        if not report.get("converged", True):
            lines.append(("NOT CONVERGED", "the bandwidth is not known as precisely as was asked for, or latency has not settled"))
        lines.append(("simulated", f"{report['cycles']:,} cycles"))
        return lines

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: " + ", ".join(f"{name} {value}" for name, value in self.headline()) + ">"

    def _repr_html_(self) -> str:
        rows = [(name, value, "") for name, value in self.headline()]
        total = sum(stage.mean_cycles for stage in self.breakdown) or 1.0
        for stage in self.breakdown:
            share = 100 * stage.mean_cycles / total
            bar = f'<div style="background:#4c78a8;height:.8em;width:{share:.1f}%"></div>'
            rows.append((stage.name, f"{stage.mean_cycles:.1f} cycles", bar))
        cells = "".join(
            f"<tr><td>{html.escape(name)}</td><td style='text-align:right'>{html.escape(value)}</td>"
            f"<td style='width:20em'>{bar}</td></tr>"
            for name, value, bar in rows
        )
        return f"<table>{cells}</table>"


def to_result(text: bytes | str, of: str) -> Result:
    """The result of a report. Raises `StoreError` if it is none; `of` says where it came from."""
    try:
        report = json.loads(text)
        is_report = all(isinstance(report[name], kind) for name, kind in MEMBERS) and "machine" in report["recipe"]
    except (ValueError, KeyError, TypeError, RecursionError):
        is_report = False
    if not is_report:
        raise StoreError(f"{of} is no report of a run; delete it to make the run again")
    return Execution(report) if isinstance(report.get("nodes"), list) else Result(report)


class Execution(Result):
    """The report of a program that was executed, and what it printed."""

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """Each node's process: exit_status, end, cycle, instructions, stdout, stderr, warnings."""
        return self.report["nodes"]

    @property
    def status(self) -> int:
        """Exit status of the first process that failed, or 0."""
        return int(self.report["exit_status"])

    @property
    def stdout(self) -> str:
        """Standard output of node 0; `PathError` if the report was written by the command, which prints it."""
        return str(self["nodes[0].stdout"])

    @property
    def output(self) -> Any:
        """What node 0 printed as JSON, of programs that have `--json`."""
        return json.loads(self.stdout)

    def headline(self) -> list[tuple[str, str]]:
        report = self.report
        programs = report.get("programs", [report])
        return [
            ("machine", str(report["machine"])),
            ("program", " : ".join(" ".join([one["program"], *one["arguments"]]) for one in programs)),
            ("nodes", str(len(self.nodes))),
            ("simulated", f"{report['simulated_ns'] / 1000:.1f} us, {report['cycles']:,} cycles"),
            ("instructions", f"{report['instructions']:,}"),
        ]
