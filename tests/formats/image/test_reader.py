# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from tiepoint.core.errors import FormatError, InputError
from tiepoint.formats.image.reader import read_image, read_orientation, read_size, to_grey, write_image


@pytest.fixture
def colour():
    return np.random.default_rng(0).integers(0, 256, (11, 17, 3)).astype(np.uint8)


@pytest.mark.parametrize("suffix", ["png", "ppm", "bmp", "tif"])
def test_same_colours_same_grey_whatever_the_format(tmp_path, colour, suffix):
    write_image(tmp_path / f"a.{suffix}", colour)
    assert np.array_equal(read_image(tmp_path / f"a.{suffix}"), colour)
    assert np.array_equal(to_grey(read_image(tmp_path / f"a.{suffix}")), to_grey(colour))
    assert read_size(tmp_path / f"a.{suffix}") == (17, 11)


def test_grey_is_the_rounded_formula_for_every_corner_of_the_cube():
    levels = np.arange(0, 256, 15)
    cube = np.array(np.meshgrid(levels, levels, levels)).reshape(3, -1).T[None].astype(np.uint8)
    for (r, g, b), y in zip(cube[0].tolist(), to_grey(cube)[0].tolist(), strict=True):
        assert abs(0.299 * r + 0.587 * g + 0.114 * b - y) <= 0.5 + 1e-9
    same = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2)
    assert np.array_equal(to_grey(same)[0], np.arange(256))


def test_other_modes(tmp_path, colour):
    grey = colour[:, :, 0]
    write_image(tmp_path / "g.png", grey)
    assert np.array_equal(read_image(tmp_path / "g.png"), np.repeat(grey[:, :, None], 3, axis=2))
    Image.fromarray(grey.astype(np.uint16) * 257).save(tmp_path / "w.png")
    assert np.array_equal(to_grey(read_image(tmp_path / "w.png")), grey)
    Image.fromarray(grey).convert("P").save(tmp_path / "p.png")
    assert np.array_equal(to_grey(read_image(tmp_path / "p.png")), grey)
    Image.fromarray(np.dstack([colour, grey])).save(tmp_path / "a.png")
    assert np.array_equal(read_image(tmp_path / "a.png"), colour)


def test_unreadable_files(tmp_path, colour):
    with pytest.raises(FormatError, match="missing"):
        read_image(tmp_path / "none.png")
    (tmp_path / "empty.png").write_bytes(b"")
    with pytest.raises(FormatError, match="empty"):
        read_image(tmp_path / "empty.png")
    (tmp_path / "text.png").write_text("not an image")
    with pytest.raises(FormatError, match="not an image"):
        read_size(tmp_path / "text.png")
    write_image(tmp_path / "cut.png", np.tile(colour, (20, 20, 1)))
    data = (tmp_path / "cut.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(data[: len(data) // 2])
    with pytest.raises(FormatError, match="truncated"):
        read_image(tmp_path / "cut.png")


def test_wrong_arrays():
    with pytest.raises(InputError, match="uint8"):
        to_grey(np.zeros((2, 2, 3)))
    with pytest.raises(InputError, match="shape"):
        to_grey(np.zeros((2, 2, 4), dtype=np.uint8))


def test_unwritable(tmp_path):
    (tmp_path / "no").touch()
    with pytest.raises(InputError, match="cannot write"):
        write_image(tmp_path / "no" / "a.png", np.zeros((2, 2), dtype=np.uint8))


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
def test_the_orientation_is_read_and_not_applied(tmp_path, suffix):
    exif = Image.Exif()
    exif[0x0112] = 8
    image = Image.fromarray(np.zeros((4, 6, 3), np.uint8))
    image.save(tmp_path / f"turned.{suffix}", exif=exif)
    image.save(tmp_path / f"plain.{suffix}")
    assert read_orientation(tmp_path / f"turned.{suffix}") == 8
    assert read_orientation(tmp_path / f"plain.{suffix}") == 1
    assert read_image(tmp_path / f"turned.{suffix}").shape == (4, 6, 3)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_a_damaged_orientation_is_none(tmp_path):
    image = Image.fromarray(np.zeros((4, 6, 3), np.uint8))
    image.save(tmp_path / "a.jpg", exif=b"Exif\x00\x00II*\x00\xff\xff\xff\xff")
    assert read_orientation(tmp_path / "a.jpg") == 1


@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_a_tiff_whose_numbers_have_no_black_and_white_is_refused(tmp_path, kind):
    """Fractions from 0 to 1 were read as an image of 0 and 1."""
    Image.fromarray(np.linspace(0, 1, 16).reshape(4, 4).astype(kind)).save(tmp_path / "a.tif")
    with pytest.raises(FormatError, match="convert the image to 8 or 16 bits"):
        read_image(tmp_path / "a.tif")
    Image.fromarray(np.full((4, 4), 257 * 200, np.uint16)).save(tmp_path / "b.tif")
    assert (read_image(tmp_path / "b.tif") == 200).all()
