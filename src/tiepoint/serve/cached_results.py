# SPDX-License-Identifier: BSD-3-Clause
"""Comparisons and sorted cases, computed in the background and cached outside the store."""

from __future__ import annotations

import contextlib
import json
import time
import zipfile
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError, StoreError, TiepointError
from ..core.hashing import hash_json
from ..report.case_order import BY, By, CaseRow, cases_of, order_cases, scored_scenes
from ..report.compare.comparison import Comparison, MethodRow, PairRow
from ..report.compare.runs import compare_runs
from ..report.compare.sentences import finding
from ..report.runs.sections import TaskSection
from ..run.result import Run
from ..store.atomic_files import atomic_file
from ..tasks.cases import Cases, Floats, Keys
from .run_index import RunIndex, source_version


@dataclass(frozen=True)
class CachedComparison:
    """The comparison of a section, or `why` it is missing. `pending` is set until it has been computed."""

    comparison: Comparison | None
    why: str = ""
    sentence: str = ""
    pending: bool = False


def section_comparison(
    library: RunIndex, section: TaskSection, until: float | None = None
) -> CachedComparison:
    """Return the comparison of a section. It is `pending` if it is not ready in time.

    Args:
        library: The open store.
        section: The section, compared by its headline score.
        until: Time of the monotonic clock at which to stop waiting. By default the timeout of `library`
            applies.
    """
    if section.no_ranking:
        return CachedComparison(None, section.no_ranking, f"{section.no_ranking.capitalize()}.")
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
    """Return the cache key of a section's tables and figures. It changes when the store changes."""
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
            return CachedComparison(None, e.one_line, finding(section))
        if comparison.caution:
            return CachedComparison(None, comparison.caution, finding(comparison))
        # Lazy pairs compute only the interval for the sentence; plain rows would compute all intervals.
        sentence = finding(comparison)
        kept = CachedComparison(replace(comparison, pairs=tuple(comparison.pairs)), "", sentence)
        if path is not None:
            with contextlib.suppress(TiepointError, OSError), atomic_file(path) as temporary:
                temporary.write_text(json.dumps(asdict(kept)), encoding="utf-8", newline="\n")
    return kept


def _read_comparison(path: Path) -> CachedComparison | None:
    """Read a cached comparison. Return None if it is missing, corrupt or in another format."""
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


LABELS = 1000
"""Number of labels that are cached with sorted cases. Other labels are computed from the records."""


@dataclass(frozen=True)
class CaseOrder:
    """Sorted cases. `keys` has shape (n,), `scores` and `sure` have shape (methods, n).

    The first `n_relevant` cases meet the criterion of the sort order. `sure` is the ratio of first to second
    distance. It is None if the task has no such ratio and NaN if a value is unknown.
    """

    keys: Keys
    scores: Floats
    sure: Floats | None
    n_relevant: int
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.keys)

    def place(self, key: str) -> int | None:
        """Return the position of a key from a URL. None if there is no such case."""
        if self.keys.dtype.kind in "iu":
            if not (key.isascii() and key.isdigit() and len(key) < 19):
                return None
            rows = np.flatnonzero(self.keys == int(key))
        else:
            rows = np.flatnonzero(self.keys == key)
        return int(rows[0]) if len(rows) else None


def order_of(library: RunIndex, runs: Sequence[Run], scene: str, by: By) -> CaseOrder | None:
    """Return the sorted cases that all runs share in a scene. None if a run has no cases."""
    facts = [[r.id, hash_json(dict(r.manifest.units.items()))] for r in runs]
    name = hash_json(["order", source_version(), scene, facts])
    return library.orders.get((name, by), lambda: _make_order(library, runs, scene, by, name))


def scene_names(library: RunIndex, section: TaskSection, run: Run) -> list[str]:
    """Return the scene names of a run, or its unit names if it has no scene values."""

    def make() -> list[str]:
        found = {s.scene for s in scored_scenes(run, section.protocol)}
        return sorted(found or {str(u) for u in run.unit_records})

    return library.cached("scenes", (run.id, section.protocol), make)


def _make_order(library: RunIndex, runs: Sequence[Run], scene: str, by: By, name: str) -> CaseOrder | None:
    """Read sorted cases from the cache. If they are missing, compute and cache all sort orders."""
    folder = None if library.cache is None else library.cache / "orders" / name[:2]
    kept = None if folder is None else _read_order(folder / f"{name}-{by}.npz")
    if kept is not None:
        return kept
    found = _cases(runs, scene)
    if found is None:
        return None
    wanted = None
    for one in BY if folder is not None else (by,):
        made = order_cases(found, one)
        at = made.order
        labels = tuple(made.cases.description(str(k)) for k in made.keys[at[:LABELS]])
        sure = None if made.confidence is None else made.confidence[:, at]
        order = CaseOrder(made.keys[at], made.scores[:, at], sure, made.n_relevant, labels)
        wanted = order if one == by else wanted
        if folder is not None:
            _write(folder / f"{name}-{one}.npz", order)
    return wanted


def _cases(runs: Sequence[Run], scene: str) -> list[Cases] | None:
    try:
        found = [cases_of(run, scene) for run in runs]
    except StoreError:
        return None  # Records are missing or corrupt.
    known = [c for c in found if c is not None]
    return known if len(known) == len(runs) else None


def page_of(
    library: RunIndex, runs: Sequence[Run], scene: str, order: CaseOrder, start: int, count: int
) -> list[CaseRow]:
    """Return the rows of one page of sorted cases."""
    return [row(library, runs, scene, order, i) for i in range(start, min(start + count, len(order)))]


def row(library: RunIndex, runs: Sequence[Run], scene: str, order: CaseOrder, i: int) -> CaseRow:
    """Return one row: key, label, and the score and distance ratio of each method."""
    key = str(order.keys[i])
    if i < len(order.labels):
        words = order.labels[i]
    else:
        cases = library.cases.get((runs[0].id, scene), lambda: cases_of(runs[0], scene))
        words = key if cases is None else cases.description(key)
    none = (None,) * len(runs)
    sure = none if order.sure is None else _numbers(order.sure[:, i])
    return CaseRow(key, words, _numbers(order.scores[:, i]), sure)


def _numbers(values: Floats) -> tuple[float | None, ...]:
    return tuple(float(v) if np.isfinite(v) else None for v in values)


def _write(path: Path, order: CaseOrder) -> None:
    """Write sorted cases to the cache. Write errors are ignored."""
    sure = np.empty((0, 0)) if order.sure is None else order.sure
    labels = np.frombuffer(json.dumps(order.labels).encode(), np.uint8)
    with (
        contextlib.suppress(TiepointError, OSError),
        atomic_file(path) as temporary,
        temporary.open("wb") as f,
    ):
        np.savez(
            f,
            keys=order.keys,
            scores=order.scores,
            sure=sure,
            meant=np.int64(order.n_relevant),
            labels=labels,
        )


def _read_order(path: Path) -> CaseOrder | None:
    try:
        with np.load(path, allow_pickle=False) as found:
            keys, scores, sure = found["keys"], found["scores"], found["sure"]
            labels = tuple(str(w) for w in json.loads(found["labels"].tobytes()))
            meant = int(found["meant"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    if keys.ndim != 1 or scores.shape[1:] != keys.shape or (sure.size and sure.shape != scores.shape):
        return None
    return CaseOrder(keys, scores, sure if sure.size or not len(keys) else None, meant, labels)
