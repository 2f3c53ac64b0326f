"""Members of reports and machines by their paths: `latency.mean_cycles`, `windows[0].app_gbps`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any

from .errors import PathError

STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
PATH = re.compile(r"[^.\[\]]+(\.[^.\[\]]+|\[\d+\])*")


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """All members that are no lists and no objects, with their paths."""
    if isinstance(tree, dict):
        for name, member in tree.items():
            yield from leaves(member, f"{path}.{name}" if path else name)
    elif isinstance(tree, list):
        for index, member in enumerate(tree):
            yield from leaves(member, f"{path}[{index}]")
    else:
        yield path, tree


def look_up(tree: Any, path: str, of: str) -> Any:
    """The member of this path. Raises `PathError`, which names the nearest."""
    member, steps = tree, STEP.findall(path) if PATH.fullmatch(path) else [("", "")]
    for name, index in steps:
        if index and isinstance(member, list) and int(index) < len(member):
            member = member[int(index)]
        elif name and isinstance(member, dict) and name in member:
            member = member[name]
        else:
            raise no_member(path, (known for known, _ in leaves(tree)), of)
    return member


def no_member(path: str, known: Iterator[str], of: str) -> PathError:
    """The error for a path that leads nowhere."""
    near = difflib.get_close_matches(path, list(known), n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else ""
    return PathError(f"{of} has no '{path}'{hint}")
