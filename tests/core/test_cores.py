# SPDX-License-Identifier: BSD-3-Clause
"""Cores that control groups and affinity grant."""

from __future__ import annotations

import os

import pytest

from tiepoint import kernels
from tiepoint.core import processes as module
from tiepoint.core.errors import InputError
from tiepoint.core.processes import cgroup_quota, cores
from tiepoint.methods.resolve import resolve
from tiepoint.run import costs


def tree(root, table, files):
    (root / "cgroup").write_text(table)
    for name, text in files.items():
        path = root / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return cgroup_quota(root / "cgroup", root / "fs")


@pytest.mark.parametrize(
    ("table", "files", "quota"),
    [
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "250000 100000\n"}, 3),
        ("0::/\n", {"cpu.max": "5000 100000\n"}, 1),
        ("0::/a/b\n", {"cpu.max": "800000 100000\n", "a/cpu.max": "150000 50000\n"}, 3),
        ("0::/host/path\n", {"cpu.max": "400000 100000\n"}, 4),
        ("0::/../outside\n", {"cpu.max": "100000 100000\n"}, 1),
        ("4:cpu,cpuacct:/x\n", {"cpu,cpuacct/x/cpu.cfs_quota_us": "600000\n",
                                "cpu,cpuacct/x/cpu.cfs_period_us": "100000\n"}, 6),
        ("4:cpu,cpuacct:/x\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ("1:cpu:/\n0::/\n", {"cpu/cpu.cfs_quota_us": "700000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 7),
        ("3:cpuset:/x\n", {"cpu.max": "100000 100000\n"}, None),
        ("0::/\n", {"cpu.max": "nonsense\n"}, None),
        ("", {}, None),
    ],
)  # fmt: skip
def test_quota(tmp_path, table, files, quota):
    assert tree(tmp_path, table, files) == quota


def test_no_table_is_no_limit(tmp_path):
    assert cgroup_quota(tmp_path / "none", tmp_path) is None


@pytest.mark.parametrize(("quota", "found"), [(None, 5), (3, 3), (9, 5)])
def test_one_count_everywhere(monkeypatch, quota, found):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(5)), raising=False)
    monkeypatch.setattr(module, "_quota", lambda: quota)
    kernels.set_threads(None)
    assert cores() == costs.cores() == costs.machine()["cores"] == kernels.get_threads() == found


@pytest.mark.parametrize(
    ("name", "value"),
    [("NUMBA_NUM_THREADS", v) for v in ("0", "-1", "x", "1.5")]
    + [("OPENCV_FOR_THREADS_NUM", v) for v in ("-1", "x")],
)
def test_a_number_of_threads_that_is_none_is_told_in_a_sentence(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every unit failed with a line of Numba or OpenCV."""
    monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=f"{name} is '{value}'"):
        resolve("meanstd", family="patches")
