# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint choose``: table, sentences, JSON, page with pictures, exit codes, command of the leader."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from choose_golden import texture, view, write_photos
from tiepoint.cli.main import run as tiepoint
from tiepoint.formats.image.reader import write_image

pytest.importorskip("cv2")
pytest.importorskip("poselib")

SIFT, BRIEF = "sift?ratio=0.8", "brief@fast?ratio=0.8"
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with four views of one scene and a store."""
    root = tmp_path_factory.mktemp("choose-cli")
    write_photos(root / "photos")
    return root


def line(place: Path, *more: str) -> list[str]:
    return ["choose", SIFT, BRIEF, "--images", str(place / "photos"), "--store", str(place / "store"), *more]


def test_choose_prints_table_sentence_and_command(place: Path, capsys: Captured) -> None:
    assert tiepoint(line(place)) == 0
    shown = capsys.readouterr().out
    first, head, leader, other, sentence, command = shown.splitlines()
    assert first == "6 of 6 pairs are confirmed by at least one method."
    assert head.split("  ")[0] == "method"
    assert head.split()[-1] == "s/pair"
    assert re.fullmatch(r"sift\?matcher=mnn&ratio=0.8 +0\.\d\d +6 +0\.\d\d +[\d.e-]+", leader)
    assert re.search(r" (level|behind \(0\.\d\d to 0\.\d\d\)) ", other)
    assert sentence.startswith("Use sift?matcher=mnn&ratio=0.8")
    assert "All candidates are hand-crafted" in sentence
    assert "best " not in sentence.replace("best elsewhere", "")
    parts = shlex.split(command.removeprefix("To run it: "))
    store = str(place / "store")
    assert parts == ["tiepoint", "run", SIFT, "--task", "pose/relative", "--data", "DATA", "--store", store]
    assert tiepoint(["list", "runs", "--store", store]) == 0
    assert "no runs yet" in capsys.readouterr().out
    assert tiepoint(["store", "check", "--store", store]) == 0


def test_choose_json_and_page(place: Path, capsys: Captured, tmp_path: Path) -> None:
    page = tmp_path / "new" / "choice.html"
    assert tiepoint(line(place, "--json", "--out", str(page))) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["leader"] == "sift?matcher=mnn&ratio=0.8"
    assert found["confirmed_pairs"] == found["pairs"] == 6
    assert found["methods"][0]["state"] == "leader"
    assert len(found["by_pair"]) == 6
    assert found["command"].startswith("tiepoint run ")
    html = page.read_text()
    assert html.count("data:image/webp;base64,") == 5 * 2
    assert "Confirmed does not mean correct." in html
    assert "<script" not in html
    spread = {one["pair"]: np.ptp([m["steady"] for m in one["methods"].values()]) for one in found["by_pair"]}
    least = min(spread, key=lambda key: spread[key])
    assert " and ".join(least.split("|")) not in re.findall("<h3>(.*?)</h3>", html)


def test_choose_list_with_poses_prints_complete_command(place: Path, capsys: Captured) -> None:
    K = [[200, 0, 80], [0, 200, 64], [0, 0, 1]]
    T = np.hstack([np.eye(3), [[1], [0], [0]]]).tolist()
    entry = {"image0": "photo1.png", "image1": "photo2.png", "K0": K, "K1": K, "T_0to1": T}
    listed = place / "pairs.json"
    listed.write_text(json.dumps([entry]))
    assert tiepoint(line(place, "--pairs", str(listed))) == 0
    out, err = capsys.readouterr()
    assert "only one pair is confirmed: about 4 points are lost on average" in err
    assert "not known" in out
    parts = shlex.split(out.splitlines()[-1].removeprefix("To run it: "))
    assert tiepoint([*parts[1:], "-q"]) == 0


def test_choose_nothing_confirmed_exit_1(tmp_path: Path, capsys: Captured) -> None:
    for k in range(2):
        write_image(tmp_path / f"{k}.png", view(texture(10 + k), 0))
    arguments = ["choose", SIFT, BRIEF, "--images", str(tmp_path), "--store", str(tmp_path / "store")]
    page = tmp_path / "none.html"
    assert tiepoint([*arguments, "--out", str(page)]) == 1
    nothing = "No method confirms any pair: no overlap, or nothing here works. No choice.\n"
    assert capsys.readouterr().out == nothing
    assert nothing.strip() in page.read_text()
    assert tiepoint([*arguments, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["leader"], found["command"], found["confirmed_pairs"]) == (None, None, 0)


def test_choose_wrong_calls_exit_2(place: Path, capsys: Captured) -> None:
    images = ["--images", str(place / "photos")]
    for arguments, message in (
        (["choose", SIFT, BRIEF], "choose needs --images DIR"),
        (["choose", *images], "at least two methods, found 0"),
        (["choose", SIFT, *images], "at least two methods, found 1"),
        (["choose", SIFT, BRIEF, *images, "--out", "x.pdf"], "choose a name that ends with .html"),
        (["choose", SIFT, BRIEF, *images, "--limit", "0"], "--limit is 0"),
        (["choose", SIFT, BRIEF, "--images", str(place / "nowhere")], "is not a folder"),
        (["choose", SIFT, "dis", *images], "the two methods cannot be ranked"),
    ):
        assert tiepoint([*arguments, "--store", str(place / "other")]) == 2
        assert message in capsys.readouterr().err
