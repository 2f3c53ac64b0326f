"""A line that shows how far a sweep is, and when it will be done."""

from __future__ import annotations

import sys
import time


class Progress:
    """Counts runs of so many, some of which were there before. Shown on a terminal and in notebooks."""

    def __init__(self, all_runs: int, before: int, wanted: bool) -> None:
        self.all_runs = all_runs
        self.before = before
        self.done = before
        self.began = time.monotonic()
        self.is_shown = wanted and (sys.stderr.isatty() or "ipykernel" in sys.modules)

    def __enter__(self) -> Progress:
        self._show()
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_shown:
            print(file=sys.stderr)

    def step(self) -> None:
        """Another run is done."""
        self.done += 1
        self._show()

    def _show(self) -> None:
        if not self.is_shown:
            return
        made = self.done - self.before
        left = ""
        if made and self.done < self.all_runs:
            seconds = (time.monotonic() - self.began) / made * (self.all_runs - self.done)
            left = f", {seconds:.0f} s left" if seconds < 100 else f", {seconds / 60:.0f} min left"
        print(f"\r{self.done} of {self.all_runs} runs{left}    ", end="", file=sys.stderr, flush=True)
