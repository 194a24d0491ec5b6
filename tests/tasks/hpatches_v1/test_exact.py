# SPDX-License-Identifier: BSD-3-Clause
"""`exact` from full rankings in plain loops, canaries, failures, and where the scores come from."""

import numpy as np
import pytest
from hpatches_v1_world import make_descriptors, make_world, open_task, run_task
from hpatches_world import features_of, value
from sklearn.metrics import roc_auc_score

from tiepoint.metrics import average_precision, chance_average_precision
from tiepoint.metrics.ranking.matching import chance_matching_average_precision
from tiepoint.stats.pooled import pooled_statistic
from tiepoint.stats.resampling import make_scene_score
from tiepoint.tasks import TASKS
from tiepoint.tasks.hpatches_v1.classification.task import TASK as CLASSIFICATION
from tiepoint.tasks.hpatches_v1.matching.task import TASK as MATCHING
from tiepoint.tasks.hpatches_v1.retrieval.task import TASK as RETRIEVAL

ALL = (CLASSIFICATION, MATCHING, RETRIEVAL)
KINDS = ("random", "noisy", "integer", "ties", "constant")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("v1"))


def squares(a, b):
    x, y = a.astype(np.float64), b.astype(np.float64)
    return ((x[:, None] - y[None]) ** 2).sum(-1).round(9)


def expected_sum(distances, relevant, cutoff):
    """Sum of expected precisions over the first `cutoff` places of a full list, tie by tie."""
    total, before, found = 0.0, 0, 0
    for level in np.unique(distances):
        m, r = int((distances == level).sum()), int(relevant[distances == level].sum())
        for p in range(1, m + 1):
            if before + p <= cutoff and r:
                inside = (p - 1) * (r - 1) / (m - 1) if m > 1 else 0.0
                total += r / m * (found + 1 + inside) / (before + p)
        before += m
        found += r
    return total


@pytest.mark.parametrize("kind", KINDS)
def test_retrieval_equals_the_full_ranking(world, kind):
    """Fifty-one kept places and the counts of the cut tie give what the whole pool gives."""
    descriptors = make_descriptors(world, kind)
    opened, records = run_task(RETRIEVAL, world, features_of(descriptors))
    pool = opened.definitions["bench"].content
    table = np.concatenate([descriptors[n.replace(".", "/")] for n in pool.benchmark.pool])
    names = [(n.split(".")[0], i) for n in pool.benchmark.pool for i in range(world.counts[n])]
    patch, image = [], []
    for q in pool.query:
        d = squares(table[q : q + 1], table)[0]
        keep = np.arange(len(d)) != q
        same = np.array([n == names[q] for n in names])
        scene = np.array([n[0] == names[q][0] for n in names])
        patch.append(expected_sum(d[keep], same[keep], 50) / min(same[keep].sum(), 50))
        image.append(expected_sum(d[keep], scene[keep], 50) / min(scene[keep].sum(), 50))
    scores = RETRIEVAL.score(records, "exact")
    assert value(scores, "map_patch") == pytest.approx(np.mean(patch), abs=1e-12)
    assert value(scores, "map_image") == pytest.approx(np.mean(image), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_matching_equals_plain_loops(world, kind):
    descriptors = make_descriptors(world, kind)
    opened, records = run_task(MATCHING, world, features_of(descriptors))
    aps, rates, ranks = [], [], []
    for a, b in opened.definitions["bench"].content[0].pairs:
        d = squares(descriptors[a.replace(".", "/")], descriptors[b.replace(".", "/")])
        n = len(d)
        low = d.min(axis=1)
        m = (d == low[:, None]).sum(axis=1)
        v = np.where(np.diag(d) == low, 1 / m, 0.0)
        rates.append(v.mean())
        aps.append(average_precision(low, v, normaliser=n))
        for i in range(n):
            lt, eq = (d[i] < d[i, i]).sum(), (d[i] == d[i, i]).sum() - 1
            ranks.append(np.mean([1 / (lt + 1 + k) for k in range(eq + 1)]))
    scores = MATCHING.score(records, "exact")
    assert value(scores, "ap") == pytest.approx(np.mean(aps), abs=1e-12)
    assert value(scores, "success_rate") == pytest.approx(np.mean(rates), abs=1e-12)
    assert value(scores, "map_query") == pytest.approx(np.mean(ranks), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_classification_equals_scikit_learn(world, kind):
    descriptors = make_descriptors(world, kind)
    _, records = run_task(CLASSIFICATION, world, features_of(descriptors))
    scores = CLASSIFICATION.score(records, "exact")
    d, y = records[0]["distance"], records[0]["label"]
    for balance, at in (("imbalanced", slice(None)), ("balanced", slice(0, 120))):
        group = f"balance={balance},benchmark=bench"
        assert value(scores, "auc", group) == pytest.approx(roc_auc_score(y[at], -d[at]), abs=1e-12)
    assert value(scores, "auc") == value(scores, "auc", "balance=balanced,benchmark=bench")
    assert value(scores, "ap") == value(scores, "ap", "balance=imbalanced,benchmark=bench")


def test_constant_scores_chance_and_never_one(world):
    features = features_of(make_descriptors(world, "constant"))
    for task in ALL:
        _, records = run_task(task, world, features)
        for s in task.score(records, "exact"):
            if s.chance is not None:
                assert s.value == pytest.approx(s.chance, rel=1e-9), (s.metric, s.group)
                assert s.value < 1
    legacy = CLASSIFICATION.score(run_task(CLASSIFICATION, world, features)[1], "hbench-2016")
    assert value(legacy, "ap") == 1.0


def test_chance_levels_by_hand(world):
    _, records = run_task(MATCHING, world, features_of(make_descriptors(world, "random")))
    found = {s.metric: s.chance for s in MATCHING.score(records, "exact") if s.group == "all"}
    sizes = [12, 9, 14]
    assert found["ap"] == pytest.approx(np.mean([chance_matching_average_precision(n, n) for n in sizes]))
    assert found["success_rate"] == pytest.approx(np.mean([1 / n for n in sizes]))
    weighted = sum(n * chance_average_precision(n, 1) for n in sizes) / sum(sizes)
    assert found["map_query"] == pytest.approx(weighted)


def test_chance_levels_of_the_2016_rules(world):
    """Guessing, simulated with random descriptors, meets the closed forms of its normalisers."""
    for task, metrics in ((MATCHING, ("ap", "ap_ratio")), (RETRIEVAL, ("map_patch", "map_image"))):
        found = {m: [] for m in metrics}
        for seed in range(30):
            features = features_of(make_descriptors(world, "random", seed=seed))
            scores = task.score(run_task(task, world, features)[1], "hbench-2016")
            for s in scores:
                if s.group == "all" and s.metric in found:
                    found[s.metric].append(s.value)
                    found[s.metric + " chance"] = s.chance
        for m in metrics:
            error = np.std(found[m]) / np.sqrt(len(found[m]))
            assert abs(np.mean(found[m]) - found[m + " chance"]) < 4 * error, m


def test_oracle_scores_one(world):
    features = features_of(make_descriptors(world, "oracle"))
    for task in ALL:
        _, records = run_task(task, world, features)
        for s in task.score(records, "exact"):
            if s.metric == "fpr95":
                assert s.value == 0
            elif s.metric != "map_image" and "scene=" not in s.group:
                assert s.value == pytest.approx(1.0), (s.metric, s.group)


@pytest.mark.parametrize("protocol", ["exact", "hbench-2016"])
def test_scores_are_the_means_of_their_scenes(world, protocol):
    features = features_of(make_descriptors(world, "noisy"))
    for task in (MATCHING, RETRIEVAL):
        _, records = run_task(task, world, features)
        for s in task.score(records, protocol):
            if s.scenes is not None:
                assert make_scene_score(s.scenes).value() == pytest.approx(s.value, abs=1e-12)
                assert s.scenes.kinds == ("i", "v", "v")
            else:
                assert s.group.startswith("scene=")


def test_pooled_bins_give_the_score(world):
    _, records = run_task(CLASSIFICATION, world, features_of(make_descriptors(world, "noisy")))
    for s in CLASSIFICATION.score(records, "exact"):
        assert s.pooled is not None
        assert pooled_statistic(s.pooled) == pytest.approx(s.value, abs=0.02)
        assert s.pooled.positives.sum() + s.pooled.negatives[:, 3].sum() == s.n
        assert (s.note is not None) == (s.metric == "auc" and "imbalanced" in s.group)


def test_failed_descriptors_are_misses(world):
    descriptors = make_descriptors(world, "oracle")
    valid = {k: np.arange(len(v)) != 0 for k, v in descriptors.items() if k.endswith("/ref")}
    broken = {
        k: np.where(valid.get(k, np.ones(len(v), bool))[:, None], v, np.nan) for k, v in descriptors.items()
    }
    features = features_of(broken, valid=valid)
    _, records = run_task(MATCHING, world, features)
    scores = MATCHING.score(records, "exact")
    share = np.mean([(n - 1) / n for n in (12, 9, 14)])
    assert value(scores, "success_rate") == pytest.approx(share)
    assert value(scores, "ap") == pytest.approx(share)
    assert value(scores, "map_query") == pytest.approx(1 - 3 / 35)
    _, records = run_task(CLASSIFICATION, world, features)
    lost = np.isinf(records[0]["distance"]) & records[0]["label"]
    assert lost.any()
    assert value(CLASSIFICATION.score(records, "exact"), "ap") == pytest.approx(1 - lost.sum() / 60)
    opened, records = run_task(RETRIEVAL, world, features)
    pool = opened.definitions["bench"].content
    failed = np.isin(pool.query, pool.starts[:-1])
    from tiepoint.tasks.hpatches_v1.protocols import hpatches_v1_rules
    from tiepoint.tasks.hpatches_v1.retrieval.score import query_values

    got = query_values(records[0], "map_patch", hpatches_v1_rules("exact"))
    assert got == pytest.approx(np.where(failed, 0.0, 1.0))
    for protocol in ("exact", "hbench-2016"):
        assert all(
            np.isfinite(s.value) for t in ALL for s in t.score(run_task(t, world, features)[1], protocol)
        )


@pytest.mark.parametrize("distance", ["l1", "cosine", "hamming"])
def test_other_distances(world, distance):
    descriptors = make_descriptors(world, "noisy")
    if distance == "hamming":
        descriptors = {k: np.packbits(v > 0, axis=1) for k, v in descriptors.items()}
    features = features_of(descriptors, distance)
    for task in ALL:
        _, records = run_task(task, world, features)
        assert not records[0].meta["squared"]
        for protocol in ("exact", "hbench-2016"):
            assert all(0 <= s.value <= 1 for s in task.score(records, protocol))


def test_registered(world):
    for task in ALL:
        assert TASKS.load(task.name) is task
        opened = open_task(task, world)
        assert opened.units[0].key == "bench"
        assert set(opened.units[0].items) == {i.key for i in opened.items}
