"""The examples of docs/pairs-data.md make datasets that are read."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiepoint.datasets.image_pairs.reader import LAYOUTS, read_pairs

PAGE = Path(__file__).parents[3] / "docs" / "pairs-data.md"


def test_every_example_makes_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    code = re.findall(r"(?<!-->\n)```python\n(.*?)```", text, flags=re.S)
    names: dict[str, object] = {}
    for block in code:
        exec(block, names)
    image = Image.fromarray(np.zeros((480, 640, 3), np.uint8))
    for place in [
        "left.png",
        "right.png",
        "gl3d/left.png",
        "gl3d/right.png",
        "views/left.png",
        "views/right.png",
        "clicks/kitchen/01.png",
        "clicks/kitchen/02.png",
        "planes/1/poster.png",
        "planes/2/poster.png",
        "keypoints/a.jpg",
        "keypoints/b.jpg",
    ]:
        image.save(tmp_path / place)
    for path, needs in (
        ("pairs.json", "pose"),
        ("pairs_with_gt.txt", "pose"),
        ("pairs_calibrated.txt", "pose"),
        ("gl3d", "pose"),
        ("test.npz", "pose"),
        ("views", "pose"),
        ("clicks", "corrs"),
        ("planes", "homography"),
        ("keypoints", "keypoints"),
    ):
        (truth,) = read_pairs(path, needs=needs).truths
        if needs == "pose":
            np.testing.assert_array_equal(truth.T_0to1, np.array(names["T"]))
        assert truth.pair.has_images() == (path != "test.npz")


def test_every_layout_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    words = {word for layout in LAYOUTS for word in re.findall(r"[\w]+\.(?:txt|json|npz|csv)", layout.shown)}
    assert not [word for word in words if word not in text]
    assert len(LAYOUTS) >= 13
