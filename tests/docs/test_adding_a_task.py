# SPDX-License-Identifier: BSD-3-Clause
"""Both ways of docs/adding-a-task.md that change this package, carried out in a copy of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adding-a-task.md").read_text()
sys.path.insert(0, str(ROOT / "tests" / "tasks"))


def code_after(comment: str) -> str:
    """The rest of the code block that begins with a comment."""
    found = re.search(rf"^```\w+\n# {re.escape(comment)}\n(.*?)^```", PAGE, re.M | re.S)
    assert found is not None
    return found[1]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of the package, with its compiled modules and kernels."""
    unfinished = shutil.ignore_patterns("*.tmp.*", "*.pyc.*")
    shutil.copytree(ROOT / "src" / "tiepoint", tmp_path / "src" / "tiepoint", ignore=unfinished)
    return tmp_path / "src" / "tiepoint"


def scores(source: Path, *arguments: str) -> list[dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-m", "tiepoint", "run", *arguments, "--store", "store", "--json"],
        capture_output=True,
        text=True,
        cwd=source.parents[1],
        env={**os.environ, "PYTHONPATH": str(source.parent)},
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, object]] = json.loads(done.stdout)["scores"]
    return found


@pytest.mark.slow
def test_new_protocol_one_file_changed(source: Path) -> None:
    from pairs_world import write_pairs

    write_pairs(source.parents[1])
    entry = code_after("src/tiepoint/tasks/semantic/protocols.py")
    path = source / "tasks" / "semantic" / "protocols.py"
    text = path.read_text()
    head = "PROTOCOLS: dict[str, PckRule] = {\n"
    assert head in text
    end = text.index("\n}\n", text.index(head)) + 1
    path.write_text(text[:end] + entry + text[end:])
    (line,) = re.findall(r"^tiepoint run (constant --task semantic/pck .*)$", PAGE, re.M)
    made = scores(source, *line.split())
    assert {s["protocol"] for s in made} == {"exact", "small-images"}


@pytest.mark.slow
def test_new_task_only_registration_outside_folder(source: Path) -> None:
    data = source.parents[1] / "data"
    data.mkdir()
    patches = np.random.default_rng(0).integers(0, 256, (2, 20, 16, 16)).astype(np.uint8)
    np.save(data / "a.npy", patches)
    folder = source / "tasks" / "twins"
    folder.mkdir()
    (folder / "__init__.py").write_text('"""Twins."""\n')
    (folder / "task.py").write_text(code_after("twins.py"))
    with (source / "tasks" / "__init__.py").open("a") as f:
        f.write("\n" + code_after("src/tiepoint/tasks/__init__.py"))
    made = scores(source, "resize", "--task", "example/twins", "--data", str(data))
    assert {(s["task"], s["metric"]) for s in made} == {("example/twins", "found")}
