# SPDX-License-Identifier: BSD-3-Clause
"""Random and mutated bytes: nothing but `FormatError` comes out of any reader of the dense part."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.errors import FormatError
from tiepoint.formats.flow.flo import read_flo, write_flo
from tiepoint.formats.flow.reader import read_flow_array, read_kitti_flow, write_flow_array, write_kitti_flow
from tiepoint.formats.flow.tss import read_corr, read_flip, read_pair_names
from tiepoint.formats.image.mask import read_mask, read_mask_size, write_mask
from tiepoint.formats.image.reader import read_image, write_image
from tiepoint.formats.keypoints.pf_willow import read_pf_keypoints

ROUNDS = 250
PEAK_BYTES = 64 << 20


def flow() -> np.ndarray:
    return np.random.default_rng(0).normal(0, 5, (7, 9, 2)).astype(np.float32)


def matlab(path: Path) -> None:
    from scipy.io import savemat

    points = np.random.default_rng(0).uniform(0, 99, (2, 10))
    savemat(path, {"pts_coord": points, "other": np.ones(3)}, do_compression=path.stem == "packed")


def palette(path: Path) -> None:
    from PIL import Image

    image = Image.fromarray((np.arange(63).reshape(7, 9) % 2).astype(np.uint8), mode=None)
    image = image.convert("P")
    image.save(path)


SEEDS: dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]] = {
    "a.flo": (lambda p: write_flo(p, flow()), read_flo),
    "a.npy": (lambda p: write_flow_array(p, flow()), read_flow_array),
    "a.npz": (lambda p: write_flow_array(p, flow()), read_flow_array),
    "kitti.png": (lambda p: write_kitti_flow(p, flow()), read_kitti_flow),
    "mask.png": (lambda p: write_mask(p, flow()[..., 0] > 0), read_mask),
    "palette.png": (palette, read_mask),
    "wide.png": (lambda p: write_kitti_flow(p, flow()), read_mask),
    "image.png": (lambda p: write_image(p, np.zeros((7, 9, 3), np.uint8)), read_image),
    "image.jpg": (lambda p: write_image(p, np.zeros((7, 9, 3), np.uint8)), read_image),
    "image.ppm": (lambda p: write_image(p, np.zeros((7, 9, 3), np.uint8)), read_image),
    "size.png": (lambda p: write_mask(p, flow()[..., 0] > 0), read_mask_size),
    "flip_gt.txt": (lambda p: p.write_text("1\n"), read_flip),
    "pair.txt": (lambda p: p.write_text("Image1,Image2\na.jpg,b.jpg\n"), read_pair_names),
    "corr.txt": (lambda p: p.write_text("0.1\t0.2\t0.3\t0.4\n0.5\t0.5\t0.5\t0.5\n"), read_corr),
    "packed.mat": (matlab, read_pf_keypoints),
    "plain.mat": (matlab, read_pf_keypoints),
}


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """One of: bytes changed, a piece cut out, doubled, replaced by noise, the end cut, noise appended."""
    body = bytearray(data)
    way = rng.integers(6)
    at = int(rng.integers(len(body))) if body else 0
    length = int(rng.integers(1, 20))
    if way == 0:
        for _ in range(int(rng.integers(1, 6))):
            body[int(rng.integers(len(body)))] = int(rng.integers(256))
    elif way == 1:
        del body[at : at + length]
    elif way == 2:
        body[at:at] = body[at : at + length]
    elif way == 3:
        body[at : at + length] = rng.bytes(length)
    elif way == 4:
        del body[at:]
    else:
        body += rng.bytes(length)
    return bytes(body)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SEEDS)
def test_only_the_documented_error(tmp_path: Path, name: str) -> None:
    make, read = SEEDS[name]
    path = tmp_path / name
    make(path)
    read(path)
    good = path.read_bytes()
    rng = np.random.default_rng(len(name))
    refused: list[str] = []
    tracemalloc.start()
    for k in range(ROUNDS):
        data = rng.bytes(int(rng.integers(0, 400))) if k % 5 == 0 else mutated(good, rng)
        path.write_bytes(data)
        try:
            read(path)
        except FormatError as e:
            refused.append(str(e))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(refused) > ROUNDS // 10
    assert all(str(path) in message for message in refused)
    assert peak < PEAK_BYTES


@pytest.mark.parametrize("read", [read_mask, read_image])
def test_a_png_that_unpacks_to_much_is_refused(tmp_path: Path, read: Callable[[Path], object]) -> None:
    """10,000 x 10,000 pixels are within Pillow's own limit, and more than a thousand bytes can hold."""
    import struct
    import zlib

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    for side in (10_000, 50_000):
        head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
        data = (
            b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", head)
            + chunk(b"IDAT", zlib.compress(bytes(1000)))
            + chunk(b"IEND", b"")
        )
        (tmp_path / "m.png").write_bytes(data)
        with pytest.raises(FormatError, match=r"are too few for|exceeds limit"):
            read(tmp_path / "m.png")


def test_an_image_beyond_pillows_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ppm").write_bytes(b"P6 20000 20000 255 ")
    with pytest.raises(FormatError, match="exceeds limit"):
        read_image(tmp_path / "a.ppm")


def test_a_matlab_file_that_unpacks_to_much_is_refused(tmp_path: Path) -> None:
    import struct
    import zlib

    packed = zlib.compress(struct.pack("<II", 14, 50_000_000) + bytes(50_000_000))
    body = b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(packed)) + packed
    (tmp_path / "a.mat").write_bytes(body)
    with pytest.raises(FormatError, match="more bytes than the limit"):
        read_pf_keypoints(tmp_path / "a.mat")
