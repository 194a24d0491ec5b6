# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tiepoint.core.errors import FormatError, InputError
from tiepoint.core.hashing import hash_file
from tiepoint.formats.hpatches.descriptors import (
    count_descriptor_rows,
    find_descriptor_file,
    parsed_copy,
    read_descriptors,
    write_descriptors,
)
from tiepoint.formats.npy import file_of
from tiepoint.methods.output_checks import find_bad_rows

VALUES = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)


@settings(deadline=None)  # the first call compiles
@given(hnp.arrays(np.float32, (3, 4), elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_text_brings_every_float32_back(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("d") / "ref.csv"
    write_descriptors(path, values)
    again = read_descriptors(path).values
    assert again.dtype == np.float32
    assert np.array_equal(again, values)


def test_writer_uses_commas_and_plain_whole_numbers(tmp_path):
    write_descriptors(tmp_path / "a.csv", np.array([[1.0, 0.5], [3.0, 1e-7]], np.float32))
    assert (tmp_path / "a.csv").read_text().splitlines()[0] == "1,0.5"


def test_npy_is_mapped_and_other_numbers_become_float32(tmp_path):
    np.save(tmp_path / "a.npy", VALUES)
    table = read_descriptors(tmp_path / "a.npy")
    assert file_of(table.values) is not None
    assert np.array_equal(table.values, VALUES)
    np.save(tmp_path / "b.npy", VALUES.astype(np.float64))
    assert read_descriptors(tmp_path / "b.npy").values.dtype == np.float32
    np.save(tmp_path / "c.npy", np.arange(6, dtype=np.int16).reshape(2, 3))
    assert read_descriptors(tmp_path / "c.npy").values.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_bits_in_three_forms(tmp_path):
    bits = np.random.default_rng(1).random((5, 24)) < 0.5
    packed = np.packbits(bits, axis=1)
    np.save(tmp_path / "packed.npy", packed)
    np.save(tmp_path / "plain.npy", bits)
    np.savez(tmp_path / "key.npz", bits=packed, valid=[1, 1, 0, 1, 1])
    for name in ("packed.npy", "plain.npy", "key.npz"):
        table = read_descriptors(tmp_path / name)
        assert table.is_bits
        assert np.array_equal(table.values, packed)
    assert read_descriptors(tmp_path / "key.npz").valid.tolist() == [True, True, False, True, True]
    np.savez(tmp_path / "bytes.npz", values=packed)
    table = read_descriptors(tmp_path / "bytes.npz")
    assert not table.is_bits
    assert table.values.dtype == np.float32


def test_cache_is_used_and_follows_the_file(tmp_path, monkeypatch):
    path, cache = tmp_path / "data" / "ref.csv", tmp_path / "cache"
    write_descriptors(path, VALUES)
    first = read_descriptors(path, cache=cache).values
    assert np.array_equal(first, VALUES)
    assert [p.name for p in path.parent.iterdir()] == ["ref.csv"]
    with monkeypatch.context() as m:
        m.setattr("tiepoint.formats.hpatches.descriptors.parse_table", None)
        second = read_descriptors(path, cache=cache).values
    assert file_of(second) is not None
    assert np.array_equal(second, VALUES)
    write_descriptors(path, VALUES + 1)
    os.utime(path, ns=(1, 1))
    assert np.array_equal(read_descriptors(path, cache=cache).values, VALUES + 1)


def test_damaged_cache_copy_is_made_anew(tmp_path):
    path, cache = tmp_path / "ref.csv", tmp_path / "cache"
    write_descriptors(path, VALUES)
    read_descriptors(path, cache=cache)
    parsed_copy(hash_file(path), cache).write_bytes(b"junk")
    assert np.array_equal(read_descriptors(path, cache=cache).values, VALUES)
    assert np.array_equal(read_descriptors(path, cache=cache).values, VALUES)


def test_bad_arrays(tmp_path):
    cases = {
        "flat.npy": (np.zeros(4), "shape"),
        "none.npy": (np.zeros((0, 4)), "shape"),
        "text.npy": (np.array([["a"]]), "real numbers"),
    }
    for name, (array, words) in cases.items():
        np.save(tmp_path / name, array)
        with pytest.raises(FormatError, match=words):
            read_descriptors(tmp_path / name)
    np.savez(tmp_path / "keys.npz", foo=VALUES)
    with pytest.raises(FormatError, match="'values' or 'bits'"):
        read_descriptors(tmp_path / "keys.npz")
    np.savez(tmp_path / "valid.npz", values=VALUES, valid=[True])
    with pytest.raises(FormatError, match="'valid' has shape"):
        read_descriptors(tmp_path / "valid.npz")
    for name in ("junk.npy", "junk.npz"):
        (tmp_path / name).write_bytes(b"junk")
        with pytest.raises(FormatError, match="not a readable"):
            read_descriptors(tmp_path / name)
    for name in ("no.csv", "no.npy"):
        with pytest.raises(FormatError, match="does not exist"):
            read_descriptors(tmp_path / name)


def test_object_arrays_are_never_unpickled(tmp_path):
    np.save(tmp_path / "o.npy", np.array([[object()]]), allow_pickle=True)
    with pytest.raises(FormatError):
        read_descriptors(tmp_path / "o.npy")


def test_find_file_and_ambiguity(tmp_path):
    (tmp_path / "s").mkdir()
    assert find_descriptor_file(tmp_path, "s", "ref") is None
    np.save(tmp_path / "s" / "ref.npy", VALUES)
    assert find_descriptor_file(tmp_path, "s", "ref").name == "ref.npy"
    write_descriptors(tmp_path / "s" / "ref.csv", VALUES)
    with pytest.raises(InputError, match="same image"):
        find_descriptor_file(tmp_path, "s", "ref")
    assert (
        count_descriptor_rows(tmp_path / "s" / "ref.npy")
        == count_descriptor_rows(tmp_path / "s" / "ref.csv")
        == 20
    )


def test_bad_rows_are_named():
    values = VALUES.copy()
    values[3, 1] = np.nan
    values[[4, 9], 0] = np.inf, -np.inf
    values[9, 2] = np.nan
    values[7] = 0
    bad = find_bad_rows(values)
    assert (bad.nan.tolist(), bad.infinite.tolist(), bad.zero.tolist()) == ([3, 9], [4], [7])
    sentences = bad.problems("v_wall/e1")
    assert sentences[0] == "v_wall/e1: 2 descriptors have NaN (rows 3, 9)"
    assert len(sentences) == 3
    assert len(bad.problems("x", zero=False)) == 2
    assert find_bad_rows(np.zeros((2, 2), np.uint8)).zero.tolist() == [0, 1]
