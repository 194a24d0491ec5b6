"""Values that are no numbers, where numbers are expected, end in a sentence and never in a crash."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiepoint.core.errors import FormatError, ProblemsError
from tiepoint.datasets.image_pairs.reader import read_pairs
from tiepoint.datasets.validation.dataset import check_dataset

R = "1 0 0 0 1 0 0 0 1"


def views(root: Path, first: str) -> Path:
    for name in "ab":
        Image.fromarray(np.zeros((48, 64, 3), np.uint8)).save(root / f"{name}.png")
    (root / "views.txt").write_text(f"{first}\nb.png {R} 1 2 3 PINHOLE 64 48 50 50 32 24\n")
    (root / "pairs.txt").write_text("a.png b.png\n")
    return root


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (f"a.png {R} 0 nan 0 PINHOLE 64 48 50 50 32 24", "line 1: a number is not finite"),
        (f"a.png {R} 0 0 0 PINHOLE inf 48 50 50 32 24", "line 1: a number is not finite"),
        (f"a.png {R} 0 0 0 PINHOLE 64.5 48 50 50 32 24", "line 1: expected [width, height] in pixels"),
        ("a.png 0 0 0 0 0 0 0 0 0 0 0 0 PINHOLE 64 48 50 50 32 24", "line 1: R is not a rotation"),
    ],
)
def test_views(tmp_path: Path, first: str, said: str) -> None:
    with pytest.raises(ProblemsError) as caught:
        read_pairs(views(tmp_path, first))
    assert said in str(caught.value)


def test_a_view_at_the_origin_is_no_problem(tmp_path: Path) -> None:
    views(tmp_path, f"a.png {R} 0 0 0 PINHOLE 64 48 50 50 32 24")
    assert check_dataset(tmp_path).ok


@pytest.mark.parametrize("size", [["x", 4], [None, 4], 7, [3], [0, 4], [1e40, 4]])
def test_sizes(tmp_path: Path, size: object) -> None:
    entry = {"source_path": "a.jpg", "target_path": "b.jpg", "source_points": [[1, 2]], "source_size": size}
    (tmp_path / "pairs.json").write_text(json.dumps([entry]))
    with pytest.raises(ProblemsError, match=r"entry 1, source_size: (expected|a number is not finite)"):
        read_pairs(tmp_path, needs="any")


@pytest.mark.parametrize("T", [[[1, 2], 3], [[[1]]], "T", {"a": 1}, 3, [[1, 2, 3, 4]] * 3, []])
def test_poses(tmp_path: Path, T: object) -> None:
    K = [50, 0, 32, 0, 50, 24, 0, 0, 1]
    sizes = {"size0": [64, 48], "size1": [64, 48]}
    (tmp_path / "pairs.json").write_text(
        json.dumps([{"image0": "a", "image1": "b", "K0": K, "K1": K, "T_0to1": T, **sizes}])
    )
    with pytest.raises(ProblemsError, match="entry 1, T_0to1: "):
        read_pairs(tmp_path)


def test_an_archive_of_another_kind(tmp_path: Path) -> None:
    np.savez(tmp_path / "test.npz", name=np.zeros((1, 4)))
    np.savez(tmp_path / "intrinsics.npz", a=np.eye(3))
    data = bytearray((tmp_path / "test.npz").read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at + 6] = 200  # a version of the format nobody has
    (tmp_path / "test.npz").write_bytes(bytes(data))
    with pytest.raises(FormatError, match=r"test\.npz: is not a readable \.npz"):
        read_pairs(tmp_path)
