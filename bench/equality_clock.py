# SPDX-License-Identifier: BSD-3-Clause
"""A clock that ticks at every call, so that two snapshots of `equality.py` measure equal times.

Runs are listed by the second in which they were created, figures of cost appear when times were measured, and
a method is timed until a budget is spent. With the real clock all three depend on the load of the machine.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import itertools
import os
import time
from pathlib import Path
from typing import Any

REAL = datetime.datetime
STEP_S = 0.25
START = REAL(2026, 1, 1, tzinfo=datetime.UTC)
MTIME_S = 1_700_000_000
"""Modification time of all written files: packs and result folders are identified by it."""
wall_s = time.perf_counter
cpu_s = time.process_time


class _Same(type):
    """Type of the replaced class: every real datetime is an instance of it."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, REAL)


LIBRARIES = (
    "numpy", "scipy", "pandas", "pyarrow.parquet", "numba", "cv2", "PIL.Image", "h5py", "yaml", "jinja2",
    "typer", "rich.console", "pydantic", "sqlalchemy.dialects.sqlite", "matplotlib.pyplot",
    "matplotlib.dates", "skimage", "torch", "kornia", "onnxruntime",
)  # fmt: skip
"""Libraries that are loaded with the real clock: compiled modules check the class of `datetime`."""


def install() -> None:
    """Replace `time.perf_counter` and `datetime.datetime.now`; call before tiepoint is imported."""
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    ticks, looks = itertools.count(1), itertools.count(1)

    class Clock(REAL, metaclass=_Same):
        """The real class with another `now`, a second later at every call."""

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            """Return the next second."""
            found = START + datetime.timedelta(seconds=next(looks))
            return found.astimezone(tz) if tz is not None else found.replace(tzinfo=None)

    time.perf_counter = lambda: next(ticks) * STEP_S
    datetime.datetime = Clock  # type: ignore[misc]


def fix_times(folder: Path) -> None:
    """Give all files below a folder the same modification time."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            os.utime(path, (MTIME_S, MTIME_S))
