# SPDX-License-Identifier: BSD-3-Clause
"""A pandas frame of scores that prints values with their intervals."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ..core.formatting import count_text

MAX_ROWS = 60
SHOWN_COLUMNS = ("method", "task", "protocol", "metric", "group", "value", "low", "high", "n")


class ScoreFrame(pd.DataFrame):
    """A pandas frame of scores. Derived frames (a query, some columns, a copy) are plain pandas frames.

    >>> row = {"method": "sift", "task": "tss", "protocol": "exact", "metric": "iou", "group": "all"}
    >>> print(ScoreFrame([row | {"value": 0.5, "low": 0.4, "high": 0.61, "n": 9}]))
    sift on tss
    protocol metric group  value 95 % interval  n
       exact    iou   all 0.5000 0.4000–0.6100  9
    """

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        shown, above, below = self._brief()
        if shown is None:
            return str(pd.DataFrame(self))
        table = shown.to_string(index=False, max_rows=MAX_ROWS, max_colwidth=60)
        return "\n".join(line for line in (above, table, below) if line)

    def _repr_html_(self) -> str | None:
        from html import escape

        shown, above, below = self._brief()
        if shown is None:
            return str(pd.DataFrame(self).to_html())
        table = shown.to_html(index=False, max_rows=MAX_ROWS, border=0)
        return f"<p>{escape(above)}</p>{table}" + (f"<p>{escape(below)}</p>" if below else "")

    def _brief(self) -> tuple[pd.DataFrame | None, str, str]:
        """Return the frame to print (None if columns are missing), its header line and its footer line."""
        if self.empty or not set(SHOWN_COLUMNS) <= set(self.columns):
            return None, "", ""
        plain = pd.DataFrame(self)
        parts = plain["group"].astype(str).str.split(",")
        single = parts.map(lambda ps: any(p.startswith(("scene=", "pair=")) for p in ps)).astype(bool)
        kept = plain[~single] if (~single).any() else plain
        names = plain[["method", "task"]].drop_duplicates()
        one = len(names) == 1
        shown = kept[["protocol", "metric", "group"]] if one else kept[[*SHOWN_COLUMNS[:5]]]
        shown = shown.assign(value=kept["value"].map(_number))
        shown["95 % interval"] = [
            "" if pd.isna(low) or pd.isna(high) else f"{_number(low)}–{_number(high)}"
            for low, high in zip(kept["low"], kept["high"], strict=True)
        ]
        left = len(plain) - len(kept)
        below = f"and {count_text(left, 'score')} of single scenes and pairs" if left else ""
        above = " on ".join(map(str, names.iloc[0])) if one else ""
        return shown.assign(n=kept["n"]), above, below


def _number(value: Any) -> str:
    """Format a score with four decimals, large values with four digits. Missing values become a dash."""
    if pd.isna(value):
        return "–"
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:.4g}"
