# SPDX-License-Identifier: BSD-3-Clause
"""Imported results of the 2017 tools: the published table, comparison, foreign files, damaged files."""

import collections
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from tiepoint.cli.main import run as tiepoint
from tiepoint.core.errors import FormatError, InputError
from tiepoint.report.compare.runs import compare_runs
from tiepoint.run.importers import import_files
from tiepoint.store.run_queries import load_runs
from tiepoint.store.store import Store

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))
PUBLISHED = DATA / "hpatches_reference_results"
needs_data = pytest.mark.skipif(not PUBLISHED.is_dir(), reason="no published results (TIEPOINT_TEST_DATA)")

# descriptor, split: verification, matching (mean of six cells), weighted by sequences
TABLE = {
    ("sift", "full"): (65.12, 25.44, 25.47),
    ("sift", "a"): (63.35, 24.42, 24.42),
    ("rootsift", "full"): (58.53, 27.20, 27.22),
    ("rootsift", "a"): (56.02, 26.13, None),
    ("cvRSIFT", "full"): (67.33, 32.48, None),
    ("orb", "full"): (59.11, 15.30, 15.33),
    ("orb", "a"): (58.21, 13.86, None),
    ("brief", "full"): (56.88, 10.46, 10.48),
    ("binboost", "full"): (65.62, 14.73, 14.76),
    ("tfeat-margin-star", "full"): (81.90, 32.62, 32.68),
    ("hardnet+", "full"): (88.43, 52.74, 52.79),
    ("SOSNet", "full"): (88.48, 53.70, 53.75),
    ("DOAP-Lib-128f", "full"): (88.37, 51.35, None),
    ("DOAP-Lib-256b", "full"): (82.81, 37.39, None),
    ("64x64-CDbin-256", "full"): (85.32, 44.56, None),
    ("ConvOpt-120", "full"): (77.11, 29.37, None),
    ("BiSIFT", "full"): (69.49, 27.03, None),
    ("LDB", "full"): (60.21, 15.07, None),
    ("cvLATCH", "full"): (59.86, 17.15, None),
    ("cvLATCH-256", "full"): (57.31, 14.66, None),
    ("cvFREAK", "full"): (61.95, 9.18, None),
    ("cvBRISK", "full"): (56.67, 11.73, None),
}
SIFT_CELLS = {"v": (49.44, 21.95, 9.96), "i": (43.78, 18.79, 8.73)}
HARDNET_VERIFICATION = {"easy": (96.20, 93.57), "hard": (92.21, 87.63), "tough": (83.70, 77.26)}


def percent(value):
    return float(f"{100 * value:.2f}")


def value_of(run, metric, group="all"):
    return percent(run.value(metric, group, "hpatches-python"))


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    if not PUBLISHED.is_dir():
        pytest.skip("no published results (TIEPOINT_TEST_DATA)")
    with Store.open(tmp_path_factory.mktemp("store")) as store:
        runs, notes = import_files([PUBLISHED / "matching_ap.json", PUBLISHED / "verification.json"], store)
    by = {(r.method, r.manifest.options["split"], r.task.split("/")[-1]): r for r in runs}
    return by, notes


@pytest.mark.parametrize(("name", "split"), TABLE)
def test_the_published_table_to_the_last_digit(published, name, split):
    by, _ = published
    verification, cells, sequences = TABLE[name, split]
    assert value_of(by[name, split, "verification"], "ap") == verification
    matching = by[name, split, "matching"]
    assert value_of(matching, "map", "weighting=cells") == cells
    if sequences is not None:
        assert value_of(matching, "map", "weighting=sequences") == sequences
        assert value_of(matching, "map") == sequences


def test_cells_of_the_published_table(published):
    by, _ = published
    for kind, row in SIFT_CELLS.items():
        for noise, expected in zip(("easy", "hard", "tough"), row, strict=True):
            assert value_of(by["sift", "full", "matching"], "map", f"kind={kind},noise={noise}") == expected
    run = by["hardnet+", "full", "verification"]
    for noise, row in HARDNET_VERIFICATION.items():
        for negatives, expected in zip(("inter", "intra"), row, strict=True):
            assert value_of(run, "ap", f"negatives={negatives},noise={noise}") == expected


def test_the_balanced_auc_of_the_fork_is_not_imported(published):
    by, notes = published
    assert not any(s.metric == "auc" for r in by.values() for s in r.score_rows)
    assert any("balanced AUC was left out" in n for n in notes)


@needs_data
def test_pickles_hold_the_same_results(published, tmp_path):
    by, _ = published
    with Store.open(tmp_path) as store:
        runs, _ = import_files([PUBLISHED / "pickles"], store)
        assert len(runs) == 12
        for run in runs:
            same = by[run.method, "full", run.task.split("/")[-1]]
            assert [s.value for s in run.score_rows] == [s.value for s in same.score_rows]
            assert run.id == same.id


def test_imported_runs_can_be_compared(published):
    by, _ = published
    runs = [by[n, "full", "matching"] for n in ("sift", "hardnet+", "SOSNet")]
    found = compare_runs(runs, protocol="hpatches-python")
    assert "115 scenes" in str(found)
    with pytest.raises(InputError, match='use `protocol="hpatches-python"`'):
        compare_runs(runs, protocol="exact")
    with pytest.raises(InputError, match="scenes differ"):
        compare_runs([by["sift", "full", "matching"], by["orb", "a", "matching"]], protocol="hpatches-python")


def made_up_matching(seed=0, sr=False):
    rng = np.random.default_rng(seed)
    lazy = lambda: collections.defaultdict(dict)  # noqa: E731  # the reference writes such files
    table = {}
    for scene in ("i_a", "i_b", "v_c", "v_d", "v_e", "v_f"):
        table[scene] = {
            z: {k: {"ap": np.float64(rng.random()), **({"sr": 0.5} if sr else {})} for k in range(1, 6)}
            for z in "eht"
        }
    assert lazy
    return table


def write_pickle(path, table):
    path.write_bytes(pickle.dumps(table, 4))
    return path


def test_a_made_up_pickle_needs_no_published_data(tmp_path):
    table = made_up_matching(sr=True)
    path = write_pickle(tmp_path / "my_desc_matching_full.p", table)
    with Store.open(tmp_path / "s") as store:
        (run,), _ = import_files([path], store)
    assert run.method == "my_desc"
    every = [c["ap"] for s in table.values() for z in s.values() for c in z.values()]
    assert run.value("map", "weighting=sequences", "hpatches-python") == pytest.approx(np.mean(every))
    assert run.value("success_rate", "all", "hpatches-python") == pytest.approx(0.5)
    low = next(s.low for s in run.score_rows if s.group == "all" and s.metric == "map")
    assert low is not None


def test_verification_with_an_honest_auc_keeps_it(tmp_path):
    cell = {"balanced": {"auc": 0.9, "fpr": [0.0], "tpr": [1.0]}, "imbalanced": {"ap": 0.8}}
    other = {"balanced": {"auc": 0.7}, "imbalanced": {"ap": 0.6}}
    table = {z: {"inter": cell, "intra": other} for z in "eht"}
    path = write_pickle(tmp_path / "x_verification_a.p", table)
    with Store.open(tmp_path / "s") as store:
        (run,), notes = import_files([path], store)
    assert not notes
    assert run.value("auc", "all", "hpatches-python") == pytest.approx(0.8)
    assert run.value("ap", "negatives=intra,noise=easy", "hpatches-python") == 0.6


def test_an_auc_of_zero_is_a_number_of_the_tool(tmp_path):
    # A constant descriptor: every distance is equal, negatives come first, and the tool's AUC is 0 for both.
    auc = {"e": (0.0, 0.0), "h": (0.0, 0.0), "t": (0.0, 0.0)}
    for name, values, kept in (
        ("constant", auc, True),
        ("perfect", dict.fromkeys("eht", (1.0, 1.0)), True),
        ("copied", auc | {"t": (0.4, 0.4)}, False),
        ("other", auc | {"t": (0.4, 0.3)}, True),
    ):
        cells = {
            z: [{"balanced": {"auc": v}, "imbalanced": {"ap": 0.088}} for v in row]
            for z, row in values.items()
        }
        table = {z: dict(zip(("inter", "intra"), row, strict=True)) for z, row in cells.items()}
        path = write_pickle(tmp_path / f"{name}_verification_a.p", table)
        with Store.open(tmp_path / name) as store:
            (run,), notes = import_files([path], store)
        assert ("auc" in {s.metric for s in run.score_rows}) == kept, name
        assert bool(notes) != kept
    assert run.value("auc", "all", "hpatches-python") == pytest.approx(0.7 / 6)


def test_retrieval_results_with_and_without_task_files(tmp_path):
    rng = np.random.default_rng(3)
    table = {q: {z: {k: {"ap": rng.random()} for k in (100, 500, 20000)} for z in "eht"} for q in range(12)}
    path = write_pickle(tmp_path / "x_retrieval_a.p", table)
    scenes = [f"v_{i % 6}" for i in range(12)]
    (tmp_path / "retr_queries_split-a.csv").write_text("s,idx\n" + "".join(f"{s},0\n" for s in scenes))
    with Store.open(tmp_path / "s") as store:
        (bare,), notes = import_files([path], store)
        (known,), nothing = import_files([path], store, tasks=tmp_path)
    mean = np.mean([c["ap"] for q in table.values() for z in q.values() for c in z.values()])
    for run in (bare, known):
        assert run.value("map", "all", "hpatches-python") == pytest.approx(mean)
        hard = np.mean([q["h"][500]["ap"] for q in table.values()])
        assert run.value("map", "noise=hard,pool=500", "hpatches-python") == pytest.approx(hard)
    assert "`tasks`" in notes[0]
    assert not nothing
    by = {s.group: s for s in known.score_rows}
    assert by["all"].low is not None


MATLAB_FILES = {
    "verification.csv": (
        "descriptor,split,negs,geom_noise,method,pr_auc,pr_ap,roc_auc\n"
        + "".join(
            f"sift,full,{n},{z},{m},0.5,{0.6 if n == 'inter' else 0.4},0.9\n"
            for n in ("inter", "intra")
            for z in ("easy", "hard", "tough")
            for m in ("balanced", "imbalanced")
        )
    ),
    "matching.csv": (
        "descriptor;sequence;geom_noise;ima;imb;ap;auc;sr\n"
        + "".join(
            f"sift;{s};{z};0;{k};{0.1 * k};0.1;{0.2 if s[0] == 'i' else 0.4}\n"
            for s in ("i_a", "v_b", "v_c")
            for z in ("easy", "hard", "tough")
            for k in range(1, 6)
        )
    ),
    "retrieval.csv": (
        "descriptor,split,geom_noise,method,mauc,map\n"
        "sift,full,easy,keepall,0.5,0.6\nsift,full,hard,keepall,0.4,0.4\nsift,full,tough,keepall,0.3,0.2\n"
    ),
}


def test_score_tables_of_the_matlab_tool(tmp_path):
    for name, text in MATLAB_FILES.items():
        (tmp_path / name).write_text(text)
    with Store.open(tmp_path / "s") as store:
        runs, _ = import_files([tmp_path / n for n in MATLAB_FILES], store)
    verification, matching, retrieval = runs
    p = "hpatches-matlab"
    assert verification.value("ap", "all", p) == pytest.approx(0.5)
    assert verification.value("auc", "all", p) == pytest.approx(0.9)
    assert matching.value("map", "all", p) == pytest.approx(0.3)
    assert matching.value("success_rate", "all", p) == pytest.approx(0.3)  # cells, not sequences
    assert matching.value("success_rate", "weighting=sequences", p) == pytest.approx(1 / 3)
    assert retrieval.value("map", "all", p) == pytest.approx(0.4)


def test_images_of_matlab_matching_tables_by_name(tmp_path):
    path = tmp_path / "matching.csv"
    text = MATLAB_FILES["matching.csv"]
    with Store.open(tmp_path / "s") as store:
        path.write_text(text)
        ((numbers,), _) = import_files([path], store)
        for z in ("easy", "hard", "tough"):
            text = text.replace(f";{z};0;", f";{z};ref;{z[0]}")
        assert ";hard;ref;h3;" in text
        path.write_text(text)
        ((names,), _) = import_files([path], store)
        assert names.value("map", "all", "hpatches-matlab") == numbers.value("map", "all", "hpatches-matlab")
        for wrong, words in (
            (";e3;", "image 'e3' does not have the noise level 'hard'"),
            (";2.5;", "a name such as e1"),
        ):
            path.write_text(text.replace(";h3;", wrong, 1))
            with pytest.raises(InputError, match=words):
                import_files([path], store)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x_matching_full.p", b"garbage", "corrupt or unsafe pickle"),
        ("x_matching_full.p", pickle.dumps({"v_a": {"e": {1: {"ap": 0.5}}}}), "is missing"),
        ("x_matching_full.p", pickle.dumps({"v_a": 3}), "'e' is missing"),
        ("x_verification_full.p", pickle.dumps([1, 2]), "'e' is missing"),
        (
            "x_retrieval_full.p",
            pickle.dumps({"v_a": {"e": {}}}),
            "expected query numbers as keys, found 'v_a'",
        ),
        ("x_retrieval_full.p", pickle.dumps({0: {"e": {"many": 1}}}), "by pool size"),
        ("results.p", pickle.dumps({}), "NAME_TASK_SPLIT"),
        ("x.json", b"{", "is not JSON"),
        ("x.json", b'{"full": {"sift": {"a": 1}}}', "no verification, matching or retrieval"),
        ("x.csv", b"a,b\n1,2\n", "not a table of the MATLAB tool"),
        ("x.txt", b"", "cannot be imported"),
    ],
)
def test_files_that_are_something_else(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with Store.open(tmp_path / "s") as store, pytest.raises(InputError, match=message):
        import_files([path], store)


def test_a_field_that_is_no_number_names_its_line(tmp_path):
    path = tmp_path / "retrieval.csv"
    path.write_text(MATLAB_FILES["retrieval.csv"].replace("0.4,0.4", "0.4,n/a"))
    with Store.open(tmp_path / "s") as store, pytest.raises(FormatError, match="line 3"):
        import_files([path], store)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        (
            "matching.csv",
            "0.1;0.1;0.2",
            "1.5;0.1;0.2",
            r"matching.csv, line 2: ap: .* between 0 and 1, found 1.5",
        ),
        ("matching.csv", "0.1;0.1;0.2", "0.1;0.1;-1", "line 2: sr: .* found -1"),
        ("verification.csv", "0.5,0.4,0.9", "0.5,40,0.9", "pr_ap: .* found 40"),
        ("retrieval.csv", "0.4,0.4", "0.4,60.64", "line 3: map: .* found 60.64"),
    ],
)
def test_a_score_table_with_a_value_that_cannot_be_names_its_line(tmp_path, name, old, new, message):
    path = tmp_path / name
    path.write_text(MATLAB_FILES[name].replace(old, new))
    with Store.open(tmp_path / "s") as store:
        with pytest.raises(FormatError, match=message):
            import_files([path], store)
        assert not load_runs(store)


@pytest.mark.parametrize("value", [1.5, -0.1, 150])
def test_results_with_a_value_that_cannot_be_name_file_and_place(tmp_path, value):
    table = made_up_matching(sr=True)
    table["v_c"]["h"][3]["ap"] = value
    path = write_pickle(tmp_path / "x_matching_full.p", table)
    collection = tmp_path / "x.json"
    cell = {"imbalanced": {"ap": 0.5}}
    odd = {"imbalanced": {"ap": value}}
    collection.write_text(json.dumps({"a": {"x": {z: {"inter": cell, "intra": odd} for z in "eht"}}}))
    with Store.open(tmp_path / "s") as store:
        with pytest.raises(
            FormatError, match=f"x_matching_full.p: v_c, h3: .* between 0 and 1, found {value}"
        ):
            import_files([path], store)
        with pytest.raises(FormatError, match=f"x.json: .*e, intra: .* found {value}"):
            import_files([collection], store)
        assert not load_runs(store)


def test_rounding_may_carry_a_fraction_a_little_beyond_one(tmp_path):
    table = made_up_matching()
    table["v_c"]["h"][3]["ap"] = 1.0000000000000002
    with Store.open(tmp_path / "s") as store:
        runs, _ = import_files([write_pickle(tmp_path / "x_matching_full.p", table)], store)
    assert len(runs) == 1


def test_the_command_imports_and_says_what_it_left_out(tmp_path, capsys):
    same = {"balanced": {"auc": 0.9}, "imbalanced": {"ap": 0.8}}
    table = {z: {"inter": same, "intra": same} for z in "eht"}
    path = write_pickle(tmp_path / "x_verification_a.p", table)
    assert tiepoint(["import", str(path), "--store", str(tmp_path / "s"), "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert any(s["metric"] == "ap" and s["group"] == "all" for s in out["scores"])
    assert "balanced AUC was left out" in out["warnings"][0]
    assert tiepoint(["import", str(path), "--split", "b", "--store", str(tmp_path / "s")]) == 2
    assert "no results of split 'b'" in capsys.readouterr().err
