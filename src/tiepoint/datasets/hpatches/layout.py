# SPDX-License-Identifier: BSD-3-Clause
"""Scan a folder of patch strips and collect its problems."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ...core.errors import FormatError
from ...core.file_stamps import FileStamp, settled_stamp
from ...core.formatting import found_in
from ...core.scores import scene_kind
from ...formats.hpatches.patch_strip import StripHeader, read_strip_header

NOISES = {"easy": "e", "hard": "h", "tough": "t"}
"""First letter of the image names of each noise level."""
LEVEL_IMAGES = 5
STANDARD_IMAGES = ("ref", *(f"{z}{k}" for z in NOISES.values() for k in range(1, LEVEL_IMAGES + 1)))
"""Names of the sixteen images of an HPatches 2017 sequence."""
STRIPS = "SEQ/ref.png, SEQ/e1.png, …"


@dataclass
class StripLayout:
    """Result of a folder scan: the strips by sequence and image, and the problems."""

    side: int | None = None
    strips: dict[str, dict[str, StripHeader]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


@lru_cache(maxsize=1024)
def image_order(name: str) -> tuple[int, int, str]:
    """Return the sort key of an image name.

    The order is ref, then easy, hard and tough by number, then other names.

    >>> sorted(["t1", "e2", "ref", "e1", "x"], key=image_order)
    ['ref', 'e1', 'e2', 't1', 'x']
    """
    if name == "ref":
        return (0, 0, "")
    match = re.fullmatch(r"([eht])(\d+)", name)
    if match:
        return (1 + "eht".index(match[1]), int(match[2]), "")
    return (9, 0, name)


def scan_folder(root: Path) -> StripLayout:
    """Read the headers of all strips below a folder and collect the problems.

    A sequence is a folder with PNG files. All images of a sequence must have the same number of patches. All
    strips must have the same width. All sequences must have the same images.
    """
    layout = StripLayout()
    if not root.is_dir():
        layout.problems.append(
            f"{found_in(root)}; pass a folder of patch strips"
            if root.exists()
            else "the folder does not exist"
        )
        return layout
    folders = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    found = {
        p.name: sorted(
            (p / name for name in os.listdir(p) if name.endswith(".png")), key=lambda f: image_order(f.stem)
        )
        for p in folders
    }
    named = {name for name in found if scene_kind(name) != "other"}
    sequences = {name: files for name, files in found.items() if files}
    misplaced = _misplaced(root, folders, sequences)
    if misplaced:
        layout.problems.append(misplaced)
        return layout
    layout.problems += [f"{name}: has no PNG strip" for name in sorted(named - set(sequences))]
    for sequence, files in sequences.items():
        strips = layout.strips.setdefault(sequence, {})
        if "." in sequence:
            layout.problems.append(f"{sequence}: a sequence name must not contain a dot; rename the folder")
        for path in files:
            try:
                strips[path.stem] = _header(path)
            except FormatError as e:
                layout.problems.append(f"{sequence}/{path.name}: {e.reason}")
    _compare(layout, {name: {f.stem for f in files} for name, files in sequences.items()})
    return layout


_headers: dict[FileStamp, StripHeader] = {}


def _header(path: Path) -> StripHeader:
    try:
        stamp = settled_stamp(path)
    except OSError:
        stamp = None  # reading it raises an error with the reason
    if stamp is None:
        return read_strip_header(path)
    if stamp not in _headers:
        _headers[stamp] = read_strip_header(path)
    return _headers[stamp]


def _misplaced(root: Path, folders: list[Path], sequences: dict[str, list[Path]]) -> str | None:
    """Return why `root` is not the folder of the sequences, and what to do. None if it is that folder."""
    if any(root.glob("ref.png")):
        return f"is the folder of one sequence; use its parent {root.resolve().parent}"
    if any(f.stem == "ref" for files in sequences.values() for f in files):
        return None
    if any((root / name / "H_1_2").exists() for name in sequences):
        return "no sequence has a ref.png; these are full images: cut patches from them with `data cut`"
    deeper = [p for p in folders if any(p.glob("*/ref.png"))]
    if deeper:
        return f"the sequences are one level deeper; use {deeper[0]}"
    deeper = [q for p in folders for q in sorted(p.iterdir()) if q.is_dir() and any(q.glob("*/ref.png"))]
    if deeper:
        return f"the sequences are two levels deeper; use {deeper[0]}"
    if sequences:
        return f"no sequence has a ref.png; {found_in(root)}; expected strips {STRIPS}"
    return (
        f"has no sequence: {found_in(root)}; expected strips {STRIPS}, or a lengths.json "
        "with the number of patches of every sequence (enough for descriptors and results)"
    )


def _compare(layout: StripLayout, present: dict[str, set[str]]) -> None:
    """Append problems to the layout: strips of different widths or patch counts, and missing images.

    `present` has the image names by sequence.
    """
    widths = Counter(h.side for strips in layout.strips.values() for h in strips.values())
    if not widths:
        return
    layout.side = widths.most_common(1)[0][0]
    everywhere = sorted(set().union(*present.values()) | {"ref"}, key=image_order)
    for sequence, strips in layout.strips.items():
        lack = [image for image in everywhere if image not in present[sequence]]
        if "ref" in lack:
            layout.problems.append(f"{sequence}: the reference image is missing; add ref.png")
            lack.remove("ref")
        if lack:
            s = "s" * (len(lack) > 1)
            names = ", ".join(lack)
            layout.problems.append(
                f"{sequence}: missing image{s} {names}, which other sequences have; add them"
            )
        for image, header in strips.items():
            if header.side != layout.side:
                layout.problems.append(
                    f"{sequence}/{image}.png: the strip is {header.side} pixels wide, but others are "
                    f"{layout.side}; use one width"
                )
        counts = Counter(h.count for h in strips.values())
        expected = strips["ref"].count if "ref" in strips else counts.most_common(1)[0][0] if counts else 0
        for image, header in strips.items():
            if header.count != expected and header.side == layout.side:
                layout.problems.append(
                    f"{sequence}: image {image} has {header.count} patches but ref has {expected}; "
                    "row k of every strip must show the same location"
                )
