# SPDX-License-Identifier: BSD-3-Clause
"""Hashes of files: remembered while the file is the same, however it is named, and for the next process."""

import hashlib
import json
import os

import pytest

from tiepoint.core import hashing
from tiepoint.core.errors import InputError
from tiepoint.store.atomic_files import atomic_file


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    monkeypatch.setattr(hashing, "_memo", {})


def sha(data):
    return hashlib.sha256(data).hexdigest()


def test_a_changed_file_is_hashed_again_under_every_name(tmp_path, monkeypatch):
    (tmp_path / "d").mkdir()
    file = tmp_path / "d" / "a"
    file.write_bytes(b"one")
    (tmp_path / "link").symlink_to(tmp_path / "d")
    (tmp_path / "d" / "b").symlink_to("a")
    monkeypatch.chdir(tmp_path)
    names = [file, str(file), "d/a", "./d/../d/a", "link/a", "link/b", tmp_path / "d" / "b"]
    assert {hashing.hash_file(n) for n in names} == {sha(b"one")}
    assert {key[0] for key in hashing._memo} == {os.path.realpath(file)}
    assert {hashing.cached_file_hash(n) for n in names} == {sha(b"one")}
    file.write_bytes(b"other")
    assert hashing.cached_file_hash(file) is None
    assert {hashing.hash_file(n) for n in names} == {sha(b"other")}
    with pytest.raises(InputError, match="none"):
        hashing.hash_file(tmp_path / "none")
    assert hashing.cached_file_hash(tmp_path / "none") is None


def test_many_files_in_threads_and_what_is_kept_of_them(tmp_path):
    files = [tmp_path / str(i) for i in range(9)]
    for i, file in enumerate(files):
        file.write_bytes(bytes([i]) * (65_000 + 200 * i))
    hashing.hash_files([*files, tmp_path / "gone"], 3)
    assert None not in [hashing.cached_file_hash(f) for f in files]
    assert [hashing.hash_file(f) for f in files] == [sha(f.read_bytes()) for f in files]
    memo = tmp_path / "hashes.json"
    hashing.save_memo(memo, atomic_file)
    assert {os.path.basename(row[0]) for row in json.loads(memo.read_text())["files"]} == set("345678")
    stamp = memo.stat()
    hashing.save_memo(memo, atomic_file)  # nothing new
    assert memo.stat() == stamp
    known = dict(hashing._memo)
    hashing._memo.clear()
    hashing.load_memo(memo)
    assert hashing._memo.items() <= known.items()
    assert len(hashing._memo) == 6
