# SPDX-License-Identifier: BSD-3-Clause
"""Detect published releases by names and counts."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any

from ...core.errors import FormatError
from ...core.formatting import count_text, first_few
from ...core.hashing import hash_array, hash_bytes
from ...formats.image.reader import SUFFIXES, read_image
from ..hpatches.dataset import HPatchesDataset
from ..hpatches.layout import STANDARD_IMAGES
from ..hpatches.splits import official_lengths, official_splits, open_lengths
from ..image_pairs.pair import ImagePair
from ..tss import TssPair

MAX_MISSING_LISTED = 20
_DIGITS = 16


@cache
def _json(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))
    return content


def releases() -> dict[str, Any]:
    """Return the properties of known releases, by key.

    The properties are `title`, `unit`, and the names, counts or digests of its content.
    """
    return _json("releases.json")


@dataclass(frozen=True)
class Release:
    """Published release that a folder contains completely or in part.

    `missing` lists missing content by name, if names are known. `notes` are evidence for and against the
    release. `differs` is True if some content differs from the published content. `short` is True if existing
    sequences are incomplete.
    """

    key: str
    have: int
    total: int
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    differs: bool = False
    short: bool = False
    part: str = ""

    @property
    def title(self) -> str:
        """Display name of the release."""
        return str(releases()[self.key]["title"]) + (f", {self.part}" if self.part else "")

    @property
    def complete(self) -> bool:
        """Whether the folder contains the complete release with the published content."""
        return self.have >= self.total and not self.differs and not self.short

    def lines(self, *, shown: int = MAX_MISSING_LISTED) -> list[str]:
        """Format the release as lines of text, with at most `shown` missing names and the notes."""
        unit = releases()[self.key]["unit"]
        if self.differs:
            head = f"not {self.title} as published: {self.have:,} of {self.total:,} {unit}, with differences"
        elif self.complete:
            head = f"{self.title}: complete, all {self.total:,} {unit}"
        else:
            head = f"{self.title}: a subset, {self.have:,} of {self.total:,} {unit}"
        lines = [f"release: {head}"]
        if self.missing:
            names = ", ".join(self.missing[:shown])
            more = len(self.missing) - shown
            hidden = f" and {more} more (`missing` lists all)" if more > 0 else ""
            lines.append(f"missing: {names}{hidden}")
        return [*lines, *(f"note: {note}" for note in self.notes)]


def by_names(key: str, present: Collection[str], names: Iterable[str], **more: Any) -> Release:
    """Return the `Release` of a dataset whose content is identified by names.

    >>> by_names("evd", ["adam", "cat"], ["adam", "cat", "vin"]).lines()
    ['release: EVD: a subset, 2 of 3 pairs', 'missing: vin']
    """
    published = list(names)
    missing = tuple(n for n in published if n not in present)
    return Release(key, len(published) - len(missing), len(published), missing, **more)


def content_note(key: str, root: Path) -> tuple[str, ...]:
    """Return a note on how many files match the published content. Empty if no file can be compared.

    Files are compared by their bytes. Images that may have been converted are compared by their pixels.
    Cached hashes are not used.
    """
    known = _json("contents.json").get(key, {})
    bases = [root, *(p for p in sorted(root.iterdir()) if p.is_dir())] if root.is_dir() else []
    matches: dict[str, bool] = {}
    for name, content in known.get("files", {}).items():
        path = next((b / name for b in bases if (b / name).is_file()), None)
        if path is not None:
            matches[name] = hash_bytes(path.read_bytes())[:_DIGITS] == content
    for name, content in known.get("pixels", {}).items():
        paths = (b / f"{name}{s}" for b in bases for s in SUFFIXES)
        path = next((p for p in paths if p.is_file()), None)
        if path is not None:
            matches[name] = _pixels(path)[:_DIGITS] == content
    if not matches:
        return ()
    other = [name for name, match in matches.items() if not match]
    same = len(matches) - len(other)
    verb = "matches" if same == 1 else "match"
    note = f"the content of {count_text(len(matches), 'file')} is known, and {same} {verb} it"
    return (note + (f"; not {', '.join(other[:5])}{', …' * (len(other) > 5)}" if other else ""),)


def _pixels(path: Path) -> str:
    try:
        return hash_array(read_image(path))
    except FormatError:
        return ""


_2016 = tuple(name for name in STANDARD_IMAGES if not name.startswith("t"))
_IMAGES = 6


def patches_release(data: HPatchesDataset) -> Release | None:
    """Identify the HPatches release of a patch dataset. None if no sequence name is known.

    If the names fit both releases, 2016 and 2017, the numbers of patches decide: the release that agrees in
    more sequences is returned.

    >>> found = patches_release(HPatchesDataset.from_lengths({"v_graffiti": 1123, "i_dc": 1983}))
    >>> (found.key, found.have, found.total, found.differs)
    ('hpatches-2017', 2, 116, False)
    >>> patches_release(HPatchesDataset.from_lengths({"i_dc": 1975, "i_dome": 1667})).key
    'hpatches-2016-train'
    """
    old: Mapping[str, int] = releases()["hpatches-2016-train"]["lengths"]
    lengths, names = data.lengths, sorted(official_splits()["full"].test)
    present = [s for s in names if s in lengths]
    if not present:
        return None
    wrong_new = [s for s in present if not _agrees(s, lengths[s])]
    wrong_old = [s for s in present if lengths[s] != old.get(s)]
    is_old = len(wrong_old) < len(wrong_new)
    key, wrong = ("hpatches-2016-train", wrong_old) if is_old else ("hpatches-2017", wrong_new)
    count = f"{len(present) - len(wrong)} of {count_text(len(present), 'sequence')}"
    notes = [f"numbers of patches are the published ones in {count}"]
    if wrong:
        notes[0] += f"; {first_few(wrong, 6)} differ: patches cut again, scores not comparable"
    own = [s for s in data.sequences if s not in names]
    if own:
        notes.append(f"the release does not contain {first_few(own, 6)}")
    short: list[str] = []
    if data.has_patches:
        expected = _2016 if is_old else STANDARD_IMAGES
        lack = {s: [i for i in expected if i not in data.images(s)] for s in present}
        short = [s for s, images in lack.items() if images]
        if short:
            count = f"{len(short)} of {count_text(len(present), 'sequence')}"
            first = first_few(lack[short[0]], 6)
            notes.append(f"images are missing in {count}: {first_few(short, 6)} (first: {first})")
    published = sorted(old) if is_old else names
    return by_names(key, present, published, notes=tuple(notes), differs=bool(wrong), short=bool(short))


def sequences_release(scenes: Sequence[str], images: Mapping[str, int]) -> Release | None:
    """Identify the release of image sequences by names and numbers of images. None if unknown.

    Hashes are not compared, because none are published.

    >>> sequences_release(["v_wall", "mine"], {"v_wall": 6, "mine": 2}).notes
    ('by names and numbers of images; not part of the release: mine',)
    """
    names = sorted(official_splits()["full"].test)
    present = [s for s in scenes if s in set(names)]
    if not present:
        return None
    own = [s for s in scenes if s not in set(names)]
    few = [s for s in present if images[s] != _IMAGES]
    notes = "by names and numbers of images" + (
        f"; not part of the release: {first_few(own, 6)}" if own else ""
    )
    more = (f"not {_IMAGES} images: {first_few(few, 6)}",) if few else ()
    return by_names("hpatches-sequences", present, names, notes=(notes, *more), differs=bool(few))


def tss_release(pairs: Sequence[TssPair]) -> Release | None:
    """Identify the TSS release by the number of pairs in each subset. None if no subset name is known."""
    groups: Mapping[str, int] = releases()["tss"]["groups"]
    counts = Counter(pair.subset for pair in pairs)
    if not set(counts) & set(groups):
        return None
    have = sum(min(counts[name], n) for name, n in groups.items())
    notes = [", ".join(f"{name} {counts[name]} of {n}" for name, n in groups.items())]
    own = sorted(set(counts) - set(groups))
    if own:
        notes.append(f"the release does not contain {first_few(own, 6)}")
    over = [name for name, n in groups.items() if counts[name] > n]
    return Release("tss", have, sum(groups.values()), (), tuple(notes), bool(over))


def _agrees(sequence: str, length: int) -> bool:
    exact = official_lengths().get(sequence)
    if exact is not None:
        return length == exact
    low, high = open_lengths()[sequence]
    return low <= length <= high


_SCENE = re.compile(r"scene(\d{4}_\d{2})")
_DIGEST_DIGITS = 6


def pairs_release(pairs: Sequence[ImagePair]) -> Release | None:
    """Identify the release of image pairs by dataset name or image names. None if unknown."""
    counts = Counter(pair.dataset for pair in pairs)
    dataset = counts.most_common(1)[0][0] if counts else "none"
    if dataset == "":  # not stated; try the image names
        return _PAIR_RELEASES["megadepth"](pairs) or _PAIR_RELEASES["scannet"](pairs)
    return _PAIR_RELEASES[dataset](pairs) if dataset in _PAIR_RELEASES else None


def scannet_image(name: str) -> str:
    """Return room and frame of a ScanNet image, from any known form of its name.

    >>> {scannet_image(n) for n in ("scene0707_00/color/15.jpg", "scene0707_00_frame-000015.jpg",
    ...     "scans_test/scene0707_00/sens/frame-000015.color.jpg")}
    {'0707_00/15'}
    """
    scene = _SCENE.search(name)
    numbers = re.findall(r"\d+", _SCENE.sub("", PurePath(name).name))
    return f"{scene[1]}/{int(numbers[-1])}" if scene and numbers else name


def _by_digests(key: str, named: Callable[[str], str]) -> Callable[[Sequence[ImagePair]], Release | None]:
    def release(pairs: Sequence[ImagePair]) -> Release | None:
        text = releases()[key]["digests"]
        known = {text[i : i + _DIGEST_DIGITS] for i in range(0, len(text), _DIGEST_DIGITS)}
        found = [digest(*(named(str(image)) for image in (p.image0, p.image1))) for p in pairs]
        have = len(set(found) & known)
        if not have:
            return None
        other = len(pairs) - sum(f in known for f in found)
        notes = ["by the names of the images of each pair"]
        if other:
            count = count_text(len(pairs), "pair")
            notes.append(f"the release does not contain {other} of {count}")
        return Release(key, have, len(known), (), tuple(notes))

    return release


def digest(a: str, b: str) -> str:
    """Return the first six hexadecimal digits of the SHA-256 of two image names.

    >>> digest("0707_00/15", "0707_00/585")
    '08b0db'
    """
    return hashlib.sha256(f"{a} {b}".encode()).hexdigest()[:_DIGEST_DIGITS]


def _wxbs(pairs: Sequence[ImagePair]) -> Release:
    known = releases()["wxbs-1.1"]
    unusable = set(known["unusable"])
    present = {p.name for p in pairs}
    notes = [f"{name} lacks an image in the published archive" for name in unusable - present]
    names = [name for name in known["names"] if name in present or name not in unusable]
    return by_names("wxbs-1.1", present, names, notes=tuple(notes))


def _willow(pairs: Sequence[ImagePair]) -> Release:
    known = releases()["pf-willow"]
    counts = Counter(str(p.facts.get("category")) for p in pairs)
    short = [f"{c} {n}" for c, n in counts.items() if c in known["names"] and n != known["pairs_each"]]
    notes = [f"{len(pairs)} of 900 pairs"]
    if short:
        notes.append(f"classes have {known['pairs_each']} pairs each, except {', '.join(short)}")
    return by_names("pf-willow", set(counts), known["names"], notes=tuple(notes), differs=bool(short))


def _pascal(pairs: Sequence[ImagePair]) -> Release:
    counts: list[int] = releases()["pf-pascal"]["counts"]
    total = len(pairs) if len(pairs) in counts else counts[0]
    notes = (f"lists of {' and '.join(map(str, counts))} test pairs are in use",)
    return Release("pf-pascal", len(pairs), total, (), notes, len(pairs) > max(counts))


def _spair(pairs: Sequence[ImagePair]) -> Release:
    splits: Mapping[str, int] = releases()["spair-71k"]["splits"]
    split = str(pairs[0].facts.get("split", "test"))
    split = {"train": "trn"}.get(split, split)
    total = splits.get(split, splits["test"])
    notes = (f"{len({str(p.facts.get('category')) for p in pairs})} of 18 classes",)
    return Release("spair-71k", len(pairs), total, (), notes, len(pairs) > total, part=f"split {split}")


_PAIR_RELEASES: Mapping[str, Callable[[Sequence[ImagePair]], Release | None]] = {
    "wxbs": _wxbs,
    "evd": lambda pairs: by_names("evd", {p.name for p in pairs}, releases()["evd"]["names"]),
    "pf-willow": _willow,
    "pf-pascal": _pascal,
    "spair": _spair,
    "megadepth": _by_digests("megadepth-1500", lambda name: PurePath(name).stem),
    "scannet": _by_digests("scannet-1500", scannet_image),
}
