# SPDX-License-Identifier: BSD-3-Clause
"""Threads, processes and the code kept on disk."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.kernels import first_two, get_threads, set_threads, threads, tiles
from tiepoint.kernels.threads import ThreadTeam, equal_parts, one_blas_thread, scratch

DATA = np.random.default_rng(0).normal(size=(300, 24)).astype(np.float32)


def child(queue):
    queue.put(first_two(DATA, DATA[::-1].copy()).d1)


@pytest.mark.parametrize("small", [0, 2**40])
def test_kernels_may_run_side_by_side(monkeypatch, small):
    monkeypatch.setattr(tiles, "SMALL_PRODUCT", small)
    expected = first_two(DATA, DATA[::-1].copy())
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: first_two(DATA, DATA[::-1].copy()), range(12)))
    assert all(np.array_equal(one.d2, expected.d2) for one in found)


def test_a_forked_process_may_use_them_too(monkeypatch):
    monkeypatch.setattr(tiles, "SMALL_PRODUCT", 0)
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("this platform does not fork")
    expected = first_two(DATA, DATA[::-1].copy()).d1
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    assert np.array_equal(queue.get(timeout=60), expected)
    process.join()
    assert process.exitcode == 0


def test_blas_threads_are_given_back():
    threadpoolctl = pytest.importorskip("threadpoolctl")

    def counts():
        return [lib["num_threads"] for lib in threadpoolctl.threadpool_info() if lib["user_api"] == "blas"]

    before = counts()
    with one_blas_thread():
        with one_blas_thread():
            assert set(counts()) == {1}
        assert set(counts()) == {1}
    assert counts() == before
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        _ = 1 / 0
    assert counts() == before


def test_a_threadpoolctl_that_may_wait_for_ever_is_not_asked(monkeypatch):
    """Before 3.7 it called Python with the loader's lock held: an import elsewhere, and both wait."""
    threadpoolctl = pytest.importorskip("threadpoolctl")
    asked = []
    monkeypatch.setattr(threadpoolctl, "__version__", "3.6.0")
    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", lambda: asked.append(1))
    threads._controller.cache_clear()
    try:
        with one_blas_thread():
            assert asked == []
    finally:
        threads._controller.cache_clear()


def test_an_error_in_a_thread_arrives():
    with pytest.raises(ZeroDivisionError):
        ThreadTeam().each([(0, 1), (1, 0)], lambda i, j: j / (j * i))


def test_parts_cover_everything_once():
    for n in (0, 1, 7, 100):
        for count in (1, 2, 3, 9):
            parts = equal_parts(n, count)
            assert [i for start, stop in parts for i in range(start, stop)] == list(range(n))


def test_threads_must_be_positive():
    with pytest.raises(InputError, match="at least 1"):
        set_threads(0)
    assert get_threads() >= 1


def test_without_a_folder_to_write_code_is_compiled_in_memory(monkeypatch):
    from numba import njit

    from tiepoint.core import numba_cache as module

    def no_folder(*args, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(*args, **options)

    monkeypatch.setattr(module, "njit", no_folder)

    def twice(x):
        return 2 * x

    assert module.compiled_for(lambda real: real(real))(twice)(np.float64)(4.0) == 8.0


def test_importing_the_kernels_does_not_load_numba():
    code = "import sys, tiepoint.kernels; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_team_inside_a_team_has_its_share():
    set_threads(8)
    try:
        found = ThreadTeam().each([(i, i) for i in range(4)], lambda *_: (get_threads(), ThreadTeam().size))
        assert found == [(2, 2)] * 4
        inner = ThreadTeam().each(
            [(0, 3), (3, 6)], lambda i, j: ThreadTeam().each([(k, k) for k in range(i, j)], max)
        )
        assert inner == [[0, 1, 2], [3, 4, 5]]
        assert get_threads() == 8
    finally:
        set_threads(None)


def test_threads_go_on_after_an_error():
    set_threads(3)
    try:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                ThreadTeam().each([(1, k) for k in range(9)], lambda i, j: i // j)
            assert ThreadTeam().each([(1, 2), (3, 4)], lambda i, j: i + j) == [3, 7]
    finally:
        set_threads(None)


def test_memory_of_a_thread_is_kept_and_bounded():
    first = scratch("test", (10, 3), np.float32)
    again = scratch("test", (5, 2), np.float64)
    assert again.dtype == np.float64
    assert again.shape == (5, 2)
    assert np.shares_memory(first, again)
    large = scratch("test", (3 << 20,), np.float64)
    assert not np.shares_memory(large, scratch("test", (10, 3), np.float32))


def test_the_quick_entry_is_the_long_way(monkeypatch, oracle):
    """Rows that enter in one step, whole numbers and others, queries apart from the pool, and repeats."""
    rng = np.random.default_rng(2)
    for scale in (1.0, 1e-30, 1e30, 0):
        a, b = (rng.normal(size=(n, 19)) * (scale or 9) for n in (40, 70))
        a, b = ((np.rint(x) if scale == 0 else x).astype(np.float32) for x in (a, b))
        b[60:] = a[:10]
        expected = oracle.matrix(a, b, "l2")
        found = first_two(a, b, squared=True)
        assert np.array_equal(found.d1, expected.min(axis=1))
        assert np.array_equal(found.index, expected.argmin(axis=1))
        monkeypatch.setattr(tiles, "TILE_COLUMNS", 16)
        assert np.array_equal(first_two(a, b, squared=True).d2, found.d2)
        monkeypatch.undo()


def test_products_of_a_few_hundred_rows_leave_no_work_to_blas_threads(monkeypatch):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    seen = []
    matmul = np.matmul

    def counted(*arguments, **more):
        seen.extend(
            lib["num_threads"] for lib in threadpoolctl.threadpool_info() if lib["user_api"] == "blas"
        )
        return matmul(*arguments, **more)

    monkeypatch.setattr(np, "matmul", counted)
    rows = np.random.default_rng(0).standard_normal((400, 128)).astype(np.float32)
    set_threads(2)
    try:
        with threadpoolctl.threadpool_limits(2, user_api="blas"):
            first_two(rows, rows[::-1].copy())
    finally:
        set_threads(None)
    assert seen
    assert set(seen) == {1}
