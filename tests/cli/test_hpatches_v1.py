"""The command line on a small dataset made on the spot: what a stranger types, and what goes wrong."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiepoint.cli.main import run

SIDE = 33
IMAGES = ("ref", *(f"{z}{k}" for z in "eh" for k in range(1, 6)))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven sequences of textured patches; the other images are the reference plus noise."""
    root = tmp_path_factory.mktemp("data") / "patches"
    rng = np.random.default_rng(5)
    for s in range(7):
        folder = root / f"{'iv'[s % 2]}_s{s}"
        folder.mkdir(parents=True)
        coarse = rng.uniform(0, 255, (30, 6, 6)).repeat(6, 1).repeat(6, 2)[:, :SIDE, :SIDE]
        for name in IMAGES:
            noise = {"r": 0, "e": 25, "h": 60}[name[0]]
            strip = np.clip(coarse + rng.normal(0, noise, coarse.shape), 0, 255).astype(np.uint8)
            Image.fromarray(strip.reshape(-1, SIDE)).save(folder / f"{name}.png")
    assert (
        run(
            [
                "data",
                "tasks",
                "--suite",
                "hpatches-v1",
                "--data",
                str(root),
                "--out",
                str(root / "benchmarks"),
            ]
        )
        == 0
    )
    return root


def out(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    code = run([str(a) for a in arguments])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def failing(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 2) -> str:
    assert run([str(a) for a in arguments]) == code
    captured = capsys.readouterr()
    assert captured.err.startswith("tiepoint: ")
    assert "Traceback" not in captured.err
    return captured.err


def scores(text: str) -> dict[tuple[str, str, str, str], float]:
    return {
        (s["method"], s["protocol"], s["metric"], s["group"]): s["value"] for s in json.loads(text)["scores"]
    }


@pytest.mark.slow
@pytest.mark.parametrize("task", ["classification", "matching", "retrieval"])
def test_canaries_score_one_and_chance(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], task: str
) -> None:
    text = out(
        capsys, "run", "oracle", "constant", "pixels", "--task", f"hpatches-v1/{task}", "--data", data,
        "--store", tmp_path, "--json",
    )  # fmt: skip
    chance = {}
    rows = json.loads(text)["scores"]
    found = scores(text)
    for row in rows:
        key = (row["metric"], row["group"])
        if row["method"] == "oracle" and "scene=" not in row["group"]:
            best = 0.0 if row["metric"] == "fpr95" else 1.0
            assert row["value"] == pytest.approx(best, abs=1e-12), key
        chance[key] = found[("constant", "exact", *key)]
    metric = {"classification": "auc", "matching": "ap", "retrieval": "map_patch"}[task]
    assert found[("pixels", "exact", metric, "all")] > chance[(metric, "all")] + 0.2
    if task == "classification":
        assert chance[("auc", "all")] == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("task", ["classification", "matching", "retrieval"])
def test_written_results_score_as_the_direct_run(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], task: str
) -> None:
    name = f"hpatches-v1/{task}"
    both = ("--protocol", "exact,hbench-2016")
    direct = scores(
        out(
            capsys,
            "run",
            "pixels",
            "--task",
            name,
            "--data",
            data,
            "--store",
            tmp_path / "a",
            "--write-results",
            tmp_path / "results",
            "--json",
            *both,
        )
    )
    filed = scores(
        out(
            capsys,
            "score",
            name,
            "--results",
            tmp_path / "results",
            "--data",
            data,
            "--store",
            tmp_path / "b",
            "--json",
            *both,
        )
    )
    compared = 0
    for key, value in filed.items():
        if key[2] == "map_query" or value is None:
            continue  # two neighbours in a file do not give the rank of the right answer
        tolerance = 1e-12 if key[1] == "hbench-2016" else 1e-4
        assert value == pytest.approx(direct[key], abs=tolerance), key
        compared += 1
    assert compared > 10


def test_wrong_results_of_all_descriptors_are_told_before_any_is_stored(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--data", data, "--store", tmp_path / "s")
    task = ("--task", "hpatches-v1/matching", "--benchmark", "all_easy_illum")
    results = tmp_path / "results"
    out(capsys, "run", "pixels", "resize", "meanstd", *task, *where, "--write-results", results)
    for name in ("pixels", "resize"):
        (file,) = (results / name / "matching").glob("*.results")
        file.write_text(file.read_text() + "what is this\n")
    message = failing(
        capsys, "score", task[1], *task[2:], "--results", results, "--data", data, "--store", tmp_path / "t"
    )
    assert "pixels" in message
    assert "resize" in message
    assert not (tmp_path / "t").exists()


def test_benchmarks_are_selected_by_name(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (
        "run",
        "pixels",
        "--task",
        "hpatches-v1/matching",
        "--data",
        data,
        "--store",
        tmp_path,
        "--json",
    )
    groups = {k[3] for k in scores(out(capsys, *arguments, "--benchmark", "all_easy*"))}
    assert "benchmark=all_easy_illum" in groups
    assert not any("hard" in g for g in groups)
    assert "all_easy_illum" in failing(capsys, *arguments, "--benchmark", "all_esy_illum")


def test_descriptor_files_score_as_their_method(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out(capsys, "describe", "pixels", "--data", data, "--out", tmp_path / "csv")
    arguments = ("--task", "hpatches-v1/matching", "--data", data, "--store", tmp_path / "s", "--json")
    found = scores(out(capsys, "run", "pixels", f"files:{tmp_path / 'csv'}", *arguments))
    by_method: dict[str, dict[tuple[str, ...], float]] = {}
    for (method, *rest), value in found.items():
        by_method.setdefault(method, {})[tuple(rest)] = value
    assert len(by_method) == 2
    first, second = by_method.values()
    assert first == second


def test_show_list_compare_report_and_sql(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ("--store", tmp_path / "s")
    task = "hpatches-v1/matching"
    out(
        capsys,
        "run",
        "pixels",
        "meanstd",
        "--task",
        task,
        "--data",
        data,
        "--protocol",
        "exact,hbench-2016",
        *store,
    )
    runs = json.loads(out(capsys, "list", "runs", "--json", *store))
    assert [r["method"] for r in runs] == ["pixels", "meanstd"]
    assert "success_rate" in out(capsys, "show", runs[0]["run"], *store)
    assert "no step changes" in out(capsys, "show", runs[0]["run"], "--conventions", *store)
    assert "normaliser" in out(capsys, "show", runs[1]["run"], "--conventions", *store)
    assert "not separated" in out(capsys, "compare", "--task", task, *store)
    assert '"runs"' in out(capsys, "sql", 'select count(*) as "runs" from runs', "--json", *store)
    for form in ("html", "md", "latex", "csv", "json", "parquet"):
        path = tmp_path / f"report.{form}"
        out(capsys, "report", "--out", path, "--format", form, *store)
        assert path.stat().st_size > 300
    first = (tmp_path / "report.html").read_bytes()
    out(capsys, "report", "--out", tmp_path / "again.html", *store)
    assert (tmp_path / "again.html").read_bytes() == first
    assert "datasets" in failing(capsys, "list", "thngs")


def test_user_class_from_a_file(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(
        "class Mine:\n    name = 'mine'\n    def describe(self, patches):\n"
        "        return patches[:, ::8, ::8].reshape(len(patches), -1).astype('float32')\n"
    )
    arguments = ("--task", "hpatches-v1/matching", "--data", data, "--store", tmp_path / "s", "--json")
    found = scores(out(capsys, "run", f"{tmp_path / 'mine.py'}:Mine", *arguments))
    assert found[("mine", "exact", "ap", "all")] > 0.5


def test_jobs_do_not_change_a_bit(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("run", "pixels", "--task", "hpatches-v1/retrieval", "--data", data, "--json")
    one = out(capsys, *arguments, "--jobs", 1, "--store", tmp_path / "1")
    assert out(capsys, *arguments, "--jobs", 3, "--store", tmp_path / "3") == one


def test_dry_run_computes_nothing(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "s"
    text = out(
        capsys,
        "run",
        "pixels",
        "--task",
        "hpatches-v1/matching",
        "--data",
        data,
        "--store",
        store,
        "--dry-run",
    )
    assert "units" in text
    assert not store.exists()


WRONG = [
    (("run", "sfit", "--task", "hpatches-v1/matching"), "did you mean 'sift'"),
    (("run", "pixels", "--task", "hpatches-v1/matchin"), "did you mean 'hpatches-v1/matching'"),
    (("run", "pixels", "--task", "hpatches-v1/matching", "--protocol", "exat"), "did you mean 'exact'"),
    (("run", "pixels", "--task", "hpatches-v1/matching", "-o", "benchmrk=x"), "benchmark"),
    (("run", "--task", "hpatches-v1/matching"), "METHOD"),
    (("run", "pixels", "--task", "hpatches-v1/matching", "--jbs", "2"), "--jobs"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_wrong_names_get_a_hint(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    extra = () if arguments[1].startswith("--") else ("--data", data)
    assert message in failing(capsys, *arguments, *extra, "--store", tmp_path)


def test_missing_data_and_unwritable_store(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("run", "pixels", "--task", "hpatches-v1/matching")
    assert "nowhere" in failing(capsys, *arguments, "--data", tmp_path / "nowhere", "--store", tmp_path / "s")
    (tmp_path / "file").write_text("")
    message = failing(capsys, *arguments, "--data", data, "--store", tmp_path / "file" / "s")
    assert "cannot write" in message
    assert "choose another --store" in message


@pytest.mark.slow
def test_killed_at_random_moments_the_next_start_resumes(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "s"
    command = [sys.executable, "-m", "tiepoint", "run", "pixels", "resize", "--task"]
    command += [
        "hpatches-v1/matching,hpatches-v1/retrieval",
        "--data",
        str(data),
        "--store",
        str(store),
        "--json",
    ]
    rng = random.Random(1)
    for _ in range(2):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(1.0, 3.0))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    clean = [c if c != str(store) else str(tmp_path / "clean") for c in command]
    fresh = subprocess.run(clean, capture_output=True, text=True, check=True)
    assert scores(finished.stdout) == scores(fresh.stdout)
    assert not list(store.rglob("*.parquet.tmp"))


def test_what_is_printed_first_and_the_form_of_files_change_no_run(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rows(*more: object) -> list[dict[str, object]]:
        task = ("--task", "hpatches-v1/matching", "--benchmark", "all_easy_illum", "--data", data)
        text = out(capsys, "run", "pixels", *task, "--store", tmp_path / "s", *more, "--json")
        found: list[dict[str, object]] = json.loads(text)["scores"]
        return found

    plain = rows()
    first = rows("-o", "mean_over=reference_patches")
    written = rows("--write-results", tmp_path / "r", "--results-form", "document", "-o", "neighbours=3")
    assert plain[0]["metric"] == "ap"
    assert first[0]["metric"] == "map_query"
    assert sorted(map(str, first)) == sorted(map(str, plain))  # the same values of the same run
    assert written == plain
    assert [p.relative_to(tmp_path / "r").as_posix() for p in (tmp_path / "r").rglob("*.results")] == [
        "matching/pixels/all_easy_illum.results"
    ]
    stored = json.loads(out(capsys, "list", "runs", "--store", tmp_path / "s", "--json"))
    assert len(stored) == 1
    assert "neighbours" not in out(capsys, "show", stored[0]["run"], "--store", tmp_path / "s")


def test_an_imbalanced_roc_area_is_marked_in_every_report(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = ("--task", "hpatches-v1/classification", "--benchmark", "all_diffseq_easy", "--data", data)
    store = ("--store", tmp_path / "s")
    out(capsys, "run", "pixels", *task, "--protocol", "hbench-2016", *store)
    for form, mark in (("md", r" \***"), ("latex", " *}"), ("html", " *</td>")):
        path = tmp_path / f"report.{form}"
        whole = () if form == "html" else ("--table", "scores")
        out(capsys, "report", "--out", path, "--format", form, *whole, *store)
        text = path.read_text()
        assert mark in text
        assert "auc balance=balanced" in text
        assert "* ROC area (auc) of an imbalanced list" in text
    for form, mark in (("md", r" \* |"), ("latex", " * ")):
        out(capsys, "report", "--out", path, "--format", form, *store)
        text = path.read_text()
        assert mark in text
        assert "AUC (" in text.partition("balance balanced")[0]
        assert "* ROC area (auc) of an imbalanced list" in text
