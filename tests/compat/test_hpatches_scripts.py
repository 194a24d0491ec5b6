# SPDX-License-Identifier: BSD-3-Clause
"""The drop-in scripts: options of the reference, numbers of its restatement, plain files, early errors."""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tasks"))
import hpatches_restatement as tool
from hpatches_world import LETTERS, SPLITS, lists_of, make_descriptors, make_world

from tiepoint.cli.main import run as tiepoint
from tiepoint.compat import hpatches_eval, hpatches_results
from tiepoint.tasks.hpatches.retrieval import compare as v2_pools

SMALL = (8, 12, 20)
DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(v2_pools, "PYTHON_SIZES", SMALL)
    world = make_world(tmp_path)
    descriptors = make_descriptors("integer")
    for key, values in descriptors.items():
        path = tmp_path / "data" / "descriptors" / "mine" / f"{key}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savetxt(path, values, fmt="%d", delimiter=";")
    monkeypatch.chdir(tmp_path)
    return world, descriptors


def evaluate(*more):
    return hpatches_eval.main(["--descr-name=mine", "--delimiter=;", *more])


def rows(text):
    return [line.split() for line in text.splitlines()]


def test_all_tasks_give_the_numbers_of_the_reference(place, capsys):
    world, descriptors = place
    tasks = [f"--task={t}" for t in ("verification", "matching", "retrieval")]
    assert evaluate(*tasks) == 0
    capsys.readouterr()
    assert hpatches_results.main(["--descr=mine", *tasks]) == 0
    text = capsys.readouterr().out
    lists, used = lists_of(world, "a"), SPLITS["a"]["test"]
    verification = [tool.verification(descriptors, lists, z, "python") for z in "eht"]
    printed = rows(text)
    balanced = printed.index(["Balanced", "variant", "(auc)"])
    imbalanced = printed.index(["Imbalanced", "variant", "(ap)"])
    assert printed[balanced + 1] == ["Noise", "Inter", "Intra"]
    for i, label in enumerate(("Easy", "Hard", "Tough")):
        for start, which in ((balanced, 0), (imbalanced, 1)):
            expected = [f"{verification[i][n][which]:.6g}" for n in ("inter", "intra")]
            assert printed[start + 3 + i] == [label, *expected]
    matching = tool.matching(descriptors, used, "python")
    levels = [np.mean([v[0] for (_, y, _), v in matching.items() if y == z]) for z in "eht"]
    at = printed.index(["Easy", "Hard", "Tough", "mean"])
    assert printed[at + 2] == [f"{v:.6g}" for v in (*levels, np.mean(levels))]
    retrieval = tool.retrieval_python(descriptors, lists["queries"], lists["distractors"], SMALL)
    at = printed.index(["mAP", "10K", "queries"])
    assert printed[at + 1] == ["Noise", *map(str, SMALL)]
    for i, (noise, z) in enumerate(LETTERS.items()):
        assert printed[at + 3 + i] == [noise.capitalize(), *(f"{retrieval[z, k]:.6g}" for k in SMALL)]
    mean = [f"{np.mean([retrieval[z, k] for z in 'eht']):.6g}" for k in SMALL]
    assert printed[at + 6] == ["mean", *mean]


def test_zero_rows_are_ordinary_vectors_as_in_the_reference(place, capsys):
    world, descriptors = place
    for scene in world.lengths:
        for image in ("ref", "e1", "h2"):
            descriptors[f"{scene}/{image}"][3] = 0
            path = Path("data/descriptors/mine") / scene / f"{image}.csv"
            np.savetxt(path, descriptors[f"{scene}/{image}"], fmt="%d", delimiter=";")
    assert evaluate("--task=verification", "--task=matching", "--task=retrieval") == 0

    def read(task):
        return json.loads(Path(f"results/mine_{task}_a.json").read_text())["results"]

    lists = lists_of(world, "a")
    for z in "eht":
        for negatives, (auc, ap) in tool.verification(descriptors, lists, z, "python").items():
            cell = read("verification")[z][negatives]
            assert cell["balanced"]["auc"] == pytest.approx(auc, abs=1e-12)
            assert cell["imbalanced"]["ap"] == pytest.approx(ap, abs=1e-12)
    for (s, z, k), (ap, sr) in tool.matching(descriptors, SPLITS["a"]["test"], "python").items():
        assert read("matching")[s][z][str(k)] == pytest.approx({"ap": ap, "sr": sr}, abs=1e-12)
    expected = tool.retrieval_python(descriptors, lists["queries"], lists["distractors"], SMALL)
    for (z, k), mean in expected.items():
        own = [q[z][str(k)]["ap"] for q in read("retrieval").values()]
        assert np.mean(own) == pytest.approx(mean, abs=1e-12)


def test_result_files_are_plain_and_can_be_imported(place, capsys):
    assert evaluate("--task=matching", "--split=full", "--results-dir=out") == 0
    raw = json.loads(Path("out/mine_matching_full.json").read_text())
    assert set(raw["results"]["v_cat"]["e"]["1"]) == {"ap", "sr"}
    assert tiepoint(["import", "out/mine_matching_full.json", "--store", "st", "--json"]) == 0
    out = capsys.readouterr().out
    scores = json.loads(out[out.index("{") :])["scores"]
    value = next(s["value"] for s in scores if s["metric"] == "map" and s["group"] == "weighting=sequences")
    every = [c["ap"] for s in raw["results"].values() for z in s.values() for c in z.values()]
    assert value == pytest.approx(np.mean(every), abs=1e-12)


def test_l1_and_pcapl_are_other_numbers(place):
    def read(name):
        return json.loads(Path(f"results/{name}_matching_a.json").read_text())["results"]

    assert evaluate("--task=matching") == 0
    l2 = read("mine")
    assert evaluate("--task=matching", "--dist=L1", "--pcapl=yes") == 0
    assert read("mine") != l2
    assert read("mine_pcapl") != read("mine")


def test_errors_come_at_once_and_with_exit_code_2(place, capsys):
    assert evaluate("--task=matching", "--split=zz") == 2
    assert "unknown split 'zz'" in capsys.readouterr().err
    assert evaluate("--task=match") == 2
    assert "did you mean 'matching'" in capsys.readouterr().err
    assert evaluate("--task=matching", "--dist=L3") == 2
    assert hpatches_eval.main(["--descr-name=none", "--task=matching"]) == 2
    assert "does not exist" in capsys.readouterr().err
    for scene in ("v_cat", "v_dog"):
        Path(f"data/descriptors/mine/{scene}/ref.csv").unlink()
    assert evaluate("--task=matching") == 2
    err = capsys.readouterr().err
    assert "v_cat lacks ref.csv" in err
    assert "v_dog lacks ref.csv" in err
    assert hpatches_results.main(["--descr-name=mine", "--task=matching"]) == 2
    assert "hpatches_eval first" in capsys.readouterr().err


def test_pcapl_without_training_sequences_is_refused(place, capsys):
    assert evaluate("--task=matching", "--split=full", "--pcapl=yes") == 2
    assert "no training sequences" in capsys.readouterr().err


def test_everything_wrong_is_told_before_any_work_in_words_of_the_script(place, capsys):
    shutil.rmtree("data/descriptors/mine/v_dog")
    for image in ("ref", "e1"):
        Path(f"data/descriptors/mine/v_cat/{image}.csv").unlink()
    short = Path("data/descriptors/mine/i_bee/h3.csv")
    short.write_text("\n".join(short.read_text().splitlines()[1:]) + "\n")
    narrow = Path("data/descriptors/mine/i_bee/t1.csv")
    narrow.write_text(narrow.read_text().replace(";", ",", 1))
    Path("tasks/retr_queries_split-a.csv").unlink()
    Path("file").write_text("")
    more = ("--pcapl=yes", "--dist=masked_L1", "--results-dir=file/out")
    assert evaluate("--task=retrieval", *more) == 2
    captured = capsys.readouterr()
    for words in (
        "mine for split a: 7 problems",
        "results cannot be written to file/out: file is no folder; see --results-dir",
        "--pcapl=yes has no meaning for descriptors with a mask",
        "retrieval needs tasks/retr_queries_split-a.csv, which does not exist; see --tasks-dir",
        "v_dog: no descriptors\n",
        "v_cat lacks ref.csv, e1.csv",
        "i_bee/h3.csv has 13 descriptors, but ref.csv has 14",
        "i_bee/t1.csv has 7 columns, most files 8 (another delimiter than ';'?)",
    ):
        assert words in captured.err
    assert not captured.out
    assert not Path("results").exists()


def test_a_wrong_delimiter_and_a_wrong_level(place, capsys):
    assert hpatches_eval.main(["--descr-name=mine", "--task=matching"]) == 2
    assert "the files have one column when split at ','; see --delimiter" in capsys.readouterr().err
    assert hpatches_eval.main(["--descr-name=descriptors", "--descr-dir=data", "--task=matching"]) == 2
    assert "v_cat: no descriptors there, but in data/descriptors/mine/v_cat" in capsys.readouterr().err


def test_task_files_for_other_lengths_are_found_before_any_work(place, capsys):
    Path("tasks/retr_queries_split-a.csv").write_text("s,idx\nv_cat,11\n")
    assert evaluate("--task=matching", "--task=retrieval") == 2
    captured = capsys.readouterr()
    assert "retr_queries_split-a.csv" in captured.err
    assert not captured.out


def spoil(image, text, rows=(2,)):
    path = Path(f"data/descriptors/mine/v_cat/{image}.csv")
    lines = path.read_text().splitlines()
    for i in rows:
        lines[i] = ";".join([text] * 8)
    path.write_text("\n".join(lines) + "\n")


def test_failed_rows_are_counted_aloud(place, capsys):
    spoil("ref", "nan")
    spoil("e1", "inf")
    assert evaluate("--task=matching") == 0
    err = capsys.readouterr().err
    assert err.count("descriptors failed") == 1
    assert "hpatches_eval: warning: mine: 2 of" in err


@pytest.mark.parametrize("task", ["matching", "verification"])
def test_where_the_reference_stops_there_is_no_number(place, capsys, task):
    spoil("e1", "nan", rows=range(11))
    assert evaluate(f"--task={task}") == 2
    assert f"{task} has no score, because the Python tool stops at" in capsys.readouterr().err
    assert not Path(f"results/mine_{task}_a.json").exists()


def test_the_auc_of_a_fork_is_not_printed_without_a_word(place, capsys):
    def cell(auc, ap):
        return {"balanced": {"auc": auc}, "imbalanced": {"ap": ap}}

    results = {z: {"inter": cell(0.8, 0.7), "intra": cell(0.8, 0.6)} for z in "eht"}
    hpatches_results.write_results(Path("results"), "old", "verification", "a", results)
    assert hpatches_results.main(["--descr-name=old", "--task=verification"]) == 0
    assert "old: the balanced AUC of inter and intra is one number" in capsys.readouterr().err
    results["e"]["inter"] = cell(0.9, 0.7)
    hpatches_results.write_results(Path("results"), "old", "verification", "a", results)
    assert hpatches_results.main(["--descr-name=old", "--task=verification"]) == 0
    assert not capsys.readouterr().err


def test_published_pickles_print_their_numbers(capsys):
    folder = DATA / "hpatches_reference_results" / "pickles"
    if not folder.is_dir():
        pytest.skip("no published results (TIEPOINT_TEST_DATA)")
    where = ["--split=full", f"--results-dir={folder}"]
    assert hpatches_results.main(["--descr-name=sift", "--descr-name=orb", "--task=matching", *where]) == 0
    printed = rows(capsys.readouterr().out)
    means = [float(r[-1]) for r in printed if len(r) == 4 and r[0][0].isdigit()]
    assert [f"{100 * m:.2f}" for m in means] == ["25.47", "15.33"]
    assert hpatches_results.main(["--descr-name=sift", "--task=verification", *where]) == 0
    out = capsys.readouterr().out
    assert "0.864325" in out
    assert "Imbalanced variant (ap)" in out


def test_as_modules(tmp_path):
    import subprocess

    for name in ("hpatches_eval", "hpatches_results"):
        done = subprocess.run(
            [sys.executable, "-m", f"tiepoint.compat.{name}", "--help"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "--descr-name" in done.stdout
