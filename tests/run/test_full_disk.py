"""A full disk: what is finished is printed, what was there stays, and the rest is told in a sentence."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiepoint.cli.main import run as tiepoint
from tiepoint.core.errors import InputError
from tiepoint.formats.keypoints.set_folder import sets_below
from tiepoint.store import stored_run
from tiepoint.store.writers import load_keypoint_set

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)), resource.RLIM_INFINITY))
from tiepoint.cli.main import main
main()
"""


def limited(most: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line where no file can grow beyond `most` bytes."""
    pytest.importorskip("resource", reason="limits the size of files by it")
    command = [sys.executable, "-c", LIMITED, str(most), *arguments]
    # A truncated module file in __pycache__ would break later processes.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)


def full(*_: object, **__: object) -> Any:
    """What the system says."""
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("place", ["values", "run file"])
def test_scores_are_printed_where_the_store_cannot_take_them(
    place: str,
    patches: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = ["run", "meanstd", "--task", "hpatches/matching", "--data", str(patches)]
    assert tiepoint([*line, "--store", str(tmp_path / "whole")]) == 0
    expected = capsys.readouterr().out
    if place == "values":
        monkeypatch.setattr("numpy.savez_compressed", full)  # this replacement is in the run id
    else:
        monkeypatch.setattr(stored_run, "add_checksum", full)
    code = tiepoint([*line, "--store", str(tmp_path / "full")])
    said = capsys.readouterr()
    assert code == 2
    printed, stored = (
        re.sub(r"\b[0-9a-f]{8}\b", "ID", text).split("runs:")[0] for text in (said.out, expected)
    )
    assert printed == stored
    assert "No space left on device" in said.err
    assert "Traceback" not in said.err


def test_runs_that_finished_before_the_disk_was_full_are_printed(
    patches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = np.save

    def save(file: Any, array: Any, **given: Any) -> None:
        if array.shape[1:] == (16,):  # the second method's
            full()
        saved(file, array, **given)

    monkeypatch.setattr("numpy.save", save)
    line = ["run", "meanstd", "resize", "--task", "hpatches/matching", "--data", str(patches)]
    code = tiepoint([*line, "--store", str(tmp_path / "s")])
    said = capsys.readouterr()
    assert code != 0
    assert "meanstd" in said.out
    assert "No space left on device" in said.err


def test_the_old_report_stays(patches: Path, tmp_path: Path) -> None:
    store, report = tmp_path / "s", tmp_path / "report.html"
    line = ["run", "meanstd", "--task", "hpatches/matching", "--data", str(patches), "--store", str(store)]
    assert tiepoint(line) == 0
    report.write_text("old")
    done = limited(20_000, "report", "--out", str(report), "--store", str(store))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"tiepoint: cannot write {report}: File too large"
    assert report.read_text() == "old"
    assert not list(tmp_path.glob(".*"))


SCENES = "".join(f"v_{s}_true_map=0.{s};v_{s}_query_count=20;" for s in range(1, 8))
COMPARE = ("compare", "--task", "keypoints/ranking", "--metric", "true_map_micro")
OUTPUTS = [
    *((("report", "--format", form), f"a.{form}") for form in ("md", "csv", "parquet")),
    *((COMPARE, f"b.{ending}") for ending in ("csv", "tex", "parquet")),
    *((("plot", "scores"), f"c.{ending}") for ending in ("pdf", "csv")),
]


def test_no_output_of_before_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    resource = pytest.importorskip("resource", reason="limits the size of files by it")
    table, store = tmp_path / "x.csv", str(tmp_path / "s")
    rows = [f"{name},{value},success=1;{SCENES}" for name, value in (("sift", 0.5), ("surf", 0.25))]
    table.write_text("\n".join(["descriptor_type,true_map_micro,metadata", *rows, ""]))
    assert tiepoint(["import", str(table), "--store", store]) == 0
    kept = {name: tmp_path / "out" / name for _, name in OUTPUTS}
    (tmp_path / "out").mkdir()
    for path in kept.values():
        path.write_text("old")
    before, found = resource.getrlimit(resource.RLIMIT_FSIZE), {}
    capsys.readouterr()
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, before[1]))
    try:
        for command, name in OUTPUTS:
            try:
                code: object = tiepoint([*command, "--out", str(kept[name]), "--store", store])
            except OSError as e:
                code = e
            found[name] = code, capsys.readouterr().err, kept[name].read_bytes()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    for name, (code, said, content) in found.items():
        assert (code, content) == (2, b"old"), (name, said)
        assert f"cannot write {kept[name]}: " in said
        assert "File too large" in said
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(kept)


def test_the_old_keypoint_set_stays(sequences: Path, tmp_path: Path) -> None:
    store = tmp_path / "s"
    line = ["keypoints", "make", "a", "--data", str(sequences), "--store", str(store), "--border-px", "5"]
    assert tiepoint([*line, "--detector", "grid"]) == 0
    before = load_keypoint_set(store, "a").id
    done = limited(1_000, *line, "--detector", "sift", "--overwrite")
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert load_keypoint_set(store, "a").id == before


def test_a_keypoint_set_survives_a_kill_between_two_renames(
    sequences: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "s"
    line = ["keypoints", "make", "a", "--data", str(sequences), "--store", str(store), "--border-px", "5"]
    assert tiepoint([*line, "--detector", "grid"]) == 0
    before = load_keypoint_set(store, "a").id
    os.rename(store / "keypoint_sets" / "a", store / "keypoint_sets" / ".old-a")
    assert load_keypoint_set(store, "a").id == before
    assert list(sets_below(store)) == ["a"]
    with pytest.raises(InputError, match="unknown keypoint set"):
        load_keypoint_set(store, ".old-a")
    assert tiepoint([*line, "--detector", "fast", "--overwrite"]) == 0
    assert load_keypoint_set(store, "a").id != before
    assert [p.name for p in (store / "keypoint_sets").iterdir()] == ["a"]
