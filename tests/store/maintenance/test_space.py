# SPDX-License-Identifier: BSD-3-Clause
"""Sizes of a store: every file once, shared files as shared, sizes and ages as people write them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tiepoint.core.errors import InputError
from tiepoint.core.formatting import age_s, size_bytes
from tiepoint.store.maintenance.space import list_runs, store_size
from tiepoint.store.store import Store

PAGE = Path(__file__).parents[3] / "docs" / "store.md"


def test_every_file_counts_once(where: Path) -> None:
    (where / ".tmp-0123abcd-1-2").mkdir()
    (where / ".tmp-0123abcd-1-2" / "half").write_bytes(b"x" * 100)
    (where / "records" / "aa").mkdir(exist_ok=True)
    (where / "records" / "aa" / ".tmp-0123abcd-1-3").write_bytes(b"x" * 10)
    (where / "notes.txt").write_bytes(b"x" * 7)
    with Store.open(where, mode="read") as store:
        found = store_size(store)
    files = [p for p in where.rglob("*") if p.is_file()]
    assert found.total_bytes == sum(p.stat().st_size for p in files)
    assert found.kinds["temporaries"].size_bytes == 110
    assert found.kinds["other"].size_bytes == 7
    assert found.kinds["features"].files == 12
    assert found.unused_bytes == 0


def test_what_two_methods_need_is_shared(where: Path) -> None:
    with Store.open(where, mode="read") as store:
        found = store_size(store).methods
        runs = {r.method: r for r in list_runs(store)}
    alone, one, two = found["pixels"], found["meanstd"], found["also meanstd"]
    assert alone.shared_bytes == 0
    assert one.shared_bytes == two.shared_bytes > one.only_bytes
    assert runs["meanstd"].size_bytes == one.shared_bytes + one.only_bytes
    assert runs["meanstd"].only_bytes == one.only_bytes
    assert runs["pixels"].only_bytes == alone.only_bytes


def test_runs_that_noted_nothing_share_by_their_name(where: Path) -> None:
    with Store.open(where, mode="read") as store:
        before = store_size(store).methods
    for path in (where / "uses").iterdir():
        path.unlink()
    with Store.open(where, mode="read") as store:
        found = store_size(store)
    assert found.methods["meanstd"].shared_bytes == before["meanstd"].shared_bytes
    assert found.methods["pixels"].shared_bytes == 0
    assert found.unused_bytes == 0


@pytest.mark.parametrize("text", ["", "20", "GB", "-1GB", "1e3GB", "20 XB", "nan", "1.GB", "9" * 400 + "GB"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="is not a size"):
        size_bytes(text)


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "inf d", "3 months", "1h30min"])
def test_ages_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="is not an age"):
        age_s(text)


def test_the_page_shows_code_that_runs(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(where.parent)
    where.rename(where.parent / "tiepoint-store")
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    code = code.replace('method="my_net"', 'method="pixels"').replace("2026-01", "3000-01")
    exec(compile(code, "page", "exec"), {})
