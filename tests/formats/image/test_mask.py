# SPDX-License-Identifier: BSD-3-Clause
"""Masks of every PNG kind are read as OpenCV reads them in grey."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiepoint.core.errors import FormatError, InputError
from tiepoint.formats.flow.reader import write_png_rgb16
from tiepoint.formats.image.mask import read_mask, read_mask_size, write_mask
from tiepoint.formats.image.png import png_gamma

RNG = np.random.default_rng(3)
GREY = RNG.integers(0, 256, (11, 13)).astype(np.uint8)
COLOUR = RNG.integers(0, 256, (11, 13, 3)).astype(np.uint8)
COLOUR[0] = GREY[0, :, None]
WIDE = RNG.integers(0, 65536, (11, 13, 4)).astype(np.uint16)
WIDE[0] = WIDE[0, :, :1]
COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def gamma(value: int) -> bytes:
    return chunk(b"gAMA", struct.pack(">I", value))


def save(path: Path, samples: np.ndarray, *extra: bytes, palette: np.ndarray | None = None) -> None:
    """A PNG of these samples with these chunks behind its header."""
    height, width = samples.shape[:2]
    depth = 8 * samples.dtype.itemsize
    kind = 3 if palette is not None else COLOUR_TYPES[samples.reshape(height, width, -1).shape[2]]
    rows = [b"\0" + np.ascontiguousarray(r, f">u{depth // 8}").tobytes() for r in samples]
    parts = [chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)), *extra]
    if palette is not None:
        parts.append(chunk(b"PLTE", palette.tobytes()))
    parts += [chunk(b"IDAT", zlib.compress(b"".join(rows))), chunk(b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


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
    "16-bit grey in three channels": lambda p: write_png_rgb16(p, np.repeat(WIDE[..., :1], 3, 2)),
    "16-bit colour": lambda p: write_png_rgb16(p, WIDE[..., :3]),
    "16-bit colour with alpha": lambda p: save(p, WIDE),
    "16-bit grey with alpha": lambda p: save(p, WIDE[..., :2]),
    "colourful palette": lambda p: save(p, GREY, palette=COLOUR.reshape(-1, 3)[np.arange(256) % 143]),
    "sRGB": lambda p: save(p, COLOUR, chunk(b"sRGB", b"\0")),
    "sRGB before gAMA": lambda p: save(p, COLOUR, chunk(b"sRGB", b"\0"), gamma(200_000)),
    "gAMA before sRGB": lambda p: save(p, COLOUR, gamma(200_000), chunk(b"sRGB", b"\0")),
    "chromaticities": lambda p: save(p, COLOUR, chunk(b"cHRM", struct.pack(">8I", *[30_000] * 8))),
    "palette with gAMA": lambda p: save(
        p, GREY, gamma(45_455), palette=COLOUR.reshape(-1, 3)[np.arange(256) % 143]
    ),
    **{
        f"{name}, gamma {value}": lambda p, samples=samples, value=value: save(p, samples, gamma(value))
        for name, samples in (
            ("colour", COLOUR),
            ("16-bit colour", WIDE[..., :3]),
            ("16-bit grey", WIDE[..., 0]),
        )
        for value in (10_000, 45_455, 94_999, 95_000, 99_999, 105_000, 105_001, 220_000)
    },
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
    assert np.array_equal(ours, theirs)


def test_palette_values_are_looked_up(tmp_path: Path) -> None:
    two_colours().save(tmp_path / "m.png")
    assert set(np.unique(read_mask(tmp_path / "m.png"))) == {0, 255}


def test_luma_by_hand(tmp_path: Path) -> None:
    pixels = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [9, 9, 9]]], np.uint8)
    Image.fromarray(pixels).save(tmp_path / "m.png")
    assert read_mask(tmp_path / "m.png").tolist() == [[76, 149, 29, 9]]


def test_every_eight_bit_colour_is_the_truncated_sum(tmp_path: Path) -> None:
    """A cut through the cube of colours: no rounding, and grey stays what it is."""
    levels = np.arange(0, 256, 5, dtype=np.uint8)
    cube = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(52, -1, 3)
    Image.fromarray(cube).save(tmp_path / "m.png")
    r, g, b = (cube[..., i].astype(int) for i in range(3))
    expected = np.where((r == g) & (g == b), r, (9797 * r + 19234 * g + 3737 * b) // 2**15)
    assert np.array_equal(read_mask(tmp_path / "m.png"), expected)


def test_gamma_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "m.png"
    found = []
    for extra in ([], [gamma(45_455)], [gamma(1), chunk(b"sRGB", b"\0")], [gamma(2**31)]):
        save(path, GREY, *extra)
        found.append(png_gamma(path.read_bytes()))
    assert found == [0, 45_455, 45_455, 0]


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


def test_damaged_chunk(tmp_path: Path) -> None:
    save(tmp_path / "m.png", COLOUR, gamma(45_455)[:-1] + b"\0")
    with pytest.raises(FormatError, match=r"not a readable PNG: its chunks are corrupt; copy it again$"):
        read_mask(tmp_path / "m.png")


def test_truncated_png(tmp_path: Path) -> None:
    write_mask(tmp_path / "m.png", GREY)
    data = (tmp_path / "m.png").read_bytes()
    (tmp_path / "m.png").write_bytes(data[: len(data) // 2])
    with pytest.raises(FormatError, match="not a readable PNG"):
        read_mask(tmp_path / "m.png")
