"""The first run on a dataset compares its ground truth with matches; later runs reuse the result."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from tiepoint.cli.main import run as cli
from tiepoint.datasets.demo.dataset import make_demo
from tiepoint.datasets.validation import match_votes, truth_check
from tiepoint.datasets.validation.truth_check import NO_OPENCV, TruthReport
from tiepoint.run import engine
from tiepoint.run.request import RunRequest
from tiepoint.run.result import Run
from tiepoint.store.store import Store

pytest.importorskip("cv2", reason="OpenCV is not installed")
pytest.importorskip("skimage", reason="scikit-image is not installed")
DOUBT = "the inverse of the given homography"


@pytest.fixture(scope="module")
def true_sequences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_demo(tmp_path_factory.mktemp("demo"), scenes=("v_astronaut", "v_camera")).sequences


@pytest.fixture
def sequences(true_sequences: Path, tmp_path: Path) -> Path:
    """Sequences with inverted homographies."""
    root = Path(shutil.copytree(true_sequences, tmp_path / "sequences"))
    for file in root.glob("*/H_1_*"):
        np.savetxt(file, np.linalg.inv(np.loadtxt(file)))
    return root


def evaluate(data: Path, root: Path, method: str = "sift", task: str = "keypoints/matching") -> Run:
    with Store.open(root) as store:
        return engine.evaluate(RunRequest(method, task, data, (), {}, {}, 1), store)


def doubts(run: Run) -> int:
    return sum(DOUBT in warning for warning in run.warnings)


@pytest.mark.parametrize("task", ["keypoints/matching", "dense/flow"])
def test_evaluate_inverted_homographies_warns(task: str, sequences: Path, tmp_path: Path) -> None:
    method = "dis" if task == "dense/flow" else "sift"
    run = evaluate(sequences, tmp_path / "store", method, task)
    assert doubts(run) == 1
    assert doubts(evaluate(sequences, tmp_path / "store", method, task)) == 1  # the stored run
    assert sum(DOUBT in warning for warning in run.manifest.warnings) == 1


def test_evaluate_true_homographies_warns_not(true_sequences: Path, tmp_path: Path) -> None:
    assert evaluate(true_sequences, tmp_path / "store").warnings == []


def test_evaluate_second_method_matches_nothing(
    sequences: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate(sequences, tmp_path / "store")
    monkeypatch.setattr(match_votes, "_count", lambda *_: pytest.fail("matched again"))
    assert doubts(evaluate(sequences, tmp_path / "store", "orb")) == 1
    assert doubts(evaluate(sequences, tmp_path / "store", "sift", "keypoints/images")) == 1


def test_evaluate_changed_homography_matches_again(true_sequences: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(true_sequences, tmp_path / "sequences"))
    assert doubts(evaluate(root, tmp_path / "store")) == 0
    for file in root.glob("*/H_1_*"):
        np.savetxt(file, np.linalg.inv(np.loadtxt(file)))
    assert doubts(evaluate(root, tmp_path / "store")) == 1


def test_evaluate_check_changes_no_score(
    sequences: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = evaluate(sequences, tmp_path / "one")
    monkeypatch.setattr(truth_check, "check_ground_truth", lambda *_: TruthReport())
    plain = evaluate(sequences, tmp_path / "two")
    assert checked.id == plain.id
    assert checked.manifest.units == plain.manifest.units
    assert checked.rows() == plain.rows()
    assert doubts(plain) == 0


def test_evaluate_without_opencv_reports_once(
    sequences: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    said: list[str] = []
    request = RunRequest("constant", "keypoints/matching", sequences, (), {}, {}, 1)
    with Store.open(tmp_path / "store") as store:
        run = engine.evaluate(request, store, report=said.append)
    assert said == [NO_OPENCV]
    assert doubts(run) == 0


def test_run_json_lists_warning_and_dry_run_does_not_check(
    sequences: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["run", "sift", "--task", "keypoints/matching", "--data", str(sequences), "--json"]
    words += ["--store", str(tmp_path / "store")]
    with monkeypatch.context() as patch:
        patch.setattr(match_votes, "_count", lambda *_: pytest.fail("a dry run matches nothing"))
        assert cli([*words, "--dry-run"]) == 0
    capsys.readouterr()
    assert cli(words) == 0
    printed = json.loads(capsys.readouterr().out)
    assert sum(DOUBT in warning for warning in printed["warnings"]) == 1
