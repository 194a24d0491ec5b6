# SPDX-License-Identifier: BSD-3-Clause
"""A comparison as text, Markdown, LaTeX and files, with names that try to be more than text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tiepoint.core.errors import InputError
from tiepoint.core.scores import SceneValues
from tiepoint.formats.csv_table import escape_formula
from tiepoint.report.compare.comparison import Comparison
from tiepoint.report.compare.methods import compare_methods
from tiepoint.report.compare.text_table import comparison_text

HOSTILE = [
    "<script>alert(1)</script>",
    r"\input{/etc/passwd} & 50% $x$ #_{}~^",
    "a|b*c_d`e`[f](g)",
    "new\nline\tand \x1b[31mcolour",
    "n" * 300,
    "描述符-ñ",
]


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    rng = np.random.default_rng(0)
    scenes = tuple(f"s{k:02d}" for k in range(12))
    level = rng.uniform(0.4, 0.6, 12)
    tables = {
        name: SceneValues(scenes, ("i",) * 6 + ("v",) * 6, (level - 0.05 * k + rng.normal(0, 0.01, 12))[None])
        for k, name in enumerate(HOSTILE)
    }
    return compare_methods(tables, task="hpatches/matching", metric="map", protocol="exact")


def test_text_is_one_line_a_method_and_aligned(comparison: Comparison) -> None:
    from rich.cells import cell_len

    lines = str(comparison).split("\n")
    body = lines[4 : 4 + len(HOSTILE)]
    assert lines[0] == "hpatches/matching, protocol exact, map, percent"
    assert "\x1b" not in str(comparison)
    ends = {cell_len(re.sub(r"\s+\S+$", "", line)) for line in body}
    assert len(ends) == 1
    assert all(cell_len(line) < 200 + 150 for line in body)


def test_long_names_are_told_apart() -> None:
    names = [f"net?weights={'w' * 40}{k}{'x' * 40}" for k in (1, 2)] + [
        f"{'l' * 300}{k}{'m' * 300}" for k in (3, 4)
    ]
    rng = np.random.default_rng(0)
    scenes = tuple(f"s{k:02d}" for k in range(8))
    tables = {
        name: SceneValues(scenes, ("i",) * 8, (0.5 - 0.05 * k + rng.normal(0, 0.01, 8))[None])
        for k, name in enumerate(names)
    }
    found = compare_methods(tables, task="hpatches/matching", metric="map", protocol="exact")
    for width in (None, 80):
        shown = comparison_text(found, width)
        lines = [line.split()[0] for line in shown.splitlines() if line.startswith(("net?", "lll"))]
        assert [n for n in names if n in lines] == names
        assert f"baseline: {names[0]}" in shown
        assert "minus baseline" in shown
    found = compare_methods(
        {n: tables[n] for n in names[:3]}, task="hpatches/matching", metric="map", protocol="exact"
    )
    assert (
        names[2]
        not in comparison_text(found)[comparison_text(found).index("minus baseline") :].partition("\n\n")[0]
    )


def test_markdown_shows_names_as_text(comparison: Comparison) -> None:
    text = comparison.to_markdown()
    rows = [line for line in text.split("\n") if line.startswith("|")]
    assert len(rows) == 2 + len(HOSTILE)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {10}
    assert "<script" not in text
    assert "\\|b\\*c\\_d\\`e\\`\\[f\\](g)" in text


def test_latex_has_no_foreign_commands(comparison: Comparison) -> None:
    text = comparison.to_latex()
    assert r"\input" not in text.replace(r"\textbackslash{}input", "")
    assert r"\textbackslash{}input\{/etc/passwd\} \& 50\% \$x\$ \#\_\{\}" in text
    known = {
        "begin", "end", "hline", "textbf", "par", "smallskip", "footnotesize", "textbackslash",
        "textasciitilde", "textasciicircum", "textless", "textgreater", "textbar",
    }  # fmt: skip
    assert set(re.findall(r"\\([a-zA-Z]+)", text)) <= known
    rows = [line for line in text.split("\n") if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in rows} == {8}
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    assert text.count(r"\textbf") == sum("a" in r.letters for r in comparison.rows)


def test_frames_have_fractions_and_all_columns(comparison: Comparison) -> None:
    frame = comparison.to_frame()
    assert list(frame["method"]) == [r.method for r in comparison.rows]
    assert frame["value"].between(0, 1).all()
    assert {"low", "high", "difference", "p_adjusted", "group", "rank_best", "won", "effect_size"} <= set(
        frame
    )
    pairs = comparison.pairs_frame()
    assert len(pairs) == 15
    assert (pairs["p_adjusted"] >= pairs["p"] - 1e-12).all()
    assert "q_exploratory" in pairs


@pytest.mark.parametrize("suffix", [".txt", ".md", ".tex", ".csv", ".json", ".parquet"])
def test_save_by_suffix_twice_the_same(comparison: Comparison, tmp_path: Path, suffix: str) -> None:
    path = comparison.save(tmp_path / f"table{suffix}")
    assert path.stat().st_size > 100
    assert comparison.save(tmp_path / f"again{suffix}").read_bytes() == path.read_bytes()
    if suffix == ".json":
        assert json.loads(path.read_text())["methods"][0]["method"] == comparison.rows[0].method
    if suffix == ".csv":
        assert list(pd.read_csv(path)["method"]) == [escape_formula(r.method) for r in comparison.rows]
    if suffix == ".parquet":
        assert list(pd.read_parquet(path)["value"]) == [r.value for r in comparison.rows]


def test_unknown_suffix_names_the_known_ones(comparison: Comparison, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.parquet"):
        comparison.save(tmp_path / "table.docx")


def test_errors_in_pixels_are_not_percent() -> None:
    rng = np.random.default_rng(0)
    scenes = tuple(f"s{k:02d}" for k in range(12))
    tables = {n: SceneValues(scenes, ("v",) * 12, rng.uniform(1, 9, (1, 12))) for n in "ab"}
    c = compare_methods(tables, metric="aepe", higher_is_better=False)
    assert "percent" not in str(c)
    assert "lower is better" in str(c)
    assert f"{c.rows[0].value:.4g}" in str(c)
