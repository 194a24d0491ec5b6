# SPDX-License-Identifier: BSD-3-Clause
"""Pages show what the store holds, the same numbers as `compare`, and names as text."""

from __future__ import annotations

import io
import json
import shlex
from html import unescape
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from report_world import HOSTILE

pytest.importorskip("starlette", reason="the extra [serve] is not installed")
from tiepoint.report.compare.runs import compare_runs
from tiepoint.report.compare.sentences import finding
from tiepoint.report.compare.text_table import row_cells
from tiepoint.report.export import scores_text
from tiepoint.report.html_page import render_page
from tiepoint.report.paper_latex import BIBTEX
from tiepoint.report.paper_tables import bibtex
from tiepoint.serve.cached_results import section_comparison
from tiepoint.serve.run_index import RunIndex
from tiepoint.serve.views.run import rerun_command
from tiepoint.store.schema import count_change
from tiepoint.store.store import Store

TASK = "/task/hpatches-v1/matching"


def two_runs(library: RunIndex) -> tuple[Any, Any]:
    section = library.snapshot().sections[0]
    return section.methods[0], section.methods[1]


def test_home_tells_what_is_there_and_what_was_found(client: Any, library: RunIndex) -> None:
    answer = client.get("/")
    text = unescape(answer.text)
    assert answer.status_code == 200
    assert "6 finished runs of 6 methods on 1 task" in text
    first, _ = two_runs(library)
    section = library.snapshot().sections[0]
    score = section.score(first)
    assert score is not None
    assert f"{100 * score.value:.2f} %" in text


def test_a_task_prints_the_numbers_of_compare(client: Any, library: RunIndex) -> None:
    section = library.snapshot().sections[0]
    made = compare_runs(section.runs, metric=section.metric, group=section.group, protocol="exact")
    text = unescape(client.get(TASK).text)
    for row in made.rows:
        for cell in row_cells(made, row)[1:]:
            assert f">{cell}</td>" in text
    assert "under each protocol" in text
    orders = [line for line in text.splitlines() if "The order of methods" in line]
    assert any("exact and hbench-2016" in line and "note" not in line for line in orders), orders


def test_findings_are_those_of_the_report_also_when_they_were_kept(library: RunIndex) -> None:
    section = library.snapshot().sections[0]
    made = compare_runs(section.runs, metric=section.metric, group=section.group, protocol=section.protocol)
    fresh = RunIndex(library.store, cache=library.cache, wait_s=600)
    for told in (section_comparison(library, section), section_comparison(fresh, section)):
        assert told.sentence == finding(made)
        assert told.comparison is not None
        first, second = [r.method for r in told.comparison.rows if r.tested][:2]
        assert told.comparison.answer(first, second) == made.answer(first, second)
        assert [row_cells(made, r) for r in told.comparison.rows] == [row_cells(made, r) for r in made.rows]


def test_filters_of_a_task_are_in_its_url(client: Any, library: RunIndex) -> None:
    text = unescape(client.get(f"{TASK}?method=pixels%20oracle&protocol=hbench-2016").text)
    assert text.count("<tr data-run=") == 2
    assert "Protocol <b>hbench-2016</b>" in text
    section = library.snapshot().sections[0]
    other = next(c for c in section.columns if c != (section.metric, section.group))
    assert client.get(TASK, params={"score": f"{other[0]} {other[1]}"}).status_code == 200
    assert client.get(f"{TASK}?method=nobody").status_code == 400


@pytest.mark.parametrize("kind", ["intervals", "heat"])
def test_figures_are_pictures_that_cannot_run_anything(client: Any, kind: str) -> None:
    answer = client.get(f"/figure/{kind}/hpatches-v1/matching")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert "script" not in answer.headers["content-security-policy"]
    assert "<script" not in answer.text
    tag = answer.headers["etag"]
    same = client.get(f"/figure/{kind}/hpatches-v1/matching", headers={"if-none-match": tag})
    assert (same.status_code, same.content) == (304, b"")


def test_two_methods_agree_with_the_stored_scenes(client: Any, library: RunIndex) -> None:
    first, second = two_runs(library)
    section = library.snapshot().sections[0]
    text = unescape(client.get(f"/two/{first.id}/{second.id}").text)
    assert "difference (joint interval)" in text  # the test is of all pairs of methods
    mine, other = (section.scene_rows(r) for r in (first, second))
    won = sum(mine[s].value > other[s].value for s in mine)
    assert f"{won} won" in text
    for scene in mine:
        assert f"{100 * (mine[scene].value - other[scene].value):+.2f}" in text
    assert text.count("<circle") == len(mine)


def test_table_for_paper_page_and_file_have_equal_text(client: Any, library: RunIndex) -> None:
    runs = library.snapshot().runs
    for intervals in (False, True):
        written = scores_text(runs, "latex", intervals=intervals).partition(BIBTEX)[0].strip()
        assert r"\toprule" in written
        for page in (f"{TASK}?paper=1", "/paper"):
            assert written in unescape(client.get(page).text), page
    assert bibtex(runs) in unescape(client.get("/paper").text)
    assert "toprule" not in client.get(TASK).text
    assert written in unescape(render_page(runs, title="t"))


def test_a_run_says_how_to_repeat_it_and_is_taken_along(client: Any, library: RunIndex) -> None:
    run, _ = two_runs(library)
    text = unescape(client.get(f"/run/{run.id}").text)
    words = shlex.split(rerun_command(run, "somewhere"))
    assert words[:3] == ["tiepoint", "run", run.manifest.method.spec]
    assert words[words.index("--data") + 1] == run.manifest.dataset.path
    assert rerun_command(run, library.store.where) in text
    table = pd.read_parquet(io.BytesIO(client.get(f"/run/{run.id}/scores.parquet").content))
    plain = pd.read_csv(io.StringIO(client.get(f"/run/{run.id}/scores.csv").text))
    rows = json.loads(client.get(f"/run/{run.id}/scores.json").text)["scores"]
    assert len(table) == len(plain) == len(rows) > len(run.score_rows)
    assert json.loads(client.get(f"/run/{run.id}/manifest.json").text)["task"] == run.task


def test_hostile_names_are_text(client: Any, library: RunIndex) -> None:
    odd = next(r for r in library.snapshot().runs if r.method == HOSTILE)
    first, _ = two_runs(library)
    for page in ("/", "/runs", TASK, f"/run/{odd.id}", f"/two/{first.id}/{odd.id}", f"/save?view={TASK}"):
        text = client.get(page).text
        assert "<script>document" not in text
        assert "<b>[red]" not in text
        assert "&lt;script&gt;doc" in text or "&lt;b&gt;" in text, page


def test_a_saved_view_needs_no_server(client: Any) -> None:
    answer = client.get(f"/save?view={TASK}")
    assert answer.headers["content-disposition"].endswith('.html"')
    assert "/static/" not in answer.text
    assert 'src="/' not in answer.text
    assert 'src="data:image/svg+xml;base64,' in answer.text
    assert 'href="http://127.0.0.1:8765/' in answer.text


def test_the_store_is_read_again_when_it_has_changed(odd_store: Any, library: RunIndex) -> None:
    before = library.snapshot()
    library._asked = -10.0
    assert library.snapshot() is before
    with Store.open(odd_store) as store, store.begin() as connection:
        count_change(connection)
    library._asked = -10.0
    assert library.snapshot() is not before


def test_pages_mark_runs_that_are_not_deterministic(odd_store: Path, tmp_path: Path) -> None:
    """The mark comes from the manifest and the notes of scores, as `save_run` writes them."""
    from dataclasses import replace
    from shutil import copytree

    from visitors import visitor

    from tiepoint.serve.app import application
    from tiepoint.store.run_queries import load_runs
    from tiepoint.store.store import Store
    from tiepoint.store.writers import save_run

    with Store.open(copytree(odd_store, tmp_path / "s")) as store:
        first, second = load_runs(store)[:2]
        marked = {"nondeterministic_items": 2, "warnings": ("it is not deterministic",)}
        manifest = first.manifest.model_copy(update=marked)
        save_run(store, replace(first, manifest=manifest))
    with Store.open(tmp_path / "s", mode="read") as store:
        library = RunIndex(store, cache=tmp_path / "cache", wait_s=600)
        with visitor(application(library)) as here:
            for page in (TASK, f"/run/{first.id}", f"/two/{first.id}/{second.id}", "/runs", "/"):
                answer = here.get(page)
                assert answer.status_code == 200, page
                assert "is not deterministic" in unescape(answer.text), page
                assert " *<" in answer.text or ">*<" in answer.text, page
            assert "is not deterministic" not in unescape(here.get(f"/run/{second.id}").text)
