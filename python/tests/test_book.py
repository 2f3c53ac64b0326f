"""The blocks of Python in the book and the package's README, in their order."""

import re
from pathlib import Path

import pytest
from racks import MODES, may_borrow

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["docs/book/src/model/python.md", "docs/book/src/model/execute.md", "python/README.md"])
def test_blocks_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)
    assert blocks
    names: dict = {}
    for block in blocks:
        exec(compile(block, name, "exec"), names)


def chapter_of_programs():
    """The blocks that are one program of two nodes, and those on borrowed memory."""
    text = (ROOT / "docs/book/src/programs/python.md").read_text()
    parts = text.split("\n## Borrowed memory\n")
    return ["\n".join(re.findall(r"```python\n(.*?)```", part, re.DOTALL)) for part in parts]


@pytest.mark.parametrize("progress", MODES)
def test_the_program_of_the_chapter_runs(host, progress):
    pytest.importorskip("numpy")
    host.run(chapter_of_programs()[0], progress=progress)


@pytest.mark.skipif(not may_borrow(), reason="userfaultfd is not permitted here")
def test_the_lease_of_the_chapter_is_borrowed(lender):
    pytest.importorskip("numpy")
    assert "35184367894528" in lender.alone(chapter_of_programs()[1])
