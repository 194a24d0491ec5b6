# SPDX-License-Identifier: BSD-3-Clause
"""Progress of other processes: announced while they work, gone when they end, dead ones not believed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tiepoint.store.status_files import FOLDER, running, track_progress


def test_work_is_announced_and_the_file_is_gone_at_the_end(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    with track_progress(tmp_path, "sift on <b>", lambda *s: seen.append(s)) as progress:
        progress("describe", 3, 10)
        assert seen == [("describe", 3, 10)]
        (now,) = running(tmp_path)
        assert (now.pid, now.what) == (os.getpid(), "sift on <b>")
        assert now.stages == (("describe", 3, 10),)
    assert running(tmp_path) == []
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_dead_processes_and_damaged_files_are_passed_over(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from tiepoint.store.status_files import track_progress\n"
        "with track_progress(Path(sys.argv[1]), 'killed') as p:\n"
        "    p('a', 1, 2); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    (left,) = (tmp_path / FOLDER).glob("*.json")
    assert running(tmp_path) == []
    plain: dict[str, Any] = json.loads(left.read_text())
    left.write_text(json.dumps(plain | {"pid": os.getpid()}))  # the number is in use again, by another
    assert running(tmp_path) == []
    odd = ["", "{", "[]", '{"pid": "x"}', json.dumps(plain | {"stages": [[1]]}), "x" * 10**5]
    for n, text in enumerate(odd):
        (tmp_path / FOLDER / f"{n}.json").write_text(text)
    assert running(tmp_path) == []
    left.write_text(json.dumps(plain | {"host": "elsewhere:1", "updated": 9e12}))
    assert [w.what for w in running(tmp_path)] == ["killed"]


def test_a_folder_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with track_progress(blocked, "work") as progress:
        progress("a", 1, 2)


def test_the_first_page_and_its_events_show_it(client: Any, odd_store: Path) -> None:
    assert "orb on tss" not in client.get("/").text
    with track_progress(odd_store, "orb on tss") as progress:
        progress("compare", 2, 8)
        text = client.get("/").text
        assert "orb on tss" in text
        assert 'value="2" max="8"' in text
        event = client.get("/events?once=1")
        assert event.headers["content-type"].startswith("text/event-stream")
        assert json.loads(event.text.removeprefix("data: "))["working"][0]["what"] == "orb on tss"


def test_files_of_killed_processes_go_when_the_next_one_starts(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from tiepoint.store.status_files import track_progress\n"
    code += f"with track_progress(Path({str(tmp_path)!r}), 'x'): import os; os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    (left,) = (tmp_path / FOLDER).iterdir()
    left.with_suffix(".tmp").touch()
    theirs = tmp_path / FOLDER / f"{'0' * 8}-1-2-3.json"
    theirs.touch()
    with track_progress(tmp_path, "y"):
        names = {p.name for p in (tmp_path / FOLDER).iterdir()}
        assert left.name not in names
        assert len(names) == 2
    assert list((tmp_path / FOLDER).iterdir()) == [theirs]
    os.utime(theirs, (1, 1))
    with track_progress(tmp_path, "z"):
        assert not theirs.exists()
