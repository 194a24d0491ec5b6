"""Methods whose features cannot be kept: made once a command, never mixed up, and nothing false is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiepoint.cli.main import run as command
from tiepoint.run import feature_pipeline
from tiepoint.run.engine import evaluate
from tiepoint.run.request import RunRequest
from tiepoint.store.run_queries import load_runs
from tiepoint.store.store import Store

MINE = """
import threading
from pathlib import Path
import numpy as np

LOG = Path(__file__).with_name("log")

class Mine:
    def __init__(self):
        self.lock = threading.Lock()  # nothing that a key can be made of

    def describe(self, patches):
        calls = LOG.read_text() if LOG.exists() else ""
        LOG.write_text(calls + "x")
        if Path(__file__).with_name("stop").exists() and len(calls) == 2:
            raise KeyboardInterrupt
        return patches.reshape(len(patches), -1)[:, :16] + 1.0
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(feature_pipeline, "SHARE", 0.0)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def test_features_are_made_once_a_command(
    mine: Path, patches: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = "hpatches/matching,hpatches/verification"
    asked = ["run", f"{mine / 'mine.py'}:Mine", "--task", tasks, "--data", str(patches)]
    assert command([*asked, "--store", str(mine / "s")]) == 0
    assert "not cached" in capsys.readouterr().err
    # Three sequences of sixteen images. Each task computes its cheapest item again, often the same one.
    assert (mine / "log").read_text() in ("x" * 49, "x" * 50)
    assert not (mine / "s" / "features").exists()
    assert not list((mine / "s").rglob(".tmp-*"))


def test_words_after_an_interrupt_are_true(
    mine: Path, patches: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (mine / "stop").touch()
    asked = ["run", f"{mine / 'mine.py'}:Mine", "--task", "hpatches/matching", "--data", str(patches)]
    assert command([*asked, "--store", str(mine / "s")]) == 130
    assert capsys.readouterr().err == (
        "tiepoint: Interrupted. Finished work is saved; rerun the command to resume. "
        "The features of Mine are not cached and will be computed again.\n"
    )
    assert not list((mine / "s").rglob(".tmp-*"))


def session_class(power: int) -> Any:
    namespace: dict[str, Any] = {"np": np}
    code = (
        "class Here:\n"
        "    def describe(self, patches):\n"
        f"        return (patches.reshape(len(patches), -1)[:, :8] / 255.0) ** {power}\n"
    )
    exec(compile(code, "<session>", "exec"), namespace)
    return namespace["Here"]


def test_a_class_that_was_changed_in_a_session_gets_its_own_scores(mine: Path, patches: Path) -> None:
    fresh = {}
    for power in (1, 9):
        with Store.open(mine / f"fresh{power}") as store:
            run = evaluate(RunRequest(session_class(power)(), "hpatches/matching", patches), store)
            fresh[power] = run.value("map")
    assert fresh[1] != fresh[9]
    with Store.open(mine / "s") as store:
        for power in (1, 9, 1):
            run = evaluate(RunRequest(session_class(power)(), "hpatches/matching", patches), store)
            assert run.value("map") == fresh[power]
        assert len(load_runs(store)) == 2
