# SPDX-License-Identifier: BSD-3-Clause
"""Masks of every PNG kind are read as OpenCV reads them in grey."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiepoint.formats.mask import read_mask, read_mask_size, write_mask
from tiepoint.formats.png16 import write_png_rgb16
from tiepoint.model.errors import FormatError, InputError

RNG = np.random.default_rng(3)
GREY = RNG.integers(0, 256, (11, 13)).astype(np.uint8)
COLOUR = RNG.integers(0, 256, (11, 13, 3)).astype(np.uint8)


def two_colours() -> Image.Image:
    image = Image.fromarray((GREY > 100).astype(np.uint8))
    image = image.convert("P") if image.mode != "P" else image
    image.putpalette([0, 0, 0, 255, 255, 255] + [0] * 762)
    return image


KINDS = {
    "grey": lambda p: Image.fromarray(GREY).save(p),
    "one bit": lambda p: Image.fromarray(GREY > 100).save(p),
    "palette": lambda p: two_colours().save(p),
    "palette of one bit": lambda p: two_colours().save(p, bits=1),
    "colour": lambda p: Image.fromarray(COLOUR).save(p),
    "colour with alpha": lambda p: Image.fromarray(np.dstack([COLOUR, GREY])).save(p),
    "grey with alpha": lambda p: Image.fromarray(np.dstack([GREY, GREY])).save(p),
    "16 bits": lambda p: Image.fromarray(RNG.integers(0, 65536, (11, 13)).astype(np.uint16)).save(p),
    "16-bit colour": lambda p: write_png_rgb16(p, np.repeat(GREY[..., None], 3, 2).astype(np.uint16) * 256),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_as_opencv_reads_it(tmp_path: Path, kind: str) -> None:
    cv2 = pytest.importorskip("cv2")
    path = tmp_path / "m.png"
    KINDS[kind](path)
    ours = read_mask(path)
    assert ours.dtype == np.uint8
    assert ours.shape == read_mask_size(path) == (11, 13)
    theirs = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    # Colour weights are rounded by the PNG library OpenCV was built with: a unit either way.
    slack = 1 if "colour" in kind else 0
    assert np.abs(ours.astype(int) - theirs).max() <= slack


def test_palette_values_are_looked_up(tmp_path: Path) -> None:
    two_colours().save(tmp_path / "m.png")
    assert set(np.unique(read_mask(tmp_path / "m.png"))) == {0, 255}


def test_luma_by_hand(tmp_path: Path) -> None:
    pixels = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [9, 9, 9]]], np.uint8)
    Image.fromarray(pixels).save(tmp_path / "m.png")
    assert read_mask(tmp_path / "m.png").tolist() == [[76, 150, 29, 9]]


def test_writing(tmp_path: Path) -> None:
    write_mask(tmp_path / "a.png", GREY)
    assert np.array_equal(read_mask(tmp_path / "a.png"), GREY)
    write_mask(tmp_path / "b.png", GREY > 100)
    assert np.array_equal(read_mask(tmp_path / "b.png"), np.where(GREY > 100, 255, 0))
    with pytest.raises(InputError, match="boolean or uint8"):
        write_mask(tmp_path / "c.png", GREY.astype(float))


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n" + bytes(40)])
def test_other_files(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "m.png").write_bytes(data)
    for reader in (read_mask, read_mask_size):
        with pytest.raises(FormatError, match="not a PNG"):
            reader(tmp_path / "m.png")


def test_truncated_png(tmp_path: Path) -> None:
    write_mask(tmp_path / "m.png", GREY)
    data = (tmp_path / "m.png").read_bytes()
    (tmp_path / "m.png").write_bytes(data[: len(data) // 2])
    with pytest.raises(FormatError, match="not a readable PNG"):
        read_mask(tmp_path / "m.png")
