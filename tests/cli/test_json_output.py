# SPDX-License-Identifier: BSD-3-Clause
"""With ``--json`` standard output has one JSON value, whatever a method prints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tiepoint.cli.main import run as command

LOUD = """
import ctypes
import os

import numpy as np

print("imported")


class Loud:
    def describe(self, patches):
        print("from Python")
        os.write(1, b"from a descriptor\\n")
        ctypes.CDLL(None).printf(b"from C\\n")
        return patches.reshape(len(patches), -1).astype(np.float32)
"""


@pytest.mark.parametrize(
    "more",
    [
        pytest.param([], id="here"),
        pytest.param(["--jobs", "2"], id="jobs", marks=pytest.mark.slow),
        pytest.param(["--cluster", "local:1"], id="cluster", marks=pytest.mark.slow),
    ],
)
def test_run_json_method_prints_to_stderr(patches: Path, tmp_path: Path, more: list[str]) -> None:
    if "--cluster" in more:
        pytest.importorskip("distributed", reason="clusters are Dask's")
    (tmp_path / "loud.py").write_text(LOUD)
    given = ["--task", "hpatches/matching", "--data", patches, "--store", tmp_path / "s", "--json", *more]
    done = subprocess.run(
        [sys.executable, "-m", "tiepoint", "run", f"{tmp_path / 'loud.py'}:Loud", *map(str, given)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scores"]
    for words in ("imported", "from Python", "from a descriptor", "from C"):
        assert words in done.stderr


def test_sql_long_cell_is_cut_except_in_json(
    patches: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--task", "hpatches/matching", "--data", str(patches), "--store", str(tmp_path / "s")]
    assert command(["run", "meanstd", *given]) == 0
    capsys.readouterr()
    query = ["sql", "select hex(zeroblob(4000)) as text", "--store", str(tmp_path / "s")]
    assert command(query) == 0
    printed = capsys.readouterr().out
    assert "".join(printed.split()).endswith("…(6,000characterscut)")
    assert printed.count("0") == 2000 + 3  # 6,000 has three
    assert command([*query, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"text": "0" * 8000}]
