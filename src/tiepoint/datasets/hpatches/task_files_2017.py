# SPDX-License-Identifier: BSD-3-Clause
"""Create the task files of the 2017 benchmark for a dataset.

Writes ``splits.json``, ``verif_{pos,neg_intra,neg_inter}_split-X.csv``,
``retr_{queries,distractors}_split-X.csv``, and ``tasks.json``, which states for each file whether it equals
the published file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import FormatError, InputError, ProblemsError, UnknownNameError
from ...core.formatting import count_text
from ...formats.file_io import write_bytes
from ...formats.hpatches.task_lists import (
    RefPatches,
    Split,
    pairs_csv_chunks,
    patches_csv_chunks,
    read_patches_csv,
    write_splits,
)
from .dataset import HPatchesDataset
from .sampling_2017 import (
    OFFICIAL_IMAGES,
    OFFICIAL_ROWS,
    draw_clean,
    draw_retrieval_lists,
    draw_verification,
    list_facts,
)
from .splits import (
    WHOLE,
    excluded_note,
    git_blob_sha1,
    known_splits,
    named_split,
    official_sha1,
    official_splits,
    scene_groups,
    shares_release,
    split_problems,
)
from .task_files_2016 import high_contrast_indices

LISTS = ("official", "clean")
MIN_DEVIATION = 10.0
QUERIES, DISTRACTORS = 10_000, 20_000
VERIFICATION_FILES = {"pos": "verif_pos", "intra": "verif_neg_intra", "inter": "verif_neg_inter"}


@dataclass
class V2Report:
    """Report of the written files: rows, hashes, equality with published files, flaws of lists, notes."""

    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    facts: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def write_v2_tasks(
    data: HPatchesDataset,
    out: str | Path,
    *,
    splits: str | Path | None = None,
    names: Sequence[str] | None = None,
    lists: str = "official",
    retrieval: str | Path | None = None,
    rows: int | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> V2Report:
    """Write the task files of a dataset.

    Args:
        data: Dataset with patches, or with numbers of patches only (`official_lengths` for the release).
        out: Target folder.
        splits: A `splits.json` file. If None, use those published splits whose sequences are all in the
            dataset. If there are none, use the split `all`. A dataset without any sequence of the release has
            the splits `full`, `illum` and `view`.
        names: Names of the splits to write. If None, all splits are written.
        lists: How pairs are sampled: `official` follows the published recipe, `clean` avoids its flaws, such
            as duplicates. The report counts the flaws in both cases.
        retrieval: Folder with `retr_*.csv` files to use. Missing files are sampled, which needs the patches.
        rows: Number of verification pairs of each kind. If None, a million for the published splits, and ten
            per location for other splits, at most a million.
        seed: Random seed of the clean lists. The published recipe prescribes its own seed.
        progress: Called with a message before each step.

    Returns:
        The report, also written as ``tasks.json``.
    """
    if lists not in LISTS:
        raise UnknownNameError("kind of lists", lists, LISTS)
    report, root = V2Report(), Path(out)
    selected = _splits(data, None if splits is None else Path(splits), names, report)
    problems = [p for split in selected.values() for p in _verification_problems(data, split, lists)]
    given = _given_lists(data, selected, None if retrieval is None else Path(retrieval), problems)
    if problems:
        raise ProblemsError("these task files cannot be written", problems)
    report_step = progress or (lambda _: None)
    to_sample = [split for name, split in selected.items() if name not in given]
    usable = _usable(data, to_sample)
    for split in to_sample if usable else ():
        _retrieval_sizes(split, usable)  # raises before anything is written
    write_splits(root / "splits.json", selected)
    for name, split in selected.items():
        report_step(f"verification pairs of split {name}")
        _write_verification(data, split, root, lists, rows, seed, report)
        report_step(f"retrieval lists of split {name}")
        _write_retrieval(data, split, root, usable, given.get(name), report)
    write_bytes(root / "tasks.json", (json.dumps(asdict(report), indent=1).encode(),))
    return report


def verification_rows(split: Split, lengths: Mapping[str, int]) -> int:
    """Return the default number of verification pairs of each kind.

    It is a million for a published split, else ten per location, at most a million.
    """
    if official_splits().get(split.name) == split:
        return OFFICIAL_ROWS
    return min(OFFICIAL_ROWS, 10 * sum(lengths[s] for s in split.test))


def retrieval_lists(data: HPatchesDataset, split: Split) -> tuple[RefPatches, RefPatches]:
    """Sample queries and distractors of a split by the published recipe. Needs the patches."""
    return _sample_retrieval(data, split, _usable(data, [split]))


def _sample_retrieval(
    data: HPatchesDataset, split: Split, usable: Mapping[str, NDArray[np.bool_]]
) -> tuple[RefPatches, RefPatches]:
    queries, distractors = _retrieval_sizes(split, usable)
    lengths = {s: data.count(s) for s in split.test}
    return draw_retrieval_lists(split.test, lengths, usable, queries=queries, distractors=distractors)


def _splits(
    data: HPatchesDataset, path: Path | None, names: Sequence[str] | None, report: V2Report
) -> dict[str, Split]:
    known = known_splits(data, path)
    if names is not None:
        found = {name: named_split(known, name) for name in names}
    else:
        found = {n: s for n, s in known.items() if n != WHOLE}
        if path is None and shares_release(data):
            found = {n: s for n, s in found.items() if not split_problems(data, s)}
        elif path is None:
            found = {n: s for n, s in found.items() if n == "full" or len(s.test) > 1}
        if not found:
            found = {WHOLE: known[WHOLE]}
            count = count_text(len(data.sequences), "sequence")
            report.notes.append(f"no published split is complete; writing the split {WHOLE!r} of {count}")
    problems = [p for s in found.values() for p in split_problems(data, s, ["ref"])]
    if problems:
        raise ProblemsError("the dataset does not fit these splits", problems)
    if WHOLE in found:
        report.notes += excluded_note(data)
    return found


def _verification_problems(data: HPatchesDataset, split: Split, lists: str) -> list[str]:
    """Return the reasons why verification pairs cannot be sampled for a split; empty if they can."""
    small = [s for s in split.test if data.count(s) < 2]
    if _images(data, split) < 2 or len(split.test) < 2 or small:
        return [f"split {split.name!r} needs two sequences of at least two patches, and an image besides ref"]
    if lists == "clean" and any(len(group) == len(split.test) for group in scene_groups(data, split)):
        return [f"split {split.name!r} is a single scene and has no pairs of different scenes"]
    return []


def _images(data: HPatchesDataset, split: Split) -> int:
    """Return the number of images per noise level, including the reference."""
    return 1 + max(sum(m[0] == z and m != "ref" for m in data.images(split.test[0])) for z in "eht")


def _given_lists(
    data: HPatchesDataset, splits: Mapping[str, Split], folder: Path | None, problems: list[str]
) -> dict[str, list[RefPatches]]:
    """Read the retrieval lists of all splits for which `folder` has both files. Append to `problems`."""
    found: dict[str, list[RefPatches]] = {}
    if folder is None:
        return found
    for name in splits:
        paths = [folder / file for file in _retrieval_files(name)]
        present = [p for p in paths if p.is_file()]
        if len(present) == 1:
            (lack,) = (p.name for p in paths if p not in present)
            problems.append(f"{folder} has {present[0].name} but not {lack}; add the missing file")
        for path in present:
            try:
                found.setdefault(name, []).append(read_patches_csv(path, data.lengths))
            except FormatError as e:
                problems.append(str(e))
    return found


def _retrieval_files(name: str) -> list[str]:
    return [f"retr_{kind}_split-{name}.csv" for kind in ("queries", "distractors")]


def _usable(data: HPatchesDataset, splits: Iterable[Split]) -> dict[str, NDArray[np.bool_]]:
    if not data.has_patches:
        return {}
    usable = {}
    for sequence in sorted({s for split in splits for s in split.test}):
        mask = np.zeros(data.count(sequence), bool)
        mask[high_contrast_indices(data.patches(sequence, "ref"), MIN_DEVIATION)] = True
        usable[sequence] = mask
    return usable


def _write_verification(
    data: HPatchesDataset, split: Split, root: Path, lists: str, rows: int | None, seed: int, report: V2Report
) -> None:
    lengths = {s: data.count(s) for s in split.test}
    images = _images(data, split)
    scenes = scene_groups(data, split)
    size = rows or verification_rows(split, lengths)
    drawn = draw_verification(split.test, lengths, rows=size, images=min(OFFICIAL_IMAGES, images))
    facts = {"official": list_facts(drawn, scenes)}
    if lists == "clean":
        drawn = draw_clean(
            split.test, lengths, rows=size, images=min(6, images), seed=seed, same_scene=scenes
        )
        facts["clean"] = list_facts(drawn, scenes)
        report.notes.append(_changes(split.name, facts))
    report.facts[split.name] = facts
    differ = []
    for kind, start in VERIFICATION_FILES.items():
        table = getattr(drawn, kind)
        file = f"{start}_split-{split.name}.csv"
        chunks = list(pairs_csv_chunks(table))
        write_bytes(root / file, chunks)
        sha1 = git_blob_sha1(chunks)
        same = lists == "official" and sha1 == official_sha1(file)
        report.files[file] = {"rows": len(table), "sha1": sha1, "published": same, "lists": lists}
        if official_splits().get(split.name) == split and lists == "official" and not same:
            differ.append(file)
    if differ:
        reason = "the sequences do not have the numbers of patches of the release"
        if len(drawn.pos) != OFFICIAL_ROWS:
            reason = "the row count was changed"
        report.notes.append(
            f"split {split.name}: {', '.join(differ)} differ from the published files ({reason}); "
            "scores on these files are not comparable with published scores"
        )


def _changes(name: str, facts: Mapping[str, Mapping[str, int]]) -> str:
    old, new = facts["official"], facts["clean"]
    changed = [f"{key.replace('_', ' ')} {old[key]} -> {new[key]}" for key in old if old[key] != new[key]]
    return f"split {name}, clean lists against the published recipe: {', '.join(changed)}"


def _write_retrieval(
    data: HPatchesDataset,
    split: Split,
    root: Path,
    usable: Mapping[str, NDArray[np.bool_]],
    given: Sequence[RefPatches] | None,
    report: V2Report,
) -> None:
    files = _retrieval_files(split.name)
    if given is None and not usable:
        report.notes.append(
            f"split {split.name}: no retrieval lists, because sampling by contrast needs the pixels; "
            f"pass a folder with {' and '.join(files)} as `tasks`"
        )
        return
    if given is None:
        given = _sample_retrieval(data, split, usable)
    for file, table in zip(files, given, strict=True):
        chunks = list(patches_csv_chunks(table))
        write_bytes(root / file, chunks)
        sha1 = git_blob_sha1(chunks)
        report.files[file] = {"rows": len(table), "sha1": sha1, "published": sha1 == official_sha1(file)}


def _retrieval_sizes(split: Split, usable: Mapping[str, NDArray[np.bool_]]) -> tuple[int, int]:
    """Return the numbers of queries and distractors to sample for a split.

    A published split has the published numbers. For other splits these are upper limits, and at most a third
    of the usable patches are queries.
    """
    if official_splits().get(split.name) == split:
        return QUERIES, DISTRACTORS
    total = sum(int(usable[s].sum()) for s in split.test)
    if total < 2:
        raise InputError(
            f"split {split.name!r}: fewer than two reference patches have enough contrast; add "
            "sequences with more contrast"
        )
    queries = min(QUERIES, max(1, total // 3))
    return queries, min(DISTRACTORS, total - queries)
