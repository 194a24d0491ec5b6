# SPDX-License-Identifier: BSD-3-Clause
"""What a run must say about itself: versions, machine, time."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from .._version import __version__
from ..core.cores import cores

__all__ = ["cores", "has_dashboard", "machine", "utc_now", "versions", "visible_gpus"]

_LIBRARIES = (
    "numpy",
    "scipy",
    "numba",
    "pandas",
    "pyarrow",
    "opencv-contrib-python-headless",
    "torch",
    "onnxruntime",
)

DRIVER_S = 60.0
"""Seconds in which the driver of GPUs answers; one that starts takes some."""


def versions() -> dict[str, str]:
    """Versions of tiepoint, Python and the libraries that are installed."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    found = {"tiepoint": __version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
            for line in f:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine() -> dict[str, Any]:
    """The hardware a time was measured on; no host or user name."""
    return {"system": platform.system(), "machine": platform.machine(), "cpu": _cpu_name(), "cores": cores()}


def visible_gpus() -> list[str]:
    """GPUs of this machine that may be used, as the environment or the driver names them."""
    if (said := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [name for name in said.split(",") if name.strip()]
    try:
        told = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, check=True, timeout=DRIVER_S
        )
    except (OSError, subprocess.SubprocessError):  # none there, or a driver that does not answer
        return []
    return [str(i) for i, line in enumerate(told.stdout.splitlines()) if line.startswith("GPU ")]


def utc_now() -> str:
    """UTC time to the second, ISO 8601."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def has_dashboard() -> bool:
    """Whether Dask can show its dashboard here."""
    from importlib.util import find_spec

    return find_spec("bokeh") is not None
