# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of a stored run: matches from the cache, true errors, and what is said where something is gone."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiepoint.cli.main import run as command
from tiepoint.core.errors import InputError
from tiepoint.report.galleries import match_gallery, pair_gallery
from tiepoint.report.html_page import render_page
from tiepoint.report.pictures.matches import RunPairs
from tiepoint.report.runs.sections import sections
from tiepoint.run.engine import evaluate
from tiepoint.run.request import RunRequest
from tiepoint.run.result import Run
from tiepoint.store.store import Store


def show(run: Run, tmp_path: Path, pair: str, *more: str) -> tuple[int, Path]:
    out = tmp_path / "out.png"
    return command(
        ["pairs", "show", run.id, pair, "--out", str(out), "--store", str(tmp_path / "s"), *more]
    ), out


def test_errors_are_those_of_the_true_cameras(runs: list[Run]) -> None:
    found = RunPairs(runs[0]).matches("room/a--b")
    # The camera moved along its rows: a match is as far from its lines as its rows differ.
    assert found.errors_px is not None
    assert np.allclose(found.errors_px, np.abs(found.points0[:, 1] - found.points1[:, 1]), atol=1e-9)
    assert 0.05 < found.errors_px.mean() < 0.15


def test_the_command_draws_and_counts(runs: list[Run], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    code, out = show(runs[0], tmp_path, "room-a--b", "--max", "20", "--lines", "3")
    assert code == 0
    said = capsys.readouterr().out
    n = len(RunPairs(runs[0]).matches("room/a--b"))
    assert said.startswith(f"room/a--b: {n} matches ({n} below 1 px, 0 1 to 3 px")
    with Image.open(out) as picture:
        assert picture.width == 2 * 720 + 8


def test_caption_names_pair_method_and_scores(runs: list[Run]) -> None:
    first, second, third = RunPairs(runs[0]).caption("room/a--c")
    assert first == "room/a--c"
    assert second == f"oracle?noise_px=0.1 on pose/relative, run {runs[0].id}"
    share = {s["group"]: s["value"] for s in runs[0].rows() if s["metric"] == "auc"}["all"]
    assert third.startswith("pose error ")
    assert "score of this pair" in third
    assert third.endswith(f"auc @10° of the run under exact {100 * share:.2f} %")


def test_reading_needs_no_right_to_write(runs: list[Run], tmp_path: Path) -> None:
    before = sorted(p for p in (tmp_path / "s").rglob("*") if p.is_file())
    times = [p.stat().st_mtime_ns for p in before]
    folders = [tmp_path / "s", *(p for p in (tmp_path / "s").rglob("*") if p.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        assert show(runs[0], tmp_path, "room/a--b")[0] == 0
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert sorted(p for p in (tmp_path / "s").rglob("*") if p.is_file()) == before
    assert [p.stat().st_mtime_ns for p in before] == times


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pair", "more", "words"),
    [
        ("room/a--d", (), "did you mean 'room/a--b' or 'room/a--c'?"),
        ("room/a--b", ("--points", "0,9999"), "has no match 9999; its matches are numbered from 0 to"),
        ("room/a--b", ("--points", "0", "--lines", "2"), "--lines and --points both select matches"),
        ("room/a--b", ("--points", "one"), "--points 'one': not a list of integers"),
        ("room/a--b", ("--max", "0"), "--max"),
    ],
)
def test_wrong_wishes_are_one_sentence(
    runs: list[Run], tmp_path: Path, capsys: pytest.CaptureFixture, pair: str, more: tuple[str], words: str
) -> None:
    code, out = show(runs[0], tmp_path, pair, *more)
    assert code == 2
    assert words in capsys.readouterr().err
    assert not out.exists()


def test_what_is_gone_is_named(
    runs: list[Run], pairs_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    image = pairs_file.parent / "c.png"
    image.rename(image.with_name("away.png"))
    assert show(runs[0], tmp_path, "room/a--b")[0] == 2
    told = capsys.readouterr().err
    assert f"{image} is missing" in told
    assert "on pose/relative first" in told
    image.with_name("away.png").rename(image)
    shutil.rmtree(tmp_path / "s" / "features")
    assert show(runs[0], tmp_path, "room/a--b")[0] == 2
    assert "the features of room/a--b of run" in capsys.readouterr().err
    pairs_file.parent.rename(tmp_path / "moved")
    assert show(runs[0], tmp_path, "room/a--b")[0] == 2
    assert f"is missing at {pairs_file}" in capsys.readouterr().err


def test_pairs_without_images_are_drawn_on_grey(pairs_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("poselib", reason="poses are estimated by PoseLib")
    for name in ("a", "b", "c"):
        os.remove(pairs_file.parent / f"{name}.png")
    folder = tmp_path / "matches"
    folder.mkdir()
    points = np.random.default_rng(0).random((20, 2)) * [70, 55]
    moved = points + np.array([4.0, 2.0])
    for entry in json.loads(pairs_file.read_text()):
        np.savez(folder / f"{entry['name'].replace('/', '-')}.npz", points0=points, points1=moved)
    with Store.open(tmp_path / "s") as store:
        run = evaluate(RunRequest(f"files:{folder}", "pose/relative", pairs_file, ("exact",)), store)
    found = RunPairs(run).matches("room/a--b")
    assert found.images == (None, None)
    assert found.errors_px is not None
    assert np.allclose(found.errors_px, 2.0)
    assert show(run, tmp_path, "room/a--b")[0] == 0


class Nothing:
    """A method of a session: it has no name that could be looked up again."""

    name = "nothing"

    def match(self, image1: np.ndarray, image2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.empty((0, 2)), np.empty((0, 2))


def test_runs_that_cannot_be_drawn_say_why(runs: list[Run], pairs_file: Path, tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        run = evaluate(RunRequest(Nothing(), "pose/relative", pairs_file, ("exact",)), store)
    with pytest.raises(InputError, match="a Python object as method"):
        RunPairs(run)


def test_the_gallery_draws_the_matches_of_the_worst_pairs(runs: list[Run], tmp_path: Path) -> None:
    (section,) = sections(runs)
    found = match_gallery(section)
    assert found is not None, "SIFT finds nothing in noise"
    assert {m["caption"].split(":")[0] for m in found["misses"]} == {"room/a--b", "room/a--c"}
    assert [p["label"] for p in found["misses"][0]["pictures"]] == ["sift?max_features=50&matcher=mnn"]
    assert "matches within 3 px" in found["misses"][0]["pictures"][0]["what"]
    page = render_page(runs, title="t")
    assert 'class="gallery pairs matches"' in page
    assert page == render_page(runs, title="t")
    shutil.rmtree(tmp_path / "s" / "features")
    assert match_gallery(section) is None
    plain = pair_gallery(section)
    assert plain is not None, "without features both images are shown"
    assert [p["label"] for p in plain["misses"][0]["pictures"]] == ["image 1", "image 2"]


def test_pairs_show_method_name_draws_newest_and_says_so(
    runs: list[Run], pairs_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["room/a--b", "--out", str(tmp_path / "out.png"), "--store", str(tmp_path / "s")]
    assert command(["pairs", "show", runs[1].method, *given]) == 0
    assert "newest of" not in capsys.readouterr().err
    with Store.open(tmp_path / "s") as store:
        options = {"seeds": 2}
        newer = evaluate(
            RunRequest("sift?max_features=50", "pose/relative", pairs_file, ("exact",), options), store
        )
    assert newer.method == runs[1].method
    assert command(["pairs", "show", newer.method, *given]) == 0
    said = capsys.readouterr().err
    assert f"this is the newest of 2 runs of {newer.method}" in said
    assert newer.id in said.partition("older:")[0]
    assert runs[1].id in said.partition("older:")[2]
