# SPDX-License-Identifier: BSD-3-Clause
"""The comparison of a section, made behind the pages and kept outside the store; its sentence."""

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
            return CachedComparison(None, e.one_line, finding(section))
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


LABELS = 1000
"""Cases whose words are kept with the order; those of the others are made from the records."""


@dataclass(frozen=True)
class CaseOrder:
    """Cases in an order: `keys` (n,), `scores` and `sure` (methods, n), the first `meant` what it is about.

    `sure` is the ratio of first and second distance, None where the task has none; NaN: not known.
    """

    keys: Keys
    scores: Floats
    sure: Floats | None
    n_relevant: int
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.keys)

    def place(self, key: str) -> int | None:
        """Where a key stands, None where it does not: keys of URLs may be anything."""
        if self.keys.dtype.kind in "iu":
            if not (key.isascii() and key.isdigit() and len(key) < 19):
                return None
            rows = np.flatnonzero(self.keys == int(key))
        else:
            rows = np.flatnonzero(self.keys == key)
        return int(rows[0]) if len(rows) else None


def order_of(library: RunIndex, runs: Sequence[Run], scene: str, by: By) -> CaseOrder | None:
    """The cases that all runs have in a scene, in an order; None where one of them has none."""
    facts = [[r.id, hash_json(dict(r.manifest.units.items()))] for r in runs]
    name = hash_json(["order", source_version(), scene, facts])
    return library.orders.get((name, by), lambda: _make_order(library, runs, scene, by, name))


def scene_names(library: RunIndex, section: TaskSection, run: Run) -> list[str]:
    """Scenes of a run by name; a run without scene values has its units."""

    def make() -> list[str]:
        found = {s.scene for s in scored_scenes(run, section.protocol)}
        return sorted(found or {str(u) for u in run.unit_records})

    return library.cached("scenes", (run.id, section.protocol), make)


def _make_order(library: RunIndex, runs: Sequence[Run], scene: str, by: By, name: str) -> CaseOrder | None:
    """An order from the cache folder, or from the records: then the others are kept as well."""
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
        return None  # records that are gone or damaged
    known = [c for c in found if c is not None]
    return known if len(known) == len(runs) else None


def page_of(
    library: RunIndex, runs: Sequence[Run], scene: str, order: CaseOrder, start: int, count: int
) -> list[CaseRow]:
    """Lines of a page of an order."""
    return [row(library, runs, scene, order, i) for i in range(start, min(start + count, len(order)))]


def row(library: RunIndex, runs: Sequence[Run], scene: str, order: CaseOrder, i: int) -> CaseRow:
    """One line: key, words, and score and ratio of each method."""
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
    """Keep an order; where nothing can be written it is made again the next time."""
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
