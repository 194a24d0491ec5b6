# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from tiepoint.formats.hpatches.patch_strip import StripHeader, read_strip, read_strip_header, write_strip
from tiepoint.model.errors import FormatError, InputError

PATCHES = np.random.default_rng(0).integers(0, 256, (7, 13, 13)).astype(np.uint8)


def test_round_trip_and_order(tmp_path):
    path = tmp_path / "s" / "ref.png"
    write_strip(path, PATCHES)
    assert read_strip_header(path) == StripHeader(13, 7)
    assert np.array_equal(read_strip(path), PATCHES)
    assert np.array_equal(np.asarray(Image.open(path))[13 * 3 : 13 * 4], PATCHES[3])


def test_long_strip_is_legal(tmp_path):
    write_strip(tmp_path / "x.png", np.zeros((2000, 65, 65), np.uint8))
    assert read_strip(tmp_path / "x.png").shape == (2000, 65, 65)


def test_strip_above_pillows_warning_level(tmp_path):
    # 65 x 65 x 21,200 pixels; written as one flat value so that the file stays small
    Image.fromarray(np.zeros((65 * 21_200, 65), np.uint8)).save(tmp_path / "x.png", compress_level=1)
    assert read_strip(tmp_path / "x.png").shape == (21_200, 65, 65)


def test_truncated_and_empty(tmp_path):
    path = tmp_path / "ref.png"
    write_strip(path, PATCHES)
    data = path.read_bytes()
    for size in (0, 5, 20, 40, len(data) // 2, len(data) - 20):
        path.write_bytes(data[:size])
        with pytest.raises(FormatError, match="empty" if size == 0 else "truncated|not a PNG") as e:
            read_strip(path)
        assert "ref.png" in str(e.value)


@pytest.mark.parametrize(
    ("mode", "size", "words"),
    [
        ("RGB", (5, 10), "RGB"),
        ("I;16", (5, 10), "16-bit grey"),
        ("1", (5, 10), "1-bit"),
        ("L", (5, 12), "multiple"),
    ],
)
def test_wrong_mode_or_size(tmp_path, mode, size, words):
    Image.new(mode, size).save(tmp_path / "x.png")
    with pytest.raises(FormatError, match=words):
        read_strip_header(tmp_path / "x.png")


def test_missing_file_and_other_format(tmp_path):
    with pytest.raises(FormatError, match="does not exist"):
        read_strip_header(tmp_path / "no.png")
    Image.new("L", (5, 10)).save(tmp_path / "x.bmp")
    with pytest.raises(FormatError, match="not a PNG"):
        read_strip(tmp_path / "x.bmp")


def test_write_refuses_wrong_arrays(tmp_path):
    for bad in (PATCHES.astype(float), PATCHES[0], PATCHES[:, :5], PATCHES[:0]):
        with pytest.raises(InputError, match="uint8 patches"):
            write_strip(tmp_path / "x.png", bad)
