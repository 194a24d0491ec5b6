# SPDX-License-Identifier: BSD-3-Clause
"""The way from data to a report, in one process with workers: ``python work.py FOLDER`` (see the test)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from tiepoint.cli.main import run
from tiepoint.formats.flow.reader import write_flow
from tiepoint.formats.image.reader import write_image

COMMANDS = (
    "run resize meanstd --task hpatches/matching --data patches --jobs 2",
    "run resize pixels --task hpatches/matching --data patches --jobs 1 --protocol exact,hpatches-python",
    "run zero farneback --task dense/flow --data dense --jobs 1",
    "list runs",
    "compare --task hpatches/matching --baseline meanstd --out compare.tex",
    "report --out report.html",
    "report --format latex --out tables.tex",
    "report --format csv --out scores.csv",
    "data check --store tiepoint-store",
)


def make_pairs(root: Path) -> None:
    """Three pairs of images, the second moved by two pixels, with their true flow."""
    rng = np.random.default_rng(0)
    for k in range(3):
        folder = root / f"pair{k}"
        folder.mkdir(parents=True)
        image = rng.integers(0, 256, (48, 64, 3)).astype(np.uint8)
        write_image(folder / "image1.png", image)
        write_image(folder / "image2.png", np.roll(image, 2, axis=1))
        write_flow(folder / "flow.flo", np.full((48, 64, 2), [2.0, 0.0], np.float32))


def main(folder: Path) -> int:
    """The first exit code that is not 0."""
    os.chdir(folder)
    make_pairs(Path("dense"))
    for command in COMMANDS:
        code = run(command.split())
        if code:
            print(f"tiepoint {command}: exit code {code}")
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
