# SPDX-License-Identifier: BSD-3-Clause
"""The requests of the demo: poses with and without PoseLib, and what is timed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiepoint.cli.main import run as command
from tiepoint.core.errors import InputError
from tiepoint.run import demo
from tiepoint.store.store import Store

MISSING = "this estimator needs PoseLib 2.0: pip install 'tiepoint[pose]'"


def pose_requests() -> list[demo.RunRequest]:
    return demo.demo_requests(Path("x"), "pairs")


def without_poselib(name: str) -> None:
    raise InputError(MISSING)


def test_a_keypoint_method_and_a_matcher_of_pairs_run_on_the_stereo_pair() -> None:
    pytest.importorskip("poselib", reason="poses are estimated by PoseLib")
    asked = pose_requests()
    assert [str(r.method).partition("?")[0] for r in asked] == ["sift", "klt"]
    assert all(r.protocols[0] == "exact" and not r.options for r in asked)
    assert demo.lacking() is None


def test_without_poselib_the_extra_is_named_and_the_demo_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr(demo, "import_library", without_poselib)
    assert [r.options for r in pose_requests()] == [{"estimator": "opencv"}] * 2
    gone_on = []

    def stand_in(out: Path, **_more: object) -> tuple[list[object], Path]:
        gone_on.append(out)
        raise InputError("this is where the stand-in ends")

    monkeypatch.setattr(demo, "run_demo", stand_in)
    assert command(["demo", "--out", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert f"warning: {MISSING}; the demo estimates poses by OpenCV instead" in told
    assert gone_on == [tmp_path]


def test_each_method_of_a_step_is_timed_on_one_task() -> None:
    for step in ("patches", "keypoints", "pairs", "dense"):
        requests = demo.demo_requests(Path("x"), step)
        timed = [r.method for r in requests if r.time]
        assert timed == list(dict.fromkeys(r.method for r in requests))
        assert {r.task for r in requests if r.time} == {requests[0].task}
        assert all(r.timed_items == demo.TIMED_ITEMS for r in requests)


@pytest.mark.parametrize(("jobs", "times"), [(1, {True, False}), (2, {False})])
def test_runs_that_the_streams_stored_are_not_timed_again(
    jobs: int, times: set[bool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[demo.RunRequest] = []

    def evaluate(request: demo.RunRequest, _store: Store) -> None:
        asked.append(request)

    monkeypatch.setattr(demo, "_make", lambda *_given: None)
    monkeypatch.setattr(demo, "_run_streams", lambda *_given: None)
    monkeypatch.setattr(demo, "evaluate", evaluate)
    demo.run_demo(tmp_path, jobs=jobs)
    assert {r.time for r in asked} == times
