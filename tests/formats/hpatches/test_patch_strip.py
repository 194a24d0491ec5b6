# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiepoint.core.errors import FormatError, InputError
from tiepoint.formats.hpatches import patch_strip
from tiepoint.formats.hpatches.patch_strip import StripHeader, read_strip, read_strip_header, write_strip

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


def png(rows: bytes, width: int, height: int, interlaced: int = 0, parts: int = 1) -> bytes:
    """A grey PNG of filtered rows, its data in several chunks."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    packed = zlib.compress(rows)
    step = -(-len(packed) // parts)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, interlaced)
    data = b"".join(chunk(b"IDAT", packed[i : i + step]) for i in range(0, len(packed), step))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data + chunk(b"IEND", b"")


def filtered(pixels, kinds):
    """Rows of a PNG with the filters given, byte by byte as the standard has it."""
    out = bytearray()
    for y, kind in enumerate(kinds):
        out.append(kind)
        for x in range(pixels.shape[1]):
            a = int(pixels[y, x - 1]) if x else 0
            b = int(pixels[y - 1, x]) if y else 0
            c = int(pixels[y - 1, x - 1]) if x and y else 0
            p = a + b - c
            paeth = min((abs(p - v), i, v) for i, v in enumerate((a, b, c)))[2]
            out.append((int(pixels[y, x]) - (0, a, b, (a + b) // 2, paeth)[kind]) & 255)
    return bytes(out)


@pytest.mark.parametrize("side", [1, 2, 7, 65])
@pytest.mark.parametrize("kinds", [(0,), (1,), (2,), (3,), (4,), (4, 4, 2), (0, 1, 2, 3, 4, 4, 4)])
def test_plain_strips_are_read_as_pillow_and_opencv_read_them(tmp_path, monkeypatch, side, kinds):
    rng = np.random.default_rng(side)
    pixels = rng.integers(0, 256, (3 * side, side)).astype(np.uint8)
    pixels[side : 2 * side] = rng.choice([0, 1, 254, 255], (side, side))  # ties of the predictor
    path = tmp_path / "x.png"
    chosen = rng.choice(kinds, len(pixels)) if len(kinds) > 3 else np.resize(kinds, len(pixels))
    path.write_bytes(png(filtered(pixels, chosen.tolist()), side, 3 * side, parts=3))
    monkeypatch.setattr(patch_strip, "_MIN_NUMBA_PIXELS", 0)
    monkeypatch.setattr(patch_strip, "_by_pillow", None)  # not needed
    found = read_strip(path)
    assert np.array_equal(found.reshape(-1, side), pixels)
    assert np.array_equal(np.asarray(Image.open(path)), pixels)
    assert found.flags.writeable
    cv2 = pytest.importorskip("cv2")
    assert np.array_equal(cv2.imread(str(path), cv2.IMREAD_UNCHANGED), pixels)


def test_interlaced_strips_are_read_by_pillow(tmp_path, monkeypatch):
    pixels = PATCHES.reshape(-1, 13)
    passes = [
        (0, 0, 8, 8),
        (0, 4, 8, 8),
        (4, 0, 8, 4),
        (0, 2, 4, 4),
        (2, 0, 4, 2),
        (0, 1, 2, 2),
        (1, 0, 2, 1),
    ]
    rows = b"".join(
        b"\0" + row.tobytes() for y, x, dy, dx in passes for row in pixels[y::dy, x::dx] if row.size
    )
    (tmp_path / "x.png").write_bytes(png(rows, 13, len(pixels), interlaced=1))
    monkeypatch.setattr(patch_strip, "_MIN_NUMBA_PIXELS", 0)
    assert np.array_equal(read_strip(tmp_path / "x.png"), PATCHES)


def test_both_decoders_refuse_the_same_damage(tmp_path, monkeypatch):
    path = tmp_path / "x.png"
    write_strip(path, PATCHES)
    good = path.read_bytes()
    told = {}
    for worth in (0, 1 << 60):
        monkeypatch.setattr(patch_strip, "_MIN_NUMBA_PIXELS", worth)
        for at in range(33, len(good) - 12, 37):
            path.write_bytes(good[:at] + bytes([good[at] ^ 255]) + good[at + 1 :])
            try:
                found = read_strip(path).tobytes()
            except FormatError as e:
                found = str(e)
            told.setdefault(at, set()).add(found)
    assert all(len(found) == 1 for found in told.values())


def test_a_real_strip_is_read_as_opencv_reads_it():
    data = os.environ.get("TIEPOINT_TEST_DATA")
    if not data:
        pytest.skip("TIEPOINT_TEST_DATA is not set")
    cv2 = pytest.importorskip("cv2")
    path = Path(data) / "patches" / "v_graffiti" / "ref.png"
    if not path.exists():
        pytest.skip(f"no strip at {path}")
    found = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    assert np.array_equal(read_strip(path).reshape(-1, 65), found)
