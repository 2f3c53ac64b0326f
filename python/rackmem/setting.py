"""Values of keys, as a machine file has them."""

from __future__ import annotations

import json
import math
import os
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Union

from .errors import MachineError

Setting = Union[bool, int, float, str, list]

# The whole numbers of TOML.
INTEGERS = range(-(1 << 63), 1 << 63)

# Characters of a value that errors show.
SHOWN = 80

WANTED = "give a bool, a finite number of at most 64 bits, a text, or a list of them"


def as_toml(key: Any, value: Any) -> str:
    """A value as a machine file has it; numbers and arrays of NumPy are those of Python.

    Raises `MachineError`, which names key and value, if the key is no text, or no key has such a value.
    """
    if not is_text(key):
        raise MachineError(f"{shown(key)}: {shown(value)}: a key is a text, such as 'noc.vcs'")
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    if is_text(value):
        # Of a member of an Enum the text, not the name.
        return str.__str__(value)
    if isinstance(plain(value), (list, tuple)):
        members = [to_member(member) for member in plain(value)]
        text = None if None in members else f"[{', '.join(members)}]"
    else:
        text = to_number(value)
    if text is None:
        raise MachineError(f"{key}: {shown(value)} is no value of a key; {WANTED}")
    return text


def plain(value: Any) -> Any:
    """A number, truth value or array of NumPy as one of Python."""
    return value.tolist() if hasattr(value, "dtype") and hasattr(value, "tolist") else value


def to_member(value: Any) -> str | None:
    """A member of a list, if it can be one."""
    return json.dumps(value, ensure_ascii=False) if is_text(value) else to_number(value)


def to_number(value: Any) -> str | None:
    """A number or a truth value, if it is one."""
    value = plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Integral):
        return str(int(value)) if int(value) in INTEGERS else None
    if isinstance(value, Decimal):
        return str(value) if value.is_finite() else None
    return to_float(value) if isinstance(value, Real) else None


def to_float(value: Real) -> str | None:
    """A number, if it is finite as a float."""
    try:
        number = float(value)
    except OverflowError:
        return None
    return repr(number) if math.isfinite(number) else None


def is_text(value: Any) -> bool:
    """Whether this is a text that a file can have."""
    try:
        str.encode(value)
    except (TypeError, UnicodeEncodeError):
        return False
    return True


def shown(value: Any) -> str:
    """A value as errors show it, in one line."""
    try:
        text = ascii(value)
    except Exception:
        # Python shows no numbers of more than 4,300 digits.
        return f"a value of {type(value).__name__} that cannot be shown"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
