# SPDX-License-Identifier: BSD-3-Clause
"""How a keypoint method is written: ``DESCRIPTOR@DETECTOR``, each with its own ``?key=value``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...formats.keypoints.set_folder import SETS
from ...model.errors import InputError
from ..spec import FilesSpec

ALIASES: Mapping[str, str] = {
    "dspsift": "dsp:sift",
    "dsprgbsift": "dsp:rgbsift",
    "dsphonc": "dsp:honc",
}
"""Names that stand for a pooled descriptor."""

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
"""Detector of a descriptor that is named alone; the others must say where to describe."""

FUSE = "fuse:"
_DETECTOR = re.compile(r"^([A-Za-z][\w-]*([:?].*)?|[^?]+\.py:[A-Za-z_]\w*(\?.*)?)$", re.DOTALL)
"""What may follow an ``@``; the rest of a path that has an ``@`` in it does not look like this."""


@dataclass(frozen=True)
class KeypointSpec:
    """Texts of a descriptor and a detector; a lone name has no detector yet."""

    descriptor: str
    detector: str | None


def split_detector(text: str) -> KeypointSpec:
    """Take ``DESCRIPTOR@DETECTOR`` apart at the last ``@`` that is not part of a path.

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
        raise InputError(f"no descriptor before the @ in {text!r}; write one, as in sift{text}")
    return KeypointSpec(text, None)


def fused_parts(text: str) -> tuple[list[str], str]:
    """Components of ``fuse:A,B?params`` and its parameters.

    >>> fused_parts("fuse:sift@set:a,surf@set:b?aggregation=average")
    (['sift@set:a', 'surf@set:b'], 'aggregation=average')
    """
    body, _, query = text.removeprefix(FUSE).partition("?")
    parts = [p.strip() for p in body.split(",") if p.strip()]
    if len(parts) < 2:
        raise InputError(f"{text!r}: fusion needs at least two descriptors, as in fuse:sift,rgbsift")
    return parts, query


_SET = re.compile(r"@set:(?P<name>[^/,?+@\s]+)")


def located(spec: Any, root: Path) -> Any:
    """A specification whose ``@set:NAME`` names sets of the store at `root`; others stay as they are.

    >>> located("sift@set:mine+l2", Path("nowhere"))
    'sift@set:mine+l2'
    """
    if not isinstance(spec, str) or isinstance(spec, FilesSpec):
        return spec

    def place(match: re.Match[str]) -> str:
        folder = root / SETS / match["name"]
        return f"@set:{folder}" if (folder / "set.json").is_file() else match[0]

    return _SET.sub(place, spec)
