# SPDX-License-Identifier: BSD-3-Clause
"""Upkeep of a store on PostgreSQL, whose password is in no file and no output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sqlalchemy as sa
from store_world import TASK, make_patches

from tiepoint.cli.main import run
from tiepoint.store.store import Store

SECRET = "s3cret-of-the-lab"


def test_the_life_of_a_store(url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = make_patches(tmp_path)
    base, _, files = url.rpartition("files=")
    made = sa.make_url(base.rstrip("?&")).set(password=SECRET)
    url = made.render_as_string(hide_password=False)
    url += f"{'&' if '?' in url else '?'}files={files}"
    on = ["--store", url]
    asked = ["--task", TASK, "--data", str(data), "--tasks", str(tmp_path), *on]
    assert run(["run", "pixels", "meanstd", *asked, "--json"]) == 0
    said = [capfd.readouterr()]

    def plain(*words: str, code: int = 0) -> str:
        assert run([*words, *on]) == code
        said.append(capfd.readouterr())
        return said[-1].out

    runs = json.loads(plain("store", "ls", "--json"))
    assert [r["method"] for r in runs] == ["pixels", "meanstd"]
    size = json.loads(plain("store", "size", "--json"))
    assert size["kinds"]["database"]["size_bytes"] > 0
    assert "features" in plain("store", "prune", "--older-than", "0s", "--dry-run")
    assert "deleted 1 run," in plain("store", "rm", runs[0]["run"], "--yes")
    assert "is now called new" in plain("store", "rename", "meanstd", "new")
    assert "no problems" in plain("store", "check")
    plain("sql", "select nothing from nowhere", code=2)
    plain("store", "rm", "nosuch", "--yes", code=2)
    with Store.open(url) as store:
        assert "***" in store.where
        shown = repr(store)
    assert SECRET not in "".join([*(s.out + s.err for s in said), shown])
    for path in [p for p in Path(files).rglob("*") if p.is_file()]:
        assert SECRET.encode() not in path.read_bytes(), path
