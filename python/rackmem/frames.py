"""Tables for people who have pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import Error

if TYPE_CHECKING:
    import pandas


def frame(rows: list[dict[str, Any]], columns: list[str] | None = None) -> pandas.DataFrame:
    """A table of these rows. Raises `Error` without pandas."""
    try:
        import pandas
    except ImportError as error:
        raise Error("tables need pandas: pip install 'rackmem[df]'") from error
    return pandas.DataFrame(rows, columns=columns)
