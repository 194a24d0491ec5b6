# SPDX-License-Identifier: BSD-3-Clause
"""Run, compare and report where nothing of POSIX is there, as far as that can be tried on it.

`strict/sitecustomize.py` says what is refused. What it cannot show is in `docs/systems.md`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
FORBIDDEN = set('<>:"|?*\\')


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory, patches: Path) -> Path:
    """A folder in which everything was made under the strict rules."""
    if sys.platform != "linux":
        pytest.skip("the refusals are made for Linux; elsewhere the system itself refuses")
    folder = tmp_path_factory.mktemp("strict")
    shutil.copytree(patches, folder / "patches")
    paths = [str(HERE / "strict"), str(HERE.parents[1] / "src")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "STRICT_LOG": str(folder / "refused.log"),
        "PYTHONWARNDEFAULTENCODING": "1",
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }
    environment.pop("TIEPOINT_STORE", None)
    command = [sys.executable, str(HERE / "work.py"), str(folder)]
    done = subprocess.run(
        command, env=environment, capture_output=True, timeout=300, encoding="utf-8", errors="replace"
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return folder


def test_everything_is_made(worked: Path) -> None:
    for name in ("report.html", "tables.tex", "scores.csv", "compare.tex", "tiepoint-store/tiepoint.sqlite"):
        assert (worked / name).stat().st_size > 0, name


def test_nothing_was_refused_behind_a_caught_error(worked: Path) -> None:
    log = worked / "refused.log"
    assert (log.read_text(encoding="utf-8") if log.exists() else "") == ""


def test_names_of_files_are_names_everywhere(worked: Path) -> None:
    """No name that Windows refuses, no two that differ in case only, no path that is too long for it."""
    made = [p.relative_to(worked).as_posix() for p in worked.rglob("*")]
    assert len(made) > 100
    assert [n for n in made if FORBIDDEN & set(n) or any(part[-1] in ". " for part in n.split("/"))] == []
    assert len({n.casefold() for n in made}) == len(made)
    assert max(map(len, made)) < 160


def test_text_has_line_feeds_alone(worked: Path) -> None:
    texts = [p for p in worked.rglob("*") if p.suffix in (".json", ".html", ".tex", ".csv", ".txt")]
    assert len(texts) > 20
    assert [p.name for p in texts if b"\r\n" in p.read_bytes()] == []


def test_no_temporary_is_left(worked: Path) -> None:
    assert list((worked / "tiepoint-store").rglob(".tmp*")) == []
