# SPDX-License-Identifier: BSD-3-Clause
"""Which release pairs of images are of: by their names, numbers, or digests of the names of their images."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath

from ...core.amounts import count_text
from ..image_pairs.pair import ImagePair
from .release import Release, by_names, releases

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
