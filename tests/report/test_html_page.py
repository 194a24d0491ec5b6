# SPDX-License-Identifier: BSD-3-Clause
"""The report page: same bytes twice, nothing from elsewhere, hostile names as text, all sections there."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from published_world import make_patches, make_results
from report_world import HOSTILE, SCENE

from tiepoint.cli.main import run as command
from tiepoint.core.errors import InputError
from tiepoint.report.compare.findings import finding_for
from tiepoint.report.compare.sentences import finding
from tiepoint.report.convention_tables import by_protocol, by_step
from tiepoint.report.html_page import render_page
from tiepoint.report.runs.lazy_records import LazyRecords, RecordCache
from tiepoint.report.runs.sections import sections
from tiepoint.report.runs.selection import runs_of
from tiepoint.run.engine import evaluate
from tiepoint.run.importers import import_files
from tiepoint.run.request import RunRequest
from tiepoint.run.result import Run
from tiepoint.store.run_queries import load_runs
from tiepoint.store.store import Store
from tiepoint.tasks import load_task
from tiepoint.tasks.info import metric_info


class Tags(HTMLParser):
    """Names of all elements, and ids."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.ids += [v for k, v in attrs if k == "id" and v]


@pytest.fixture(scope="module")
def page(report_runs: list[Run]) -> str:
    return render_page(report_runs, title="t")


def test_the_page_is_the_same_twice_and_small(report_runs: list[Run], page: str) -> None:
    assert page == render_page(list(reversed(report_runs)), title="t")
    assert len(page.encode()) < 2_000_000


def test_two_reports_of_one_store_have_the_same_bytes(report_store: Path, tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        assert command(["report", "--store", str(report_store), "--out", str(tmp_path / name)]) == 0
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_nothing_comes_from_elsewhere(page: str) -> None:
    text = page.replace("http://www.w3.org/", "")
    assert "http://" not in text
    assert "https://" not in text
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", text)


def test_hostile_names_are_only_text(page: str) -> None:
    tags = Tags()
    tags.feed(page)
    assert tags.names.count("script") == 1
    assert "red" not in tags.names
    assert "<script>document.title" not in page
    assert html.escape(HOSTILE).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in page
    assert html.escape(SCENE, quote=False) in page or "&lt;b&gt;[red]" in page


def test_ids_are_unique(page: str) -> None:
    tags = Tags()
    tags.feed(page)
    assert len(tags.ids) == len(set(tags.ids))


def test_every_part_is_there(page: str) -> None:
    for part in ("answers", "family-patches", "hpatches-v1-matching", "runs", "cite"):
        assert f'<section id="{part}"' in page
    assert 'class="fold conventions"' in page
    assert 'class="failures"' in page
    assert "@inproceedings{balntas2017hpatches" in page
    assert "not separated by these 7 scenes" in page
    assert ">chance<" in page
    for figure in ("best", "scenes", "cost-time-s", "pr-benchmark-all"):
        assert f'id="{figure}-hpatches-v1-matching"' in page
    scatters = page.count('<figure class="scatter">')
    assert page.count('data-get="csv"') == page.count('data-get="svg"') == page.count("<svg ") - scatters
    assert scatters == 1


def test_every_score_says_what_it_is(report_runs: list[Run], page: str) -> None:
    (section,) = sections(report_runs)
    text = html.unescape(page)
    assert f"Average precision: {section.info.sentence()}." in text
    for metric in {metric for metric, _ in section.columns}:
        words = metric_info(section.definition.info, metric).sentence()
        assert words.endswith(("higher is better", "lower is better"))
        assert words in text


@pytest.mark.parametrize(
    ("task", "metric", "group", "parts"),
    [
        (
            "dense/pck",
            "pck",
            "alpha=0.05,per=point,scale=box",
            ("0.05 times the larger side of the object's box", "over all keypoints", "percent, higher"),
        ),
        (
            "dense/pck",
            "pck",
            "alpha=0.1,per=pair,scale=keypoints",
            ("extent of the target's keypoints", "pairs"),
        ),
        ("dense/flow", "aepe", "all", ("pixels, lower is better",)),
        ("dense/flow", "flow_accuracy", "threshold_px=3", ("at most 3 px",)),
        ("dense/flow", "flow_accuracy", "alpha=0.05", ("at most 0.05 of the target's larger side",)),
        ("tss", "flow_accuracy", "all", ("at most 5 %",)),
        ("hpatches/verification", "fpr95", "all", ("percent, lower is better",)),
        ("keypoints/ranking", "precision_at_10", "all", ("among the first 10",)),
        ("keypoints/ranking", "viewpoint_map_with_zeros", "all", ("counts 0",)),
        ("keypoints/geometry", "mma", "tau_px=5", ("at most 5 px",)),
        ("keypoints/ranking", "gallery_size", "all", ("; a count",)),
    ],
)
def test_the_words_of_a_score_hold_its_thresholds(
    task: str, metric: str, group: str, parts: tuple[str, ...]
) -> None:
    words = metric_info(load_task(task).info, metric).sentence(group)
    for part in parts:
        assert part in words
    assert "{" not in words


def test_the_first_screen_says_what_compare_says(report_runs: list[Run], page: str) -> None:
    (section,) = sections(report_runs)
    text = html.unescape(page)
    assert finding(section) in re.sub(r"</?strong>", "", text)
    found = finding_for(section)
    assert found is not None
    assert f"<b>{found.first}</b>" in text
    assert found.lead in text
    assert f"<small>{found.why}</small>" in text


def test_imported_results_have_a_section_beside_runs_of_another_protocol(tmp_path: Path) -> None:
    data = make_patches(tmp_path / "made")
    with Store.open(tmp_path / "s") as store:
        import_files(make_results(tmp_path)[:1], store, split="full")
        for method, protocols in (("pixels", ("exact",)), ("meanstd", ("exact", "hpatches-python"))):
            evaluate(RunRequest(method, "hpatches/matching", data, protocols, {"split": "full"}), store)
        runs = runs_of(store, None)
        own, foreign = sections(runs)
        assert {r.method for r in own.runs} == {"pixels", "meanstd"}
        assert {r.method for r in foreign.runs} == {"sift", "orb", "net", "deep", "meanstd"}
        page = render_page(runs, title="t")
    tags = Tags()
    tags.feed(page)
    assert len(tags.ids) == len(set(tags.ids))
    assert "hpatches-matching-hpatches-python" in tags.ids
    assert "6 methods on 1 task." in page


def test_a_report_of_nothing_says_what_to_do() -> None:
    with pytest.raises(InputError, match="no finished runs"):
        render_page([], title="t")


def test_conventions_add_up(report_runs: list[Run]) -> None:
    (section,) = sections(report_runs)
    protocols = by_protocol(section)
    assert protocols is not None
    assert protocols.columns == ("exact", "hbench-2016")
    for table in by_step(section):
        assert table.legend[0] == "hbench-2016"
        for _, cells in table.rows:
            assert float(cells[0]) + sum(map(float, cells[1:-1])) == pytest.approx(float(cells[-1]), abs=0.04)


def test_records_beyond_the_limit_are_read_again(report_store: Path) -> None:
    with Store.open(report_store) as store:
        run = load_runs(store)[0]
        (key,) = next(iter(run.manifest.units.values())).values()
        whole, small = RecordCache(store.records), RecordCache(store.records, max_bytes=10)
        assert whole.get(key) is whole.get(key)
        assert small.get(key) is not small.get(key)
        assert small.size_bytes == 0
        assert (small.get(key)["d1"] == whole.get(key)["d1"]).all()
        lazy = LazyRecords({"reference": key}, whole, run)
        assert list(lazy) == ["reference"]
        assert lazy["reference"] is whole.get(key)


def test_convention_section_starts_with_the_order_of_methods(report_runs: list[Run]) -> None:
    from tiepoint.report.convention_tables import conventions

    (section,) = sections(report_runs)
    found = conventions(section)
    assert found[0].order.startswith("The order of methods ")
    page = render_page(report_runs, title="t")
    inside = page.partition('class="fold conventions"')[2]
    assert inside.index(found[0].order) < inside.index("The same records, scored by")
    assert re.sub(r"<[^>]*>", "", inside.partition("</summary>")[2]).strip().startswith(found[0].order)
