# SPDX-License-Identifier: BSD-3-Clause
"""The context of a job (open task, method, caches) and the recipe from which a worker builds it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

from ..core.errors import DamagedError, InputError, UnitError
from ..core.hashing import hash_json
from ..core.processes import cores
from ..core.records import Arrays, Features, Item, Records, Unit
from ..methods.base import Method
from ..methods.pairs.image_memo import MEMO
from ..methods.spec import is_program
from ..store.feature_cache import FeatureCache
from ..store.record_files import RecordStore
from ..tasks.base import Task, TaskData
from ..tasks.capabilities import AcceptsFamilies
from .cache_keys import feature_key, record_key
from .oracle import with_oracle

MAX_LISTED_PROBLEMS = 20
"""Maximum number of problems listed for a method's features. Extraction stops after this many."""

REPEATED, SAME, DIFFERS = "repeated", "same", "differs"
"""Entry in the header of features that were computed twice, and its values."""

UNKEYED, PROGRAMS = "unkeyed", "programs"
"""Entries in the header of features: what user code opened although it is not in the cache key, and the
programs that it started.
"""

Progress = Callable[[str, int, int], None]
"""Progress callback, called with the name of a stage, the number of finished steps and the total."""


def no_progress(_stage: str, _done: int, _total: int) -> None:
    """Do nothing. The default progress callback."""


def count_steps(progress: Progress, stage: str, total: int) -> Callable[[], None]:
    """Report the start of a stage. Return a function to call after each step of the stage."""
    done = count(1)
    if total:
        progress(stage, 0, total)
    return lambda: progress(stage, next(done), total)


@dataclass(frozen=True)
class FeatureSummary:
    """Total extraction time, number of descriptors and number of failed descriptors of a run.

    `differing` is the number of items whose features the method did not reproduce. `unkeyed` has the names of
    files, folders and servers that determine the features and are not in their cache key, `programs` those of
    programs that user code started.
    """

    time_s: float
    total: int
    failed: int
    differing: int = 0
    unkeyed: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()


class RecordWriters:
    """Threads that write records while the next units are compared.

    Leaving the `with` block waits for all writes. At most `MAX_PENDING_BYTES` are pending. A later `put` or
    the end of the block raises write errors.
    """

    MAX_PENDING_BYTES = 256 << 20

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self._pool = ThreadPoolExecutor(min(16, cores()), "records")
        self._pending: deque[tuple[int, Future[None]]] = deque()
        self._lock = Lock()

    def put(self, key: str, records: Records) -> None:
        """Schedule a write of `records` under a cache key."""
        with self._lock:
            self._pending.append((records.size_bytes, self._pool.submit(self._store.put, key, records)))
            while self._pending and (
                self._pending[0][1].done() or sum(size for size, _ in self._pending) > self.MAX_PENDING_BYTES
            ):
                self._pending.popleft()[1].result()

    def __enter__(self) -> RecordWriters:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Wait for all writes. Raise the first write error unless the block raised an exception itself."""
        self._pool.shutdown()
        for _, future in self._pending:
            if error is None:
                future.result()


@dataclass(frozen=True)
class StoredImages:
    """Features of single images in the feature cache, for methods on pairs."""

    features: FeatureCache

    def find(self, method: Method, image: Item) -> Arrays | None:
        """Return the features of an image. None if they are missing or corrupt."""
        key = feature_key(method, method.key(image), image)
        try:
            return self.features.get(key)
        except KeyError:
            return None
        except DamagedError:
            self.features.discard(key)
            return None

    def keep(self, method: Method, image: Item, arrays: Arrays) -> None:
        """Store the features of an image."""
        key = feature_key(method, method.key(image), image)
        self.features.put(key, arrays, item=image.key, method=method.name, count=len(arrays["values"]))


@dataclass(frozen=True)
class RunContext:
    """One method on one open task, with the caches needed to process items and units.

    `temporary_key` replaces the method's key if its features are discarded at the end of the command. It is
    None if the features are cached. With `writers`, records are written in the background.
    """

    task: Task
    opened: TaskData
    method: Method
    features: FeatureCache
    records: RecordStore
    temporary_key: str | None = None
    writers: RecordWriters | None = None

    @cached_property
    def items(self) -> Mapping[str, Item]:
        """Items by their keys."""
        return {item.key: item for item in self.opened.items}

    @cached_property
    def units(self) -> Mapping[str, Unit]:
        """Units by their keys."""
        return {unit.key: unit for unit in self.opened.units}

    @cached_property
    def feature_keys(self) -> Mapping[str, str]:
        """Cache key of the features, by item."""
        return {key: self._feature_key(item) for key, item in self.items.items()}

    def _feature_key(self, item: Item) -> str:
        own = self.method.key(item) if self.temporary_key is None else f"{self.temporary_key}:{item.key}"
        return feature_key(self.method, own, item)

    def extract(self, key: str, feature_key: str, **meta: str) -> float:
        """Compute and cache the features of an item. Return the seconds spent in the method."""
        payload = self.payload(key)
        started = time.perf_counter()
        with self.keeping_images():
            arrays = self.method.extract(self.items[key], payload)
        seconds = time.perf_counter() - started
        self.cache(key, feature_key, arrays, seconds, **meta)
        return seconds

    def keeping_images(self) -> AbstractContextManager[None]:
        """Let methods on pairs keep the features of single images in the feature cache."""
        return MEMO.stored_in(StoredImages(self.features))

    def payload(self, key: str) -> Any:
        """Return the method's input for an item. None if the method reads precomputed features."""
        return self.opened.read_item(key) if self.method.needs_payload else None

    def cache(self, key: str, feature_key: str, arrays: Arrays, seconds: float, **meta: str) -> None:
        """Cache the features of an item and the seconds spent in the method.

        Raises:
            InputError: The features come from files that changed since their key was computed.
        """
        looked_up = self.temporary_key is None and not self.method.needs_payload
        if looked_up and self._feature_key(self.items[key]) != feature_key:
            raise InputError(
                f"{self.method.name}: the files of {key} changed while they were read; run the command again"
            )
        values = arrays.get("values")
        n = self.items[key].count if values is None else len(values)
        facts: dict[str, Any] = {
            "item": key,
            "method": self.method.name,
            "time_s": seconds,
            "count": n,
            **meta,
        }
        if self.temporary_key is None and (unkeyed := self.method.unkeyed()):
            facts[UNKEYED] = unkeyed
        if self.method.opened is not None and self.method.opened.programs:
            facts[PROGRAMS] = list(self.method.opened.programs)
        self.features.put(feature_key, arrays, **facts)

    def arrays(self, key: str) -> Arrays:
        """Return the cached features of an item. Recompute them if they are corrupt."""
        return self._read(key, self.feature_keys[key])

    def summary(self) -> FeatureSummary:
        """Return total time, number of descriptors and number of failures of all cached features."""
        seconds, total, failed, differing = 0.0, 0, 0, 0
        unkeyed: dict[str, None] = {}
        programs: dict[str, None] = {}
        for key in self.feature_keys.values():
            meta = self.features.meta(key)
            if meta is None:
                continue
            seconds += float(meta.get("time_s", 0.0))
            shapes = meta["arrays"]
            total += int(shapes["values"][0]) if "values" in shapes else 0
            failed += self.features.failed_count(key)
            differing += meta.get(REPEATED) == DIFFERS
            unkeyed.update(dict.fromkeys(meta.get(UNKEYED, ())))
            programs.update(dict.fromkeys(meta.get(PROGRAMS, ())))
        return FeatureSummary(seconds, total, failed, differing, tuple(unkeyed), tuple(programs))

    def discard_unkeyed(self) -> None:
        """Remove features that an interrupted run left in the cache under an incomplete key."""
        for key in self.feature_keys.values():
            if UNKEYED in (self.features.meta(key) or {}):
                self.features.discard(key)

    def content(self) -> str:
        """Return a hash of all features."""
        return hash_json({item: self.features.content(key) for item, key in self.feature_keys.items()})

    def unit_keys(self, unit: Unit) -> dict[str, str]:
        """Return the feature keys of a unit's items."""
        return {item: self.feature_keys[item] for item in unit.items}

    def matches_stored(self, units: Mapping[str, Mapping[str, str]]) -> bool:
        """Return whether a stored run's record keys match the current features.

        Only methods that read precomputed files can change their output under the same configuration. For all
        other methods, return True without reading the cache.
        """
        if not any(self.method.of_item(item) for item in self.opened.items):
            return True
        if any(self.features.content(key) is None for key in self.feature_keys.values()):
            return False
        return set(units) == set(self.units) and all(
            self.record_key(self.units[name], comparison, self.unit_keys(self.units[name])) == key
            for name, by in units.items()
            for comparison, key in by.items()
        )

    def compare(self, unit: Unit, comparison: str, feature_keys: Mapping[str, str]) -> str:
        """Compute and store the records of a unit. Return their key.

        `feature_keys` must come from the process that computed the features. A worker may derive different
        keys.
        """
        key = self.record_key(unit, comparison, feature_keys)
        if key not in self.records:
            damaged = self.features.find_damaged(list(feature_keys.values()))
            for item, item_key in feature_keys.items():
                if item_key in damaged:
                    self.recompute(item, item_key, damaged[item_key])
            features = Features(
                lambda item: self._read(item, feature_keys[item]), self.method.distance, self.method.meta
            )
            records = self.opened.compare(unit, features, comparison)
            (self.writers or self.records).put(key, records)
        return key

    def _read(self, item: str, key: str) -> Arrays:
        try:
            return self.features.get(key)
        except DamagedError as e:
            self.recompute(item, key, e)
            return self.features.get(key)

    def recompute(self, item: str, key: str, error: DamagedError) -> None:
        """Recompute corrupt features and store the problem in their new header."""
        before = self.features.content(key) if self.features.damaged_headers([key]) == {} else None
        self.features.discard(key)
        self.extract(item, key, anew=error.problem)
        if before not in (None, self.features.content(key)):
            raise UnitError(
                f"the features of {item} were corrupt, and {self.method.name} does not reproduce them; "
                "rerun the command"
            )

    def record_key(self, unit: Unit, comparison: str, feature_keys: Mapping[str, str]) -> str:
        """Return the cache key of a unit's records."""
        contents = []
        for item in unit.items:
            content = self.features.content(feature_keys[item])
            if content is None:
                raise UnitError(
                    f"the features of {item} were removed from {self.features.root} while they were in use; "
                    "rerun the command to compute them again"
                )
            contents.append(content)
        return record_key(self.task, self.opened, self.method, unit, comparison, contents)


def method_family(task: Task, method: Any, options: Mapping[str, Any]) -> str:
    """Return the family that a task assigns to a method. `method` is a specification or an object.

    A program (`exec:`) declares its interface itself. `options` are the method options of the request.
    """
    if not isinstance(task, AcceptsFamilies):
        return task.family
    if is_program(method):
        from ..methods.programs.method import program_interface

        method = program_interface(method, options)
    return task.family_for(method)


def data_for_family(task: Task, opened: TaskData, family: str) -> TaskData:
    """Return the data of an open task in the form that methods of a family need."""
    return task.for_family(opened, family) if isinstance(task, AcceptsFamilies) else opened


@dataclass(frozen=True)
class ContextRecipe:
    """Plain values from which another process builds a `RunContext`.

    `root` is the folder of the store. Workers do not use the database. `outside` is the hash of
    the state that user code reads outside its objects (`outside_hash`).
    """

    task: str
    data: str
    options: Mapping[str, Any]
    method: str
    method_options: Mapping[str, Any]
    root: str
    threads: int
    fit_on: str | None = None
    outside: str | None = None

    @property
    def key(self) -> str:
        """Hash of the recipe."""
        return hash_json(asdict(self))

    def open_task(self, family: str = "") -> TaskData:
        """Open the task with data for methods of a family, by default the task's own family."""
        from ..core.array_cache import FOLDER, use_array_cache_folder
        from ..core.hashing import load_memo
        from ..store.atomic_files import atomic_file
        from ..tasks import TASKS

        load_memo(Path(self.root) / "hashes.json")
        use_array_cache_folder(Path(self.root) / FOLDER, atomic_file)
        task: Task = TASKS.load(self.task)
        opened = task.open(Path(self.data), self.options)
        return data_for_family(task, opened, family or task.family)

    def build(self) -> RunContext:
        """Build the context and limit the threads of this process."""
        from ..methods.identity import outside_hash
        from ..methods.resolve import resolve
        from ..tasks import TASKS
        from .fit_transforms import TransformFitter

        limit_threads(self.threads)
        set_kernel_device(self.method_options)
        root = Path(self.root)
        task: Task = TASKS.load(self.task)
        opened = self.open_task()
        fit = TransformFitter(opened, root, fit_on=None if self.fit_on is None else Path(self.fit_on))
        method = resolve(
            self.method,
            family=method_family(task, self.method, self.method_options),
            fit=fit,
            **self.method_options,
        )
        if self.outside not in (None, outside_hash(method.config)):
            raise InputError(
                f"{method.name}: its code reads globals or settings that have other values in a worker "
                "process than in the process that started it; run it with `jobs` 1"
            )
        opened = data_for_family(task, opened, method.family)
        method = with_oracle(method, opened)
        return RunContext(
            task, opened, method, FeatureCache(root / "features"), RecordStore(root / "records")
        )


def limit_threads(threads: int) -> None:
    """Limit the kernel threads of this process. Results do not depend on the limit."""
    from ..kernels import set_threads

    set_threads(max(1, threads))


def set_kernel_device(method_options: Mapping[str, Any]) -> None:
    """Run the kernels of this process on the `device` of a request. Results do not depend on the device."""
    from ..kernels import set_device

    set_device(str(method_options.get("device", "cpu")))
