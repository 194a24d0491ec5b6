# SPDX-License-Identifier: BSD-3-Clause
"""The comparison of a section, made behind the pages and kept outside the store; its sentence."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Hashable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..core.errors import InputError, TiepointError
from ..core.hashing import hash_json
from ..report.compare.comparison import Comparison, MethodRow, PairRow
from ..report.compare.runs import compare_runs
from ..report.compare.sentences import finding
from ..report.runs.sections import TaskSection
from ..store.atomic_files import atomic_file
from .memo import source_version
from .run_index import RunIndex


@dataclass(frozen=True)
class CachedComparison:
    """What `compare` finds in a section; without a comparison, `why`. `pending`: it is still being made."""

    comparison: Comparison | None
    why: str = ""
    sentence: str = ""
    pending: bool = False


def section_comparison(
    library: RunIndex, section: TaskSection, until: float | None = None
) -> CachedComparison:
    """The comparison of a section; one that is not there after a moment is pending, and goes on.

    Args:
        library: The open store.
        section: With its headline score.
        until: When to stop waiting, by the monotonic clock; by default after the patience of the library.
    """
    wait = library.wait_s if until is None else max(0.0, until - time.monotonic())
    made = library.compute_in_background(
        "comparison", section_key(section), lambda: _make_comparison(library, section), wait
    )
    return (
        CachedComparison(None, "the methods are being compared", "Methods are being compared …", True)
        if made is None
        else made
    )


def section_key(section: TaskSection) -> Hashable:
    """What tables and figures of a section depend on, in one state of the store."""
    ids = tuple(r.id for r in section.runs)
    return (section.task, section.dataset, section.protocol, section.metric, section.group, ids)


def _make_comparison(library: RunIndex, section: TaskSection) -> CachedComparison:
    facts = [
        [
            r.id,
            section.names[r.id],
            r.manifest.scoring,
            r.manifest.values.get(section.protocol),
            section.score(r),
        ]
        for r in section.runs
    ]
    score = [section.task, section.protocol, section.metric, section.group]
    name = hash_json(["comparison", source_version(), score, facts])
    path = None if library.cache is None else library.cache / "comparisons" / name[:2] / f"{name}.json"
    kept = None if path is None else _read_comparison(path)
    if kept is None:
        words: dict[str, Any] = {
            "metric": section.metric,
            "group": section.group,
            "protocol": section.protocol,
        }
        try:
            with library.turn:
                comparison = compare_runs(section.runs, **words)
        except InputError as e:
            return CachedComparison(None, e.brief, finding(section))
        # The sentence is made before the pairs are plain rows: it asks them for one interval only.
        sentence = finding(comparison)
        kept = CachedComparison(replace(comparison, pairs=tuple(comparison.pairs)), "", sentence)
        if path is not None:
            with contextlib.suppress(TiepointError, OSError), atomic_file(path) as temporary:
                temporary.write_text(json.dumps(asdict(kept)), encoding="utf-8", newline="\n")
    return kept


def _read_comparison(path: Path) -> CachedComparison | None:
    """What was kept of a comparison; None where there is nothing, or it is damaged or of another form."""
    try:
        whole = _tuples(json.loads(path.read_text(encoding="utf-8")))
        plain = whole["comparison"]
        rows = [
            r | {"versus": None if r["versus"] is None else PairRow(**r["versus"])} for r in plain["rows"]
        ]
        pairs = tuple(PairRow(**p) for p in plain["pairs"])
        made = Comparison(**plain | {"rows": tuple(MethodRow(**r) for r in rows), "pairs": pairs})
        return CachedComparison(made, "", str(whole["sentence"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _tuples(plain: Any) -> Any:
    if isinstance(plain, list):
        return tuple(_tuples(x) for x in plain)
    return {k: _tuples(v) for k, v in plain.items()} if isinstance(plain, dict) else plain
