# SPDX-License-Identifier: BSD-3-Clause
"""Evaluate how well methods find the same points in two images."""

from typing import TYPE_CHECKING

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
    "score",
    "write_report",
]

if TYPE_CHECKING:
    from . import score
    from . import tools as tools
else:  # a type checker that sees __getattr__ accepts every name

    def __getattr__(name: str) -> object:
        """Import `score` and `tools` on first access, because they need NumPy and the tasks."""
        if name in ("score", "tools"):
            from importlib import import_module

            return import_module(f".{name}", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        """Return the names of the module, including `score` and `tools` before their import."""
        return sorted({*globals(), *__all__, "tools"})
