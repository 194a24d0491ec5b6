# SPDX-License-Identifier: BSD-3-Clause
"""Which release patches, image sequences and flow pairs are of, by names, numbers and lengths."""

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
    found: dict[str, Any] = json.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))
    return found


def releases() -> dict[str, Any]:
    """Facts about releases by key: `title`, `unit`, and names, numbers or digests of their parts."""
    return _json("releases.json")


@dataclass(frozen=True)
class Release:
    """How much of a published dataset a folder holds.

    `missing` names the parts that are not there, where their names are known. `notes` say what speaks for and
    against it being that release; `differs` is set where something in it is not what was published, `short`
    where parts that are there are not whole.
    """

    key: str
    have: int
    of: int
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    differs: bool = False
    short: bool = False
    part: str = ""

    @property
    def title(self) -> str:
        """What it is called."""
        return str(releases()[self.key]["title"]) + (f", {self.part}" if self.part else "")

    @property
    def whole(self) -> bool:
        """Whether all of it is there, as it was published."""
        return self.have >= self.of and not self.differs and not self.short

    def lines(self, *, shown: int = MAX_MISSING_LISTED) -> list[str]:
        """The release, what is missing and the notes, a line each; at most `shown` missing names."""
        unit = releases()[self.key]["unit"]
        if self.differs:
            head = f"not {self.title} as published: {self.have:,} of {self.of:,} {unit}, with differences"
        elif self.whole:
            head = f"{self.title}: whole, all {self.of:,} {unit}"
        else:
            head = f"{self.title}: a subset, {self.have:,} of {self.of:,} {unit}"
        found = [f"release: {head}"]
        if self.missing:
            names = ", ".join(self.missing[:shown])
            more = len(self.missing) - shown
            hidden = f" and {more} more (`missing` lists all)" if more > 0 else ""
            found.append(f"missing: {names}{hidden}")
        return [*found, *(f"note: {note}" for note in self.notes)]


def by_names(key: str, there: Collection[str], names: Iterable[str], **more: Any) -> Release:
    """A release whose parts have names.

    >>> by_names("evd", ["adam", "cat"], ["adam", "cat", "vin"]).lines()
    ['release: EVD: a subset, 2 of 3 pairs', 'missing: vin']
    """
    wanted = list(names)
    missing = tuple(n for n in wanted if n not in there)
    return Release(key, len(wanted) - len(missing), len(wanted), missing, **more)


def content_note(key: str, root: Path) -> tuple[str, ...]:
    """A note on how many files of a release have the content that is known of them; none without such files.

    Files are compared byte by byte, images that a copy may have in another format by their pixels. Everything
    is read now; remembered hashes are not trusted.
    """
    known = _json("contents.json").get(key, {})
    bases = [root, *(p for p in sorted(root.iterdir()) if p.is_dir())] if root.is_dir() else []
    same = 0
    other: list[str] = []
    for name, content in known.get("files", {}).items():
        path = next((b / name for b in bases if (b / name).is_file()), None)
        if path is not None:
            same, other = _counted(hash_bytes(path.read_bytes()), content, name, same, other)
    for name, content in known.get("pixels", {}).items():
        found = (b / f"{name}{s}" for b in bases for s in SUFFIXES)
        path = next((p for p in found if p.is_file()), None)
        if path is not None:
            same, other = _counted(_pixels(path), content, name, same, other)
    if not same and not other:
        return ()
    some = count_text(same + len(other), "file")
    note = f"content is known of {some} here, and {same} {'has' if same == 1 else 'have'} it"
    return (note + (f"; not {', '.join(other[:5])}{', …' * (len(other) > 5)}" if other else ""),)


def _counted(found: str, known: str, name: str, same: int, other: list[str]) -> tuple[int, list[str]]:
    return (same + 1, other) if found[:_DIGITS] == known else (same, [*other, name])


def _pixels(path: Path) -> str:
    try:
        return hash_array(read_image(path))
    except FormatError:
        return ""


_2016 = tuple(name for name in STANDARD_IMAGES if not name.startswith("t"))
_IMAGES = 6


def patches_release(data: HPatchesDataset) -> Release | None:
    """The release of patch strips: that whose lengths agree with more sequences; None without a known name.

    >>> found = patches_release(HPatchesDataset.from_lengths({"v_graffiti": 1123, "i_dc": 1983}))
    >>> (found.key, found.have, found.of, found.differs)
    ('hpatches-2017', 2, 116, False)
    >>> patches_release(HPatchesDataset.from_lengths({"i_dc": 1975, "i_dome": 1667})).key
    'hpatches-2016-train'
    """
    old: Mapping[str, int] = releases()["hpatches-2016-train"]["lengths"]
    lengths, names = data.lengths, sorted(official_splits()["full"].test)
    there = [s for s in names if s in lengths]
    if not there:
        return None
    wrong_new = [s for s in there if not _agrees(s, lengths[s])]
    wrong_old = [s for s in there if lengths[s] != old.get(s)]
    is_old = len(wrong_old) < len(wrong_new)
    key, wrong = ("hpatches-2016-train", wrong_old) if is_old else ("hpatches-2017", wrong_new)
    notes = [
        f"numbers of patches are the published ones in {len(there) - len(wrong)} of "
        + count_text(len(there), "sequence")
        + (f"; not in {first_few(wrong, 6)}: these were cut anew, scores do not compare" if wrong else "")
    ]
    own = [s for s in data.sequences if s not in names]
    if own:
        notes.append(f"not of the release: {first_few(own, 6)}")
    wanted = _2016 if is_old else STANDARD_IMAGES
    short: list[str] = []
    if data.has_patches:
        lack = {s: [i for i in wanted if i not in data.images(s)] for s in there}
        short = [s for s, images in lack.items() if images]
        if short:
            of = f"{len(short)} of {count_text(len(there), 'sequence lacks', 'sequences lack')} images"
            notes.append(f"{of}: {first_few(short, 6)} ({first_few(lack[short[0]], 6)})")
    wanted_names = sorted(old) if is_old else names
    return by_names(key, there, wanted_names, notes=tuple(notes), differs=bool(wrong), short=bool(short))


def sequences_release(scenes: Sequence[str], images: Mapping[str, int]) -> Release | None:
    """The release of image sequences, by their names and numbers of images; hashes are not published.

    >>> sequences_release(["v_wall", "mine"], {"v_wall": 6, "mine": 2}).notes
    ('by names and numbers of images; not of the release: mine',)
    """
    names = sorted(official_splits()["full"].test)
    there = [s for s in scenes if s in set(names)]
    if not there:
        return None
    own = [s for s in scenes if s not in set(names)]
    few = [s for s in there if images[s] != _IMAGES]
    notes = "by names and numbers of images" + (f"; not of the release: {first_few(own, 6)}" if own else "")
    more = (f"not {_IMAGES} images: {first_few(few, 6)}",) if few else ()
    return by_names("hpatches-sequences", there, names, notes=(notes, *more), differs=bool(few))


def tss_release(pairs: Sequence[TssPair]) -> Release | None:
    """TSS by the names of its groups and how many pairs each has; None where no group is known."""
    groups: Mapping[str, int] = releases()["tss"]["groups"]
    counts = Counter(pair.subset for pair in pairs)
    if not set(counts) & set(groups):
        return None
    have = sum(min(counts[name], n) for name, n in groups.items())
    notes = [", ".join(f"{name} {counts[name]} of {n}" for name, n in groups.items())]
    own = sorted(set(counts) - set(groups))
    if own:
        notes.append(f"not of the release: {first_few(own, 6)}")
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
    """The release of pairs that say or show which dataset they are of; None for any other."""
    sets = Counter(pair.dataset for pair in pairs)
    most = sets.most_common(1)[0][0] if sets else "none"
    if most in _OF:
        return _OF[most](pairs)
    if most == "":  # lists that do not say it, whose images do
        return _OF["megadepth"](pairs) or _OF["scannet"](pairs)
    return None


def scannet_image(name: str) -> str:
    """Room and frame of an image of ScanNet, however a copy spells them.

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
            notes.append(f"{other} of {count_text(len(pairs), 'pair is', 'pairs are')} not of the release")
        return Release(key, have, len(known), (), tuple(notes))

    return release


def digest(a: str, b: str) -> str:
    """The first six hex digits of the SHA-256 of two names.

    >>> digest("0707_00/15", "0707_00/585")
    '08b0db'
    """
    return hashlib.sha256(f"{a} {b}".encode()).hexdigest()[:_DIGEST_DIGITS]


def _wxbs(pairs: Sequence[ImagePair]) -> Release:
    known = releases()["wxbs-1.1"]
    lost = set(known["unusable"])
    there = {p.name for p in pairs}
    notes = [f"{name} cannot be used in the published archive: it lacks an image" for name in lost - there]
    names = [name for name in known["names"] if name in there or name not in lost]
    return by_names("wxbs-1.1", there, names, notes=tuple(notes))


def _evd(pairs: Sequence[ImagePair]) -> Release:
    return by_names("evd", {p.name for p in pairs}, releases()["evd"]["names"])


def _willow(pairs: Sequence[ImagePair]) -> Release:
    known = releases()["pf-willow"]
    counts = Counter(str(p.facts.get("category")) for p in pairs)
    short = [f"{c} {n}" for c, n in counts.items() if c in known["names"] and n != known["pairs_each"]]
    notes = [f"{len(pairs)} of 900 pairs"]
    if short:
        notes.append(f"classes have {known['pairs_each']} pairs each; not so: {', '.join(short)}")
    return by_names("pf-willow", set(counts), known["names"], notes=tuple(notes), differs=bool(short))


def _pascal(pairs: Sequence[ImagePair]) -> Release:
    counts: list[int] = releases()["pf-pascal"]["counts"]
    of = len(pairs) if len(pairs) in counts else counts[0]
    notes = (f"lists of {' and '.join(map(str, counts))} test pairs are in use",)
    return Release("pf-pascal", len(pairs), of, (), notes, len(pairs) > max(counts))


def _spair(pairs: Sequence[ImagePair]) -> Release:
    splits: Mapping[str, int] = releases()["spair-71k"]["splits"]
    split = str(pairs[0].facts.get("split", "test"))
    split = {"train": "trn"}.get(split, split)
    of = splits.get(split, splits["test"])
    notes = (f"{len({str(p.facts.get('category')) for p in pairs})} of 18 classes",)
    return Release("spair-71k", len(pairs), of, (), notes, len(pairs) > of, part=f"split {split}")


_OF: Mapping[str, Callable[[Sequence[ImagePair]], Release | None]] = {
    "wxbs": _wxbs,
    "evd": _evd,
    "pf-willow": _willow,
    "pf-pascal": _pascal,
    "spair": _spair,
    "megadepth": _by_digests("megadepth-1500", lambda name: PurePath(name).stem),
    "scannet": _by_digests("scannet-1500", scannet_image),
}
