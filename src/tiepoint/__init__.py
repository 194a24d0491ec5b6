# SPDX-License-Identifier: BSD-3-Clause
"""tiepoint: how well does a method find the same point in two images?"""

from . import _module_path as _module_path  # first: it settles where the others are found
from ._version import __version__
from .api import compare, evaluate, list_methods, list_tasks, load, merge, pack, write_report

__all__ = [
    "__version__",
    "compare",
    "evaluate",
    "list_methods",
    "list_tasks",
    "load",
    "merge",
    "pack",
    "write_report",
]
