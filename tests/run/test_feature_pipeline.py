"""Features made in threads: the same as one after the other, whatever fails, stops or breaks."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tiepoint.core.errors import FormatError, InputError, ProblemsError, StoreError, UnitError
from tiepoint.core.records import Arrays, Item
from tiepoint.formats.hpatches.patch_strip import read_strip
from tiepoint.methods.base import Finish, Method
from tiepoint.methods.resolve import resolve
from tiepoint.run import feature_pipeline
from tiepoint.run.context import ContextRecipe, RunContext
from tiepoint.run.executors.process_pool import ProcessPool

Stream = Callable[[Iterator[tuple[Item, Any]]], Iterator[tuple[Item, Finish]]]


@pytest.fixture
def patches(patches: Path, tmp_path: Path) -> Path:
    """A copy, to be spoilt."""
    return Path(shutil.copytree(patches, tmp_path / "patches"))


@pytest.fixture
def context(patches: Path, tmp_path: Path) -> RunContext:
    return ContextRecipe(
        "hpatches/matching", str(patches), {}, "meanstd", {}, str(tmp_path / "store"), 1
    ).build()


def missing(context: RunContext) -> dict[str, tuple[str, str]]:
    keys = context.feature_keys.items()
    return {name: (name, key) for name, key in keys if context.features.meta(key) is None}


def make(context: RunContext, patience: int | None = 20) -> list[tuple[int, int]]:
    told: list[tuple[int, int]] = []
    feature_pipeline.make_features(
        context,
        missing(context),
        None,
        ProcessPool(1),
        lambda _, n, total: told.append((n, total)),
        patience,
        8.0,
    )
    return told


def means(patches: Any) -> Any:
    return np.asarray(patches, np.float64).mean(axis=(1, 2))[:, None] + 1


def changed(
    context: RunContext, extract: Any, stream: Stream | None = None, safe: bool = False
) -> RunContext:
    method: Method = replace(context.method, extract=extract, stream=stream, thread_safe=safe)
    return replace(context, method=method)


def described(item: Item, payload: Any) -> Arrays:
    return {"values": means(payload)}


def in_groups(payloads: Iterator[tuple[Item, Any]]) -> Iterator[tuple[Item, Finish]]:
    """Three items at a time."""
    held: list[tuple[Item, Any]] = []
    for item, payload in payloads:
        held.append((item, payload))
        if len(held) == 3:
            yield from ((i, partial(described, i, p)) for i, p in held)
            held = []
    yield from ((i, partial(described, i, p)) for i, p in held)


def breaks(payloads: Iterator[tuple[Item, Any]]) -> Iterator[tuple[Item, Finish]]:
    for n, (item, payload) in enumerate(payloads):
        if n == 2:
            next(payloads)
            raise RuntimeError("out of everything")
        yield item, partial(described, item, payload)


def ends_early(payloads: Iterator[tuple[Item, Any]]) -> Iterator[tuple[Item, Finish]]:
    item, payload = next(payloads)
    next(payloads)
    yield item, partial(described, item, payload)


def never_starts(payloads: Iterator[tuple[Item, Any]]) -> Iterator[tuple[Item, Finish]]:
    raise RuntimeError("no device")


@pytest.mark.parametrize("stream", [None, in_groups, breaks, ends_early, never_starts])
@pytest.mark.parametrize("safe", [False, True])
def test_features_are_those_of_a_plain_loop(
    context: RunContext, patches: Path, stream: Stream | None, safe: bool
) -> None:
    own = changed(context, described, stream, safe)
    total = len(context.items)
    assert make(own) == [(n, total) for n in range(total + 1)]
    for name in own.items:
        want = read_strip(patches / f"{name}.png").astype(np.float64).mean(axis=(1, 2)) + 1
        np.testing.assert_array_equal(own.arrays(name)["values"][:, 0], want)
        meta = own.features.meta(own.feature_keys[name])
        assert meta is not None
        assert (meta["item"], meta["count"]) == (name, 20)
        assert meta["time_s"] >= 0
    assert make(own) == []


def test_what_users_wrote_is_called_from_one_thread(
    context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, reads = set(), set()
    read = context.opened.read_item

    def mine(item: Item, payload: Any) -> Arrays:
        here.add(threading.get_ident())
        return described(item, payload)

    def reading(key: str) -> Any:
        reads.add(threading.get_ident())
        return read(key)

    monkeypatch.setattr(context.opened, "read_item", reading)
    monkeypatch.setattr(feature_pipeline, "repeat_items", lambda context, computed: {})
    make(changed(context, mine))
    assert here == {threading.get_ident()}
    assert threading.get_ident() not in reads


def test_a_reader_that_users_wrote_is_called_from_the_same_thread(context: RunContext) -> None:
    inner, reads = context.opened, set()

    class Mine(type(inner)):  # type: ignore[misc]
        def __init__(self) -> None:
            self.__dict__.update(inner.__dict__)

        def read_item(self, key: str) -> Any:
            reads.add(threading.get_ident())
            return inner.read_item(key)

    make(changed(replace(context, opened=Mine()), described, safe=True))
    assert reads == {threading.get_ident()}


@pytest.mark.parametrize("stream", [None, in_groups])
def test_input_errors_are_told_in_order_and_stop_the_rest(context: RunContext, stream: Stream | None) -> None:
    names = list(context.items)
    calls: list[str] = []

    def wrong(item: Item, payload: Any) -> Arrays:
        calls.append(item.key)
        if names.index(item.key) in (1, 3, 5):
            raise InputError(f"{item.key} is wrong")
        return described(item, payload)

    def streaming(payloads: Iterator[tuple[Item, Any]]) -> Iterator[tuple[Item, Finish]]:
        for item, payload in payloads:
            yield item, partial(wrong, item, payload)

    own = changed(context, wrong, streaming if stream else None)
    with pytest.raises(ProblemsError) as caught:
        make(own, patience=2)
    assert [p.split()[0] for p in caught.value.problems] == [names[1], names[3]]
    if stream is None:
        assert calls == names[:4]
    kept = set(names) - set(missing(own))
    assert {names[0], names[2]} <= kept
    assert names[1] not in kept


def test_the_first_input_errors_in_order_are_told_however_fast_later_ones_fail(context: RunContext) -> None:
    names = list(context.items)
    failed = threading.Event()

    def finish(item: Item, payload: Any) -> Arrays:
        index = names.index(item.key)
        if index == 0:
            failed.wait(5)  # the others are done when this one is
        if index in (1, 3, 5):
            if index == 5:
                failed.set()
            raise InputError(f"{item.key} is wrong")
        return described(item, payload)

    def streaming(payloads: Iterator[tuple[Item, Any]]) -> Iterator[tuple[Item, Finish]]:
        for item, payload in payloads:
            yield item, partial(finish, item, payload)

    with pytest.raises(ProblemsError) as caught:
        make(changed(context, finish, streaming), patience=2)
    assert [p.split()[0] for p in caught.value.problems] == [names[1], names[3]]


def test_other_failures_are_told_after_all_are_done(context: RunContext) -> None:
    first, *rest = context.items

    def fails(item: Item, payload: Any) -> Arrays:
        if item.key == first:
            raise RuntimeError("no idea")
        return described(item, payload)

    for safe in (False, True):
        own = changed(context, fails, safe=safe)
        with pytest.raises(
            UnitError, match=f"1 of {len(rest) + 1 if not safe else 1} failed: {first}: RuntimeError"
        ):
            make(own)
        assert list(missing(own)) == [first]


@pytest.mark.parametrize("stream", [None, in_groups])
def test_a_damaged_strip_is_named(context: RunContext, patches: Path, stream: Stream | None) -> None:
    name = list(context.items)[4]
    strip = patches / f"{name}.png"
    own = changed(context, described, stream)
    assert own.feature_keys
    data = bytearray(strip.read_bytes())
    data[60] ^= 255
    strip.write_bytes(data)
    with pytest.raises(FormatError, match=strip.name):
        make(own)
    assert list(missing(own)) == [name]


@pytest.mark.parametrize("stream", [False, True])
def test_an_interrupted_run_keeps_what_is_done(context: RunContext, tmp_path: Path, stream: bool) -> None:
    calls: list[str] = []

    def stops(item: Item, payload: Any) -> Arrays:
        if len(calls) == 5:
            raise KeyboardInterrupt
        calls.append(item.key)
        return described(item, payload)

    def streaming(payloads: Iterator[tuple[Item, Any]]) -> Iterator[tuple[Item, Finish]]:
        for item, payload in payloads:
            arrays = stops(item, payload)
            yield item, partial(dict, arrays)

    own = changed(context, stops, streaming if stream else None)
    with pytest.raises(KeyboardInterrupt):
        make(own)
    assert not list(tmp_path.rglob(".tmp-*"))
    left = set(missing(own))
    assert left >= set(own.items) - set(calls)
    assert threading.active_count() < 20
    calls.clear()
    calls += [""] * 6
    make(changed(context, stops))
    assert set(calls[6:]) == left


def test_memory_is_bounded(context: RunContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_pipeline, "PAYLOAD_BYTES", 2 * 20 * 9 * 9)
    reads, most, lock = [0], [0], threading.Lock()
    read = context.opened.read_item

    def reading(key: str) -> Any:
        with lock:
            reads[0] += 1
            most[0] = max(most[0], reads[0])
        return read(key)

    def slow(item: Item, payload: Any) -> Arrays:
        found = described(item, payload)
        with lock:
            reads[0] -= 1
        return found

    monkeypatch.setattr(context.opened, "read_item", reading)
    own = changed(context, slow)
    work = feature_pipeline.FeaturePipeline(own)
    work.payloads.see(read(next(iter(own.items))))
    assert work.run(missing(own), lambda: None, None) == []
    assert most[0] <= 3  # two that wait and the one that is described


def test_methods_that_threads_serve_start_no_workers(context: RunContext, patches: Path) -> None:
    class Pool:
        used = False

        def run(self, job: Any, arguments: Any, recipe: Any, done: Any, patience: Any) -> Any:
            self.used = True
            return {}, []

    recipe = ContextRecipe(
        "hpatches/matching", str(patches), {}, "meanstd", {}, str(context.features.root.parent), 1
    )
    for safe, stream, used in ((False, None, True), (False, in_groups, False), (True, None, None)):
        pool = Pool()
        own = changed(context, described, stream, safe)
        feature_pipeline.make_features(own, missing(own), recipe, pool, lambda *_: None, None, 0.0)
        if used is not None:
            assert pool.used is used
        feature_pipeline.FeaturePipeline(own).run(missing(own), lambda: None, None)
        for folder in context.features.root.iterdir():
            shutil.rmtree(folder)


def test_opencv_descriptors_are_the_same_in_threads() -> None:
    pytest.importorskip("cv2")
    rng = np.random.default_rng(0)
    strips = [rng.integers(0, 256, (6, 65, 65)).astype(np.uint8) for _ in range(8)]
    for name in ("brief", "sift", "orb", "brisk", "latch"):
        method = resolve(name, family="patches")
        assert method.thread_safe
        items = [Item(f"v_a/e{i}", str(i), 6) for i in range(8)]
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(method.extract, items, strips))
        for item, strip, arrays in zip(items, strips, found, strict=True):
            assert arrays["values"].tobytes() == method.extract(item, strip)["values"].tobytes()
    assert not resolve("vlfeat-sift", family="patches").thread_safe


def test_what_users_derive_from_ours_is_not_taken_for_thread_safe() -> None:
    opencv = pytest.importorskip("tiepoint.methods.patches.opencv")

    class Subclass(opencv.PatchBrief):  # type: ignore[name-defined,misc]
        """Somebody's class, which may keep anything in itself."""

    assert not resolve(Subclass(), family="patches").thread_safe


def test_a_full_disk_is_one_line_with_a_count() -> None:
    errors = [
        StoreError(f"cannot write features/{k}: No space left on device; choose another") for k in range(9)
    ]
    failures: Any = [SimpleNamespace(cause=error) for error in errors]
    context: Any = SimpleNamespace(method=SimpleNamespace(name="m"))
    with pytest.raises(StoreError, match="and 8 more could not be written") as told:
        feature_pipeline.raise_input(context, failures)
    assert len(str(told.value).splitlines()) == 1
