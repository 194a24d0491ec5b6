# SPDX-License-Identifier: BSD-3-Clause
"""Cases of the patch tasks: what records say of each agrees with the case made again by plain loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hpatches_v1_world as v1
import hpatches_world as v2
import numpy as np
import pytest

from tiepoint.core.records import Features
from tiepoint.tasks import TASKS
from tiepoint.tasks.cases import Cases, QueryCase

KINDS = {"noisy": "l2", "ties": "l2", "binary": "hamming"}


def distance(a: np.ndarray, b: np.ndarray, name: str) -> float:
    if name == "hamming":
        return float(sum(int(x ^ y).bit_count() for x, y in zip(a.tolist(), b.tolist(), strict=True)))
    return float(np.sqrt(sum((float(x) - float(y)) ** 2 for x, y in zip(a, b, strict=True))))


def failed(descriptors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Some rows of every image are failures."""
    rng = np.random.default_rng(4)
    return {key: rng.random(len(d)) > 0.15 for key, d in descriptors.items()}


def look_up(features: Features, picture: str) -> tuple[np.ndarray, bool]:
    item, _, row = picture.partition("#")
    arrays = features.arrays(item)
    return arrays["values"][int(row)], bool(arrays["valid"][int(row)]) if "valid" in arrays else True


def check_distances(made: QueryCase, features: Features) -> None:
    """Every distance is that of its two pictures, and nothing chosen is nearer than what stands before it."""
    query, good = look_up(features, made.query)
    for answer in (*made.chosen, *made.right):
        other, there = look_up(features, answer.picture)
        if not (good and there):
            assert answer.distance is None
            assert answer.rank is None
            continue
        assert answer.distance == pytest.approx(distance(query, other, features.distance), abs=1e-6)
    near = [a.distance for a in made.chosen]
    assert near == sorted(near)


def check_ranks(made: QueryCase, pool: list[str], features: Features) -> None:
    """Ranks by a plain loop over every candidate; ties share the mean rank."""
    query, good = look_up(features, made.query)
    known = {
        p: distance(query, v, features.distance) for p in pool if (v := look_up(features, p)[0]) is not None
    }
    usable = {p: d for p, d in known.items() if good and look_up(features, p)[1]}
    for answer in (*made.chosen, *made.right):
        if answer.rank is None:
            assert answer.picture not in usable
            continue
        own = usable[answer.picture]
        nearer = sum(d < own - 1e-9 for d in usable.values())
        same = sum(abs(d - own) <= 1e-9 for d in usable.values())
        assert answer.rank == nearer + (same + 1) / 2
    assert len(made.chosen) == min(len(usable), 5)


def every(cases: Cases | None) -> list[tuple[str, float, float | None]]:
    assert cases is not None
    assert len(set(cases.keys.tolist())) == len(cases)
    sure = [None] * len(cases) if cases.confidence is None else cases.confidence.tolist()
    return list(zip(map(str, cases.keys.tolist()), cases.score.tolist(), sure, strict=True))


def made_up(kind: str) -> Features:
    descriptors = v2.make_descriptors(kind)
    valid = failed(descriptors) if kind == "noisy" else None
    return v2.features_of(descriptors, KINDS[kind], valid)


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_nearest_patch_and_the_verdict_of_the_records_agree(kind: str, tmp_path: Path) -> None:
    task, features = TASKS.load("hpatches/matching"), made_up(kind)
    opened, records = v2.run_task(task, v2.make_world(tmp_path), features)
    scene = "v_cat"
    seen = 0
    for key, score, ratio in every(task.cases(records, scene)):
        made, bare = (opened.replay_query(scene, key, f) for f in (features, None))
        assert (made.query, made.right[0].picture) == (bare.query, bare.right[0].picture)
        assert made.score == pytest.approx(score)
        image = made.right[0].picture.partition("#")[0]
        if seen % 7 == 0:
            check_distances(made, features)
            check_ranks(made, [f"{image}#{i}" for i in range(11)], features)
        seen += 1
        if score == 1:
            assert made.chosen[0] == made.right[0]
        if ratio is not None and np.isfinite(ratio) and made.chosen[1].distance:
            assert ratio == pytest.approx(made.chosen[0].distance / made.chosen[1].distance)
    assert seen == 11 * 15
    table = task.cases(records, scene)
    by_scene = v2.value(task.score(records, "exact"), "success_rate", f"scene={scene}")
    assert table.score.mean() == pytest.approx(by_scene)
    assert table.label(12) == "patch 1 in e2"
    assert task.cases(records, "nothing") is None


@pytest.mark.parametrize("pool", ["list", "every"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_queries_among_distractors(kind: str, pool: str, tmp_path: Path) -> None:
    task, features = TASKS.load("hpatches/retrieval"), made_up(kind)
    opened, records = v2.run_task(task, v2.make_world(tmp_path), features, distractors=pool)
    scores, total = task.score(records, "exact"), 0
    for scene in v2.LENGTHS:
        cases = every(task.cases(records, scene))
        total += len(cases)
        assert np.mean([s for _, s, _ in cases]) == pytest.approx(v2.value(scores, "map", f"scene={scene}"))
        for key, score, _ in cases:
            made = opened.replay_query(scene, key, features)
            assert made.score == pytest.approx(score)
            assert [a.picture for a in opened.replay_query(scene, key, None).right] == [
                a.picture for a in made.right
            ]
            check_distances(made, features)
    assert total == 3 * 20
    if pool == "every":
        others = [
            f"{s}/{m}#{i}" for s, n in v2.LENGTHS.items() if s != scene for m in v2.IMAGES for i in range(n)
        ]
        check_ranks(made, [a.picture for a in made.right] + others, features)


@pytest.mark.parametrize("kind", list(KINDS))
def test_pairs_of_patches_by_the_share_on_their_right_side(kind: str, tmp_path: Path) -> None:
    task, features = TASKS.load("hpatches/verification"), made_up(kind)
    opened, records = v2.run_task(task, v2.make_world(tmp_path), features)
    squared = features.distance == "l2"
    for scene in ("i_bee", "v_elk"):
        cases = every(task.cases(records, scene))
        for key, score, _ in cases:
            noise, row = divmod(int(key), len(records[0]))
            r = records[noise]
            d, n = np.asarray(r["distance"], float).tolist(), r.meta["rows"]["pos"]
            made = opened.replay_query(scene, key, features)
            kept = np.sqrt(d[row]) if squared else d[row]
            assert made.chosen[0].distance == (pytest.approx(kept, rel=1e-6) if np.isfinite(kept) else None)
            assert made.chosen[0].right == (row < n)
            assert made.query.startswith(f"{scene}/")
            check_distances(made, features)

            def share(own: float, others: list[float]) -> float:
                return sum(1.0 if o > own else 0.5 if o == own else 0.0 for o in others) / len(others)

            if row < n:
                lists = d[n : 2 * n], d[2 * n :]
                true = np.mean([share(d[row], o) for o in lists]) if np.isfinite(d[row]) else 0.0
            else:
                true = 1 - share(d[row], d[:n]) if np.isfinite(d[row]) else 1.0
            assert score == pytest.approx(true)
    assert sum(len(task.cases(records, s)) for s in v2.LENGTHS) == 3 * 270


@pytest.fixture
def old(tmp_path: Path) -> Any:
    return v1.make_world(tmp_path)


@pytest.mark.parametrize("kind", ["noisy", "ties"])
def test_the_benchmarks_of_2016(kind: str, old: Any) -> None:
    descriptors = v1.make_descriptors(old, kind)
    features = v2.features_of(descriptors, valid=failed(descriptors) if kind == "noisy" else None)
    for name, metric in (("matching", "success_rate"), ("retrieval", "map_patch"), ("classification", None)):
        task = TASKS.load(f"hpatches-v1/{name}")
        opened, records = v1.run_task(task, old, features)
        (r,), scores = records, task.score(records, "exact")
        for scene in r.meta["scenes"]:
            cases = task.cases(records, scene)
            for key, score, _ in every(cases):
                made, bare = (opened.replay_query(scene, key, f) for f in (features, None))
                assert made.query == bare.query
                assert [a.picture for a in made.right] == [a.picture for a in bare.right]
                assert made.score is None or made.score == pytest.approx(score)
                check_distances(made, features)
                if name == "classification":
                    kept = np.sqrt(float(r["distance"][int(key)]))
                    found = made.chosen[0]
                    assert found.right == bool(r["label"][int(key)])
                    assert (np.inf if found.distance is None else found.distance) == pytest.approx(kept)
            if metric is not None:
                assert np.nanmean(cases.score) == pytest.approx(v2.value(scores, metric, f"scene={scene}"))
        assert cases.label(0).endswith(", bench")


def test_two_benchmarks_have_keys_of_their_own(old: Any) -> None:
    folder = old.root / "matching"
    (folder / "again.benchmark").write_text((folder / "bench.benchmark").read_text())
    task, features = TASKS.load("hpatches-v1/matching"), v2.features_of(v1.make_descriptors(old, "noisy"))
    opened, records = v1.run_task(task, old, features)
    cases = task.cases(records, "v_two")
    half = len(cases) // 2
    assert cases.score[:half].tolist() == cases.score[half:].tolist()
    assert cases.label(0).endswith(", again")
    assert cases.label(half).endswith(", bench")
    first, second = (opened.replay_query("v_two", str(cases.keys[i]), features) for i in (0, half))
    assert first == second


def test_results_imported_as_finished_numbers_have_no_cases(tmp_path: Path) -> None:
    task = TASKS.load("hpatches/retrieval")
    _, (record,) = v2.run_task(task, v2.make_world(tmp_path), made_up("ties"))
    meta = {**record.meta, "form": "ap", "protocol": "hpatches-python"}
    done = type(record)(record.kind, record.columns, meta)
    assert task.cases([done], "v_cat") is None
    assert TASKS.load("hpatches/matching").cases([done], "v_cat") is None
    assert TASKS.load("hpatches/verification").cases([done], "v_cat") is None
