"""Arrays of pickles of any protocol, and pickles that lie about them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiepoint.core.errors import FormatError
from tiepoint.formats.pickled_arrays import is_pickle, parse_arrays, read_npy_objects


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(["ab", "c"]),
        np.zeros((0, 2), np.float32),
    ],
    ids=["big-endian", "columns", "text", "empty"],
)
@pytest.mark.parametrize("protocol", [2, 5])
def test_arrays_come_back(array: np.ndarray, protocol: int) -> None:
    found, rest = parse_arrays(pickle.dumps([array, {"n": np.float32(2.5)}], protocol=protocol))
    np.testing.assert_array_equal(found, array)
    assert found.shape == array.shape
    assert rest == {"n": 2.5}


def test_an_npy_of_objects_is_read_as_data(tmp_path: Path) -> None:
    np.save(tmp_path / "dump.npy", np.array([{"mconf": np.ones(3)}], dtype=object), allow_pickle=True)
    found = read_npy_objects(tmp_path / "dump.npy")
    np.testing.assert_array_equal(found[0]["mconf"], np.ones(3))
    np.save(tmp_path / "plain.npy", np.ones(3))
    with pytest.raises(FormatError, match=r"is a \.npy file of numbers"):
        read_npy_objects(tmp_path / "plain.npy")


def test_a_file_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(pickle.dumps({}, protocol=4))
    np.savez(tmp_path / "b.npz", a=np.ones(1))
    assert (is_pickle(tmp_path / "a.npz"), is_pickle(tmp_path / "b.npz")) == (True, False)


@pytest.mark.parametrize("length", [0, 5, 11])
def test_an_array_with_too_few_or_odd_bytes_is_damaged(length: int) -> None:
    whole = pickle.dumps(np.arange(3, dtype=np.int32), protocol=4)
    content = np.arange(3, dtype=np.int32).tobytes()
    damaged = whole.replace(b"C\x0c" + content, b"C" + bytes([length]) + content[:length])
    assert damaged != whole
    with pytest.raises(FormatError, match=r"corrupt array|corrupt or unsafe pickle"):
        parse_arrays(damaged)


class Sneaky:
    def __init__(self, callee: Any) -> None:
        self.callee = callee

    def __reduce__(self) -> tuple[Any, ...]:
        return self.callee, ("1",)


@pytest.mark.parametrize("place", [lambda s: s, lambda s: [s], lambda s: {"a": (s,)}, lambda s: {s}])
def test_any_other_global_is_refused(place: Any) -> None:
    with pytest.raises(FormatError, match=r"contains builtins\.eval, which is refused"):
        parse_arrays(pickle.dumps(place(Sneaky(eval))))
    array = np.empty(1, object)
    array[0] = Sneaky(eval)
    with pytest.raises(FormatError, match=r"contains builtins\.eval"):
        parse_arrays(pickle.dumps(array))
