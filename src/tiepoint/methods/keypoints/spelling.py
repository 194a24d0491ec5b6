# SPDX-License-Identifier: BSD-3-Clause
"""Names of keypoint methods that stand for others: in upper case, of the workbench, of pooled descriptors."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...core.plugins import PLUGGED
from ..registry import METHODS

ALIASES: Mapping[str, str] = {
    "dspsift": "dsp:sift",
    "dsprgbsift": "dsp:rgbsift",
    "dsphonc": "dsp:honc",
}
"""Names that stand for a pooled descriptor."""

OTHER_NAMES: Mapping[str, str] = {
    "vsift": "sift",
    "vanilla_sift": "sift",
    "dspsift_v2": "dspsift",
    "dsprgbsift_v2": "dsprgbsift",
    "dsphonc_v2": "dsphonc",
}
"""What the workbench calls a descriptor, and what it is called here."""

_NAME = r"(?P<before>^(?:fuse:)?(?:dsp:)?|@{})(?P<name>[A-Z][\w-]*)(?=$|[?@,:])"
"""A name in a specification: at its start, after an ``@``, or (in braces) one of several that are fused."""


def canonical_name(text: str) -> str:
    """A specification in the names of this package: they are accepted in any case, and so are `OTHER_NAMES`.

    What is not known stays as it is.

    >>> canonical_name("RGBSIFT@set:Mine"), canonical_name("DSPSIFT_V2?scales=1,2@SURF"), canonical_name("fuse:SIFT,Surf")
    ('rgbsift@set:Mine', 'dspsift?scales=1,2@surf', 'fuse:sift,surf')
    """
    families = ("keypoints", "detectors", PLUGGED)
    known = {e.name for e in METHODS if e.family in families}

    def spelled(match: re.Match[str]) -> str:
        name, low = match["name"], match["name"].lower()
        other = OTHER_NAMES.get(low, low)
        return match[0] if name in known or other not in known else match["before"].lower() + other

    others = r"|,\s*(?:dsp:)?" if text.lower().startswith("fuse:") else ""
    return re.sub(_NAME.format(others), spelled, text, flags=re.IGNORECASE)
