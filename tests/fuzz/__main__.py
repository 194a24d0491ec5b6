"""Readers under mutated files, as a process of its own: ``python -m fuzz``; a line of JSON a reader."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from fuzz.cases import explore
from fuzz.readers import READERS


def main() -> None:
    """Explore the readers asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--readers", nargs="*", default=[])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    for reader in READERS:
        if reader.possible and (not asked.readers or reader.name in asked.readers):
            found = explore(reader, asked.count, seed=asked.seed, first=asked.first, keep=asked.keep)
            print(json.dumps(dataclasses.asdict(found)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
