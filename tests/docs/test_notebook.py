# SPDX-License-Identifier: BSD-3-Clause
"""The notebook of the docs runs from top to bottom on data it makes itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    folder = tmp_path_factory.mktemp("notebook")
    client = nbclient.NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    assert list(folder.iterdir()) == []  # it leaves nothing in the working folder
    return notebook


@pytest.mark.filterwarnings("ignore")
def test_every_cell_runs_and_says_what_the_text_promises(executed: Any) -> None:
    outputs = [
        "".join(str(o.get("text", "") or o.get("data", {}).get("text/plain", "")) for o in cell.outputs)
        for cell in executed.cells
        if cell.cell_type == "code"
    ]
    text = "\n".join(outputs)
    assert "mosaic on hpatches-v1/matching" in text
    assert "right answer first" in text
    assert "mosaic" in text
    assert "pixels" in text
    assert "report.html" in text


def test_the_stored_notebook_has_no_outputs() -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
