"""The blocks of Python in the book and the package's README, in their order."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["docs/book/src/model/python.md", "python/README.md"])
def test_blocks_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)
    assert blocks
    names: dict = {}
    for block in blocks:
        exec(compile(block, name, "exec"), names)
