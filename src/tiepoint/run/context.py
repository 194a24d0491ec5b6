# SPDX-License-Identifier: BSD-3-Clause
"""What one job needs: the open task, the method, the caches. A recipe of it can travel to a worker."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

from ..core.errors import DamagedError, InputError, UnitError
from ..core.hashing import hash_json
from ..core.processes import cores
from ..core.records import Arrays, Features, Item, Records, Unit
from ..methods.base import Method
from ..store.feature_cache import FeatureCache
from ..store.record_files import RecordStore
from ..tasks.base import Task, TaskData
from ..tasks.capabilities import AcceptsFamilies
from .cache_keys import feature_key, record_key
from .oracle import with_oracle

MAX_LISTED_PROBLEMS = 20
"""Problems of a method's features that are listed; a method that computes is stopped after so many."""

Progress = Callable[[str, int, int], None]
"""Called with the name of a stage, the steps done and the steps in total."""


def no_progress(_stage: str, _done: int, _total: int) -> None:
    """Report no progress."""


@dataclass(frozen=True)
class FeatureSummary:
    """Features of a method on all items: seconds it took, descriptors there are, and how many failed."""

    time_s: float
    total: int
    failed: int


class RecordWriters:
    """Threads that write records behind the comparison; at the end of the `with` block all are written.

    At most `MAX_PENDING_BYTES` wait to be written, so that memory stays bounded. An error in writing is raised by a
    later call or at the end.
    """

    MAX_PENDING_BYTES = 256 << 20

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self._pool = ThreadPoolExecutor(min(16, cores()), "records")
        self._pending: deque[tuple[int, Future[None]]] = deque()
        self._lock = Lock()

    def put(self, key: str, records: Records) -> None:
        """Write records under a key, some time."""
        with self._lock:
            self._pending.append((records.size_bytes, self._pool.submit(self._store.put, key, records)))
            while self._pending and (
                self._pending[0][1].done() or sum(size for size, _ in self._pending) > self.MAX_PENDING_BYTES
            ):
                self._pending.popleft()[1].result()

    def __enter__(self) -> RecordWriters:
        """Return itself."""
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Wait for all, and raise the first error unless there is one already."""
        self._pool.shutdown()
        for _, future in self._pending:
            if error is None:
                future.result()


@dataclass(frozen=True)
class RunContext:
    """One method on one task, ready to work on items and units.

    `temporary_key` stands for the method in the keys of features that are discarded at the end of the command,
    None if they are cached. `writers` write records while the next ones are computed.
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
        """By item, the key its features are cached under: what the method is and what it sees."""
        return {key: self._feature_key(item) for key, item in self.items.items()}

    def _feature_key(self, item: Item) -> str:
        own = self.method.key(item) if self.temporary_key is None else f"{self.temporary_key}:{item.key}"
        return feature_key(self.method, own, item)

    def extract(self, key: str, feature_key: str, **also: str) -> float:
        """Make the features of an item and cache them under a key; returns the seconds the method took."""
        payload = self.payload(key)
        started = time.perf_counter()
        arrays = self.method.extract(self.items[key], payload)
        seconds = time.perf_counter() - started
        self.keep(key, feature_key, arrays, seconds, **also)
        return seconds

    def payload(self, key: str) -> Any:
        """What the method is given for an item; None where it looks features up."""
        return self.opened.read_item(key) if self.method.needs_payload else None

    def keep(self, key: str, feature_key: str, arrays: Arrays, seconds: float, **also: str) -> None:
        """Cache the features of an item and the seconds that the method took for them.

        Raises:
            InputError: if they come from files, which changed since the key was made of them: under it those
                of other files would be found.
        """
        looked_up = self.temporary_key is None and not self.method.needs_payload
        if looked_up and self._feature_key(self.items[key]) != feature_key:
            raise InputError(
                f"{self.method.name}: the files of {key} changed while they were read; run the command again"
            )
        values = arrays.get("values")
        count = self.items[key].count if values is None else len(values)
        about = {"item": key, "method": self.method.name, "time_s": seconds, "count": count, **also}
        self.features.put(feature_key, arrays, **about)

    def arrays(self, key: str) -> Arrays:
        """Cached features of an item."""
        return self._whole(key, self.feature_keys[key])

    def summary(self) -> FeatureSummary:
        """Time, number and failures of the features of all items, from the headers of the cache."""
        seconds, total, failed = 0.0, 0, 0
        for key in self.feature_keys.values():
            meta = self.features.meta(key)
            if meta is None:
                continue
            seconds += float(meta.get("time_s", 0.0))
            shapes = meta["arrays"]
            total += int(shapes["values"][0]) if "values" in shapes else 0
            failed += self.features.failed_count(key)
        return FeatureSummary(seconds, total, failed)

    def content(self) -> str:
        """Hash of all features there are."""
        return hash_json({item: self.features.content(key) for item, key in self.feature_keys.items()})

    def unit_keys(self, unit: Unit) -> dict[str, str]:
        """Feature keys of the items of a unit."""
        return {item: self.feature_keys[item] for item in unit.items}

    def matches_stored(self, units: Mapping[str, Mapping[str, str]]) -> bool:
        """Whether the records of a stored run, by unit and comparison, are those of what is there now.

        Only methods that take something from files for an item can have changed without a change of their
        description; of all others the answer is yes, and nothing is looked at.
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
        """Make and store the records of a unit; returns their key.

        The keys of its features come from whoever made them: this process need not find the same ones.
        """
        key = self.record_key(unit, comparison, feature_keys)
        if key not in self.records:
            self._heal(feature_keys)
            features = Features(
                lambda item: self._whole(item, feature_keys[item]), self.method.distance, self.method.meta
            )
            made = self.opened.compare(unit, features, comparison)
            (self.writers or self.records).put(key, made)
        return key

    def _whole(self, item: str, key: str) -> Arrays:
        try:
            return self.features.get(key)
        except DamagedError as e:
            self.recompute(item, key, e)
            return self.features.get(key)

    def _heal(self, feature_keys: Mapping[str, str]) -> None:
        """Look at the features of a unit, and make anew what is damaged."""
        damaged = self.features.find_damaged(list(feature_keys.values()))
        for item, key in feature_keys.items():
            if key in damaged:
                self.recompute(item, key, damaged[key])

    def recompute(self, item: str, key: str, error: DamagedError) -> None:
        """Make features again whose file is damaged; their header says so."""
        before = self.features.content(key) if self.features.damaged_headers([key]) == {} else None
        self.features.discard(key)
        self.extract(item, key, anew=error.problem)
        if before not in (None, self.features.content(key)):
            raise UnitError(
                f"the features of {item} were damaged, and {self.method.name} does not make the same again; "
                "rerun the command"
            )

    def record_key(self, unit: Unit, comparison: str, feature_keys: Mapping[str, str]) -> str:
        """Key of the records of a unit: content of its features, its definition, the comparison."""
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


def method_family(task: Task, method: Any) -> str:
    """Return the family in which a task looks up a method (specification or object)."""
    return task.family_for(method) if isinstance(task, AcceptsFamilies) else task.family


def data_for_family(task: Task, opened: TaskData, family: str) -> TaskData:
    """Return the data of a task as methods of a family see it."""
    return task.for_family(opened, family) if isinstance(task, AcceptsFamilies) else opened


@dataclass(frozen=True)
class ContextRecipe:
    """How to make a `RunContext` again in another process: plain values only.

    `root` is the folder of the store, where features and records lie; workers need no database.
    """

    task: str
    data: str
    options: Mapping[str, Any]
    method: str
    method_options: Mapping[str, Any]
    root: str
    threads: int
    fit_on: str | None = None

    @property
    def key(self) -> str:
        """Recipes of one key make the same context."""
        return hash_json(asdict(self))

    def opened(self, family: str = "") -> TaskData:
        """Open the task, as methods of a family see it (by default, of its own)."""
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
        """The context, with the number of threads its share of the cores allows."""
        from ..methods.resolve import resolve
        from ..tasks import TASKS
        from .fit_transforms import TransformFitter

        limit_threads(self.threads)
        set_kernel_device(self.method_options)
        root = Path(self.root)
        task: Task = TASKS.load(self.task)
        opened = self.opened()
        fit = TransformFitter(opened, root, fit_on=None if self.fit_on is None else Path(self.fit_on))
        method = resolve(self.method, family=method_family(task, self.method), fit=fit, **self.method_options)
        opened = data_for_family(task, opened, method.family)
        method = with_oracle(method, opened)
        return RunContext(
            task, opened, method, FeatureCache(root / "features"), RecordStore(root / "records")
        )


def limit_threads(threads: int) -> None:
    """Let the kernels of this process use at most this many threads; results do not depend on it."""
    from ..kernels import set_threads

    set_threads(max(1, threads))


def set_kernel_device(method_options: Mapping[str, Any]) -> None:
    """Let the kernels of this process run on the `device` of a request; results do not depend on it."""
    from ..kernels import set_device

    set_device(str(method_options.get("device", "cpu")))
