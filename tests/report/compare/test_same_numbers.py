# SPDX-License-Identifier: BSD-3-Clause
"""`compare` and `report` read the stored numbers, and say the same about them."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tiepoint as tp
from tiepoint.cli.main import run as command
from tiepoint.core.errors import InputError, UnknownNameError
from tiepoint.report.compare.runs import _table_name as table_name
from tiepoint.report.runs.selection import runs_of
from tiepoint.store.run_queries import load_runs
from tiepoint.store.store import Store
from tiepoint.store.writers import save_run
from tiepoint.tasks import load_task

TASK = "hpatches-v1/matching"
CANARIES = {"constant", "oracle"}


class Board(HTMLParser):
    """Rows of the first table of class `leaderboard`, as lists of cell texts."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = self.over = self.skip = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.inside = not self.over and "leaderboard" in (dict(attrs).get("class") or "")
        elif self.inside and tag == "tr":
            self.rows.append([])
        elif self.inside and tag in ("td", "th"):
            self.rows[-1].append("")
        self.skip = tag == "span"

    def handle_endtag(self, tag: str) -> None:
        if tag == "table" and self.inside:
            self.inside, self.over = False, True

    def handle_data(self, data: str) -> None:
        if self.inside and self.rows and self.rows[-1] and not self.skip:
            self.rows[-1][-1] += data


def compared(store: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    capsys.readouterr()
    assert command(["compare", "--task", TASK, "--store", str(store), "--json", *more]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def reported(store: Path, folder: Path) -> tuple[dict[str, list[str]], str]:
    """Cells of the page's first table by method, and the page."""
    out = folder / "r.html"
    assert command(["report", "--store", str(store), "--out", str(out)]) == 0
    page = out.read_text(encoding="utf-8")
    board = Board()
    board.feed(page)
    return {row[0]: row[1:] for row in board.rows[1:]}, page


def rank(row: dict[str, Any]) -> str:
    best, worst = row["rank_best"], row["rank_worst"]
    return "" if best is None else f"{best}" if best == worst else f"{best}–{worst}"


def test_letters_ranks_values_and_p_are_the_same(
    report_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(report_store, capsys)
    rows, page = reported(report_store, tmp_path)
    assert {m["method"] for m in found["methods"]} >= CANARIES
    seen = 0
    for m in found["methods"]:
        own = rows.get(m["name"])
        if own is None:  # a name too long for the table
            continue
        seen += 1
        assert own[:3] == [m["group"], rank(m), f"{100 * m['value']:.2f}"], m["name"]
    assert seen >= 5
    assert f"smallest possible p is {found['smallest_p']:.2g}" in page
    out = tmp_path / "r.md"
    assert command(["report", "--store", str(report_store), "--format", "md", "--out", str(out)]) == 0
    letters = dict(re.findall(r"^\| (\w+) \| ([a-z ]*) \|", out.read_text(), flags=re.M)[1:])
    shown = {m["name"]: m["group"] for m in found["methods"]}
    assert letters.items() <= (shown | {"chance": ""}).items()


def test_canaries_are_shown_and_belong_to_no_family(
    report_store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(report_store, capsys)
    for m in found["methods"]:
        assert m["tested"] is (m["method"] not in CANARIES)
        assert (m["group"] == "") is (m["method"] in CANARIES)
        assert (m["low"] is None) is (m["method"] == "constant")  # the same value in every scene
    tested = [m["name"] for m in found["methods"] if m["tested"]]
    assert found["baseline"] == tested[0]
    assert len(found["pairs"]) == len(tested) * (len(tested) - 1) / 2
    alone = compared(report_store, capsys, *tested)
    assert {m["name"]: (m["group"], m["p_adjusted"]) for m in alone["methods"]} == {
        m["name"]: (m["group"], m["p_adjusted"]) for m in found["methods"] if m["tested"]
    }


def test_the_best_method_is_bold_where_a_canary_is_above_it(report_store: Path) -> None:
    found = tp.compare(["oracle", "meanstd", "resize"], task=TASK, store=report_store)
    assert found.rows[0].method == "oracle"
    lines = {line.split(" & ")[0]: line for line in found.to_latex().splitlines() if " & " in line}
    best = next(r for r in found.rows if r.tested)
    like_it = [r for r in found.rows if set(r.letters) & set(best.letters)]
    assert r"\textbf" not in lines["oracle"]
    assert found.to_latex().count(r"\textbf") == len(like_it) > 0


def test_a_canary_that_is_the_baseline_is_tested(
    report_store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(report_store, capsys, "--baseline", "constant")
    by = {m["method"]: m for m in found["methods"]}
    assert by["constant"]["tested"]
    assert by["pixels"]["difference"] > 0
    assert not by["oracle"]["tested"]


def test_a_baseline_that_fits_several_runs_names_them() -> None:
    runs: dict[str, Any] = {
        f"sift (on_bad={how})": SimpleNamespace(method="sift", id=run)
        for how, run in (("error", "26123be93b4d"), ("miss", "c8fb937f2b28"))
    }
    assert table_name("sift (on_bad=miss)", runs) == "sift (on_bad=miss)"
    assert table_name("26123", runs) == "sift (on_bad=error)"
    with pytest.raises(
        InputError, match=r"matches 2 runs; .*\(on_bad=error\)' \(26123be93b4d\), .*c8fb937f2b28"
    ):
        table_name("sift", runs)
    with pytest.raises(UnknownNameError, match="unknown baseline 'orb'"):
        table_name("orb", runs)


def test_nothing_is_scored_anew_to_be_printed(
    report_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("scored anew")

    before = compared(report_store, capsys)
    monkeypatch.setattr(type(load_task(TASK)), "score", refuse)
    assert compared(report_store, capsys) == before
    rows, _ = reported(report_store, tmp_path)
    assert rows["pixels"][0]
    for form in ("md", "latex", "csv", "json"):
        out = str(tmp_path / f"r.{form}")
        assert command(["report", "--store", str(report_store), "--format", form, "--out", out]) == 0
    with Store.open(report_store) as store:
        one = next(r.id for r in load_runs(store) if r.method == "pixels")
    assert command(["show", one, "--store", str(report_store)]) == 0


def test_runs_in_memory_are_compared_by_what_they_hold(report_store: Path) -> None:
    with Store.open(report_store) as store:
        runs = [replace(r, values=dict(r.values)) for r in runs_of(store, ["pixels", "meanstd"])]
    found = tp.compare(runs, task=TASK)
    assert found.n_scenes == 7
    assert all(r.tested for r in found.rows)


@pytest.fixture
def no_values(report_store: Path, tmp_path: Path) -> Path:
    """The store with one run that has no scene values."""
    shutil.copytree(report_store, tmp_path / "no_values")
    with Store.open(tmp_path / "no_values") as store:
        run = next(r for r in load_runs(store) if r.method == "pixels")
        assert run.manifest.values
        save_run(store, replace(run, manifest=run.manifest.model_copy(update={"values": {}})))
    return tmp_path / "no_values"


def test_run_without_scene_values_is_marked(
    no_values: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(no_values, capsys)
    by = {m["method"]: m for m in found["methods"]}
    assert (by["pixels"]["tested"], by["pixels"]["p"], by["pixels"]["group"]) == (False, None, "")
    assert by["meanstd"]["tested"]
    told = [n for n in found["notes"] if "run the method again" in n]
    assert len(told) == 1
    assert told[0].startswith("the scene values that tests need are missing in pixels")
    rows, page = reported(no_values, tmp_path)
    assert rows["pixels"][:2] == ["", ""]
    assert rows["meanstd"][0]
    assert page.count("the scene values that tests need are missing in pixels") == 1


def test_a_run_whose_scene_values_are_gone_is_marked(
    report_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(report_store, tmp_path / "s")
    with Store.open(tmp_path / "s") as store:
        run = next(r for r in load_runs(store) if r.method == "meanstd")
        store.values.path(run.manifest.values["exact"]).unlink()
    by = {m["method"]: m for m in compared(tmp_path / "s", capsys)["methods"]}
    assert (by["meanstd"]["tested"], by["pixels"]["tested"]) == (False, True)
    rows, page = reported(tmp_path / "s", tmp_path)
    assert rows["meanstd"][:2] == ["", ""]
    assert "the scene values that tests need are missing in meanstd" in page


def test_two_runs_of_one_method_under_two_protocols_are_both_reported(
    report_store: Path, tmp_path: Path
) -> None:
    with Store.open(report_store) as store:
        whole = next(r for r in load_runs(store) if r.method == "pixels")
    with Store.open(tmp_path / "s") as store:
        for i, protocol in enumerate(("exact", "hbench-2016")):
            scores = [s for s in whole.scores if s.protocol == protocol]
            save_run(store, replace(whole, id=f"{i}{whole.id[1:]}", scores=scores))
    out = tmp_path / "r.md"
    assert command(["report", "--store", str(tmp_path / "s"), "--format", "md", "--out", str(out)]) == 0
    text = out.read_text()
    assert "matching exact" in text
    assert "matching hbench-2016" in text
