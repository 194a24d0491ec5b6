# SPDX-License-Identifier: BSD-3-Clause
"""The pairs that dense methods get wrong stand in the report with their pictures."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiepoint.formats.flow.flo import write_flo
from tiepoint.formats.image.mask import write_mask
from tiepoint.report.galleries import pair_gallery
from tiepoint.report.html_page import render_page
from tiepoint.report.runs.sections import sections
from tiepoint.run.engine import evaluate
from tiepoint.run.request import RunRequest
from tiepoint.run.result import Run
from tiepoint.store.store import Store


class Shifts:
    """A method that moves everything by a fixed number of pixels to the right."""

    def __init__(self, name: str, by: float) -> None:
        self.name, self.by = name, by

    def match(self, image1: np.ndarray, image2: np.ndarray) -> np.ndarray:
        return np.full((*image1.shape[:2], 2), [self.by, 0.0])


def make_pairs(root: Path, moves: dict[str, float]) -> Path:
    rng = np.random.default_rng(0)
    for name, move in moves.items():
        folder = root / "S" / name
        folder.mkdir(parents=True)
        for i in (1, 2):
            image = rng.integers(0, 256, (40, 60, 3)).astype(np.uint8)
            Image.fromarray(image).save(folder / f"image{i}.png")
            write_flo(folder / f"flow{i}.flo", np.full((40, 60, 2), [move if i == 1 else -move, 0.0]))
            write_mask(folder / f"mask{i}.png", np.ones((40, 60), bool))
    return root


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    data = make_pairs(tmp_path / "data", {"near": 0.0, "far": 25.0, "half": 12.0})
    with Store.open(tmp_path / "s") as store:
        return [
            evaluate(RunRequest(Shifts(name, by), "tss", data, ("exact",)), store)
            for name, by in (("still", 0.0), ("right", 12.0))
        ]


def test_hardest_pairs_come_first_with_what_each_method_got(runs: list[Run]) -> None:
    (section,) = sections(runs)
    found = pair_gallery(section)
    assert found is not None
    captions = [m["caption"] for m in found["misses"]]
    # T5 is 3 px here, both directions: `right` moves both images to the right, so it is right in one.
    assert captions == [
        "S/far: right 0.0 %, still 0.0 %",
        "S/half: right 50.0 %, still 0.0 %",
        "S/near: still 100.0 %, right 0.0 %",
    ]
    labels = [p["label"] for p in found["misses"][0]["pictures"]]
    assert labels == ["image 1", "image 2", "true flow of image 1"]
    _, _, content = found["misses"][0]["pictures"][0]["source"].partition("base64,")
    assert Image.open(io.BytesIO(base64.b64decode(content))).size == (240, 160)
    for miss in found["misses"]:
        for picture in miss["pictures"]:
            assert len(base64.b64decode(picture["source"].partition("base64,")[2])) <= 15_000


def test_flow_sheet_has_images_truth_estimate_and_error(tmp_path: Path) -> None:
    data = make_pairs(tmp_path / "data", {"far": 25.0})
    with Store.open(tmp_path / "s") as store:
        (section,) = sections([evaluate(RunRequest("zero", "tss", data, ("exact",)), store)])
    found = pair_gallery(section)
    assert found is not None
    assert "white from 5 % of the target's larger side" in found["note"]
    pictures = {p["label"]: p["source"].partition("base64,")[2] for p in found["misses"][0]["pictures"]}
    assert list(pictures) == ["image 1", "image 2", "true flow of image 1", "flow of zero", "error of zero"]
    drawn = {k: np.asarray(Image.open(io.BytesIO(base64.b64decode(v)))) for k, v in pictures.items()}
    assert drawn["flow of zero"].min() > 240  # no motion is white
    assert drawn["error of zero"].min() > 240  # 25 px are more than 5 % of 60 px
    assert drawn["true flow of image 1"].std() > 20


def test_a_pair_nobody_misses_is_left_out(tmp_path: Path) -> None:
    data = make_pairs(tmp_path / "data", {"near": 0.0, "far": 25.0})
    with Store.open(tmp_path / "s") as store:
        (section,) = sections([evaluate(RunRequest(Shifts("still", 0.0), "tss", data, ("exact",)), store)])
    found = pair_gallery(section)
    assert found is not None
    assert [m["caption"] for m in found["misses"]] == ["S/far: still 0.0 %"]
    assert found["note"].startswith("The 1 of 2 pairs")


def test_the_page_shows_them(runs: list[Run]) -> None:
    page = render_page(runs, title="t")
    assert 'class="failures"' in page
    assert "S/far: right 0.0 %" in page
    assert page == render_page(runs, title="t")


def test_no_gallery_without_the_dataset(runs: list[Run], tmp_path: Path) -> None:
    (tmp_path / "data").rename(tmp_path / "moved")
    (section,) = sections(runs)
    assert pair_gallery(section) is None


@pytest.mark.parametrize("task", ["dense/flow", "dense/pck"])
def test_other_dense_tasks_name_their_pairs(tmp_path: Path, task: str) -> None:
    data = make_pairs(tmp_path / "data", {"half": 12.0})
    points = np.array([[x, y, x + 12, y] for x, y in ((10, 10), (20, 30), (40, 25))])
    np.savetxt(data / "S" / "half" / "corr.txt", (points + 1) / [60, 40, 60, 40])
    with Store.open(tmp_path / "s") as store:
        run = evaluate(RunRequest(Shifts("right", 12.0), task, data, ("exact",)), store)
    (section,) = sections([run])
    found = pair_gallery(section)
    assert found is not None
    assert found["misses"][0]["caption"] == "S/half: right 50.0 %"
