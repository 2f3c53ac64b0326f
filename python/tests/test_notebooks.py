"""The notebooks run from their first cell to their last."""

from pathlib import Path

import pytest
from racks import may_borrow

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs(file, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    for needed in ("ipykernel", "matplotlib", "pandas"):
        pytest.importorskip(needed)
    if file.stem == "borrow" and not may_borrow():
        pytest.skip("userfaultfd is not permitted here")
    notebook = nbformat.read(file, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "outputs are not kept"
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()


def test_there_are_three():
    assert len(NOTEBOOKS) == 3
