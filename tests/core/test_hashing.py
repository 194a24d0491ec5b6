# SPDX-License-Identifier: BSD-3-Clause
"""Hashes of files: remembered while the file is the same, however it is named, and for the next process."""

import hashlib
import json
import os
import subprocess
import time

import pytest

from tiepoint.core import file_stamps, hashing
from tiepoint.core.errors import InputError
from tiepoint.store.atomic_files import atomic_file


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    monkeypatch.setattr(hashing, "_memo", {})
    monkeypatch.setattr(file_stamps, "SETTLED_NS", 0)


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


def twins(tmp_path):
    """Two files of one size and one modification time."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"one")
    second.write_bytes(b"two")
    for file in (first, second):
        os.utime(file, ns=(10**18, 10**18))
    return first, second


def test_hash_file_same_size_copied_with_its_times_changes(tmp_path):
    first, second = twins(tmp_path)
    time.sleep(0.02)
    assert hashing.hash_file(first) == hashing.cached_file_hash(first) == sha(b"one")
    before = first.stat()
    subprocess.run(["cp", "-p", second, first], check=True)
    after = first.stat()
    assert (before.st_size, before.st_mtime_ns, before.st_ino) == (
        after.st_size,
        after.st_mtime_ns,
        after.st_ino,
    )
    assert hashing.hash_file(first) == sha(b"two")


def test_hash_file_changed_just_now_is_not_memoised(tmp_path, monkeypatch):
    monkeypatch.setattr(file_stamps, "SETTLED_NS", 2 * 10**9)
    first, _ = twins(tmp_path)
    assert hashing.hash_file(first) == sha(b"one")
    assert hashing._memo == {}


@pytest.mark.parametrize("why", ["network", "coarse", "windows"])
def test_hash_file_without_reliable_ctime_is_read_again(tmp_path, monkeypatch, why):
    first, _ = twins(tmp_path)
    time.sleep(0.02)
    found = first.stat()
    if why == "network":
        mounts = tmp_path / "mountinfo"
        device = f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}"
        mounts.write_text(f"30 29 {device} / /data rw shared:1 - nfs4 server:/data rw\n")
        monkeypatch.setattr(file_stamps, "MOUNTS", mounts)
        monkeypatch.setattr(file_stamps, "_is_shared", {})
    elif why == "coarse":
        coarse = (*hashing.file_stamp(found)[:4], found.st_ctime_ns // 10**9 * 10**9)
        monkeypatch.setattr(hashing, "file_stamp", lambda _: coarse)
    hashing.hash_file(first)
    with monkeypatch.context() as patch:
        if why == "windows":
            patch.setattr(os, "name", "nt")
        known = hashing.cached_file_hash(first)
    assert known is None
