"""Files are whole or as they were, whatever the system says in between."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.formats.file_io import atomic_path, write_lines, write_text
from tiepoint.formats.flow.reader import write_flow
from tiepoint.formats.flow.tss import write_scores
from tiepoint.formats.image.mask import write_mask
from tiepoint.formats.image.reader import write_image
from tiepoint.formats.matches.native import write_matches
from tiepoint.formats.text.numbers import write_frames, write_homography

WRITERS: dict[str, Callable[[Path], object]] = {
    "a.txt": lambda p: write_text(p, "long " * 100),
    "b.txt": lambda p: write_lines(p, ["long"] * 100),
    "a.flo": lambda p: write_flow(p, np.ones((20, 20, 2), np.float32)),
    "a.npy": lambda p: write_flow(p, np.ones((20, 20, 2), np.float32)),
    "a.npz": lambda p: write_flow(p, np.random.default_rng(0).normal(size=(20, 20, 2)).astype(np.float32)),
    "a.png": lambda p: write_image(p, np.random.default_rng(0).integers(0, 255, (30, 30)).astype(np.uint8)),
    "m.png": lambda p: write_mask(p, np.random.default_rng(0).integers(0, 255, (30, 30)).astype(np.uint8)),
    "pair.npz": lambda p: write_matches(p.parent, "pair", points0=[[1.0, 2.0]], points1=[[1.0, 2.0]]),
    "H": lambda p: write_homography(p, np.full((3, 3), 1 / 3) + np.eye(3)),
    "f.frames": lambda p: write_frames(p, np.ones((20, 2, 3))),
    "scores.csv": lambda p: write_scores(p, []),
}


@pytest.fixture
def full() -> Iterator[None]:
    """No file can grow beyond 40 bytes, as on a full disk."""
    resource = pytest.importorskip("resource", reason="limits the size of files by it")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_old_file_and_nothing_else(name: str, tmp_path: Path, full: None) -> None:
    path = tmp_path / name
    path.write_bytes(b"old")
    with pytest.raises(InputError, match=f"cannot write .*{name}"):
        WRITERS[name](path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_was_writing_goes_with_the_next_file(tmp_path: Path) -> None:
    code = f"""
import os, pathlib
from tiepoint.formats.file_io import atomic_path
with atomic_path(pathlib.Path({str(tmp_path)!r}) / "a.txt") as temporary:
    temporary.write_text("half")
    os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".a.tmp-")
    write_text(tmp_path / "b.txt", "whole")
    assert [p.name for p in tmp_path.iterdir()] == ["b.txt"]


@pytest.mark.skipif(os.name != "posix", reason="links and modes")
def test_links_modes_and_devices_stay_what_they_are(tmp_path: Path) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.touch(mode=0o640)
    link.symlink_to(real)
    write_text(link, "text")
    assert link.is_symlink()
    assert real.read_text() == "text"
    assert real.stat().st_mode & 0o777 == 0o640
    write_text("/dev/null", "text")
    assert not Path("/dev/null").is_file()
    with pytest.raises(InputError, match="cannot write"):
        write_text(tmp_path, "text")
    with pytest.raises(InputError, match="No such file"), atomic_path(tmp_path / "c.txt"):
        (tmp_path / "gone").read_text()
    write_text(tmp_path / ("n" * 251 + ".txt"), "long names fit")
