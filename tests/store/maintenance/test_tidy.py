# SPDX-License-Identifier: BSD-3-Clause
"""What killed processes left in a store goes, whoever they were; what a living one is writing stays."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.processes import process_mark, started_at, this_host
from tiepoint.store.atomic_files import remove_temporaries
from tiepoint.store.feature_cache import FeatureCache
from tiepoint.store.maintenance.journal import FOLDER, remove_leftovers
from tiepoint.store.store import Store

DAY = 86400.0


def _left(root: Path, mark: str, days: float, *, folder: bool = False) -> Path:
    path = root / "records" / "ab" / f".tmp-{mark}-7"
    path.parent.mkdir(parents=True, exist_ok=True)
    if folder:
        path.mkdir()
        (path / "half").write_bytes(b"x")
    else:
        path.write_bytes(b"x")
    for p in [*path.rglob("*"), path]:
        os.utime(p, (time.time() - days * DAY,) * 2)
    return path


@pytest.mark.parametrize("folder", [True, False])
def test_a_number_that_is_in_use_again_does_not_save_what_is_older(tmp_path: Path, folder: bool) -> None:
    """In a container every process may have the number that the killed one had."""
    if started_at(os.getpid()) is None:
        pytest.skip("this system does not tell when a process started")
    old = _left(tmp_path, f"{this_host()}-{os.getpid()}-1", 400, folder=folder)
    assert remove_temporaries(tmp_path) == 1
    assert not old.exists()
    own = _left(tmp_path, process_mark(), 0, folder=folder)
    assert remove_temporaries(tmp_path) == 0
    assert own.exists()


def test_header_of_features_that_was_half_written_is_removed(tmp_path: Path) -> None:
    """The header of an entry is written again when a run repeats one of its items."""
    key = "ab" + 62 * "0"
    cache = FeatureCache(tmp_path / "features")
    cache.put(key, {"values": np.zeros(2)})
    killed = (
        "import os, sys; from pathlib import Path; from tiepoint.store.feature_cache import FeatureCache; "
        "os.replace = lambda *_: os._exit(9); "
        "FeatureCache(Path(sys.argv[1])).amend(sys.argv[2], repeated='yes')"
    )
    ended = subprocess.run([sys.executable, "-c", killed, str(cache.root), key], check=False)
    assert ended.returncode == 9
    assert list(tmp_path.rglob(".tmp-*"))
    assert remove_temporaries(tmp_path) == 1
    assert not list(tmp_path.rglob(".tmp-*"))
    cache.amend(key, repeated="yes")
    assert FeatureCache(cache.root).verify(key)["repeated"] == "yes"


def test_what_a_machine_that_is_gone_left_goes_after_a_week(tmp_path: Path) -> None:
    for days, gone in ((6, 0), (8, 1)):
        path = _left(tmp_path, "0123abcd-1-1", days)
        assert remove_temporaries(tmp_path) == gone
        assert path.exists() is (not gone)
    new = _left(tmp_path, "0123abcd-2-1", 8, folder=True)
    (new / "just now").write_bytes(b"x")
    assert remove_temporaries(tmp_path) == 0


def test_tidying_removes_files_of_dead_processes_and_damaged_notes(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from tiepoint.store.status_files import track_progress\n"
        "from tiepoint.store.atomic_files import temporary_folder\n"
        "root = Path(sys.argv[1])\n"
        "with track_progress(root, 'killed'), temporary_folder(root) as folder:\n"
        "    (folder / 'deep' / 'deeper').mkdir(parents=True); os._exit(9)"
    )
    with Store.open(tmp_path / "s") as store:
        subprocess.run([sys.executable, "-c", code, str(store.root)], check=False)
        (store.root / FOLDER).mkdir()
        outside = tmp_path / "outside.json"
        outside.write_bytes(b"x")
        odd = (
            b'{"change": "rem',
            b"[]",
            b'{"runs": 3}',
            b'{"files": [["a"]]}',
            b'{"runs": ["../../outside"]}',
        )
        for n, text in enumerate(odd):
            (store.root / FOLDER / f"{n}.json").write_bytes(text)
        assert list((store.root / "running").iterdir())
        remove_leftovers(store)
        assert outside.exists()
        left = {p.name for p in store.root.iterdir()}
        assert left <= {"tiepoint.sqlite", "running", "hashes.json"}
        assert not list((store.root / "running").iterdir())
