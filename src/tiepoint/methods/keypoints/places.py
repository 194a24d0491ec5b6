# SPDX-License-Identifier: BSD-3-Clause
"""Names of keypoint sets in a specification, turned into the folders of a store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ...formats.keypoints.set_folder import SETS
from ..spec import FilesSpec

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
