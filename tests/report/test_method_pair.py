# SPDX-License-Identifier: BSD-3-Clause
"""Two methods: scenes and cases that only one solves, against plain loops over the stored scores."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import pytest

from tiepoint.report.case_order import cases_of
from tiepoint.report.html_page import render_page
from tiepoint.report.method_pair import MAX_SCENES, scene_plot, shared_scenes, solved_cases
from tiepoint.report.runs.sections import TaskSection, sections
from tiepoint.run.result import Run


@pytest.fixture(scope="module")
def section(report_runs: list[Run]) -> TaskSection:
    (found,) = sections(report_runs)
    return found


def two(section: TaskSection) -> tuple[Run, Run]:
    by = {r.method: r for r in section.methods}
    return by["pixels"], by["meanstd"]


def by_loops(
    first: Run, second: Run, scenes: list[str]
) -> dict[tuple[bool, bool], list[tuple[str, str, float]]]:
    """Return (scene, key, difference) of all cases by whether each method reaches one half."""
    found: dict[tuple[bool, bool], list[tuple[str, str, float]]] = {}
    for scene in scenes:
        a, b = cases_of(first, scene), cases_of(second, scene)
        assert a is not None
        assert b is not None
        theirs = {str(key): float(score) for key, score in zip(b.keys, b.score, strict=True)}
        for key, score in zip(a.keys, a.score, strict=True):
            other = theirs[str(key)]
            found.setdefault((score >= 0.5, other >= 0.5), []).append((scene, str(key), float(score) - other))
    return found


def test_solved_cases_two_methods_equal_plain_loops(section: TaskSection) -> None:
    first, second = two(section)
    scenes = shared_scenes(section, first, second)
    wanted = by_loops(first, second, [s.name for s in scenes])
    found = solved_cases(section, first, second, scenes, 5)
    assert found is not None
    counts = [len(wanted.get(k, [])) for k in ((True, False), (False, True), (True, True), (False, False))]
    assert list(found.count) == counts
    assert counts[0] > 5
    assert (found.examined, found.known) == (7, 7)
    for listed, name, k in ((found.first, (True, False), 0), (found.second, (False, True), 1)):
        known = {(scene, key): gap for scene, key, gap in wanted.get(name, [])}
        assert len(listed) == min(5, len(known))
        for case in listed:
            assert case.scores[0] - case.scores[1] == pytest.approx(known[case.scene, case.key])
            assert case.scores[k] >= 0.5 > case.scores[1 - k]
        assert max((sum(c.scene == one.scene for c in listed) for one in listed), default=0) <= 2


def test_solved_cases_many_scenes_reads_those_that_differ_most(
    section: TaskSection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiepoint.report.method_pair.MAX_SCENES", 2)
    first, second = two(section)
    scenes = shared_scenes(section, first, second)
    found = solved_cases(section, first, second, scenes, 50)
    assert found is not None
    apart = sorted(scenes, key=lambda s: -abs(s.difference))[:2]
    assert {c.scene for c in (*found.first, *found.second)} <= {s.name for s in apart}
    assert "the 2 of 7 scenes whose difference is largest" in found.note
    assert MAX_SCENES > 2


def test_solved_cases_swapped_methods_swap_their_lists(section: TaskSection) -> None:
    first, second = two(section)
    scenes = shared_scenes(section, first, second)
    one = solved_cases(section, first, second, scenes, 4)
    other = solved_cases(section, second, first, scenes, 4)
    assert one is not None
    assert other is not None
    assert [(c.scene, c.key) for c in one.first] == [(c.scene, c.key) for c in other.second]
    assert one.count == (other.count[1], other.count[0], *other.count[2:])


def test_solved_cases_without_records_is_none(section: TaskSection) -> None:
    first, second = (replace(run, unit_records={}) for run in two(section))
    assert solved_cases(section, first, second, [], 4) is None


def test_scene_plot_equal_values_lie_on_the_diagonal(section: TaskSection) -> None:
    first, _ = two(section)
    plot = scene_plot(shared_scenes(section, first, first))
    assert plot.tally == (0, 7, 0)
    for scene in plot.scenes:
        assert scene.x == pytest.approx(plot.side - scene.y)
    assert scene_plot([]).scenes == ()


def test_report_compares_the_best_two_methods(report_runs: list[Run], section: TaskSection) -> None:
    page = render_page(report_runs, title="t")
    part = page.partition('<details class="fold two">')[2].partition("</details>")[0]
    first, second = section.methods[:2]
    for scene in shared_scenes(section, first, second):
        assert f"{scene.difference:+.2f}</td>" in part
    assert part.count("<circle") == 7
    text = unescape(re.sub(r"<[^>]*>", "", part))
    for method in (first, second):
        assert f"that {method.method[:10]}" in text
    sources = re.findall(r'src="data:image/webp;base64,([^"]*)"', page)
    assert len(sources) >= 10
    assert max(len(s) * 3 / 4 for s in sources) <= 15_000
    assert 'src="data:image/png' not in page
    assert 'loading="lazy"' not in page  # print has all pictures
