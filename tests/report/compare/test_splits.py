# SPDX-License-Identifier: BSD-3-Clause
"""Imported results beside one's own: several splits under one name, and numbers without scenes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from published_world import make_patches, make_results

import tiepoint as tp
from tiepoint.cli.main import run as command
from tiepoint.core.errors import InputError, UnknownNameError
from tiepoint.report.export import scores_text
from tiepoint.report.runs.names import distinct_names
from tiepoint.report.runs.selection import runs_of
from tiepoint.run.engine import evaluate
from tiepoint.run.importers import import_files
from tiepoint.run.request import RunRequest
from tiepoint.store.store import Store

MATCHING, VERIFICATION = "hpatches/matching", "hpatches/verification"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with imported results of two splits and two runs of our own, one of them with a known name."""
    root = tmp_path_factory.mktemp("splits")
    data = make_patches(root / "patches")
    with Store.open(root / "store") as opened:
        import_files(make_results(root), opened)
        for method in ("pixels", "meanstd"):
            for task in (MATCHING, VERIFICATION):
                evaluate(
                    RunRequest(method, task, data, ("exact", "hpatches-python"), {"split": "full"}), opened
                )
        evaluate(RunRequest("resize", MATCHING, data, ("exact",), {"split": "full"}), opened)
    return root / "store"


def call(*words: str, store: Path) -> int:
    return command([*words, "--store", str(store)])


def test_the_split_that_all_have_is_taken_and_said(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("compare", "sift", "orb", "net", "--task", MATCHING, store=store) == 0
    out = capsys.readouterr().out
    assert "8 scenes" in out
    assert "sift, orb: using the runs on split full, the only split that all methods have" in out
    table = out[out.index("\n---") :].splitlines()[2:5]
    assert [line.split()[0] for line in table] == ["net", "orb", "sift"]


def test_a_split_can_be_named(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("compare", "sift", "orb", "--task", MATCHING, "--split", "a", store=store) == 0
    assert "6 scenes" in capsys.readouterr().out
    assert call("compare", "--task", MATCHING, "--split", "a", store=store) == 0
    assert "2 distinct methods" in capsys.readouterr().out
    assert call("compare", "sift", "net", "--task", MATCHING, "--split", "a", store=store) == 2
    assert "net has no run of split 'a'; its splits are full" in capsys.readouterr().err
    with pytest.raises(UnknownNameError, match=r"'b'.*Known: a, full"):
        tp.compare(task=MATCHING, split="b", store=store)


def test_where_nothing_tells_the_error_names_the_splits(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for task in (MATCHING, VERIFICATION):
        assert call("compare", "sift", "orb", "--task", task, store=store) == 2
        assert (
            "there are runs of sift, orb on the splits a, full; choose one with --split, e.g. --split full"
            in capsys.readouterr().err
        )


def test_runs_of_one_method_say_what_differs(store: Path) -> None:
    found = tp.compare(["sift"], task=MATCHING, allow=["split", "scenes"], store=store)
    assert {r.method for r in found.rows} == {"sift (split a)", "sift (split full)"}
    with pytest.raises(InputError, match=r"choose one split with `split`: a \(.*\); full \(.*\)"):
        tp.compare(["sift"], task=MATCHING, allow=["split"], store=store)


def test_runs_named_by_id_are_taken_as_they_are(store: Path) -> None:
    with Store.open(store) as opened:
        by = {r.manifest.split: r.id for r in runs_of(opened, ["sift"], task=MATCHING)}
    found = tp.compare([by["a"], "net"], task=MATCHING, allow=["scenes"], store=store)
    assert found.n_scenes == 6
    with pytest.raises(InputError, match=r"`split`: a \(sift\); full \(net\)"):
        tp.compare([by["a"], "net"], task=MATCHING, store=store)


def test_imported_results_stand_beside_own_runs(store: Path) -> None:
    found = tp.compare(["sift", "net", "pixels"], task=MATCHING, store=store)
    assert found.protocol == "hpatches-python"
    assert found.n_scenes == 8
    assert {r.method for r in found.rows} == {"sift", "net", "pixels"}
    assert any("dataset and lists of sift, net are not known (imported)" in n for n in found.notes)


def test_a_name_of_an_imported_and_an_own_run(store: Path) -> None:
    with Store.open(store) as opened:
        runs = runs_of(opened, ["net", "pixels"], task=MATCHING)
    renamed = [r for r in runs if r.method == "net"]
    own = next(r for r in runs if r.method == "pixels")
    method = own.manifest.method.model_copy(update={"name": "net"})
    own = replace(
        own, stored=replace(own.stored, manifest=own.manifest.model_copy(update={"method": method}))
    )
    assert distinct_names([*renamed, own]) == ["net (imported)", "net (own run)"]


def test_numbers_without_scenes_are_shown_and_not_tested(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("compare", "net", "deep", "pixels", "meanstd", "--task", VERIFICATION, store=store) == 0
    out = capsys.readouterr().out
    assert "runs without scene values cannot be tested: net, deep" in out
    assert "dataset and lists of net, deep are not known" in out
    found = tp.compare(["net", "deep", "pixels", "meanstd"], task=VERIFICATION, store=store)
    by = {r.method: r for r in found.rows}
    assert (by["net"].low, by["net"].versus, by["net"].tested) == (None, None, False)
    assert by["pixels"].low is not None
    assert {p.first for p in found.pairs} | {p.second for p in found.pairs} == {"pixels", "meanstd"}
    assert [r.value for r in found.rows] == sorted((r.value for r in found.rows), reverse=True)
    with pytest.raises(InputError, match="net was not tested"):
        found.pair("net", "pixels")
    with pytest.raises(InputError, match="no scene values to test against"):
        tp.compare(["net", "pixels"], task=VERIFICATION, baseline="net", store=store)
    for form in (found.to_markdown(), found.to_latex(), str(found), json.dumps(found.to_dict())):
        assert "net" in form


def test_only_numbers_make_a_plain_table(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("compare", "net", "deep", "--task", VERIFICATION, "--json", store=store) == 0
    found = json.loads(capsys.readouterr().out)
    assert [m["method"] for m in found["methods"]] == ["deep", "net"]
    assert all(m["low"] is None and m["p"] is None and not m["tested"] for m in found["methods"])
    with Store.open(store) as opened:
        runs = [r for r in runs_of(opened, None, task=VERIFICATION) if r.method == "sift"]
    with pytest.raises(InputError, match="split differs"):
        tp.compare(runs, task=VERIFICATION)


def test_an_unknown_difference_cannot_be_allowed(store: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'scenes'"):
        tp.compare(["net"], task=MATCHING, allow=["scene"], store=store)


def test_reports_take_a_split_and_say_what_differs_in_one_line(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.md"
    words = ("report", "sift", "orb", "--format", "md", "--out", str(out))
    assert call(*words, store=store) == 0
    whole = out.read_text()
    assert "sift (split a)" in whole
    assert (
        "Nothing is tested, because these runs cannot be compared (choose one split with \\`split\\`: a"
        in whole
    )
    words = (*words, "--table", "scores")
    assert call(*words, store=store) == 0
    whole = out.read_text()
    assert "sift (split a)" in whole
    assert "no groups, because these runs cannot be compared (choose one split with \\`split\\`: a" in whole
    assert "\\n" not in whole
    assert call(*words, "--split", "full", "--task", MATCHING, store=store) == 0
    part = out.read_text()
    assert "(split" not in part
    assert "not separated by these 8 scenes" in part
    assert call(*words, "--split", "b", store=store) == 2
    with Store.open(store) as opened:
        runs = runs_of(opened, ["sift"])
        tp.write_report(runs, out, form="md", split="full")
    assert "split a" not in out.read_text()
    assert "split a" in scores_text(runs, "md")


def test_a_split_of_runs_without_splits_is_refused(report_store: Path) -> None:
    assert call("compare", "--task", "hpatches-v1/matching", "--split", "a", store=report_store) == 2
    assert call("report", "--split", "a", "--format", "md", store=report_store) == 2


def test_a_run_that_named_no_split_is_of_full_or_all(tmp_path: Path) -> None:
    data = make_patches(tmp_path / "made")
    with Store.open(tmp_path / "s") as opened:
        whole = evaluate(RunRequest("pixels", MATCHING, data, ("exact",)), opened)
        (data / "v_made1").rename(data / "v_wall")
        part = evaluate(RunRequest("pixels", MATCHING, data, ("exact",)), opened)
    assert (whole.manifest.split, part.manifest.split) == ("full", "all")
