# SPDX-License-Identifier: BSD-3-Clause
"""Validation of a dataset, in words: what it is, what is wrong, what is worth knowing."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from textwrap import wrap

import numpy as np

from ...core.errors import FormatError, InputError, ProblemsError
from ...core.formatting import count_text, printable
from ...core.hashing import hash_array, hash_bytes
from ...core.regular_files import regular_file_size
from ...formats.file_io import refuse_incomplete
from ...formats.flow.reader import SUFFIXES
from ...formats.hpatches.patch_pack import SUFFIX
from ...formats.hpatches.patch_strip import read_strip
from ...formats.sniff import explain_wrong_type
from ..dense_pairs import BrokenPair, find_pairs
from ..hpatches.dataset import HPatchesDataset
from ..hpatches.layout import scan_folder
from ..hpatches.pack import PACK
from ..image_pairs.problems import PairProblems
from ..image_pairs.reader import detect_layout, known_layouts
from ..tss import TssDataset, TssPair
from .image_pairs import check_pairs, span
from .releases import (
    MAX_MISSING_LISTED,
    Release,
    content_note,
    pairs_release,
    patches_release,
    sequences_release,
    tss_release,
)
from .usable_tasks import Protocols, UsableTask, flow_uses, pair_uses, patch_uses, sequence_uses

_NAMED = 12
"""Names of what is in a folder that are told."""
_LOOKED_INTO = 200
"""Folders of a folder that are looked into for datasets."""
_wrapped = partial(wrap, width=80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


@dataclass(frozen=True)
class CheckReport:
    """What a check found; `ok` when there is no problem."""

    what: str
    facts: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default=())
    release: Release | None = None
    uses: tuple[UsableTask, ...] = ()
    hints: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the dataset can be used."""
        return not self.problems

    def __str__(self) -> str:
        """Facts, the release, uses, then problems, then warnings, then what to do next."""
        return self.told()

    def told(self, *, shown: int = MAX_MISSING_LISTED, protocols: Protocols = lambda _task: ()) -> str:
        """The same with at most `printable` names of what is missing, and with the protocols of the tasks."""
        lines = [self.what, *(f"  {fact}" for fact in self.facts)]
        if self.release is not None:
            lines += [f"  {line}" for line in self.release.lines(shown=shown)]
        elif self.facts and self.ok:
            lines.append("  release: none that is known; data of one's own")
        if self.uses and self.ok:
            lines.append("  good for:")
            lines += [f"    {line}" for use in self.uses for line in use.lines(protocols)]
        elif self.release is not None and self.ok:
            lines.append("  good for: no task as it is")
        for name, entries in (("problem", self.problems), ("warning", self.warnings)):
            if entries:
                lines.append(f"{count_text(len(entries), name)}:")
                lines += [f"  - {entry}" for entry in entries]
        lines += self.hints
        return "\n".join(lines if not self.ok or self.warnings else [*lines, "no problems"])


def check_dataset(
    path: str | Path, *, deep: bool = True, progress: Callable[[int, int], None] | None = None
) -> CheckReport:
    """Check a dataset of any layout: patch strips, sequences with homographies, TSS, pairs with sparse truth.

    A folder that is no dataset itself and has some in its folders is a problem that names these, and what to
    check next.

    Args:
        path: The folder or file of a dataset (a JSON file may hold pairs, or lengths of patch sequences).
        deep: Decode every image; without it only headers and names are looked at.
        progress: Called with (done, total) strips or images.
    """
    root = Path(path).expanduser()
    if not root.exists():
        return CheckReport(f"{root}", problems=("the folder does not exist",))
    try:
        (refuse_incomplete if root.is_dir() else regular_file_size)(root)
    except FormatError as e:
        return CheckReport(f"{root}", problems=(e.reason,))
    report = _checked(root, deep, progress)
    if deep and report.ok and report.release is not None:
        notes = (*report.release.notes, *content_note(report.release.key, root))
        report = replace(report, release=replace(report.release, notes=notes))
    return report


def _checked(root: Path, deep: bool, progress: Callable[[int, int], None] | None) -> CheckReport:
    if not _is_pack(root) and (root.is_file() or not any(root.glob("*/ref.png"))):
        several = _several(root) if root.is_dir() else None
        if several is not None:
            return several
        other = _other_layout(root, deep) if root.is_dir() else None
        if other is not None:
            return other
        pairs = check_pairs(root, deep=deep, progress=progress)
        if pairs is not None:
            release = pairs_release([t.pair for t in pairs.truths]) if pairs.truths else None
            return CheckReport(*pairs[:4], release, tuple(pair_uses(root, pairs.truths)))
        if root.suffix != ".json" and (root.is_file() or not scan_folder(root).strips):
            return _unknown(root)
    return check_patches(root, deep=deep, progress=progress)


def _unknown(root: Path) -> CheckReport:
    """A path that is nothing we know: what was looked for, and what is there."""
    known: list[str] = ["SEQ/ref.png (patches)", "SEQ/H_1_2 (image sequences)", "SUBSET/PAIR/flow1.flo (TSS)"]
    known += ["flow.* beside image1 and image2", *known_layouts()]
    if root.is_dir():
        try:
            names = sorted(printable(p.name) + "/" * p.is_dir() for p in root.iterdir())
        except OSError as e:
            return CheckReport(f"{root}", problems=(f"the folder cannot be read: {e.strerror or e}",))
        some = [*names[:_NAMED], *([f"and {len(names) - _NAMED} more"] if len(names) > _NAMED else [])]
        found = ", ".join(some) or "nothing, the folder is empty"
    elif said := explain_wrong_type(root, _archive(root)):
        return CheckReport(f"{root}", problems=(f"the file {said}",))
    else:
        found = f"a file of {count_text(root.stat().st_size, 'byte')}"
    hints = ("looked for:", *(f"  {name}" for name in known), *_wrapped(f"found: {found}"))
    return CheckReport(f"{root}", problems=("no dataset that is known is here",), hints=hints)


def _archive(path: Path) -> str:
    """What to do with a file that is an archive; empty for others."""
    with path.open("rb") as file:
        head = file.read(512)
    packed = head.startswith((b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ")) or head[257:262] == b"ustar"
    words = "is an archive; unpack it first, with `data get` if the dataset is a published one"
    return words if packed and path.suffix not in (".npz", ".gz") else ""


def _several(root: Path) -> CheckReport | None:
    """Report of a folder that is no dataset and has some in its folders, side by side; None for another."""
    own = _layout_name(root)
    inside = {} if (root / "Dataset").is_dir() and own == "TSS" else _inside(root)
    kinds = set(inside.values())
    # Some layouts are found from above: what is found there alone is no folder of several.
    if not inside or not (own is None or (own in kinds and len(kinds) > 1)):
        return None
    facts: list[str] = []
    for folder in inside:
        report = check_dataset(folder, deep=False)
        what = report.what.removeprefix(f"{folder}: ")
        if report.release is not None:
            what = report.release.lines()[0].removeprefix("release: ")
        wrong = f"; {count_text(len(report.problems), 'problem')}" if report.problems else ""
        facts += _wrapped(f"{printable(folder.relative_to(root).as_posix())}: {what}{wrong}", width=78)
    parts = {folder.relative_to(root).parts[0] for folder in inside}
    rest = [printable(p.name) for p in _folders(root) if p.name not in parts]
    return CheckReport(
        f"{root}: {count_text(len(inside), 'dataset')} in its folders",
        tuple(facts),
        ("the folder itself is no dataset; give one of those in it",),
        hints=(
            *(_wrapped(f"no dataset that is known: {', '.join(rest)}") if rest else ()),
            "check next:",
            *(f"  tiepoint data check {shlex.quote(str(folder))}" for folder in inside),
        ),
    )


def _inside(root: Path) -> dict[Path, str]:
    """Datasets in the folders of a folder, or in the folders of these, with the names of their layouts."""
    found = {}
    for folder in _folders(root):
        for place in (folder, *_folders(folder)):
            name = _layout_name(place)
            if name is not None:
                found[place] = name
                if place == folder:
                    break
    return found


def _folders(root: Path) -> list[Path]:
    try:
        names = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    except OSError:  # not ours to read
        return []
    return names[:_LOOKED_INTO]


def _layout_name(folder: Path) -> str | None:
    """What a folder looks like from its names, without looking into its files; None for nothing known."""
    if (folder / PACK).exists() or any(folder.glob("*/ref.png")):
        return "patches"
    if any(folder.glob("*/H_1_*")) or any(folder.glob("*/H1to*p")):
        return "sequences"
    base = folder / "Dataset" if (folder / "Dataset").is_dir() else folder
    if any(base.glob("*/flow1.flo")) or any(base.glob("*/*/flow1.flo")):
        return "TSS"
    if any(p.suffix in SUFFIXES and any(p.parent.glob("image1.*")) for p in folder.rglob("flow.*")):
        return "flow"
    try:
        layout, _ = detect_layout(folder, PairProblems(folder))
    except InputError:
        return "pairs"  # of a layout that is known, and wrong
    return None if layout is None else layout.name


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
    lengths = data.lengths.values()
    total = sum(lengths)
    kinds = [data.kind(s) for s in data.sequences]
    facts = [
        f"{count_text(len(kinds), 'sequence')}: {kinds.count('i')} illumination, "
        f"{kinds.count('v')} viewpoint, {kinds.count('other')} other",
        f"{count_text(total, 'place')}, {span(lengths)} a sequence",
        f"images: {', '.join(data.images(data.sequences[0]))}",
    ]
    if not data.has_patches:
        unsure = f"left out because their length is not known exactly: {', '.join(data.open_lengths)}"
        return CheckReport(
            f"{root}: lengths of patch sequences, no pixels",
            (*facts, *([unsure] if data.open_lengths else [])),
            release=patches_release(data),
            uses=tuple(patch_uses(root, data)),
        )
    facts.append(f"patches of {data.side} x {data.side} pixels")
    problems = _damaged(root, progress) if deep else []
    if data.pack is not None:
        facts.append(f"packed in {data.pack.path}")
        problems += _damaged_pack(data, progress) if deep else []
    warnings = [*data.warnings, *(_warnings(data) if deep and not problems else [])]
    return CheckReport(
        what,
        tuple(facts),
        tuple(problems),
        tuple(warnings),
        patches_release(data),
        tuple(patch_uses(root, data)),
    )


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
    for i, (key, reason) in enumerate(data.pack.verify(), 1):
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
        patches = data.patches(sequence, "ref")
        same[hash_array(patches)].append(sequence)
        flat += int(np.count_nonzero(patches.reshape(len(patches), -1).std(axis=1) < 5))
    for group in same.values():
        if len(group) > 1:
            warnings.append(
                f"{', '.join(group)} have the same reference patches: one scene, not {len(group)}"
            )
    if flat:
        what = count_text(flat, "reference patch has", "reference patches have")
        warnings.append(f"{what} almost no contrast (deviation below 5 grey levels)")
    return warnings


def _other_layout(root: Path, deep: bool) -> CheckReport | None:
    """Report of a folder that is no patch dataset but something else we know, or None."""
    look: Callable[[Path, bool], CheckReport]
    if any(root.rglob("flow1.flo")):
        what, look = f"{root}: pairs with flow (TSS)", _tss
    elif any(p.suffix in SUFFIXES for p in root.rglob("flow.*")):
        what, look = f"{root}: pairs with flow (image1, image2, flow)", _flow_folders
    elif any(root.glob("*/H_1_*")) or any(root.glob("*/H1to*p")):
        what, look = f"{root}: image sequences with homographies", _image_sequences
    else:
        return None
    try:
        return replace(look(root, deep), what=what)
    except ProblemsError as e:
        return CheckReport(what, problems=e.problems)
    except InputError as e:
        return CheckReport(what, problems=(str(e),))


def _tss(root: Path, deep: bool) -> CheckReport:
    pairs = TssDataset(root).pairs
    problems = [problem for pair in pairs for problem in pair.problems()]
    if deep and not problems:
        problems = [problem for pair in pairs for problem in _undecoded(pair)]
    facts = (count_text(len(pairs), "pair"),)
    bare = sum(not all((p.folder / f"image{i}.png").exists() for i in (1, 2)) for p in pairs)
    told = f"{count_text(bare, 'pair')} without image1.png and image2.png: are these results?"
    uses = tuple(flow_uses(root, images=not bare))
    return CheckReport("", facts, tuple(problems), (told,) if bare else (), tss_release(pairs), uses)


def _flow_folders(root: Path, deep: bool) -> CheckReport:
    broken: list[BrokenPair] = []
    pairs = find_pairs(root, broken)
    problems = [pair.reason for pair in broken]
    for pair in pairs if deep else ():
        try:
            _ = pair.images(), pair.flow and pair.flow()
        except InputError as e:
            problems.append(f"{pair.key}: {e}")
    return CheckReport(
        "", (count_text(len(pairs), "pair"),), tuple(problems), uses=tuple(flow_uses(root)[1:])
    )


def _undecoded(pair: TssPair) -> Iterator[str]:
    """What cannot be read of a pair's truth and images."""
    from ...formats.image.reader import read_image

    try:
        pair.truth()
        for i in (1, 2):
            if (pair.folder / f"image{i}.png").exists():
                read_image(pair.folder / f"image{i}.png")
    except FormatError as e:
        yield f"{pair.key}: {e}"


def _image_sequences(root: Path, deep: bool) -> CheckReport:
    from ..image_sequences import ImageSequences

    images = ImageSequences(root)
    counts = {scene: len(images.images(scene)) for scene in images.scenes}
    facts = (f"{count_text(len(counts), 'sequence')}, {count_text(sum(counts.values()), 'image')}",)
    release = sequences_release(list(counts), counts)
    return CheckReport(
        "", facts, tuple(images.check() if deep else ()), release=release, uses=tuple(sequence_uses(root))
    )
