# SPDX-License-Identifier: BSD-3-Clause
"""Flip bits in and cut the ends off COLMAP models in four forms; the short version is a test.

A reader must refuse the model, or read the same images with rotations, and never crash, hang or allocate
beyond the size of the file. The script ends with the outcomes of each form.

Usage: python bench/mutate_models.py [--count 10000] [--seed 0]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))


def main() -> None:
    """Print how often models of each form were refused, read with a warning, and read."""
    from model_mutations import Mutations
    from sfm_models import FORMS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000, help="flips and cuts of each form")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    for form in FORMS:
        started = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            found = Mutations(form, Path(folder) / "m").run(asked.count, asked.seed)
        outcomes = ", ".join(f"{n} {name}" for name, n in sorted(found.items()))
        print(f"{form}: {outcomes} ({time.process_time() - started:.0f} s CPU)", flush=True)


if __name__ == "__main__":
    main()
