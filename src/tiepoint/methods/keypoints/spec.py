# SPDX-License-Identifier: BSD-3-Clause
"""Specification of a keypoint method: ``DESCRIPTOR@DETECTOR``, each with its own ``?key=value``."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...core.plugins import PLUGGED
from ...formats.keypoints.set_folder import sets_below
from ..registry import METHODS
from ..spec import FilesSpec, is_program

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
"""Pattern of a detector after an ``@``. A path that contains ``@`` does not match."""


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
        raise InputError(f"{text!r} has no descriptor before the @; write one, as in sift{text}")
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


_SET = re.compile(r"@set:(?P<name>[^/,?+@\s]+)(?=[,?+@\s]|$)")


def locate_keypoint_sets(spec: Any, root: Path) -> Any:
    """Replace ``@set:NAME`` in a specification by the set's path in the store at `root`.

    A set that the store does not have is an error, because a set of this name in another store may differ.
    Other specifications, and paths of sets, stay unchanged.

    >>> locate_keypoint_sets("sift@set:sets/mine+l2", Path("nowhere"))
    'sift@set:sets/mine+l2'
    """
    if not isinstance(spec, str) or isinstance(spec, FilesSpec) or is_program(spec):
        return spec

    def place(match: re.Match[str]) -> str:
        folder = stored_set(match["name"], root)
        odd = next((sign for sign in "?+" if sign in str(folder)), None)
        if odd is not None:
            raise InputError(
                f"the path of the store {root} has the character {odd}, which specifications do not "
                "allow; rename the folder or pass a relative path"
            )
        return f"@set:{folder}"

    return _SET.sub(place, spec)


def stored_set(name: str, store: Path) -> Path:
    """Return the folder of a keypoint set of a store."""
    known = sets_below(store)
    folder = known.get(first_side(name, known))
    if folder is not None:
        return folder
    offer = (
        f"its sets are {', '.join(known)}"
        if known
        else "the store has no set yet; create one with `keypoints make`"
    )
    raise InputError(f"{store} contains no keypoint set {name!r}; {offer}")


def first_side(name: str, known: Container[str]) -> str:
    """Return the stored name of a keypoint set: ``NAME_a`` if NAME is an intersection of two sets, else NAME.

    >>> first_side("both", {"both_a", "both_b"}), first_side("one", {"one"})
    ('both_a', 'one')
    """
    sides = f"{name}_a", f"{name}_b"
    return sides[0] if name not in known and all(side in known for side in sides) else name


def sides_used(spec: Any, root: Path) -> list[str]:
    """Return a message for every intersection of keypoint sets that `spec` names without ``_a`` or ``_b``."""
    if not isinstance(spec, str) or isinstance(spec, FilesSpec) or is_program(spec):
        return []
    known = sets_below(root)
    named = [m["name"] for m in _SET.finditer(spec) if first_side(m["name"], known) != m["name"]]
    return [f"the keypoint set {n} has two sides, and {first_side(n, known)} is used" for n in named]


ALIASES: Mapping[str, str] = {"dspsift": "dsp:sift", "dsprgbsift": "dsp:rgbsift", "dsphonc": "dsp:honc"}
"""Names of pooled descriptors."""

OTHER_NAMES: Mapping[str, str] = {
    "vsift": "sift?precise_upscale=false",
    "vanilla_sift": "sift?precise_upscale=false",
    "dspsift_v2": "dspsift?precise_upscale=false",
    "dsprgbsift_v2": "dsprgbsift?precise_upscale=false",
    "dsphonc_v2": "dsphonc",
}
"""Descriptor names of the older workbench tool, and their specifications in tiepoint.

The workbench uses OpenCV's SIFT without `precise_upscale`, which is OpenCV's default.
"""

_NAME = r"(?P<before>^(?:fuse:)?(?:dsp:)?|@{})(?P<name>[A-Z][\w-]*)(?:(?P<query>\?)|(?=$|[@,:]))"
"""Pattern of a descriptor or detector name: at the start, after an ``@``, or inside a fusion."""


def canonical_name(text: str) -> str:
    """Return a specification with canonical names. Names in any case and `OTHER_NAMES` are accepted.

    Unknown names stay unchanged.

    >>> [canonical_name(n) for n in ("RGBSIFT@set:Mine", "DSPSIFT_V2?scales=1,2@SURF", "fuse:SIFT,Surf")]
    ['rgbsift@set:Mine', 'dspsift?precise_upscale=false&scales=1,2@surf', 'fuse:sift,surf']
    """
    families = ("keypoints", "detectors", PLUGGED)
    known = {e.name for e in METHODS if e.family in families}
    fused = text.lower().startswith(FUSE)
    of_fusion: list[str] = []

    def spelled(match: re.Match[str]) -> str:
        name, low = match["name"], match["name"].lower()
        other, _, params = OTHER_NAMES.get(low, low).partition("?")
        if name in known or other not in known:
            return match[0]
        start, end = match["before"].lower() + other, match["query"] or ""
        if fused and not match["before"].startswith("@"):
            of_fusion.extend(params.split("&") if params else [])
        elif params:
            start, end = with_params(start, [params]), "&" if end else ""
        return start + end

    others = r"|,\s*(?:dsp:)?" if fused else ""
    text = re.sub(_NAME.format(others), spelled, text, flags=re.IGNORECASE)
    return _with_fusion_params(text, list(dict.fromkeys(of_fusion))) if of_fusion else text


def with_params(text: str, params: Sequence[str]) -> str:
    """Append ``key=value`` parameters to a specification that may already have parameters.

    >>> with_params("sift?sigma=2", ["border_px=4"]), with_params("sift", [])
    ('sift?sigma=2&border_px=4', 'sift')
    """
    return f"{text}{'&' if '?' in text else '?'}{'&'.join(params)}" if params else text


def _with_fusion_params(text: str, params: Sequence[str]) -> str:
    """Append ``key=value`` parameters to a fusion. They apply to all components that accept them."""
    if all(split_detector(part).detector is not None for part in fused_parts(text)[0]):
        return with_params(text, params)
    spec = split_detector(text)
    fusion = with_params(spec.descriptor, params)
    return fusion if spec.detector is None else f"{fusion}@{spec.detector}"


OPENCV_SIFT = ("sift", "rootsift", "rgbsift", "rgbsift_channel_avg")
"""Descriptors computed by OpenCV's SIFT, which accept `precise_upscale`."""


def workbench_part(text: str) -> str:
    """Return the specification of a detector or descriptor that a file of the older workbench tool names.

    In such files SIFT is OpenCV's default, without `precise_upscale`, unless the file gives this parameter.

    >>> [workbench_part(n) for n in ("SIFT", "dspsift_v2", "surf", "sift?precise_upscale=true")]
    ['sift?precise_upscale=false', 'dspsift?precise_upscale=false', 'surf', 'sift?precise_upscale=true']
    """
    text = canonical_name(text)
    name = text.partition("?")[0]
    is_sift = ALIASES.get(name, name).removeprefix("dsp:") in OPENCV_SIFT
    return with_params(text, ["precise_upscale=false"] if is_sift and "precise_upscale" not in text else [])
