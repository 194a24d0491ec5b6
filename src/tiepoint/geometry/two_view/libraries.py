# SPDX-License-Identifier: BSD-3-Clause
"""The libraries that estimate: imported on first use; where one is missing, a sentence names the extra."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Any

from ...core.errors import InputError

POSELIB_SERIES = "2.0."
_MISSING = {
    "cv2": "this estimator needs OpenCV: pip install 'tiepoint[opencv]'",
    "poselib": "this estimator needs PoseLib 2.0: pip install 'tiepoint[pose]'",
    "pydegensac": "this estimator needs pydegensac (it draws anew at every call): pip install pydegensac",
}


@cache
def import_library(name: str) -> Any:
    """The module `cv2`, `poselib` or `pydegensac`; an `InputError` says how to get a missing one.

    PoseLib must be of series 2.0: later ones renamed their options, and all ignore names they do not know.
    """
    try:
        module = import_module(name)
    except ImportError as e:
        raise InputError(_MISSING[name]) from e
    if name == "poselib":
        check_poselib(module.__version__)
    return module


def check_poselib(found: str) -> None:
    """Refuse a PoseLib that is not of series 2.0.

    >>> check_poselib("2.0.5")
    """
    if not found.startswith(POSELIB_SERIES):
        raise InputError(
            f"PoseLib {found} names its options differently and would ignore ours; "
            "install a 2.0 release: pip install 'tiepoint[pose]'"
        )


def estimator_library_versions(*names: str) -> dict[str, str]:
    """Versions of libraries by name, in the order given: part of what a result depends on."""
    return {name: str(getattr(import_library(name), "__version__", None) or version(name)) for name in names}
