# SPDX-License-Identifier: BSD-3-Clause
"""Reports of runs whose dataset or store files are missing or corrupt show the rest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tiepoint.cli.main import run as command

IMAGES = ("ref", *(f"{z}{k}" for z in "eht" for k in range(1, 6)))
FORMATS = ("html", "md", "latex", "csv", "json", "parquet")


@pytest.fixture(scope="module")
def world(patches: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of a run on strips, and a store of its result files, scored without strips."""
    root = tmp_path_factory.mktemp("world")
    data = shutil.copytree(patches, root / "data")
    lists = ["--suite", "hpatches-v1", "--data", str(data), "--out", str(data / "benchmarks")]
    assert command(["data", "tasks", *lists]) == 0
    task, results = "hpatches-v1/matching", str(root / "results")
    given = ["--task", task, "--data", str(data), "--store", str(root / "direct"), "--write-results", results]
    assert command(["run", "meanstd", *given]) == 0
    shutil.copytree(data / "benchmarks", root / "lengths" / "benchmarks")
    lengths = {p.name: 20 for p in data.iterdir() if (p / "ref.png").exists()}
    text = json.dumps({"lengths": lengths, "images": IMAGES})
    (root / "lengths" / "lengths.json").write_text(text)
    given = ["--results", results, "--data", str(root / "lengths"), "--store", str(root / "scored")]
    assert command(["score", task, *given]) == 0
    return root


def report(store: Path, form: str) -> str:
    path = store.parent / f"report.{form}"
    assert command(["report", "--store", str(store), "--format", form, "--out", str(path)]) == 0
    return path.read_text() if form == "html" else ""


@pytest.mark.parametrize("form", FORMATS)
def test_report_scored_without_strips_is_written(world: Path, form: str) -> None:
    text = report(world / "scored", form)
    assert ("pictures of failures not shown" in text) == (form == "html")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", ["records", "values"])
def test_report_corrupt_file_is_written_without_it(
    world: Path, tmp_path: Path, kind: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = shutil.copytree(world / "direct", tmp_path / "store")
    for path in (store / kind).rglob("*"):
        if path.is_file():
            path.write_bytes(b"junk")
    text = report(store, form)
    if form == "html" and kind == "records":
        assert "remove the file" in capsys.readouterr().err
    assert ("not shown" in text) == (form == "html" and kind == "records")


@pytest.mark.parametrize("form", FORMATS)
def test_report_dataset_moved_is_written(world: Path, tmp_path: Path, form: str) -> None:
    (world / "data").rename(tmp_path / "moved")
    try:
        report(world / "direct", form)
    finally:
        (tmp_path / "moved").rename(world / "data")
