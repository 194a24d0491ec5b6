# SPDX-License-Identifier: BSD-3-Clause
"""Scenes and cases: their order is kept outside the store, pictures come from the dataset wherever it is."""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from report_world import SCENE, Odd, make_patches
from visitors import visitor

pytest.importorskip("starlette", reason="the extra [serve] is not installed")
from tiepoint.report import case_detail as rooms
from tiepoint.report.case_order import orders
from tiepoint.run.engine import evaluate
from tiepoint.run.request import RunRequest
from tiepoint.serve.app import application
from tiepoint.serve.cached_results import order_of
from tiepoint.serve.pictures import evict_oldest
from tiepoint.serve.run_index import RunIndex
from tiepoint.store.store import Store

HARD = f"v_{SCENE}"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A store beside its dataset, which may be moved."""
    data = make_patches(tmp_path / "data", ["i_a", HARD], count=6)
    options = {"tasks": str(tmp_path / "data")}
    with Store.open(tmp_path / "store") as store:
        for method in ("resize", "meanstd", Odd):
            evaluate(RunRequest(method, "hpatches-v1/matching", data, ("exact",), options), store)
    yield tmp_path
    rooms._reopened.cache_clear()
    rooms._shared.cache_clear()


def open_library(place: Path, **how: Any) -> RunIndex:
    return RunIndex(Store.open(place / "store", mode="read"), cache=place / "cache", wait_s=600, **how)


def two_of(library: RunIndex) -> list[Any]:
    by = {r.method: r for r in library.snapshot().runs}
    return [by["resize"], by["meanstd"]]


def links(text: str, start: str) -> list[str]:
    return [unescape(found) for found in re.findall(rf'"({start}[^"]*)"', text)]


def test_orders_are_those_of_the_atlas_and_are_kept(place: Path) -> None:
    library = open_library(place)
    runs = two_of(library)
    for by in ("disagreement", "wrong", "confident"):
        wanted = orders(runs[0], runs[1], HARD, by)
        made = order_of(library, runs, HARD, by)
        assert wanted is not None
        assert made is not None
        assert made.keys.tolist() == wanted.keys[wanted.order].tolist()
        assert made.n_relevant == wanted.n_relevant
        again = order_of(open_library(place), runs, HARD, by)
        assert again is not None
        assert again.keys.tolist() == made.keys.tolist()
        assert np.array_equal(again.scores, made.scores, equal_nan=True)
        assert again.labels == made.labels
    kept = sorted((place / "cache" / "orders").rglob("*.npz"))
    assert len(kept) == 3
    for path in kept:
        path.write_bytes(path.read_bytes()[:100])
    assert order_of(open_library(place), runs, HARD, "wrong") is not None
    assert order_of(library, runs, "do not have this scene", "wrong") is None


def test_pictures_are_those_of_the_dataset_and_have_tags(place: Path) -> None:
    library = open_library(place)
    client = visitor(application(library))
    ids = ",".join(r.id for r in two_of(library))
    text = client.get(f"/case/{ids}/i_a", params={"key": "3"}).text
    sources = links(text, "/picture/")
    assert len(sources) >= 4
    first = client.get(sources[0])
    strip = np.asarray(Image.open(place / "data" / "patches" / "i_a" / "ref.png")).reshape(-1, 20, 20)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(first.content))), strip[3])
    tag = first.headers["etag"]
    assert client.get(sources[0], headers={"if-none-match": tag}).status_code == 304
    assert client.get(f"/picture/{ids}/i_a", params={"key": "3", "part": "../../x"}).status_code == 404


def test_a_moved_dataset_is_found_by_its_content(place: Path) -> None:
    shutil.move(place / "data" / "patches", place / "elsewhere")
    ids = ",".join(r.id for r in two_of(open_library(place)))
    lost = visitor(application(open_library(place)))
    answer = lost.get(f"/case/{ids}/i_a", params={"key": "3"})
    assert answer.status_code == 200
    assert "is missing at" in answer.text
    assert "--data" in answer.text
    assert "no picture" in answer.text or not links(answer.text, "/picture/")
    assert lost.get(f"/scene/{ids}/i_a").status_code == 200
    rooms._reopened.cache_clear()
    rooms._shared.cache_clear()
    found = visitor(application(open_library(place, data=[place / "elsewhere"])))
    text = found.get(f"/case/{ids}/i_a", params={"key": "3"}).text
    assert "--data" not in text
    assert found.get(links(text, "/picture/")[0]).status_code == 200
    (place / "elsewhere" / "i_a" / "ref.png").write_bytes(b"another content")
    rooms._reopened.cache_clear()
    rooms._shared.cache_clear()
    changed = visitor(application(open_library(place, data=[place / "elsewhere"])))
    text = changed.get(f"/case/{ids}/i_a", params={"key": "4"}).text
    assert "no picture" in text or not links(text, "/picture/")


def test_an_object_of_a_session_says_so_and_the_others_are_shown(place: Path) -> None:
    library = open_library(place)
    odd = next(r for r in library.snapshot().runs if r.method not in ("resize", "meanstd"))
    client = visitor(application(library))
    answer = client.get(f"/case/{two_of(library)[0].id},{odd.id}/i_a", params={"key": "3"})
    assert answer.status_code == 200
    assert "session" in answer.text or "rank" in answer.text
    assert "<script>document" not in answer.text
    assert client.get(f"/scene/{odd.id}/{HARD}").status_code in (200, 404)


def test_what_was_kept_longest_gives_way(tmp_path: Path) -> None:
    for i, name in enumerate(("old", "new")):
        path = tmp_path / "pictures" / "aa" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 100)
        os.utime(path, (i, i))
    evict_oldest(tmp_path, most=150)
    assert [p.name for p in (tmp_path / "pictures" / "aa").iterdir()] == ["new"]
