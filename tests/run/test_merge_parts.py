"""Merging runs of parts gives the run of the whole, in any order and grouping."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import tiepoint as tp
from tiepoint.core.errors import InputError


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("merge")
    rng = np.random.default_rng(3)
    (root / "tasks").mkdir()
    for s in range(6):
        folder = root / "patches" / f"v_s{s}"
        folder.mkdir(parents=True)
        base = rng.uniform(0, 255, (15, 16, 16))
        for name, noise in (("ref", 0), ("e1", 70)):
            strip = np.clip(base + rng.normal(0, noise, base.shape), 0, 255).astype(np.uint8)
            Image.fromarray(strip.reshape(-1, 16)).save(folder / f"{name}.png")
        (root / "tasks" / f"b{s}.benchmark").write_text(f"v_s{s}.ref,v_s{s}.e1\n")
    return root


def evaluate(world: Path, *benchmarks: str, method: str = "pixels") -> tp.api.Run:  # type: ignore[name-defined]
    return tp.evaluate(
        method,
        task="hpatches-v1/matching",
        data=world / "patches",
        tasks=world / "tasks",
        benchmark=list(benchmarks),
        store=world / "store",
        protocol=["exact", "hbench-2016"],
    )


def test_merging_is_associative_commutative_and_equals_the_whole(world: Path) -> None:
    a, b, c = evaluate(world, "b0", "b1"), evaluate(world, "b2"), evaluate(world, "b3", "b4", "b5")
    whole = evaluate(world, "b*")
    left = tp.merge([tp.merge([a, b]), c])
    right = tp.merge([a, tp.merge([b, c])])
    swapped = tp.merge([c, b, a])
    assert left.rows() == right.rows() == swapped.rows()
    assert left.id == right.id == swapped.id
    scores = [
        {(s["protocol"], s["metric"], s["group"]): s | {"run": ""} for s in r.rows()} for r in (left, whole)
    ]
    assert scores[0] == scores[1]
    assert tp.merge([a, a]).rows() == tp.merge([a]).rows()


def test_different_methods_are_not_merged(world: Path) -> None:
    with pytest.raises(InputError, match="different method"):
        tp.merge([evaluate(world, "b0"), evaluate(world, "b1", method="resize")])
    with pytest.raises(InputError, match="at least one"):
        tp.merge([])


def test_compare_takes_runs_and_names(world: Path) -> None:
    run = evaluate(world, "b*")
    evaluate(world, "b*", method="meanstd")
    comparison = tp.compare([run, "meanstd"], task="hpatches-v1/matching", store=world / "store")
    assert comparison.rows[0].method == "pixels"
    assert {"method", "value"} <= set(comparison.to_frame().columns)
    with pytest.raises(InputError, match="lists differ"):
        tp.compare([run, evaluate(world, "b0", method="meanstd")], task="hpatches-v1/matching")


def test_load_finds_runs_again(world: Path) -> None:
    run = evaluate(world, "b*")
    again = tp.load(run.id, store=world / "store")
    assert not isinstance(again, list)
    assert again.rows() == run.rows()
    assert len(again.records) == len(run.records) > 0
