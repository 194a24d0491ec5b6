"""All readers that are fuzzed. Each list of them is in a module of its own, named ``readers_…``."""

from __future__ import annotations

import importlib
from pathlib import Path

from fuzz.reader import Reader, Shell

__all__ = ["READERS", "Reader", "Shell"]

READERS: list[Reader] = []
for _file in sorted(Path(__file__).parent.glob("readers_*.py")):
    READERS += importlib.import_module(f"fuzz.{_file.stem}").READERS
