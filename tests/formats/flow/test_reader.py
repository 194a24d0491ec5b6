# SPDX-License-Identifier: BSD-3-Clause
"""Flow files: every bit survives, every damage is named."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from tiepoint.core.errors import FormatError, InputError
from tiepoint.formats.flow.flo import read_flo, read_flo_size, write_flo
from tiepoint.formats.flow.reader import (
    read_flow,
    read_flow_array,
    read_kitti_flow,
    read_png_rgb16,
    write_flow,
    write_flow_array,
    write_kitti_flow,
    write_png_rgb16,
)

shapes = st.tuples(st.integers(1, 6), st.integers(1, 6), st.just(2))
bits = hnp.arrays(np.uint32, shapes)


@settings(deadline=None, max_examples=50)
@given(bits)
def test_flo_keeps_every_float32_bit(tmp_path_factory: pytest.TempPathFactory, raw: np.ndarray) -> None:
    path = tmp_path_factory.mktemp("flo") / "a.flo"
    write_flo(path, raw.view(np.float32))
    assert np.array_equal(read_flo(path).view(np.uint32), raw)
    assert read_flo_size(path) == raw.shape[:2]
    # Layout by hand: magic, width, height, interleaved little-endian floats.
    data = path.read_bytes()
    assert data[:4] == b"PIEH"
    assert struct.unpack("<ii", data[4:12]) == (raw.shape[1], raw.shape[0])
    assert data[12:] == raw.astype("<u4").tobytes()


@settings(deadline=None, max_examples=50)
@given(bits)
def test_npy_and_npz_keep_every_float32_bit(
    tmp_path_factory: pytest.TempPathFactory, raw: np.ndarray
) -> None:
    for suffix in (".npy", ".npz"):
        path = tmp_path_factory.mktemp("array") / f"a{suffix}"
        write_flow_array(path, raw.view(np.float32))
        assert np.array_equal(read_flow_array(path).view(np.uint32), raw)


@settings(deadline=None, max_examples=50)
@given(hnp.arrays(np.uint16, st.tuples(st.integers(1, 5), st.integers(1, 5), st.just(3))))
def test_png16_round_trip(tmp_path_factory: pytest.TempPathFactory, samples: np.ndarray) -> None:
    path = tmp_path_factory.mktemp("png") / "a.png"
    write_png_rgb16(path, samples)
    assert np.array_equal(read_png_rgb16(path), samples)


def test_png16_reads_every_filter_like_opencv(tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(0)
    smooth = (np.cumsum(rng.integers(0, 40, (37, 53, 3)), axis=1) * 11).astype(np.uint16)
    for kind in range(5):
        flags = [cv2.IMWRITE_PNG_FILTER, 8 << kind] if hasattr(cv2, "IMWRITE_PNG_FILTER") else []
        assert cv2.imwrite(str(tmp_path / "a.png"), smooth[..., ::-1], flags)
        assert np.array_equal(read_png_rgb16(tmp_path / "a.png"), smooth)


def test_kitti_by_hand_and_against_opencv(tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2")
    flow = np.array([[[1.5, -2.25], [1e10, 1e10]], [[-512.0, 511.984375], [np.nan, 0.0]]], np.float32)
    write_kitti_flow(tmp_path / "a.png", flow)
    raw = cv2.imread(str(tmp_path / "a.png"), cv2.IMREAD_UNCHANGED)[..., ::-1]
    assert raw.dtype == np.uint16
    assert raw[0, 0].tolist() == [32768 + 96, 32768 - 144, 1]
    assert raw[0, 1].tolist() == [0, 0, 0]
    back = read_kitti_flow(tmp_path / "a.png")
    assert back[0, 0].tolist() == [1.5, -2.25]
    assert back[1, 0].tolist() == [-512.0, 511.984375]
    assert (back[0, 1] == 1e10).all()
    assert (back[1, 1] == 1e10).all()


@settings(deadline=None, max_examples=50)
@given(hnp.arrays(np.float64, shapes, elements=st.floats(-500, 500)))
def test_kitti_is_within_half_a_step(tmp_path_factory: pytest.TempPathFactory, flow: np.ndarray) -> None:
    path = tmp_path_factory.mktemp("kitti") / "a.png"
    write_kitti_flow(path, flow)
    assert np.abs(read_kitti_flow(path) - flow).max() <= 1 / 128


def test_other_pngs_are_refused_with_the_reason(tmp_path: Path) -> None:
    write_kitti_flow(tmp_path / "a.png", np.zeros((2, 3, 2)))
    data = bytearray((tmp_path / "a.png").read_bytes())
    data[28] = 1
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    (tmp_path / "i.png").write_bytes(data)
    with pytest.raises(FormatError, match="is an interlaced 16-bit RGB PNG; save it"):
        read_kitti_flow(tmp_path / "i.png")
    Image.fromarray(np.zeros((2, 3, 4), np.uint8)).save(tmp_path / "c.png")
    with pytest.raises(FormatError, match="expected a 16-bit RGB PNG, found 8-bit RGBA"):
        read_kitti_flow(tmp_path / "c.png")


def test_kitti_refuses_what_does_not_fit(tmp_path: Path) -> None:
    flow = np.zeros((2, 3, 2))
    flow[1, 2, 0] = 512.0
    with pytest.raises(InputError, match="at x=2, y=1"):
        write_kitti_flow(tmp_path / "a.png", flow)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: b"PIEX" + d[4:], "not a .flo file"),
        (lambda d: d[:-1], "truncated"),
        (lambda d: d + b"\0", "too long"),
        (lambda d: d[:7], "truncated"),
        (lambda d: b"", "truncated"),
        (lambda d: d[:4] + struct.pack("<ii", 0, 5) + d[12:], "invalid size"),
        (lambda d: d[:4] + struct.pack("<ii", 100_000, 5) + d[12:], "invalid size"),
        (lambda d: d[:4] + struct.pack("<ii", -3, 5) + d[12:], "invalid size"),
        (lambda d: d[:4] + struct.pack("<ii", 99_999, 99_999) + d[12:], "truncated"),
    ],
)
def test_damaged_flo(tmp_path: Path, change, words: str) -> None:
    path = tmp_path / "a.flo"
    write_flo(path, np.zeros((4, 5, 2)))
    path.write_bytes(change(path.read_bytes()))
    for reader in (read_flo, read_flo_size):
        with pytest.raises(FormatError, match=words) as caught:
            reader(path)
        assert "a.flo" in str(caught.value)


def test_announced_sizes_are_not_allocated(tmp_path: Path) -> None:
    flo = tmp_path / "a.flo"
    flo.write_bytes(b"PIEH" + struct.pack("<ii", 99_999, 99_999) + bytes(100))
    npy = tmp_path / "a.npy"
    np.save(npy, np.zeros((2, 2, 2), np.float32))
    data = npy.read_bytes().replace(b"(2, 2, 2)", b"(90000, 90000, 2)")
    npy.write_bytes(data)
    png = tmp_path / "a.png"
    write_png_rgb16(png, np.zeros((2, 2, 3), np.uint16))
    import zlib

    body = bytearray(png.read_bytes())
    body[16:24] = struct.pack(">II", 60_000, 60_000)
    body[29:33] = struct.pack(">I", zlib.crc32(bytes(body[12:29])))
    png.write_bytes(body)
    tracemalloc.start()
    for path in (flo, npy, png):
        with pytest.raises(FormatError):
            read_flow(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000


def test_channels_first_and_half_precision(tmp_path: Path) -> None:
    flow = np.arange(24, dtype=np.float16).reshape(2, 3, 4)
    np.save(tmp_path / "a.npy", flow)
    assert np.array_equal(read_flow_array(tmp_path / "a.npy"), np.moveaxis(flow, 0, 2).astype(np.float32))
    np.save(tmp_path / "b.npy", np.asfortranarray(np.moveaxis(flow, 0, 2)))
    assert np.array_equal(read_flow_array(tmp_path / "b.npy"), np.moveaxis(flow, 0, 2).astype(np.float32))


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(FormatError, match="objects"):
        read_flow_array(tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", np.zeros((2, 3), np.int64))
    with pytest.raises(FormatError, match="three dimensions"):
        read_flow_array(tmp_path / "b.npy")


def test_npz_with_several_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", flow=np.ones((1, 2, 2)), other=np.zeros(3))
    assert read_flow_array(tmp_path / "a.npz").shape == (1, 2, 2)
    np.savez(tmp_path / "b.npz", a=np.ones((1, 2, 2)), b=np.zeros(3))
    with pytest.raises(FormatError, match="one named 'flow'"):
        read_flow_array(tmp_path / "b.npz")


def test_conversion_by_suffix(tmp_path: Path) -> None:
    flow = np.array([[[1.25, -3.5], [1e10, 1e10]]], np.float32)
    last = tmp_path / "0.flo"
    write_flow(last, flow)
    for k, suffix in enumerate((".png", ".npy", ".npz", ".flo"), 1):
        following = tmp_path / f"{k}{suffix}"
        write_flow(following, read_flow(last))
        last = following
    assert np.array_equal(read_flow(last), flow)


@pytest.mark.parametrize("name", ["a.flo", "a.npy", "a.npz", "a.png"])
def test_missing_file_is_one_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(FormatError, match="does not exist"):
        read_flow(tmp_path / name)


@pytest.mark.parametrize("writer", [write_flo, write_flow_array, write_kitti_flow])
def test_writers_refuse_other_shapes(tmp_path: Path, writer) -> None:
    with pytest.raises(InputError, match="height, width, 2"):
        writer(tmp_path / "x.npy", np.zeros((3, 4)))
