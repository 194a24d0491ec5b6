# SPDX-License-Identifier: BSD-3-Clause
"""A case of stored runs made again, and what is said where features, dataset or method are gone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from report_world import SCENE, make_patches

import tiepoint as tp
from tiepoint.core.errors import InputError, UnknownNameError
from tiepoint.report import case_detail as rooms
from tiepoint.report.case_detail import detail, picture
from tiepoint.report.case_order import cases_of, orders, scored_scenes
from tiepoint.report.runs.lazy_records import lazy_run
from tiepoint.run.result import Run
from tiepoint.store.run_queries import load_runs
from tiepoint.store.store import Store

ODD = f"v_{SCENE}"
METHODS = ("resize", "meanstd")


class Mine:
    """A descriptor of a session."""

    def describe(self, patches: np.ndarray) -> np.ndarray:
        return patches[:, ::5, ::5].reshape(len(patches), -1).astype(np.float32)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Patches, and a store of two methods, one of them with failed rows allowed, and an object."""
    tmp_path = tmp_path_factory.mktemp("atlas")
    data = make_patches(tmp_path, ["i_a", "v_b", ODD])
    store = tmp_path / "store"
    for method, on_bad in zip(METHODS, ("error", "miss"), strict=True):
        tp.evaluate(
            method, task="hpatches-v1/matching", data=data, tasks=tmp_path, on_bad=on_bad, store=store
        )
    tp.evaluate(Mine(), task="hpatches-v1/matching", data=data, tasks=tmp_path, store=store)
    return tmp_path


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """No run stays open from one test to the next."""
    yield
    rooms._reopened.cache_clear()
    rooms._shared.cache_clear()


def runs_of(world: Path) -> dict[str, Run]:
    store = Store.open(world / "store", mode="read")
    return {r.method: lazy_run(r, store) for r in load_runs(store)}


def test_scenes_have_the_means_of_the_headline_score(world: Path) -> None:
    run = runs_of(world)["resize"]
    found = {row.scene: row for row in scored_scenes(run)}
    assert set(found) == {"i_a", "v_b", ODD}
    for name, row in found.items():
        assert row.value == pytest.approx(run.value("ap", f"scene={name}"))
        assert row.kind == name[0]
    assert scored_scenes(run, "no such protocol") == []


def test_every_case_of_two_methods(world: Path) -> None:
    runs = runs_of(world)
    two = [runs[m] for m in METHODS]
    for scene in ("i_a", ODD):
        found = orders(two[0], two[1], scene)
        assert found is not None
        assert len(found) == 24
        for row in found.page(0, 99):
            case = detail(two, scene, row.key)
            assert case is not None
            assert (case.kind, case.label, case.missing) == ("query", row.label, "")
            assert tuple(v.score for v in case.views) == row.scores
            assert tuple(v.confidence for v in case.views) == row.confidence
            for view in case.views:
                assert view.missing == ""
                assert view.answered is not None
                assert view.answered.score == pytest.approx(view.score)
                assert view.answered.query == case.query
            strip = np.asarray(Image.open(world / "patches" / scene / "ref.png")).reshape(-1, 20, 20)
            shown = picture(case, case.query)
            assert shown is not None
            assert np.array_equal(shown, strip[int(case.query.partition("#")[2])])
            assert all(picture(case, right) is not None for right in case.right)


def test_warming_up_opens_nothing_and_may_be_repeated() -> None:
    rooms.warm_up()
    rooms.warm_up()
    assert rooms._reopened.cache_info().currsize == 0


def test_pictures_that_are_not_there(world: Path) -> None:
    case = detail([runs_of(world)["resize"]], "i_a", "0")
    assert case is not None
    for odd in (
        "i_a/ref#999",
        "nothing/ref#0",
        "../../etc/passwd#0",
        "i_a/ref#x",
        "i_a/ref@nan,1",
        "i_a/ref@1,2,3",
        "",
    ):
        assert picture(case, odd) is None


def test_unknown_scenes_keys_and_orders(world: Path) -> None:
    runs = runs_of(world)
    one = runs["resize"]
    assert detail([one], "nothing", "0") is None
    assert detail([one], "i_a", "<script>") is None
    assert detail([one], "i_a", str(1 << 33)) is None
    assert cases_of(one, "nothing") is None
    assert orders(one, None, "nothing") is None
    with pytest.raises(UnknownNameError, match="disagreement"):
        orders(one, None, "i_a", "disagreements")  # type: ignore[arg-type]
    other = replace(one, stored=replace(one.stored, task="hpatches/matching"))
    with pytest.raises(InputError, match="different tasks"):
        orders(one, other, "i_a")


def test_without_features_the_case_says_what_makes_them(world: Path, tmp_path: Path) -> None:
    shutil.copytree(world / "store", tmp_path / "store", ignore=shutil.ignore_patterns("features"))
    case = detail(list(runs_of(tmp_path).values()), "i_a", "3")
    assert case is not None
    assert (case.kind, case.missing) == ("query", "")
    assert picture(case, case.query) is not None
    assert len(case.right) == 1
    for view in case.views:
        assert view.score is not None
        assert view.answered is None
        said = (
            "a Python object as method"
            if view.run.method == "Mine"
            else f"rerun {view.run.method} on hpatches-v1/m"
        )
        assert said in view.missing


def test_a_dataset_that_was_moved_is_found_where_it_is_said_to_be(world: Path) -> None:
    runs = [runs_of(world)[m] for m in METHODS]
    (world / "patches").rename(world / "elsewhere")
    try:
        check_moved(world, runs)
    finally:
        (world / "elsewhere").rename(world / "patches")


def check_moved(world: Path, runs: list[Run]) -> None:
    gone = detail(runs, "i_a", "3")
    assert gone is not None
    assert (gone.kind, gone.query, gone.opened) == ("unknown", "", None)
    assert "is missing at" in gone.missing
    assert picture(gone, "i_a/ref#3") is None
    assert all("is missing at" in view.missing and view.score is not None for view in gone.views)
    found = detail(runs, "i_a", "3", data=world / "elsewhere")
    assert found is not None
    assert found.missing == ""
    assert all(view.answered is not None for view in found.views)


def test_a_dataset_that_has_changed_is_not_shown(world: Path) -> None:
    path = world / "patches" / "v_b" / "e1.png"
    kept = path.read_bytes()
    Image.fromarray(255 - np.array(Image.open(path))).save(path)
    try:
        case = detail([runs_of(world)["resize"]], "i_a", "3")
    finally:
        path.write_bytes(kept)
    assert case is not None
    assert "has changed" in case.missing
    assert picture(case, "i_a/ref#3") is None


def test_a_run_of_no_store_and_a_damaged_feature(world: Path, tmp_path: Path) -> None:
    shutil.copytree(world / "store", tmp_path / "store")
    one = runs_of(tmp_path)["resize"]
    loose = detail([replace(one, root=None)], "i_a", "3")
    assert loose is not None
    assert "not in a store" in loose.views[0].missing
    for path in (tmp_path / "store" / "features").rglob("values.npy"):
        path.write_bytes(b"not an array")
    case = detail([one], "i_a", "3")
    assert case is not None
    assert "cannot read features" in case.views[0].missing
