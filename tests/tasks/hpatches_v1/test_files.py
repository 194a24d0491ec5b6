# SPDX-License-Identifier: BSD-3-Clause
"""Results files: what a run writes scores as the run did; what other programs write is scored too."""

from dataclasses import replace

import numpy as np
import pytest
from hpatches_v1_world import make_descriptors, make_world, open_task, run_task
from hpatches_world import features_of, value

from tiepoint.core.errors import FormatError, InputError, UnknownNameError
from tiepoint.core.records import Records
from tiepoint.core.scores import caution_notes
from tiepoint.formats.hpatches_v1.classification import missing_results, read_classification_results
from tiepoint.tasks.hpatches_v1.classification.task import TASK as CLASSIFICATION
from tiepoint.tasks.hpatches_v1.matching.task import TASK as MATCHING
from tiepoint.tasks.hpatches_v1.matching.task import _write_neighbours as write_neighbours
from tiepoint.tasks.hpatches_v1.retrieval.task import TASK as RETRIEVAL

ALL = (CLASSIFICATION, MATCHING, RETRIEVAL)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("v1"))


def through_files(task, world, features, folder):
    opened, records = run_task(task, world, features)
    path = task.write_benchmark(records[0], folder, opened)
    assert path.name == "bench.results"
    return records, task.records_from_results(folder, opened)


def both(task, direct, read, protocol):
    """Scores of the run and of the files, paired by metric and group."""
    one = {(s.metric, s.group): s for s in task.score(direct, protocol)}
    other = {(s.metric, s.group): s for s in task.score(read, protocol)}
    assert {k for k in one if k[0] != "map_query"} == {k for k in other if k[0] != "map_query"}
    return [(one[k], other[k]) for k in one if k in other]


@pytest.mark.parametrize("kind", ["random", "noisy", "integer", "ties"])
@pytest.mark.parametrize("task", ALL, ids=lambda t: t.name.split("/")[1])
def test_files_score_as_the_run_under_hbench(world, tmp_path, task, kind):
    direct, read = through_files(task, world, features_of(make_descriptors(world, kind)), tmp_path)
    for a, b in both(task, direct, read, "hbench-2016"):
        if a.metric == "map_query" or (task is RETRIEVAL and kind == "ties"):
            continue  # not in the files: ranks of all targets; the swapped first place
        assert b.value == pytest.approx(a.value, abs=1e-14)


@pytest.mark.parametrize("kind", ["random", "noisy"])
@pytest.mark.parametrize("task", ALL, ids=lambda t: t.name.split("/")[1])
def test_files_score_as_the_run_under_exact(world, tmp_path, task, kind):
    """Without ties the rounding of the text can only swap neighbours of the list."""
    direct, read = through_files(task, world, features_of(make_descriptors(world, kind)), tmp_path)
    for a, b in both(task, direct, read, "exact"):
        if a.metric != "map_query":
            assert b.value == pytest.approx(a.value, abs=1e-4)
            assert a.chance == b.chance


def test_short_lists_have_no_map_query(world, tmp_path):
    _, read = through_files(MATCHING, world, features_of(make_descriptors(world, "noisy")), tmp_path)
    found = [s for s in MATCHING.score(read, "exact") if s.metric == "map_query"]
    assert len(found) == 2
    assert all(
        np.isnan(s.value) and s.scenes is None and "list only the nearest few" in s.note for s in found
    )


def write_all_neighbours(world, descriptors, path, k=None):
    """A results file as another program would write it: every neighbour, full precision, blanks."""
    lines = []
    for line in (world.root / "matching" / "bench.benchmark").read_text().split():
        a, b = (descriptors[n.replace(".", "/")].astype(float) for n in line.split(","))
        d = ((a[:, None] - b[None]) ** 2).sum(-1)
        order = np.argsort(d, axis=1, kind="stable")[:, : k or len(b)]
        lines.append(line)
        for j in range(order.shape[1]):
            lines.append("  " + ", ".join(map(str, order[:, j])))
            lines.append("  " + ", ".join(repr(float(x)) for x in d[np.arange(len(a)), order[:, j]]))
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("kind", ["noisy", "ties"])
def test_complete_lists_give_every_score(world, tmp_path, kind):
    descriptors = make_descriptors(world, kind)
    opened, direct = run_task(MATCHING, world, features_of(descriptors))
    write_all_neighbours(world, descriptors, tmp_path / "bench.results")
    read = MATCHING.records_from_results(tmp_path, opened)
    for a, b in zip(MATCHING.score(direct, "exact"), MATCHING.score(read, "exact"), strict=True):
        assert b.value == pytest.approx(a.value, abs=1e-12), (a.metric, a.group)
    for column in ("lt", "eq", "eq_before", "index", "ties", "gt_listed"):
        assert np.array_equal(direct[0][column], read[0][column]), column


def test_ties_as_long_as_the_list_are_told(world, tmp_path):
    descriptors = make_descriptors(world, "constant")
    opened = open_task(MATCHING, world)
    write_all_neighbours(world, descriptors, tmp_path / "bench.results", k=2)
    scores = MATCHING.score(MATCHING.records_from_results(tmp_path, opened), "exact")
    assert any(s.note and "a tie that fills the list" in s.note for s in scores)
    assert value(scores, "success_rate") < 0.2


def test_classification_accepts_any_dissimilarity_and_both_eras(world, tmp_path):
    opened, direct = run_task(CLASSIFICATION, world, features_of(make_descriptors(world, "noisy")))
    d, y = direct[0]["distance"], direct[0]["label"]
    similar = np.log1p(d) - 5  # negative values are fine: any dissimilarity
    (tmp_path / "b_pos.results").write_text("".join(f"{x!r},1\n" for x in similar[y].tolist()))
    (tmp_path / "b_neg.results").write_text("".join(f"{x!r},0\n" for x in similar[~y].tolist()))
    read = CLASSIFICATION.records_from_results(tmp_path, opened)
    for a, b in zip(CLASSIFICATION.score(direct, "exact"), CLASSIFICATION.score(read, "exact"), strict=True):
        assert b.value == pytest.approx(a.value, abs=1e-12)


def test_bad_files(world, tmp_path):
    opened, records = run_task(CLASSIFICATION, world, features_of(make_descriptors(world, "noisy")))
    path = CLASSIFICATION.write_benchmark(records[0], tmp_path, opened)
    lines = path.read_text().split("\n")
    lines[3] = "nan"
    path.write_text("\n".join(lines))
    with pytest.raises(FormatError, match=r"line 4.*NaN"):
        CLASSIFICATION.records_from_results(tmp_path, opened)
    read = CLASSIFICATION.records_from_results(tmp_path, opened, on_bad="miss")
    assert np.isinf(read[0]["distance"][3])
    with pytest.raises(FormatError, match="does not exist"):
        CLASSIFICATION.records_from_results(tmp_path / "nowhere", opened)


def test_failures_cannot_be_written_as_rankings(world, tmp_path):
    descriptors = make_descriptors(world, "noisy")
    valid = {k: np.arange(len(v)) > 0 for k, v in descriptors.items()}
    no_queries = {k: np.zeros(len(v), bool) for k, v in descriptors.items() if k.endswith("/ref")}
    opened, records = run_task(RETRIEVAL, world, features_of(descriptors, valid=no_queries))
    with pytest.raises(InputError, match="too few neighbours"):
        RETRIEVAL.write_benchmark(records[0], tmp_path, opened)
    opened, records = run_task(MATCHING, world, features_of(descriptors, valid=valid))
    text = MATCHING.write_benchmark(records[0], tmp_path, opened).read_text()
    assert "Inf" in text
    read = MATCHING.records_from_results(tmp_path, opened)
    assert value(MATCHING.score(read, "exact"), "ap") == pytest.approx(
        value(MATCHING.score(records, "exact"), "ap"), abs=1e-4
    )


def test_options(world, tmp_path):
    assert [u.key for u in open_task(MATCHING, world, {"benchmark": ["ben*"]}).units] == ["bench"]
    with pytest.raises(UnknownNameError, match="bench"):
        open_task(MATCHING, world, {"benchmark": ["trains"]})
    with pytest.raises(UnknownNameError, match="did you mean 'benchmark'"):
        open_task(MATCHING, world, {"benchmarks": ["x"]})
    with pytest.raises(UnknownNameError, match=r"unknown value of on_bad 'zero'.*error, miss"):
        MATCHING.records_from_results(tmp_path, open_task(MATCHING, world), on_bad="zero")
    with pytest.raises(InputError, match="`on_bad` has no effect on hpatches-v1/retrieval"):
        RETRIEVAL.records_from_results(tmp_path, open_task(RETRIEVAL, world), on_bad="miss")
    with pytest.raises(UnknownNameError, match="unknown option of hpatches-v1/matching 'on_bad'"):
        open_task(MATCHING, world, {"on_bad": "miss"})
    folder = tmp_path / "benchmarks" / "matching"
    folder.mkdir(parents=True)
    (folder / "other.benchmark").write_text("i_one.ref,i_one.e1\n")
    opened = open_task(MATCHING, world, {"tasks": tmp_path})
    assert [u.key for u in opened.units] == ["other"]
    assert [i.key for i in opened.items] == ["i_one/ref", "i_one/e1"]


def test_definitions_and_data_are_in_the_hashes(world):
    first, again = open_task(RETRIEVAL, world), open_task(RETRIEVAL, world)
    assert first.units == again.units
    assert first.data_hash == again.data_hash
    path = world.root / "retrieval" / "bench.benchmark"
    text = path.read_text()
    try:
        path.write_text("\n".join(text.split("\n")[:-3]) + "\n")
        changed = open_task(RETRIEVAL, world)
    finally:
        path.write_text(text)
    assert changed.units[0].definition != first.units[0].definition


def test_curves_have_the_area_of_the_scores(world):
    features = features_of(make_descriptors(world, "noisy"))
    _, records = run_task(CLASSIFICATION, world, features)
    scores = CLASSIFICATION.score(records, "exact")
    for group, name, x, y in CLASSIFICATION.curves(records):
        area = np.sum(np.diff(x) * (y[1:] if name == "pr" else (y[1:] + y[:-1]) / 2))
        assert area == pytest.approx(
            value(scores, {"pr": "ap", "roc": "auc"}[name.split()[0]], group), abs=1e-12
        )
    _, records = run_task(RETRIEVAL, world, features)
    retrieval_areas_are_scores(records)
    _, records = run_task(MATCHING, world, features)
    areas = [np.sum(np.diff(x) * y[1:]) for _, _, x, y in MATCHING.curves(records)]
    assert np.mean(areas) == pytest.approx(value(MATCHING.score(records, "exact"), "ap"), abs=1e-12)


def retrieval_areas_are_scores(records):
    scores = RETRIEVAL.score(records, "exact")
    areas = {group: np.sum(np.diff(x) * y[1:]) for group, _, x, y in RETRIEVAL.curves(records)}
    for relevant in ("patch", "image"):
        wanted = value(scores, f"map_{relevant}", "benchmark=bench")
        assert areas[f"benchmark=bench,relevant={relevant}"] == pytest.approx(wanted, abs=1e-12)
        single = [a for g, a in areas.items() if "query=" in g and g.endswith(f"relevant={relevant}")]
        assert len(single) == len(records[0])
        assert np.mean(single) == pytest.approx(wanted, abs=1e-12)
        (curve,) = [c for c in RETRIEVAL.scene_curves(records) if c.group.endswith(f"relevant={relevant}")]
        assert curve.mean.mean() == pytest.approx(wanted, abs=0.02)


@pytest.mark.parametrize("kind", ["ties", "constant"])
def test_curves_of_tied_rankings_have_the_area_of_the_scores(world, kind):
    """A tie that goes on beyond the list counts with all its items, as in the scores."""
    _, records = run_task(RETRIEVAL, world, features_of(make_descriptors(world, kind)))
    retrieval_areas_are_scores(records)


def test_curves_name_their_queries(world):
    _, records = run_task(RETRIEVAL, world, features_of(make_descriptors(world, "noisy")))
    names = [g for g, *_ in RETRIEVAL.curves(records) if "query=" in g]
    first = (world.root / "retrieval" / "bench.benchmark").read_text().split()[1]
    assert names[0] == f"benchmark=bench,query={first},relevant=patch"


@pytest.mark.parametrize("kind", ["integer", "ties", "failed"])
@pytest.mark.parametrize("protocol", ["exact", "hbench-2016"])
def test_all_neighbours_score_as_the_run(world, tmp_path, kind, protocol):
    descriptors = make_descriptors(world, "integer" if kind == "failed" else kind)
    valid = {k: np.arange(len(v)) % 3 > 0 for k, v in descriptors.items()} if kind == "failed" else None
    features = features_of(descriptors, valid=valid)
    opened = open_task(MATCHING, world, {"neighbours": "all"})
    records = [MATCHING.compare(d, features) for d in opened.definitions.values()]
    MATCHING.write_benchmark(records[0], tmp_path, opened, features.arrays)
    read = MATCHING.records_from_results(tmp_path, opened)
    for a, b in zip(MATCHING.score(records, protocol), MATCHING.score(read, protocol), strict=True):
        assert b.value == pytest.approx(a.value, abs=1e-14), (a.metric, a.group)
    with pytest.raises(InputError, match="needs the features"):
        MATCHING.write_benchmark(records[0], tmp_path, opened)


def test_failures_stand_last_in_a_list_of_all_neighbours(world, tmp_path):
    descriptors = make_descriptors(world, "integer")
    valid = {k: np.arange(len(v)) != 1 for k, v in descriptors.items()}
    features = features_of(descriptors, valid=valid)
    _, records = run_task(MATCHING, world, features)
    path = tmp_path / "x.results"
    write_neighbours(path, records[0], features.arrays, "all")
    lines = path.read_text().splitlines()
    size = lines[1].count(",") + 1
    index = np.array([line.split(",") for line in lines[1 : 2 * size + 1 : 2]], int)
    distance = np.array([line.split(",") for line in lines[2 : 2 * size + 1 : 2]], float)
    assert (np.sort(index, axis=0) == np.arange(size)[:, None]).all()  # every target once in each column
    assert np.isinf(distance[:, 1]).all()  # a reference patch that failed
    kept = np.arange(size) != 1
    assert (index[-1, kept] == 1).all()
    assert np.isfinite(distance[:-1, kept]).all()


def test_a_list_with_the_name_of_its_benchmark(world, tmp_path):
    """Its file is that of the list where the other lists have theirs, else that of the benchmark."""
    opened = open_task(CLASSIFICATION, world)
    pairs = replace(opened.definitions["bench"].content, name="b_pos")
    p, n = pairs.sizes
    (tmp_path / "b_pos.results").write_text("1\n" * p)
    assert missing_results(tmp_path, pairs) == []
    with pytest.raises(FormatError, match=f"expected {p + n} lines"):
        read_classification_results(tmp_path, pairs)
    (tmp_path / "b_neg.results").write_text("2\n" * n)
    assert read_classification_results(tmp_path, pairs).tolist() == [1.0] * p + [2.0] * n


def test_the_caution_follows_the_numbers_of_the_list(world):
    _, records = run_task(CLASSIFICATION, world, features_of(make_descriptors(world, "noisy")))
    notes = {
        s.group: " ".join(caution_notes(s.note))
        for s in CLASSIFICATION.score(records, "exact")
        if s.metric == "auc"
    }
    assert "imbalanced" in notes["balance=imbalanced"]
    assert not notes["balance=balanced"]
    assert not notes["all"]
    labels = records[0]["label"]
    keep = np.sort(np.concatenate([np.flatnonzero(labels), np.flatnonzero(~labels)[: labels.sum()]]))
    even = [Records("pair", {k: v[keep] for k, v in records[0].columns.items()}, records[0].meta)]
    assert not [s for s in CLASSIFICATION.score(even, "hbench-2016") if " ".join(caution_notes(s.note))]
