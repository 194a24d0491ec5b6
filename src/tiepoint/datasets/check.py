# SPDX-License-Identifier: BSD-3-Clause
"""Validation of a dataset, in words: what it is, what is wrong, what is worth knowing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..formats.hpatches.patch_pack import SUFFIX
from ..formats.hpatches.patch_strip import read_strip
from ..model.errors import FormatError, InputError, ProblemsError
from ..model.hashing import hash_bytes
from .hpatches.layout import scan_folder
from .hpatches.pack import PACK
from .hpatches.strips import HPatchesDataset
from .pairs.report import check_pairs, known_layouts


@dataclass(frozen=True)
class CheckReport:
    """What a check found; `ok` when there is no problem."""

    what: str
    facts: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether the dataset can be used."""
        return not self.problems

    def __str__(self) -> str:
        """Facts, then problems, then warnings."""
        lines = [self.what, *(f"  {fact}" for fact in self.facts)]
        for name, entries in (("problem", self.problems), ("warning", self.warnings)):
            if entries:
                lines.append(f"{len(entries)} {name}{'s' if len(entries) > 1 else ''}:")
                lines += [f"  - {entry}" for entry in entries]
        return "\n".join(lines if not self.ok or self.warnings else [*lines, "no problems"])


def check_dataset(
    path: str | Path, *, deep: bool = True, progress: Callable[[int, int], None] | None = None
) -> CheckReport:
    """Check a dataset of any layout: patch strips, sequences with homographies, TSS, pairs with sparse truth.

    Args:
        path: The folder or file of a dataset (a JSON file may hold pairs, or lengths of patch sequences).
        deep: Decode every image; without it only headers and names are looked at.
        progress: Called with (done, total) strips or images.
    """
    root = Path(path).expanduser()
    if not root.exists():
        return CheckReport(f"{root}", problems=("the folder does not exist",))
    if not _is_pack(root) and (root.is_file() or not any(root.glob("*/ref.png"))):
        other = _other_layout(root) if root.is_dir() else None
        if other is not None:
            return other
        pairs = check_pairs(root, deep=deep, progress=progress)
        if pairs is not None:
            return CheckReport(*pairs)
        if root.suffix != ".json" and (root.is_file() or not scan_folder(root).strips):
            known = f"SEQ/ref.png (patches); SEQ/H_1_2 (image sequences); flow1.flo (TSS); {known_layouts()}"
            return CheckReport(f"{root}", problems=(f"no dataset that is known is here; known are {known}",))
    return check_patches(root, deep=deep, progress=progress)


def check_patches(
    root: Path, *, deep: bool = True, progress: Callable[[int, int], None] | None = None
) -> CheckReport:
    """Check a dataset in the HPatches layout; with `deep`, every strip is decoded."""
    what = f"{root}: patches in the HPatches layout"
    try:
        data = HPatchesDataset(root)
    except ProblemsError as e:
        damaged = _damaged(root, progress) if deep else []
        return CheckReport(what, problems=(*e.problems, *(d for d in damaged if d not in e.problems)))
    except FormatError as e:
        return CheckReport(what, problems=(e.reason if e.path == root else str(e),))
    total = sum(data.lengths.values())
    kinds = [data.kind(s) for s in data.sequences]
    facts = [
        f"{len(kinds)} sequences: {kinds.count('i')} illumination, {kinds.count('v')} viewpoint, "
        f"{kinds.count('other')} other",
        f"{total} places, {min(data.lengths.values())} to {max(data.lengths.values())} a sequence",
        f"images: {', '.join(data.images(data.sequences[0]))}",
    ]
    if not data.has_patches:
        unsure = f"left out because their length is not known exactly: {', '.join(data.open_lengths)}"
        return CheckReport(
            f"{root}: lengths of patch sequences, no pixels",
            (*facts, *([unsure] if data.open_lengths else [])),
        )
    facts.append(f"patches of {data.side} x {data.side} pixels")
    problems = _damaged(root, progress) if deep else []
    if data.pack is not None:
        facts.append(f"packed in {data.pack.path}")
        problems += _damaged_pack(data, progress) if deep else []
    warnings = [*data.warnings, *(_warnings(data) if deep and not problems else [])]
    return CheckReport(what, tuple(facts), tuple(problems), tuple(warnings))


def _damaged(root: Path, progress: Callable[[int, int], None] | None) -> list[str]:
    """Strips whose header is fine and whose pixels are not."""
    strips = [(s, m) for s, images in scan_folder(root).strips.items() for m in images]
    problems = []
    for i, (sequence, image) in enumerate(strips, 1):
        try:
            read_strip(root / sequence / f"{image}.png")
        except FormatError as e:
            problems.append(f"{sequence}/{image}.png: {e.reason}")
        if progress is not None:
            progress(i, len(strips))
    return problems


def _is_pack(root: Path) -> bool:
    """Whether this is a pack, or a folder with one and without strips."""
    return root.suffix == SUFFIX if root.is_file() else (root / PACK).exists()


def _damaged_pack(data: HPatchesDataset, progress: Callable[[int, int], None] | None) -> list[str]:
    """Strips in the pack whose pixels or whose file do not have the hash that was kept."""
    problems = []
    assert data.pack is not None
    for i, (key, reason) in enumerate(data.pack.damaged(), 1):
        strip = None if data.root is None else data.root / f"{key}.png"
        if reason is None and strip is not None and strip.exists():
            same = hash_bytes(strip.read_bytes()) == data.pack.strips[key].content  # read, not remembered
            reason = None if same else f"{key}.png is not the file that was packed; pack the dataset again"
        if reason is not None:
            problems.append(f"{data.pack.path.name}, {key}: {reason}")
        if progress is not None:
            progress(i, len(data.pack.strips))
    return problems


def _warnings(data: HPatchesDataset) -> list[str]:
    warnings = []
    same: dict[str, list[str]] = defaultdict(list)
    flat = 0
    for sequence in data.sequences:
        same[data.item(sequence, "ref").content].append(sequence)
        patches = data.patches(sequence, "ref")
        flat += int(np.count_nonzero(patches.reshape(len(patches), -1).std(axis=1) < 5))
    for group in same.values():
        if len(group) > 1:
            warnings.append(
                f"{', '.join(group)} have the same reference patches: one scene, not {len(group)}"
            )
    if flat:
        warnings.append(f"{flat} reference patches have almost no contrast (deviation below 5 grey levels)")
    return warnings


def _other_layout(root: Path) -> CheckReport | None:
    """Report of a folder that is no patch dataset but something else we know, or None."""
    look: Callable[[Path], tuple[str, list[str]]]
    if any(root.rglob("flow1.flo")):
        what, look = f"{root}: pairs with flow (TSS)", _tss
    elif any(root.glob("*/H_1_*")) or any(root.glob("*/H1to*p")):
        what, look = f"{root}: image sequences with homographies", _image_sequences
    else:
        return None
    try:
        fact, problems = look(root)
    except ProblemsError as e:
        return CheckReport(what, problems=e.problems)
    except InputError as e:
        return CheckReport(what, problems=(str(e),))
    return CheckReport(what, (fact,), tuple(problems))


def _tss(root: Path) -> tuple[str, list[str]]:
    from .tss import TssDataset

    pairs = TssDataset(root).pairs
    return f"{len(pairs)} pairs", [problem for pair in pairs for problem in pair.problems()]


def _image_sequences(root: Path) -> tuple[str, list[str]]:
    from .sequences import ImageSequences

    images = ImageSequences(root)
    return f"{len(images.scenes)} sequences", images.check()
