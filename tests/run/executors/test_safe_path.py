"""Modules beside a user's files are the user's: no process of ours takes them for Python's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

NAMES = (
    "signal",
    "json",
    "struct",
    "random",
    "threading",
    "warnings",
    "socket",
    "tempfile",
    "queue",
    "numpy",
)
SCRIPT = """
if __name__ == "__main__":
    from tiepoint.cli.main import main
    from tiepoint.run import compute

    compute.MIN_PARALLEL_WORK_S = 0.0
    main()
"""
HELPED = """
import helper

class Mine:
    name = "mine"
    def describe(self, patches):
        return helper.rows(patches)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files named as modules of Python, each of which leaves a mark when it is run."""
    tmp_path = tmp_path / "here"
    tmp_path.mkdir()
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name} ')\n")
    (tmp_path / "mine.py").write_text(HELPED)
    (tmp_path / "helper.py").write_text(
        "def rows(patches):\n    return patches.reshape(len(patches), -1)[:, :4] + 1.0\n"
    )
    return tmp_path


def tiepoint(folder: Path, *arguments: str, by_name: bool = False) -> subprocess.CompletedProcess[str]:
    """Run the command line by ``-m``, or as the script does, with workers for the smallest work."""
    package = Path(sys.modules["tiepoint"].__file__ or "").parents[1]
    env = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"} | {"PYTHONPATH": str(package)}
    script = folder.parent / "bin" / "script.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text(SCRIPT)
    start = ["-m", "tiepoint"] if by_name else [str(script)]
    command = [sys.executable, *start, *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)


def ran(folder: Path) -> str:
    """Names of the user's files that were run in Python's place."""
    mark = folder / "ran"
    return mark.read_text() if mark.exists() else ""


def test_workers_run_no_code_of_the_current_folder(folder: Path, patches: Path) -> None:
    done = tiepoint(
        folder, "run", "mine.py:Mine", "--task", "hpatches/matching", "--data", str(patches), "--jobs", "2",
        "--store", "s", "-q",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert ran(folder) == ""


def test_a_module_started_by_name_runs_no_code_of_the_current_folder(folder: Path) -> None:
    (folder / "warnings.py").unlink()  # Python itself needs it before it looks for the module
    done = tiepoint(folder, "list", "tasks", by_name=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert ran(folder) == ""


def test_workers_of_a_local_cluster_run_no_code_of_the_current_folder(folder: Path, patches: Path) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed")
    done = tiepoint(
        folder, "run", "mine.py:Mine", "--task", "hpatches/matching", "--data", str(patches),
        "--cluster", "local:2", "--store", "s",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert ran(folder) == ""
