# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiepoint.core.errors import FormatError
from tiepoint.formats.flow.flo import read_flo, read_flo_size
from tiepoint.formats.flow.reader import read_kitti_flow, write_png_rgb16
from tiepoint.formats.hpatches.patch_strip import read_strip, read_strip_header
from tiepoint.formats.image import mask
from tiepoint.formats.image import reader as read
from tiepoint.formats.image.mask import read_mask, read_mask_size
from tiepoint.formats.image.png import MAX_PIXELS, check_pixels
from tiepoint.formats.image.reader import read_image, read_orientation, read_size

COLOUR = np.random.default_rng(0).integers(0, 256, (40, 7, 3)).astype(np.uint8)


def png(path: Path, size: tuple[int, int], depth: int, colour: int, file_bytes: int) -> Path:
    """A PNG that announces a size and has that many bytes, none of them pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, depth, colour, 0, 0, 0))
    body = chunk(b"teSt", bytes(file_bytes)) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + head + body)
    return path


@pytest.mark.parametrize(
    ("depth", "colour", "readers"),
    [
        (16, 0, [read_image, read_mask]),
        (1, 0, [read_image, read_mask]),
        (8, 0, [read_image, read_mask]),
        (8, 3, [read_image, read_mask]),
        (16, 2, [read_image, read_mask, read_kitti_flow]),
    ],
)
def test_a_small_png_cannot_ask_for_gigabytes(tmp_path: Path, depth: int, colour: int, readers) -> None:
    """0.3 MB of blank pixels that took 4.5 GB; Deflate could give so many."""
    path = png(tmp_path / "a.png", (8_000, 9_000), depth, colour, 500_000)
    for reader in readers:
        with pytest.raises(FormatError, match=r"8000 x 9000 pixels .*the limit is \d+|are too few for"):
            reader(path)


@pytest.mark.parametrize("suffix", ["bmp", "ppm", "jpg", "tif", "webp"])
def test_other_kinds_are_bounded_before_they_are_decoded(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    Image.fromarray(COLOUR).save(path, **({"lossless": True} if suffix == "webp" else {}))
    data = bytearray(path.read_bytes())
    if suffix == "bmp":
        data[18:26] = struct.pack("<ii", 10_000, 12_000)
    elif suffix == "ppm":
        data[: data.index(b"255")] = b"P6\n10000 12000\n"
    elif suffix == "jpg":
        at = data.index(b"\xff\xc0")
        data[at + 5 : at + 9] = struct.pack(">HH", 12_000, 10_000)
    elif suffix == "webp":
        data[21:25] = struct.pack("<I", (10_000 - 1) | (12_000 - 1) << 14)
    else:
        at = struct.unpack_from("<I", data, 4)[0] + 2
        for tag in range(struct.unpack_from("<H", data, at - 2)[0]):
            if struct.unpack_from("<H", data, at + 12 * tag)[0] in (256, 257, 278):
                struct.pack_into("<HII", data, at + 12 * tag + 2, 4, 1, 11_000)
    path.write_bytes(data)
    with pytest.raises(FormatError, match=r"the limit is \d+"):
        read_image(path)


def test_large_images_that_have_their_bytes_are_allowed() -> None:
    check_pixels("a", (8_000, 8_000), 100)
    check_pixels("a", (12_000, 8_500), 20_000_000)
    check_pixels("a", (MAX_PIXELS, 1), 1 << 30)
    with pytest.raises(FormatError, match="the limit is 178956970"):
        check_pixels("a", (MAX_PIXELS + 1, 1), 1 << 30)


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "LA", "1", "CMYK", "I;16", "palette with alpha"])
def test_images_are_the_same_in_bands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    image = Image.fromarray(COLOUR)
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    if mode == "I;16":
        Image.fromarray(COLOUR[..., 0].astype(np.uint16) * 201).save(path)
    elif mode == "palette with alpha":
        image.convert("P").save(path, transparency=3)
    else:
        image.convert(mode).save(path)
    whole = read_image(path)
    monkeypatch.setattr(read, "BAND", 30)
    assert np.array_equal(read_image(path), whole)


def test_masks_are_the_same_in_bands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.fromarray(COLOUR).save(tmp_path / "a.png")
    write_png_rgb16(tmp_path / "b.png", COLOUR.astype(np.uint16) * 201)
    whole = [read_mask(tmp_path / name) for name in ("a.png", "b.png")]
    monkeypatch.setattr(mask, "BAND", 30)
    for name, expected in zip(("a.png", "b.png"), whole, strict=True):
        assert np.array_equal(read_mask(tmp_path / name), expected)


def test_only_decoders_of_images_are_asked(tmp_path: Path) -> None:
    """Pillow would take PostScript for an image and start an interpreter of it."""
    (tmp_path / "a.png").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 5 5\n%%EndComments\nshowpage\n"
    )
    for reader in (read_size, read_image):
        with pytest.raises(FormatError, match="not an image"):
            reader(tmp_path / "a.png")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_pipes_and_devices_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.symlink("/dev/zero", tmp_path / "device")
    readers = (
        read_image, read_size, read_orientation, read_mask, read_mask_size, read_strip, read_strip_header,
        read_flo, read_flo_size, read_kitti_flow,
    )  # fmt: skip
    for reader in readers:
        for name, words in (("pipe", "is a pipe"), ("device", "is a device")):
            with pytest.raises(FormatError, match=words):
                reader(tmp_path / name)
