# SPDX-License-Identifier: BSD-3-Clause
"""Specification of a keypoint method: ``DESCRIPTOR@DETECTOR``, each with its own ``?key=value``."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...core.plugins import PLUGGED
from ...formats.keypoints.set_folder import sets_below
from ..registry import METHODS
from ..spec import FilesSpec

HOME: Mapping[str, str] = {
    "sift": "sift",
    "constant": "sift",
    "random": "sift",
    "rootsift": "sift",
    "rgbsift": "sift",
    "rgbsift_channel_avg": "sift",
    "honc": "sift",
    "dsp": "sift",
    "surf": "surf",
    "orb": "orb",
    "brisk": "brisk",
    "akaze": "akaze",
    "kaze": "kaze",
    "xfeat": "xfeat",
}
"""Default detector of a descriptor. Other descriptors require an ``@``."""

FUSE = "fuse:"
_DETECTOR = re.compile(r"^([A-Za-z][\w-]*([:?].*)?|[^?]+\.py:[A-Za-z_]\w*(\?.*)?)$", re.DOTALL)
"""Pattern of a detector after an ``@``. It does not match the rest of a path that contains ``@``."""


@dataclass(frozen=True)
class KeypointSpec:
    """Specification texts of a descriptor and a detector. The detector is None if not given."""

    descriptor: str
    detector: str | None


def split_detector(text: str) -> KeypointSpec:
    """Split ``DESCRIPTOR@DETECTOR`` at the last ``@`` that is not part of a path.

    >>> split_detector("brief@fast?threshold=30")
    KeypointSpec(descriptor='brief', detector='fast?threshold=30')
    >>> split_detector("sift?max_features=500").detector is None
    True
    """
    at = len(text)
    while (at := text.rfind("@", 0, at)) > 0:
        if _DETECTOR.match(text[at + 1 :]):
            return KeypointSpec(text[:at], text[at + 1 :])
    if text.startswith("@"):
        raise InputError(f"{text!r} lacks a descriptor before the @; write one, as in sift{text}")
    return KeypointSpec(text, None)


def fused_parts(text: str) -> tuple[list[str], str]:
    """Split ``fuse:A,B?params`` into its components and its parameters.

    >>> fused_parts("fuse:sift@set:a,surf@set:b?aggregation=average")
    (['sift@set:a', 'surf@set:b'], 'aggregation=average')
    """
    body, _, query = text.removeprefix(FUSE).partition("?")
    parts = [p.strip() for p in body.split(",") if p.strip()]
    if len(parts) < 2:
        raise InputError(f"{text!r}: fusion needs at least two descriptors, as in fuse:sift,rgbsift")
    return parts, query


_SET = re.compile(r"@set:(?P<name>[^/,?+@\s]+)")


def locate_keypoint_sets(spec: Any, root: Path) -> Any:
    """Resolve ``@set:NAME`` to sets of the store at `root`. Other specifications stay unchanged.

    >>> locate_keypoint_sets("sift@set:mine+l2", Path("nowhere"))
    'sift@set:mine+l2'
    """
    if not isinstance(spec, str) or isinstance(spec, FilesSpec):
        return spec

    known = sets_below(root)

    def place(match: re.Match[str]) -> str:
        folder = known.get(first_side(match["name"], known))
        odd = next((sign for sign in "?+" if sign in str(folder)), None)
        if odd is not None:
            raise InputError(
                f"the path of the store {root} has a {odd}, which ends the name of a set; rename the folder, "
                "or change into it and pass a relative path"
            )
        return match[0] if folder is None else f"@set:{folder}"

    return _SET.sub(place, spec)


def first_side(name: str, known: Container[str]) -> str:
    """Return the keypoint set of a name, or ``NAME_a`` if NAME is an intersection with two sides.

    >>> first_side("both", {"both_a", "both_b"}), first_side("one", {"one"})
    ('both_a', 'one')
    """
    sides = f"{name}_a", f"{name}_b"
    return sides[0] if name not in known and all(side in known for side in sides) else name


def sides_used(spec: Any, root: Path) -> list[str]:
    """Return a message for every intersection of keypoint sets that a specification names without a side."""
    if not isinstance(spec, str) or isinstance(spec, FilesSpec):
        return []
    known = sets_below(root)
    named = [m["name"] for m in _SET.finditer(spec) if first_side(m["name"], known) != m["name"]]
    return [f"the keypoint set {n} has two sides, and {first_side(n, known)} is used" for n in named]


ALIASES: Mapping[str, str] = {"dspsift": "dsp:sift", "dsprgbsift": "dsp:rgbsift", "dsphonc": "dsp:honc"}
"""Names of pooled descriptors."""

OTHER_NAMES: Mapping[str, str] = {
    "vsift": "sift",
    "vanilla_sift": "sift",
    "dspsift_v2": "dspsift",
    "dsprgbsift_v2": "dsprgbsift",
    "dsphonc_v2": "dsphonc",
}
"""Descriptor names in the older workbench tool, and their names in tiepoint."""

_NAME = r"(?P<before>^(?:fuse:)?(?:dsp:)?|@{})(?P<name>[A-Z][\w-]*)(?=$|[?@,:])"
"""Pattern of a name in a specification: at its start, after an ``@``, or a component of a fusion."""


def canonical_name(text: str) -> str:
    """Return a specification with canonical names, accepting any case and `OTHER_NAMES`.

    Unknown names stay unchanged.

    >>> [canonical_name(n) for n in ("RGBSIFT@set:Mine", "DSPSIFT_V2?scales=1,2@SURF", "fuse:SIFT,Surf")]
    ['rgbsift@set:Mine', 'dspsift?scales=1,2@surf', 'fuse:sift,surf']
    """
    families = ("keypoints", "detectors", PLUGGED)
    known = {e.name for e in METHODS if e.family in families}

    def spelled(match: re.Match[str]) -> str:
        name, low = match["name"], match["name"].lower()
        other = OTHER_NAMES.get(low, low)
        return match[0] if name in known or other not in known else match["before"].lower() + other

    others = r"|,\s*(?:dsp:)?" if text.lower().startswith("fuse:") else ""
    return re.sub(_NAME.format(others), spelled, text, flags=re.IGNORECASE)
