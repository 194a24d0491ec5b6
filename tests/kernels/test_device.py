# SPDX-License-Identifier: BSD-3-Clause
"""The torch path beside the compiled one: how it is chosen, what it keeps, and when it hands over."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.formats.npy import file_of, map_npy
from tiepoint.kernels import (
    first_two,
    first_two_aligned,
    get_device,
    nearest,
    pair_distances,
    pair_distances_sq,
    rank_counts,
    set_device,
)
from tiepoint.kernels.torch_backend import device

torch = pytest.importorskip("torch", reason="the kernels on a device need torch")
EVERY = np.arange(60)


@pytest.fixture(autouse=True)
def torch_on_the_processor():
    set_device("torch:cpu")
    yield
    set_device(None)
    device._bytes.clear()


def rows(seed=0, sizes=(60, 300), dim=16):
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=(n, dim)).astype(np.float32) for n in sizes)


def compiled(work):
    set_device("cpu")
    try:
        return work()
    finally:
        set_device("torch:cpu")


def counts(queries, pool):
    query = np.repeat(np.arange(len(queries)), 4)
    position = (np.arange(len(query)) * 7) % len(pool)
    target = pair_distances_sq(queries, pool, query, position)
    limits = np.tile([10, len(pool), 200], (len(queries), 1))
    groups = {"query_group": np.arange(len(queries)) % 3, "pool_group": np.arange(len(pool)) % 4}
    return rank_counts(queries, pool, query, target, position, limits=limits, squared=True, **groups)


def test_what_names_no_device_is_refused():
    with pytest.raises(InputError, match="unknown device 'banana'"):
        set_device("banana")
    with pytest.raises(InputError, match="`device` cuda:99 cannot be used"):
        set_device("cuda:99")
    assert get_device() == "torch:cpu"


def test_products_of_lower_precision_are_not_forced(monkeypatch):
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    with pytest.raises(InputError, match="NVIDIA_TF32_OVERRIDE"):
        set_device("cuda")


def test_a_device_without_float64_is_left_aside():
    with pytest.warns(UserWarning, match="mps has no float64"):
        set_device("mps")
    assert get_device() == "cpu"


def test_the_environment_chooses_the_torch_path(monkeypatch):
    monkeypatch.setenv("TIEPOINT_KERNELS", "torch")
    set_device("cpu")
    assert get_device() == "torch:cpu"


def test_products_are_exact_inside_and_as_before_outside():
    owner = torch.backends.cuda.matmul
    before = owner.fp32_precision
    try:
        owner.fp32_precision = "tf32"
        with device.exact_products(), device.exact_products():
            assert owner.fp32_precision == "ieee"
        assert owner.fp32_precision == "tf32"
    finally:
        owner.fp32_precision = before


def test_square_roots_are_correctly_rounded():
    from tiepoint.kernels.torch_backend.row_cache import root

    x = np.random.default_rng(1).random(100_000) * 16
    assert np.array_equal(root(torch.from_numpy(x)).numpy(), np.sqrt(x))


@pytest.mark.parametrize("kind", ["normal", "ties", "bytes"])
def test_counting_all_scores_is_counting_those_that_matter(monkeypatch, kind):
    from tiepoint.kernels.torch_backend import counts as torch_counts

    queries, pool = rows()
    if kind == "ties":
        queries, pool = (np.round(x) / 255 for x in (queries, pool))
    if kind == "bytes":
        queries, pool = (np.round(x + 8).astype(np.uint8) for x in (queries, pool))
    one_by_one = counts(queries, pool)
    monkeypatch.setattr(torch_counts, "FEW", 0)
    monkeypatch.setattr(torch_counts, "SPARSE", 1 << 62)
    together = counts(queries, pool)
    expected = compiled(lambda: counts(queries, pool))
    for a, b, c in zip(one_by_one, together, expected, strict=True):
        assert np.array_equal(a, c)
        assert np.array_equal(b, c)


def test_a_band_that_holds_everything_is_left_to_the_compiled_code(monkeypatch):
    from tiepoint.kernels.torch_backend import nearest_scan

    nearest_module = import_module("tiepoint.kernels.nearest")
    same = np.full((40, 16), 0.3, np.float32)
    here = first_two(same, same)
    asked = []
    plain = nearest_module._compiled_first_two
    monkeypatch.setattr(
        nearest_module, "_compiled_first_two", lambda *given: asked.append(1) or plain(*given)
    )
    monkeypatch.setattr(nearest_scan, "MAX_CANDIDATES", 10)
    for a, b in zip(first_two(same, same), here, strict=True):
        assert np.array_equal(a, b)
    assert asked


@pytest.mark.parametrize("failures", [1, 3, 99])
def test_out_of_memory_halves_blocks_and_then_leaves_the_device(monkeypatch, recwarn, failures):
    queries, pool = rows()
    expected = compiled(lambda: nearest(queries, pool, 5))
    sizes = []
    plain = torch.matmul

    def short(*given, **named):
        sizes.append(device.block_bytes())
        if len(sizes) <= failures:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return plain(*given, **named)

    monkeypatch.setattr(torch, "matmul", short)
    found = nearest(queries, pool, 5)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found, expected, strict=True))
    first = device.HOST_BYTES
    assert (
        sizes[: failures + 1]
        == [max(first >> k, device.MIN_BLOCK_BYTES) for k in range(len(sizes))][: failures + 1]
    )
    told = [str(w.message) for w in recwarn if "too little memory" in str(w.message)]
    assert len(told) == (failures == 99)


def test_other_errors_are_not_swallowed(monkeypatch):
    def broken(*given, **named):
        raise RuntimeError("something else")

    monkeypatch.setattr(torch, "matmul", broken)
    with pytest.raises(RuntimeError, match="something else"):
        nearest(*rows(), 5)


def test_mapped_rows_are_brought_once_and_anew_when_the_file_changes(tmp_path):
    from tiepoint.kernels.torch_backend.row_cache import clear_cache, upload

    values = rows()[1]
    np.save(tmp_path / "a.npy", values)
    first, again = (upload([map_npy(tmp_path / "a.npy")])[0] for _ in "ab")
    assert first.values.data_ptr() == again.values.data_ptr()
    part = upload([map_npy(tmp_path / "a.npy")[5:]])[0]
    assert np.array_equal(part.values.numpy(), values[5:])
    (tmp_path / "b.npy").write_bytes((tmp_path / "a.npy").read_bytes())
    np.save(tmp_path / "c.npy", values + 1)
    (tmp_path / "c.npy").replace(tmp_path / "a.npy")
    assert np.array_equal(upload([map_npy(tmp_path / "a.npy")])[0].values.numpy(), values + 1)
    own = values.copy()
    assert file_of(own) is None
    before = upload([own])[0]
    own += 1
    assert np.array_equal(upload([own])[0].values.numpy(), own)
    assert np.array_equal(before.values.numpy(), values)
    clear_cache()


def test_what_is_kept_is_bounded(tmp_path, monkeypatch):
    from tiepoint.kernels.torch_backend import row_cache as torch_rows

    torch_rows.clear_cache()
    monkeypatch.setattr(torch_rows, "HOST_CACHE_BYTES", 3 * 300 * 16 * 4)
    for i in range(6):
        np.save(tmp_path / f"{i}.npy", rows(i)[1])
        torch_rows.upload([map_npy(tmp_path / f"{i}.npy")])
    assert len(torch_rows._cached) == 3
    torch_rows.clear_cache()
    assert not torch_rows._cached


def test_several_pools_at_once_are_each_by_itself():
    queries, pool = rows(sizes=(60, 60))
    bad = pool.copy()
    bad[3, 2] = np.nan
    same = [pool, pool[::-1].copy(), np.round(pool), queries]
    for pools in (same, [pool, pool.astype(np.float64)], [np.round(pool)]):
        for distance in ("l2", "l1", "cosine"):
            together = first_two_aligned(queries, [p + 3 for p in pools], distance=distance)
            expected = compiled(
                lambda p=pools, d=distance: [
                    (
                        first_two(queries, x + 3, distance=d),
                        pair_distances(queries, x + 3, EVERY, EVERY, distance=d),
                    )
                    for x in p
                ]
            )
            for (near, own), (right, truth) in zip(together, expected, strict=True):
                assert all(a.tobytes() == b.tobytes() for a, b in zip(near, right, strict=True))
                assert own.tobytes() == truth.tobytes()
    with pytest.raises(InputError, match=r"pool, row 3: NaN|row 3 of b has NaN or infinite values"):
        first_two_aligned(queries, [pool, bad])
    with pytest.raises(InputError, match="expected 60 rows in each"):
        first_two_aligned(queries, [pool, pool[:5]])


def test_rows_are_copied_from_their_addresses():
    from tiepoint.kernels.numba_backend.row_statistics import copy_parts

    parts = [np.arange(n, dtype=np.uint8) for n in (5, 0, 70)]
    bases = np.array([p.__array_interface__["data"][0] for p in parts], np.uint64)
    out = np.full(80, 255, np.uint8)
    copy_parts()(bases, np.array([len(p) for p in parts]), out)
    assert out.tolist() == [*range(5), *range(70), *[255] * 5]


def test_rows_are_brought_while_there_is_room(tmp_path, monkeypatch):
    from tiepoint.kernels import upload_ahead
    from tiepoint.kernels.torch_backend import row_cache as torch_rows

    torch_rows.clear_cache()
    np.save(tmp_path / "a.npy", rows()[1])
    mapped = map_npy(tmp_path / "a.npy")
    assert upload_ahead([mapped])
    assert len(torch_rows._cached) == 1
    monkeypatch.setattr(torch_rows, "HOST_CACHE_BYTES", mapped.nbytes)
    assert not upload_ahead([mapped[1:]])
    assert not compiled(lambda: upload_ahead([mapped]))
    torch_rows.clear_cache()
