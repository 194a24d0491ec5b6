# SPDX-License-Identifier: BSD-3-Clause
"""Import result files of ZEB, the zero-shot evaluation benchmark of GIM: a run per method and version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core.errors import FormatError
from ...core.formatting import count_text, first_few
from ...core.hashing import hash_array, hash_file, hash_json
from ...core.records import Records
from ...formats.zeb import MARK, ZebFile, has_header, read_zeb
from ...store.store import Store
from ...store.stored_run import DatasetFacts, Manifest, MethodFacts
from ...tasks import load_task
from ...tasks.pose.imported import PROTOCOL, SETS, error_records, import_warnings, unit_keys
from ..cache_keys import imported_key
from ..finish import finish_run
from ..result import Run
from ..scoring import scores_under

TASK = "pose/relative"
DATASET = "ZEB (imported results)"
FULL_PAIRS = (5165, 5049, 2131, 3438, 5013, 1834, 1077, 2080, 5000, 5100, 5000, 5029)
"""Number of pairs in each complete set, in the order of `SETS`."""
PRINTED: Mapping[tuple[str, str], tuple[float, ...]] = {
    ("root_sift", "vanilla"): (31.8, 43.5, 33.6, 49.9, 48.7, 35.2, 21.4, 44.1, 14.7, 33.4, 7.6, 14.8, 35.1),
    ("gim_lightglue", "100h"): (38.3, 46.6, 38.1, 61.7, 62.9, 34.9, 31.2, 50.6, 22.6, 41.8, 6.9, 19.0, 43.4),
    ("gim_loftr", "50h"): (39.1, 50.6, 43.9, 62.6, 61.6, 35.9, 26.8, 47.5, 17.6, 41.4, 10.2, 25.6, 45.0),
    ("gim_dkm", "100h"): (51.2, 63.3, 53.0, 73.9, 76.7, 43.4, 34.6, 52.5, 24.5, 56.6, 32.2, 42.5, 61.6),
}  # fmt: skip
"""Values that the README of GIM prints, in percent: the mean, then the sets in the order of `SETS`."""


@dataclass(frozen=True)
class ImportedErrors:
    """Pose errors of one method and version on the sets of the benchmark."""

    method: str
    version: str
    records: Records
    sha256: str
    files: tuple[str, ...]
    notes: tuple[str, ...]


def is_zeb_file(path: Path) -> bool:
    """Return whether a file is a result file of ZEB, by its name or by its header."""
    return path.suffix == ".txt" and (path.name.startswith(MARK) or has_header(path))


def read_zeb_files(paths: Sequence[Path]) -> tuple[list[ImportedErrors], list[str]]:
    """Read result files and group them by method and version. Return notes about differing pairs."""
    groups: dict[tuple[str, str], dict[str, ZebFile]] = {}
    for path in paths:
        found = read_zeb(path)
        own = groups.setdefault((found.name.method, found.name.version), {})
        if found.name.set in own:
            other = own[found.name.set].path
            raise FormatError(path, f"has the same method, set and version as {other}; import one of them")
        own[found.name.set] = found
    made = [_grouped(method, version, files) for (method, version), files in groups.items()]
    return made, _pair_notes(groups)


def _grouped(method: str, version: str, files: Mapping[str, ZebFile]) -> ImportedErrors:
    rows = {name: found.identifiers for name, found in files.items()}
    records = error_records(rows, {name: found.numbers for name, found in files.items()}, version)
    said = [f"{method}: {text}" for text in import_warnings(records)]
    for found in files.values():
        if found.duplicates:
            repeats = count_text(found.duplicates, "pair")
            said.append(f"{found.path.name}: {repeats} repeated; the first row of each pair counts")
    sums = [hash_file(found.path) for found in files.values()]
    names = tuple(found.path.name for found in files.values())
    return ImportedErrors(method, version, records, hash_json(sums), names, tuple(said))


def _pair_notes(groups: Mapping[tuple[str, str], Mapping[str, ZebFile]]) -> list[str]:
    """Return a note if methods have different pairs of a set, or different sets."""
    differing = []
    names = dict.fromkeys(name for files in groups.values() for name in files)
    for name in names:
        lists = {frozenset(files[name].identifiers) for files in groups.values() if name in files}
        if len(lists) > 1:
            differing.append(name)
    if not differing:
        return []
    return [
        f"the methods have different pairs in {first_few(differing, 12)}; `compare` refuses them unless "
        '`allow="lists"`, which compares the common pairs'
    ]


def save_zeb(imported: ImportedErrors, store: Store, *, name: str | None = None) -> Run:
    """Store the pose errors of a method as a run, under `name` if it is given."""
    task, records = load_task(TASK), imported.records
    called = name or imported.method
    content = [[k, hash_array(v)] for k, v in records.columns.items()]
    key = imported_key([called, TASK, PROTOCOL, content, dict(records.meta)])
    store.records.put(key, records)
    comparison = task.comparison(PROTOCOL)
    by_unit = {"imported": {comparison: records}}
    keys = unit_keys(records)
    scores = scores_under(task, PROTOCOL, by_unit)
    printed = published_note(imported, {s.group: s.value for s in scores if s.metric == "auc"})
    manifest = Manifest(
        task=TASK,
        method=MethodFacts(
            name=called,
            name_given=name is not None,
            family=task.family,
            config={
                "version": imported.version,
                "imported": {"files": list(imported.files), "sha256": imported.sha256},
            },
        ),
        dataset=DatasetFacts(
            hash=hash_json([DATASET]), name="zeb (imported)", items=len(keys), imported=True
        ),
        lists=hash_json([DATASET, sorted(keys)]),
        units={"imported": {comparison: key}},
        warnings=(*imported.notes, *printed),
        content=key,
    )
    run = finish_run(manifest, {PROTOCOL: scores}, store=store)
    return Run.from_stored(run, store, by_unit, (PROTOCOL,))


def published_note(imported: ImportedErrors, areas: Mapping[str, float]) -> list[str]:
    """Return a note that compares the recomputed with the published values of a method.

    Empty unless the files are the complete results of a method whose values are published.
    """
    printed = PRINTED.get((imported.method, imported.version))
    sets = imported.records.meta["sets"]
    counts = [int((imported.records["set"] == k).sum()) for k in range(len(sets))]
    if printed is None or tuple(sets) != SETS or tuple(counts) != FULL_PAIRS:
        return []
    groups = ["threshold_deg=5", *(f"set={name},threshold_deg=5" for name in SETS)]
    both = [
        f"{name} {100 * areas[group]:.2f} ({value})"
        for name, group, value in zip(("mean", *SETS), groups, printed, strict=True)
    ]
    return [
        f"{imported.method}: area up to 5 degrees in these files (printed in the README of GIM): "
        f"{', '.join(both)}. The files and the table are different runs; tiepoint uses the files."
    ]
