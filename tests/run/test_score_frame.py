# SPDX-License-Identifier: BSD-3-Clause
"""Printed scores have value and interval, whatever the width of the terminal, and stay a pandas frame."""

from __future__ import annotations

import pandas as pd

from tiepoint.run.score_frame import ScoreFrame

ROW = {"method": "a<b>", "task": "tss", "protocol": "exact", "metric": "iou", "group": "all", "value": 0.5}
REST = {"n": 9, "low": 0.41, "high": 0.62, "interval": "bca", "chance": None, "note": None}


def frame(*changes: dict[str, object]) -> ScoreFrame:
    return ScoreFrame([ROW | REST | change for change in changes])


def test_value_and_interval_are_printed_at_any_width() -> None:
    with pd.option_context("display.width", 20, "display.max_columns", 3):
        text = str(frame({}))
    assert "0.5000" in text
    assert "0.4100–0.6200" in text
    assert "..." not in text


def test_single_scenes_are_counted_and_gaps_are_dashes() -> None:
    single = [{"group": f"scene=v_{i}"} for i in range(3)]
    text = str(frame({}, {"metric": "aepe", "value": None, "low": None, "high": None}, *single))
    assert "v_0" not in text
    assert "and 3 scores of single scenes and pairs" in text
    assert "–" in text.splitlines()[3]
    assert "v_2" in str(frame(*single))


def test_what_is_made_from_it_is_plain_and_html_is_escaped() -> None:
    whole = frame({}, {"method": "other"})
    assert type(whole.query("value > 0")) is pd.DataFrame
    assert type(pd.concat([whole, whole])) is pd.DataFrame
    assert type(whole[["value"]]) is pd.DataFrame
    html = whole._repr_html_() or ""
    assert "a&lt;b&gt;" in html
    assert "<b>" not in html
    assert str(whole.assign(value=1.0)[["value"]])
    assert str(ScoreFrame())
