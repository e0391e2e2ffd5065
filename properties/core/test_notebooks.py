"""Every notebook runs from its first cell to its last, in a kernel of its own, and shows results.

The notebooks are kept as text without output. The kernel listens on loopback alone. A planted error
shows that a failing cell would be seen.
"""

from importlib import import_module
from pathlib import Path
from typing import cast

import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.py"))
CELL_SECONDS_MAX = 60
LOOPBACK = "127.0.0.1"
QUICK = "from_trace_to_receipt"
# What each page shows when it has computed what it is about.
SHOWN = {
    "crash_resume_reconcile": "paid twice: 0",
    "from_trace_to_receipt": "completed",
    "levels_a_to_e": "(nonproductive_cycle, replan)",
}


def read(path: Path) -> NotebookNode:
    """Return the notebook that a text file holds."""
    # jupytext ships no types, so it is called by name.
    return cast("NotebookNode", import_module("jupytext").read(path))


def executed(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """Return the notebook with the outputs of its cells, run in the folder."""
    manager = KernelManager(ip=LOOPBACK)
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=CELL_SECONDS_MAX,
        resources={"metadata": {"path": str(folder)}},
    )
    ran = client.execute(cleanup_kc=True)
    assert manager.ip == LOOPBACK
    return ran


def test_every_notebook_is_known_by_what_it_shows() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(SHOWN)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[] if path.stem == QUICK else pytest.mark.slow)
        for path in NOTEBOOKS
    ],
)
def test_the_notebook_runs_to_its_end_and_shows_what_it_computes(
    path: Path, tmp_path: Path
) -> None:
    notebook = executed(read(path), tmp_path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    shown = "".join(output.get("text", "") for cell in code for output in cell.outputs)
    assert SHOWN[path.stem] in shown
    assert [
        output for cell in code for output in cell.outputs if output.get("name") == "stderr"
    ] == []


def test_a_failing_cell_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "planted.py"
    page.write_text("# %%\nx = 1\n\n# %%\nassert x == 2, 'planted'\n")
    with pytest.raises(CellExecutionError, match="planted"):
        executed(read(page), tmp_path)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_output_is_kept_in_the_repository(path: Path) -> None:
    assert not list(FOLDER.glob("*.ipynb"))
    assert all(not cell.get("outputs") for cell in read(path).cells)
