# SPDX-License-Identifier: BSD-3-Clause
"""Check a dataset of any layout and report its properties, problems and usable tasks."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
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
from ..image_pairs.ground_truth import PairTruth
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
from .truth_check import check_ground_truth
from .usable_tasks import Protocols, UsableTask, flow_uses, pair_uses, patch_uses, sequence_uses

_MAX_LISTED = 12
"""Maximum number of entries of an unknown folder that are listed."""
_MAX_FOLDERS = 200
"""Maximum number of sub-folders that are searched for datasets."""
_wrapped = partial(wrap, width=80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


@dataclass(frozen=True)
class CheckReport:
    """Result of a dataset check.

    `title` has the path and the layout. `notes` are remarks about the ground truth. `hints` are suggested
    next steps.
    """

    title: str
    facts: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    release: Release | None = None
    uses: tuple[UsableTask, ...] = ()
    hints: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the dataset can be used."""
        return not self.problems

    def __str__(self) -> str:
        return self.summary()

    def summary(self, *, shown: int = MAX_MISSING_LISTED, protocols: Protocols = lambda _task: ()) -> str:
        """Format the report as text.

        The text has properties, release, usable tasks with their protocols, problems, warnings and hints. At
        most `shown` missing names are listed.
        """
        lines = [self.title, *(f"  {fact}" for fact in self.facts), *(f"  note: {n}" for n in self.notes)]
        if self.release is not None:
            lines += [f"  {line}" for line in self.release.lines(shown=shown)]
        elif self.facts and self.ok:
            lines.append("  release: no known release; custom data")
        if self.uses and self.ok:
            lines.append("  usable for:")
            lines += [f"    {line}" for use in self.uses for line in use.lines(protocols)]
        elif self.release is not None and self.ok:
            lines.append("  usable for: no task")
        for name, entries in (("problem", self.problems), ("warning", self.warnings)):
            if entries:
                lines.append(f"{count_text(len(entries), name)}:")
                lines += [f"  - {entry}" for entry in entries]
        lines += self.hints
        return "\n".join(lines if not self.ok or self.warnings else [*lines, "no problems"])


def check_dataset(
    path: str | Path, *, deep: bool = True, progress: Callable[[int, int], None] | None = None
) -> CheckReport:
    """Check a dataset of any layout and return a report.

    Layouts are patch strips, sequences with homographies, TSS, and pairs with sparse ground truth. If the
    folder is not a dataset but contains datasets, the report lists these as a problem.

    Args:
        path: The folder of a dataset, a JSON pair list, or a JSON file with the number of patches per
            sequence.
        deep: Whether to decode every image and to compare ground truth with matches. Otherwise only names and
            headers are read.
        progress: Called with (processed, total) numbers of strips or images.
    """
    root = Path(path).expanduser()
    if not root.exists():
        return CheckReport(str(root), problems=("the folder does not exist",))
    try:
        (refuse_incomplete if root.is_dir() else regular_file_size)(root)
    except FormatError as e:
        return CheckReport(str(root), problems=(e.reason,))
    report = _check(root, deep, progress)
    if deep and report.ok and report.release is not None:
        notes = (*report.release.notes, *content_note(report.release.key, root))
        report = replace(report, release=replace(report.release, notes=notes))
    return report


def _check(root: Path, deep: bool, progress: Callable[[int, int], None] | None) -> CheckReport:
    if not _is_pack(root) and (root.is_file() or not any(root.glob("*/ref.png"))):
        if root.is_dir() and (report := _several(root) or _other_layout(root, deep)) is not None:
            return report
        pairs = check_pairs(root, deep=deep, progress=progress)
        if pairs is not None:
            release = pairs_release([t.pair for t in pairs.truths]) if pairs.truths else None
            uses = tuple(pair_uses(root, pairs.truths))
            return CheckReport(*pairs[:4], release, uses, notes=pairs.notes)
        if root.suffix != ".json" and (root.is_file() or not scan_folder(root).strips):
            return _unknown(root)
    return check_patches(root, deep=deep, progress=progress)


def _unknown(root: Path) -> CheckReport:
    """Return a report for a folder of unknown layout. It lists the known layouts and the folder's content."""
    known: list[str] = ["SEQ/ref.png (patches)", "SEQ/H_1_2 (image sequences)", "SUBSET/PAIR/flow1.flo (TSS)"]
    known += ["flow.* beside image1 and image2", *known_layouts()]
    if root.is_dir():
        try:
            names = sorted(printable(p.name) + "/" * p.is_dir() for p in root.iterdir())
        except OSError as e:
            return CheckReport(str(root), problems=(f"the folder cannot be read: {e.strerror or e}",))
        more = [f"and {len(names) - _MAX_LISTED} more"] if len(names) > _MAX_LISTED else []
        found = ", ".join([*names[:_MAX_LISTED], *more]) or "nothing, the folder is empty"
    elif reason := explain_wrong_type(root, _archive(root)):
        return CheckReport(str(root), problems=(f"the file {reason}",))
    else:
        found = f"a file of {count_text(root.stat().st_size, 'byte')}"
    hints = ("known layouts:", *(f"  {name}" for name in known), *_wrapped(f"found: {found}"))
    return CheckReport(str(root), problems=("not a dataset of a known layout",), hints=hints)


def _archive(path: Path) -> str:
    """Return a hint to unpack a file if it is an archive; empty for other files."""
    with path.open("rb") as file:
        head = file.read(512)
    packed = head.startswith((b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ")) or head[257:262] == b"ustar"
    advice = "is an archive; unpack it first, with `data get` if the dataset is a published one"
    return advice if packed and path.suffix not in (".npz", ".gz") else ""


def _several(root: Path) -> CheckReport | None:
    """Return a report for a folder whose sub-folders are datasets. None for other folders."""
    own = layout_name(root)
    datasets = {} if (root / "Dataset").is_dir() and own == "TSS" else datasets_below(root)
    layouts = set(datasets.values())
    # Some layouts are also detected in the parent folder. This alone does not mean several datasets.
    if not datasets or not (own is None or (own in layouts and len(layouts) > 1)):
        return None
    facts: list[str] = []
    for folder in datasets:
        report = check_dataset(folder, deep=False)
        title = report.title.removeprefix(f"{folder}: ")
        if report.release is not None:
            title = report.release.lines()[0].removeprefix("release: ")
        problems = f"; {count_text(len(report.problems), 'problem')}" if report.problems else ""
        facts += _wrapped(f"{printable(folder.relative_to(root).as_posix())}: {title}{problems}", width=78)
    parts = {folder.relative_to(root).parts[0] for folder in datasets}
    rest = [printable(p.name) for p in _folders(root) if p.name not in parts]
    return CheckReport(
        f"{root}: {count_text(len(datasets), 'dataset')} in its folders",
        tuple(facts),
        ("the folder itself is not a dataset; pass one of its datasets",),
        hints=(
            *(_wrapped(f"not a known dataset: {', '.join(rest)}") if rest else ()),
            "check next:",
            *(f"  tiepoint data check {shlex.quote(str(folder))}" for folder in datasets),
        ),
    )


def datasets_below(root: Path) -> dict[Path, str]:
    """Find datasets one or two levels below a folder. Return the layout name of each."""
    found = {}
    for parent in _folders(root):
        for folder in (parent, *_folders(parent)):
            name = layout_name(folder)
            if name is not None:
                found[folder] = name
                if folder == parent:
                    break
    return found


def _folders(root: Path) -> list[Path]:
    try:
        names = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    except OSError:  # no permission
        return []
    return names[:_MAX_FOLDERS]


def layout_name(folder: Path) -> str | None:
    """Detect the layout of a folder from its file names. None if unknown."""
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
        return "pairs"  # a known layout with errors
    return None if layout is None else layout.name


def check_patches(
    root: Path, *, deep: bool = True, progress: Callable[[int, int], None] | None = None
) -> CheckReport:
    """Check a patch dataset in the HPatches layout. If `deep`, every strip is decoded."""
    title = f"{root}: patches in the HPatches layout"
    try:
        data = HPatchesDataset(root)
    except ProblemsError as e:
        corrupt = _corrupt_strips(root, progress) if deep else []
        return CheckReport(title, problems=(*e.problems, *(c for c in corrupt if c not in e.problems)))
    except FormatError as e:
        return CheckReport(title, problems=(e.reason if e.path == root else str(e),))
    lengths = data.lengths.values()
    total = sum(lengths)
    kinds = [data.kind(s) for s in data.sequences]
    facts = [
        f"{count_text(len(kinds), 'sequence')}: {kinds.count('i')} illumination, "
        f"{kinds.count('v')} viewpoint, {kinds.count('other')} other",
        f"{count_text(total, 'location')}, {span(lengths)} per sequence",
        f"images: {', '.join(data.images(data.sequences[0]))}",
    ]
    if not data.has_patches:
        if data.open_lengths:
            facts.append(
                "sequences without an exact number of patches were skipped: "
                f"{', '.join(data.open_lengths)}; state one number each to use them"
            )
        return CheckReport(
            f"{root}: lengths of patch sequences, no pixels",
            tuple(facts),
            release=patches_release(data),
            uses=tuple(patch_uses(root, data)),
        )
    facts.append(f"patches of {data.side} x {data.side} pixels")
    problems = _corrupt_strips(root, progress) if deep else []
    if data.pack is not None:
        facts.append(f"packed in {data.pack.path}")
        problems += _corrupt_in_pack(data, progress) if deep else []
    warnings = (*data.warnings, *(_warnings(data) if deep and not problems else []))
    release, uses = patches_release(data), tuple(patch_uses(root, data))
    return CheckReport(title, tuple(facts), tuple(problems), warnings, release, uses)


def _corrupt_strips(root: Path, progress: Callable[[int, int], None] | None) -> list[str]:
    """Decode all strips and return a message for each corrupt one."""
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
    """Return whether a path is a pack file, or a folder with a pack file and without strips."""
    return root.suffix == SUFFIX if root.is_file() else (root / PACK).exists()


def _corrupt_in_pack(data: HPatchesDataset, progress: Callable[[int, int], None] | None) -> list[str]:
    """Verify the hashes of the strips in a pack and of the strip files. Return a message for each problem."""
    problems = []
    assert data.pack is not None
    for i, (key, reason) in enumerate(data.pack.verify(), 1):
        strip = None if data.root is None else data.root / f"{key}.png"
        if reason is None and strip is not None and strip.exists():
            same = hash_bytes(strip.read_bytes()) == data.pack.strips[key].content  # never a cached hash
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
            warnings.append(f"{', '.join(group)} have the same reference patches, so they show one scene")
    if flat:
        count = count_text(flat, "reference patch", "reference patches")
        warnings.append(f"the dataset has {count} of almost no contrast (deviation below 5 grey levels)")
    return warnings


def _other_layout(root: Path, deep: bool) -> CheckReport | None:
    """Return a report for a folder of flow pairs or image sequences. None for other layouts."""
    check: Callable[[Path, bool], CheckReport]
    if any(root.rglob("flow1.flo")):
        title, check = f"{root}: pairs with flow (TSS)", _tss
    elif any(p.suffix in SUFFIXES for p in root.rglob("flow.*")):
        title, check = f"{root}: pairs with flow (image1, image2, flow)", _flow_folders
    elif any(root.glob("*/H_1_*")) or any(root.glob("*/H1to*p")):
        title, check = f"{root}: image sequences with homographies", _image_sequences
    else:
        return None
    try:
        return replace(check(root, deep), title=title)
    except ProblemsError as e:
        return CheckReport(title, problems=e.problems)
    except InputError as e:
        return CheckReport(title, problems=(str(e),))


def _tss(root: Path, deep: bool) -> CheckReport:
    pairs = TssDataset(root).pairs
    problems = [problem for pair in pairs for problem in pair.problems()]
    if deep and not problems:
        problems = [problem for pair in pairs for problem in _undecoded(pair)]
    facts = (count_text(len(pairs), "pair"),)
    found = check_ground_truth([PairTruth(pair.image_pair()) for pair in pairs] if deep else (), reread=True)
    bare = sum(not all((p.folder / f"image{i}.png").exists() for i in (1, 2)) for p in pairs)
    warning = f"{count_text(bare, 'pair')} without image1.png and image2.png: are these results?"
    uses = tuple(flow_uses(root, images=not bare))
    warnings = (*((warning,) if bare else ()), *found.warnings)
    return CheckReport("", facts, tuple(problems), warnings, tss_release(pairs), uses, notes=found.notes)


def _flow_folders(root: Path, deep: bool) -> CheckReport:
    broken: list[BrokenPair] = []
    pairs = find_pairs(root, broken)
    problems = [pair.reason for pair in broken]
    for pair in pairs if deep else ():
        try:
            _ = pair.images(), pair.flow and pair.flow()
        except InputError as e:
            problems.append(f"{pair.key}: {e}")
    found = check_ground_truth([pair.truth() for pair in pairs] if deep else (), reread=True)
    facts, uses = (count_text(len(pairs), "pair"),), tuple(flow_uses(root)[1:])
    return CheckReport("", facts, tuple(problems), found.warnings, uses=uses, notes=found.notes)


def _undecoded(pair: TssPair) -> Iterator[str]:
    """Decode ground truth and images of a TSS pair. Yield the first problem, if there is one."""
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
    release, uses = sequences_release(list(counts), counts), tuple(sequence_uses(root))
    problems = tuple(images.check() if deep else ())
    found = check_ground_truth(images.pairs() if deep and not problems else (), reread=True)
    return CheckReport("", facts, problems, found.warnings, release, uses, notes=found.notes)
