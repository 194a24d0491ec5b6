# SPDX-License-Identifier: BSD-3-Clause
"""Lists of cases have small pictures of every family, loaded lazily, with pose errors and match counts."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from visitors import visitor
from world import FAMILIES, make_store

pytest.importorskip("starlette", reason="the extra [serve] is not installed")
pytest.importorskip("cv2", reason="keypoints and flows are OpenCV's")
from tiepoint.report import case_detail
from tiepoint.serve.app import application
from tiepoint.serve.run_index import RunIndex
from tiepoint.store.store import Store

pytestmark = pytest.mark.slow

SCENES = {"patches": "i_a", "keypoints": "v_two", "pairs": "room", "dense": "S/far"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("thumbs")
    make_store(made)
    return made


@pytest.fixture(scope="module")
def shelves(root: Path) -> Iterator[RunIndex]:
    with Store.open(root / "store", mode="read") as store:
        yield RunIndex(store, cache=root / "cache", wait_s=600)


@pytest.fixture(scope="module")
def client(shelves: RunIndex) -> Any:
    return visitor(application(shelves))


def methods(shelves: RunIndex, family: str) -> tuple[Any, Any]:
    section = next(s for s in shelves.snapshot().sections if s.task == FAMILIES[family])
    return section.methods[0], section.methods[1]


def images(text: str) -> list[str]:
    """Return the addresses of all pictures of a page, each loaded lazily."""
    found = re.findall(r"<img [^>]*>", text)
    assert all('loading="lazy"' in tag for tag in found)
    return [unescape(re.search(r'src="([^"]*)"', tag)[1]) for tag in found]  # type: ignore[index]


@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize("page", ["scene", "two"])
def test_lists_of_cases_have_thumbnails_of_at_most_15_kb(
    client: Any, shelves: RunIndex, family: str, page: str
) -> None:
    first, second = methods(shelves, family)
    path = (
        f"/two/{first.id}/{second.id}" if page == "two" else f"/scene/{first.id},{second.id}/{SCENES[family]}"
    )
    text = client.get(path).text
    sources = images(text)
    cases = (
        text.count('<figure class="pair-case"') if page == "two" else text.count('<tr><td class="num dim">')
    )
    assert len(sources) == 3 * cases
    assert cases > 0 or page == "two"
    for source in sources:
        answer = client.get(source)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "image/webp"
        assert len(answer.content) <= 15_000
        assert Image.open(io.BytesIO(answer.content)).height > 20


def test_pose_cases_have_errors_in_degrees_and_match_counts(client: Any, shelves: RunIndex) -> None:
    first, second = methods(shelves, "pairs")
    text = unescape(client.get(f"/scene/{first.id},{second.id}/room").text)
    told = re.findall(r"<small>pose error ([0-9.]+)° \([^)]*\)[^;<]*; ([0-9,]+) match(?:es)?</small>", text)
    assert len(told) + text.count("<small>no pose;") == 4
    assert told
    for run in (first, second):
        for by in run.unit_records.values():
            (records,) = [by[c] for c in by]
            assert f"; {records.meta['matches']:,} match" in text


def test_keypoint_cases_have_match_counts(client: Any, shelves: RunIndex) -> None:
    first, second = methods(shelves, "keypoints")
    text = client.get(f"/scene/{first.id},{second.id}/v_two").text
    counts = re.findall(r"<small>([0-9,]+) match(?:es)?</small>", text)
    (records,) = first.unit_records["v_two"].values()
    assert sorted(counts[0::2]) == sorted(f"{int(n):,}" for n in records["putative_mutual"])


def test_flow_sheet_is_image_1_image_2_truth_estimate_and_error(
    client: Any, shelves: RunIndex, root: Path
) -> None:
    first, second = methods(shelves, "dense")
    sources = images(client.get(f"/scene/{first.id},{second.id}/S/far").text)
    pictures = [np.asarray(Image.open(io.BytesIO(client.get(s).content)).convert("RGB")) for s in sources[:3]]
    # Pictures of 100 x 60 pixels become 160 pixels high: three of them, then two for each method.
    assert [p.shape[1] for p in pictures] == [3 * 267 + 8, 2 * 267 + 4, 2 * 267 + 4]
    own = np.asarray(Image.open(root / "dense" / "S" / "far" / "image1.png").resize((267, 160), 0))
    assert np.abs(pictures[0][:, :267].astype(float) - own).mean() < 12


def test_missing_dataset_is_stated_once_without_broken_pictures(root: Path, tmp_path: Path) -> None:
    place = shutil.copytree(root / "store", tmp_path / "store")
    (root / "dense").rename(root / "moved")
    case_detail._reopened.cache_clear()
    try:
        with Store.open(place, mode="read") as store:
            library = RunIndex(store, cache=tmp_path / "cache", wait_s=600)
            here = visitor(application(library))
            first, second = methods(library, "dense")
            for path in (f"/scene/{first.id},{second.id}/S/far", f"/two/{first.id}/{second.id}"):
                text = here.get(path).text
                assert images(text) == []
                assert text.count("No pictures:") == 1
    finally:
        (root / "moved").rename(root / "dense")
        case_detail._reopened.cache_clear()
