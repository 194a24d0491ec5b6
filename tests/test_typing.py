# SPDX-License-Identifier: BSD-3-Clause
"""A user's file that calls every public function passes `mypy --strict`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tiepoint

pytest.importorskip("mypy")
pytestmark = pytest.mark.slow

SOURCE = Path(__file__).parents[1] / "src"
USER_FILE = """
from pathlib import Path
from typing import assert_type

import numpy as np
import tiepoint as tp
from tiepoint.report.run_list import Runs
from tiepoint.score import Result

assert_type(tp.__version__, str)
assert_type(tp.list_methods("patches"), list[str])
assert_type(tp.list_tasks(), list[str])
run = tp.evaluate("sift", task="hpatches/matching", data="data", protocol=["exact"], jobs=2)
same = tp.merge([run])
several = tp.evaluate(["sift", run], task="hpatches/matching", data="data")
assert_type(tp.evaluate("sift", task=["hpatches/matching"], data="data"), Runs)
latex: str = several.to_latex(table="tasks")
frames = [several.scores, several.to_frame(), several[0].scores]
several.plot("scores", out=Path("scores.pdf"))
loaded = tp.load(task="hpatches/matching", store=Path("store"))
runs = loaded if isinstance(loaded, list) else [loaded]
table: str = str(tp.compare([run, *runs], task="hpatches/matching", baseline="sift"))
assert_type(tp.write_report([run, same], "report.html"), Path)
assert_type(tp.pack("data"), Path)

x, square, size = np.zeros((9, 2)), np.eye(3), (640, 480)
flow = np.zeros((4, 4, 2), np.float32)
results: list[Result] = [
    tp.score.matching(square, [square], [np.arange(3)], scenes=["a"]),
    tp.score.pose(x, x, square, square, np.eye(4), sizes=(size, size), seeds=3),
    tp.score.homography(x, x, square, sizes=(size, size), protocol="loftr"),
    tp.score.planes(x, x, square, sizes=(size, size)),
    tp.score.flow(flow, flow, flow[..., 0]),
    tp.score.retrieval(square, square > 0),
    tp.score.verification([0.1, 0.2], [True, False]),
    tp.score.reconstruction("model", "truth"),
]
for result in results:
    assert_type(result.value, float)
    assert_type(result.low, float | None)
    assert_type(result.values, dict[str, float])
"""


def mypy(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "user.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "user.py"]
    environment = {**os.environ, "MYPYPATH": str(SOURCE)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )


def test_typing_user_file_passes_strict_mypy(tmp_path: Path) -> None:
    from tiepoint import score

    for name in (*tiepoint.__all__, *(f"score.{n}" for n in score.__all__ if n != "Result")):
        assert f"tp.{name}" in USER_FILE
    found = mypy(tmp_path, USER_FILE)
    assert found.returncode == 0, found.stdout + found.stderr
    wrong = mypy(tmp_path, USER_FILE + "tp.scores\ntp.score.matchings\nresults[0].vale\n")
    assert wrong.stdout.count("[attr-defined]") == 3, wrong.stdout
