"""The command `rackmem`, which the wheel installs beside Python."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

from .errors import CommandError


def call(*arguments: str) -> str:
    """What the command prints. Raises `CommandError` if it prints nothing but an error."""
    ended = subprocess.run([find_command(), *arguments], capture_output=True, text=True, check=False)
    if not ended.stdout:
        said = ended.stderr.strip().removeprefix("rackmem: ")
        raise CommandError(said or f"rackmem {arguments[0]} ended with status {ended.returncode}")
    return ended.stdout


def find_command() -> str:
    """Path of the command: that of this installation, or else of PATH."""
    own = Path(sysconfig.get_path("scripts")) / "rackmem"
    found = str(own) if own.is_file() else shutil.which("rackmem")
    if found is None:
        raise CommandError("there is no command rackmem beside this Python nor in PATH: pip install rackmem")
    return found
