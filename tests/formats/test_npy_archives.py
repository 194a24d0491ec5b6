# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.errors import FormatError
from tiepoint.formats.file_io import UNPACKED_BYTES, check_unpacked_size, format_errors
from tiepoint.formats.flow.reader import read_flow_array
from tiepoint.formats.hpatches.descriptors import read_descriptors
from tiepoint.formats.keypoints.features import read_features
from tiepoint.formats.matches.native import read_matches
from tiepoint.formats.npy import read_npz

READERS = (read_descriptors, read_features, read_matches, read_flow_array)


def archive(path: Path, *, method: int = zipfile.ZIP_DEFLATED, **arrays: bytes) -> Path:
    """An archive of any bytes."""
    with zipfile.ZipFile(path, "w", method) as z:
        for name, data in arrays.items():
            z.writestr(f"{name}.npy", data)
    return path


def npy(array: object) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def test_gives_what_numpy_gives(tmp_path: Path) -> None:
    given = {
        "a": np.arange(12.0).reshape(3, 4),
        "f": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "e": np.zeros((0, 2)),
        "s": np.array(["x", "yz"]),
        "n": np.float32(3),
        "b": np.arange(4, dtype=">i2"),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **given)
        found = read_npz(tmp_path / "a.npz")
        assert list(found) == list(given)
        assert list(read_npz(tmp_path / "a.npz", lambda names: names[1])) == ["f"]
        with np.load(tmp_path / "a.npz") as expected:
            for name, array in found.items():
                assert (array.dtype, array.shape) == (expected[name].dtype, expected[name].shape)
                assert np.array_equal(array, expected[name])
                assert array.flags.writeable


def test_a_small_archive_is_not_unpacked_to_gigabytes(tmp_path: Path) -> None:
    """2 MB that would give 2 GB: refused by what it announces, so that next to no memory is taken."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as z, z.open("values.npy", "w") as f:
        f.write(npy(np.zeros((0, 2)))[:0])
        for _ in range(UNPACKED_BYTES // (1 << 20) + 20):
            f.write(bytes(1 << 20))
    assert (tmp_path / "a.npz").stat().st_size < 1 << 20
    with pytest.raises(FormatError, match=r"would unpack from \d+ to \d+ bytes; the limit is \d+"):
        read_npz(tmp_path / "a.npz")


def test_the_limit_grows_with_the_file() -> None:
    check_unpacked_size("a", 1, UNPACKED_BYTES)
    check_unpacked_size("a", 1 << 30, 20 << 30)
    with pytest.raises(FormatError, match="would unpack"):
        check_unpacked_size("a", 1 << 50, 1 << 40)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[: len(b) // 2],
        lambda b: b.replace(b"PK\x01\x02", b"PK\x01\x03"),
        lambda b: b[:100] + bytes(20) + b[120:],
        lambda b: b.replace(b"\x08\0", b"\x63\0"),
        lambda b: b"PK\x05\x06" + bytes(18),
        lambda b: b"",
        lambda b: b"\x93NUMPY",
    ],
    ids=["cut", "table", "zeroed", "method", "nothing", "empty", "magic"],
)
def test_damaged_archives_are_a_sentence(tmp_path: Path, read, damage) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, values=np.arange(400.0).reshape(100, 4))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(FormatError, match=r"a\.npz: "):
        read(path)


@pytest.mark.parametrize("name", ["values", "keypoints", "points0", "flow"])
@pytest.mark.parametrize(
    "content",
    [
        b"no array",
        b"",
        npy(np.zeros(3))[:-1],
        npy(np.zeros(3)).replace(b"(3,)", b"(3 ,"),
        npy(np.array([{}], dtype=object)),
        npy(np.array([1j])),
        npy(np.array(["a"])),
    ],
    ids=["text", "empty", "short", "header", "pickle", "complex", "words"],
)
def test_damaged_members_are_a_sentence(tmp_path: Path, name: str, content: bytes) -> None:
    others = {
        n: npy(np.zeros((1, 2))) for n in ("descriptors", "points1") if name in ("keypoints", "points0")
    }
    path = archive(tmp_path / "a.npz", **{name: content}, **others)
    for read in READERS:
        with pytest.raises(FormatError, match=r"a\.npz: "):
            read(path)


def test_other_files_in_an_archive_are_left_out(tmp_path: Path) -> None:
    with zipfile.ZipFile(archive(tmp_path / "a.npz", a=npy(np.ones(2))), "a") as z:
        z.writestr("readme.txt", "hello")
    assert list(read_npz(tmp_path / "a.npz")) == ["a"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("name", ["a.npz", "a.npy"])
def test_pipes_are_refused(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    for read in (read_descriptors, read_flow_array):
        with pytest.raises(FormatError, match="is a pipe"):
            read(tmp_path / name)


def test_errors_of_programming_are_not_hidden() -> None:
    with pytest.raises(AttributeError), format_errors("a", "is wrong"):
        None.x  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(FormatError, match=r"a: is wrong \(deep\)") as caught, format_errors("a", "is wrong"):
        raise RecursionError("deep")
    assert isinstance(caught.value.__cause__, RecursionError)


def test_an_array_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    data = io.BytesIO()
    np.save(data, np.zeros((2, 2)))
    path = archive(tmp_path / "a.npz", points0=data.getvalue(), points1=data.getvalue())
    with zipfile.ZipFile(path, "a") as z, pytest.warns(UserWarning, match="Duplicate"):
        z.writestr("points0.npy", data.getvalue())
    with pytest.raises(FormatError, match="duplicate entry points0"):
        read_matches(path)
