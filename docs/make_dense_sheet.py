# SPDX-License-Identifier: BSD-3-Clause
"""Make ``docs/images/dense_sheet.jpg`` from the demo set: ``python docs/make_dense_sheet.py``."""

from __future__ import annotations

import tempfile
from pathlib import Path

from PIL import Image

from tiepoint.core.records import Item
from tiepoint.datasets.demo.dataset import make_dense
from tiepoint.datasets.tss import TssDataset
from tiepoint.geometry.flow.color import flow_color, max_motion
from tiepoint.geometry.flow.warp import warp_image
from tiepoint.methods.resolve import resolve
from tiepoint.report.pictures.flow import sheet


def main() -> None:
    """Run two methods on every pair and put the pictures on one page."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for pair in TssDataset(make_dense(folder)).pairs:
            images, truth = pair.images(), pair.truth().flow1
            longest = max_motion(truth)
            row = [*images]
            for name in ("dis", "dense-sift"):
                flow = resolve(name, family="dense").extract(Item(pair.key, ""), images)["flow1"]
                row += [flow_color(flow, longest=longest), warp_image(images[1], flow)]
            rows.append([*row, flow_color(truth, longest=longest)])
    target = Path(__file__).parent / "images" / "dense_sheet.jpg"
    Image.fromarray(sheet(rows, width=170)).save(target, quality=80)
    print(f"{target}: {target.stat().st_size / 1024:.0f} kB")


if __name__ == "__main__":
    main()
