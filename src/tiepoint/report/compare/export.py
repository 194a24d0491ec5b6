# SPDX-License-Identifier: BSD-3-Clause
"""A comparison as frames, as plain values and as files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...formats.csv_table import frame_csv
from ...formats.whole_file import atomic_path
from ...stats.groups import join_letters
from .comparison import Comparison, MethodRow
from .latex import latex
from .sentences import legend, sentences
from .text_table import comparison_text, markdown


def comparison_frame(c: Comparison) -> Any:
    """One row a method, as a pandas DataFrame."""
    import pandas as pd

    return pd.DataFrame([_record(c, r) for r in c.rows])


def _record(c: Comparison, r: MethodRow) -> dict[str, Any]:
    v = r.versus
    won = None if v is None else v.wins
    return {
        "method": r.base_name or r.method,
        "name": r.method,
        "run": r.run,
        "value": r.value,
        "low": r.low,
        "high": r.high,
        "baseline": c.baseline,
        "difference": None if v is None else v.difference,
        "difference_low": None if v is None else v.low,
        "difference_high": None if v is None else v.high,
        "difference_low_single": None if v is None else v.single_low,
        "difference_high_single": None if v is None else v.single_high,
        "p": None if v is None else v.p,
        "p_adjusted": None if v is None else v.p_adjusted,
        "separated": None if v is None else v.separated,
        "effect_size": None if v is None else v.effect,
        "smallest_resolvable": None if v is None else v.resolvable,
        "won": None if won is None else won[0],
        "level": None if won is None else won[1],
        "lost": None if won is None else won[2],
        "rank_best": r.rank_best,
        "rank_worst": r.rank_worst,
        "group": join_letters(r.letters),
        "identical_to": r.identical_to,
        "tested": r.tested,
        "n_scenes": c.n_scenes,
    }


def pairs_frame(c: Comparison) -> Any:
    """One row a pair, as a pandas DataFrame."""
    import pandas as pd

    return pd.DataFrame([_pair_record(asdict(p)) for p in c.pairs])


def _pair_record(p: dict[str, Any]) -> dict[str, Any]:
    won = p.pop("wins") or (None, None, None)
    return p | {"won": won[0], "level": won[1], "lost": won[2]}


def as_dict(c: Comparison) -> dict[str, Any]:
    """Everything as plain values."""
    head = {k: v for k, v in vars(c).items() if k not in ("rows", "pairs") and (k != "wide" or v)}
    plain_head = {k: list(v) if isinstance(v, tuple) else v for k, v in head.items()}
    return plain_head | {
        "n_scenes": c.n_scenes,
        "n_methods": c.n_methods,
        "methods": [_record(c, r) for r in c.rows],
        "pairs": [_pair_record(asdict(p)) for p in c.pairs],
        "answer": sentences(c),
        "legend": legend(c),
    }


def save_comparison(c: Comparison, path: Path) -> Path:
    """Write the table in the form its suffix names."""
    writers: dict[str, Callable[[Path], object]] = {
        ".txt": lambda file: _write(file, comparison_text(c) + "\n"),
        ".md": lambda file: _write(file, markdown(c)),
        ".tex": lambda file: _write(file, latex(c)),
        ".csv": lambda file: _write(file, frame_csv(comparison_frame(c))),
        ".json": lambda file: _write(file, json.dumps(as_dict(c), indent=1, sort_keys=True) + "\n"),
        ".parquet": lambda file: comparison_frame(c).to_parquet(file, index=False),
    }
    if path.suffix not in writers:
        raise InputError(f"cannot write {path}: the suffix must be one of {', '.join(writers)}")
    with atomic_path(path) as temporary:
        writers[path.suffix](temporary)
    return path


def _write(file: Path, made: str) -> None:
    file.write_text(made, encoding="utf-8", newline="\n")
