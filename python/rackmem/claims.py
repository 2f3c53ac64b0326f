"""The papers' claims beside what the model gives, by the command `rackmem reproduce`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .command import call
from .errors import CommandError, count
from .frames import frame

if TYPE_CHECKING:
    import pandas


class Claims:
    """Verdicts on a paper's claims, and the curves of its figures."""

    def __init__(self, outcome: dict[str, Any]) -> None:
        self.outcome = outcome

    @property
    def share(self) -> float:
        """Share of the counted claims that hold."""
        counted = self.outcome["summary"]["counted"]
        return counted["holds"] / max(counted["holds"] + counted["missed"], 1)

    @property
    def curves(self) -> dict[str, Any]:
        """The curves of figures, by name: title, axes, and each series as pairs of x and y."""
        return self.outcome["curves"]

    def df(self) -> pandas.DataFrame:
        """A row for each claim: id, kind, counted, published, measured, unit, spread, verdict, why. Needs pandas."""
        columns = ["id", "kind", "counted", "published", "measured", "unit", "ratio", "spread", "band", "verdict", "why"]
        rows = [{name: claim.get(name) for name in columns} for claim in self.outcome["claims"]]
        return frame(rows, columns)

    def __repr__(self) -> str:
        return f"<Claims: {self.outcome['paper']}, {100 * self.share:.0f} % of those counted hold>"


def reproduce(what: str, *, quick: bool = True, seeds: int = 1, jobs: int | None = None) -> Claims:
    """Runs the experiments of a paper, or of a part of it such as `deoi/fig4`, and judges its claims.

    Raises `CommandError` if there is no such paper, or a run fails.
    """
    if what.startswith("-"):
        raise CommandError(f"{what!r} is no paper")
    options = ["--json", "--seeds", str(count("seeds", seeds, 1, 99))]
    options += ["--quick"] if quick else []
    options += [] if jobs is None else ["--jobs", str(count("jobs", jobs, 1, 1024))]
    return Claims(json.loads(call("reproduce", what, *options)))
