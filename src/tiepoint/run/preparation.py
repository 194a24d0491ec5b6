# SPDX-License-Identifier: BSD-3-Clause
"""Prepare requests before any work: open tasks, resolve methods, find stored results."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import ErrorCollector, InputError, UnknownNameError
from ..core.hashing import hash_json
from ..core.processes import cores
from ..core.records import Item
from ..kernels import set_device
from ..methods.base import Method
from ..store.run_queries import load_runs
from ..store.store import Store
from ..store.stored_run import (
    DatasetFacts,
    Manifest,
    MethodFacts,
    StoredRun,
    SubsetFacts,
    protocols_of,
    run_id,
)
from ..tasks import load_task
from ..tasks.base import Task, TaskData
from ..tasks.capabilities import HasProtocolWarnings
from ..tasks.info import identity_options
from .cache_keys import request_key, task_key
from .context import (
    ContextRecipe,
    Progress,
    RunContext,
    data_for_family,
    method_family,
    no_progress,
)
from .fit_transforms import TransformFitter
from .oracle import with_oracle
from .repeat_check import reproduces_records
from .request import RunRequest, plain_options
from .update import outdated_protocols, update_run

if TYPE_CHECKING:
    from .session import RunSession


@dataclass(frozen=True)
class PreparedRun:
    """A checked request with its open task and its method.

    Transforms are not fitted yet. `fit` is the fitter, and `fit_transforms` returns the fitted method.
    `seconds` is the time spent opening the task. With a `subset`, `opened` has only its units.
    """

    request: RunRequest
    task: Task
    protocols: tuple[str, ...]
    opened: TaskData
    method: Method
    fit: TransformFitter
    seconds: float = 0.0
    subset: SubsetFacts | None = None
    notices: tuple[str, ...] = ()

    @property
    def data_hash(self) -> str:
        """Content hash of the complete dataset, also for a run on a subset."""
        return self.opened.data_hash if self.subset is None else self.subset.dataset

    def fit_transforms(self, root: Path) -> tuple[Method, TransformFitter]:
        """Return the method with fitted transforms, and the fitter with its log."""
        if not self.fit.log:
            return self.method, self.fit
        fit = self.fit.to_fit_now()
        return _named(_resolve(self.request, self.task, root, fit), self.request), fit


def checked_protocols(task: Task, requested: Sequence[str]) -> tuple[str, ...]:
    """Return the requested protocols, by default the task's first. Raise an error for unknown protocols."""
    for protocol in requested:
        if protocol not in task.protocols:
            raise UnknownNameError(f"protocol of {task.name}", protocol, task.protocols)
    return tuple(dict.fromkeys(requested)) or (task.protocols[0],)


def prepare_run(request: RunRequest, root: Path) -> PreparedRun:
    """Prepare one request. `root` is the folder of the store."""
    return prepare_all([request], root)[0]


def prepare_all(
    requests: Sequence[RunRequest],
    root: Path,
    progress: Progress = no_progress,
    *,
    check: Callable[[Task], None] | None = None,
) -> list[PreparedRun]:
    """Check requests, open their tasks and resolve their methods. Compute and store nothing.

    A task is opened once for all methods, and a method is resolved once for all tasks of its family. For a
    method that reads precomputed features, the files for the items of all tasks are checked together. Files
    for patches are checked even if the task cannot be opened, so that one error lists both problems.

    Args:
        requests: The requests, in order.
        root: Folder of the store. It need not exist.
        progress: Called before every step.
        check: Function called with every task before it is opened. It may raise further errors.

    Raises:
        InputError: At least one request is invalid. The error lists all problems.
    """
    preparation = _Preparation(root)
    stages = [*dict.fromkeys(map(task_key, requests)), *requests]
    done = 0
    for request in requests:
        if task_key(request) not in preparation.tasks:
            progress("input", done, len(stages))
            preparation.open(request, check)
            done += 1
    for request in requests:
        progress("input", done, len(stages))
        preparation.resolve(request)
        done += 1
    preparation.check_settings(requests)
    preparation.check_items()
    if stages:
        progress("input", len(stages), len(stages))
    preparation.checks.raise_all()
    return [preparation.finish(request) for request in requests]


@dataclass
class _ResolvedMethod:
    """A method with the items of all tasks that it is requested for."""

    method: Method
    fit: TransformFitter
    items: dict[str, Item] = field(default_factory=dict)


class _Preparation:
    """Preparation of several requests: open tasks, resolve methods, collect errors.

    Steps that depend on a failed step are skipped.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.checks = ErrorCollector()
        self.tasks: dict[str, Task | None] = {}
        self.opened: dict[str, TaskData] = {}
        self.seconds: dict[str, float] = {}
        self.shared: dict[str, _ResolvedMethod] = {}
        self.ready: dict[tuple[str, str], _ResolvedMethod] = {}
        self.datasets: dict[Path, Sequence[Item]] = {}
        self.fits: dict[str, Any] = {}

    def open(self, request: RunRequest, check: Callable[[Task], None] | None) -> None:
        """Load and open the task of a request."""
        key = task_key(request)
        started = time.perf_counter()
        self.tasks[key] = None
        with self.checks.collect():
            task = self.tasks[key] = load_task(request.task)
            with self.checks.collect():
                checked_protocols(task, request.protocols)
            if check is not None:
                with self.checks.collect():
                    check(task)
            self.opened[key] = task.open(request.data, request.options)
            task.options.check_protocols(task.name, request.options, request.protocols or task.protocols[:1])
        self.seconds[key] = time.perf_counter() - started

    def resolve(self, request: RunRequest) -> None:
        """Resolve the method of a request, unless an earlier request has the same method.

        Add the items of the request to those that are checked for this method.
        """
        key = task_key(request)
        task, opened, own = self.tasks[key], self.opened.get(key), request_key(request)
        if task is None:
            return
        with self.checks.collect():
            family = method_family(task, request.method, request.method_options)
            ready = self.shared.get(f"{family} {own}") or self._ready(request, task, opened)
            if not ready.fit.log:
                self.shared[f"{family} {own}"] = ready
            self.ready[key, own] = ready
            ready.items.update({i.key: i for i in self._items(request, task, opened, ready.method)})

    def _ready(self, request: RunRequest, task: Task, opened: TaskData | None) -> _ResolvedMethod:
        fit = TransformFitter(
            opened, self.root, request.fit_on, fit_now=False, request_key=request_key(request), fits=self.fits
        )
        method = _resolve(request, task, self.root, fit)
        if task.family == "keypoints":
            from ..methods.keypoints.spec import sides_used

            fit.notices += sides_used(request.method, self.root)
        return _ResolvedMethod(method, fit)

    def check_settings(self, requests: Sequence[RunRequest]) -> None:
        """Collect errors about settings that affect none of the methods."""
        if any(request.jobs < 1 for request in requests):
            self.checks.errors.append(InputError("`jobs` must be at least 1"))
        if self.checks.errors:
            return
        ready = [self.ready[task_key(r), request_key(r)] for r in requests]
        names = list(dict.fromkeys(r.method.name for r in ready))
        has = "has" if len(names) == 1 else "have"
        if any(r.fit_on is not None for r in requests) and not any(r.fit.log for r in ready):
            self.checks.errors.append(
                InputError(f"`fit_on` has no effect: {', '.join(names)} {has} no fitted transform")
            )
        for device in sorted(
            {str(r.method_options.get("device", "cpu")) for r in requests if not r.on_cluster}
        ):
            if device.startswith("cuda"):  # fail before any work
                try:
                    set_device(device)
                except InputError as e:
                    self.checks.errors.append(e)

    def _items(
        self, request: RunRequest, task: Task, opened: TaskData | None, method: Method
    ) -> Sequence[Item]:
        if method.check is None:
            return ()
        if opened is not None:
            return data_for_family(task, opened, method.family).items
        if method.has is None or task.family != "patches":
            return ()
        return [item for item in self._dataset(request.data) if method.has(item)]

    def _dataset(self, data: Path) -> Sequence[Item]:
        """Return the items of a patch dataset. If it is unreadable, collect the error and return no items."""
        from ..datasets.hpatches.dataset import HPatchesDataset

        if data not in self.datasets:
            self.datasets[data] = ()
            try:
                found = HPatchesDataset(data)
                self.datasets[data] = found.items(
                    f"{s}/{m}" for s in found.sequences for m in found.images(s)
                )
            except InputError:
                pass
        return self.datasets[data]

    def check_items(self) -> None:
        """Collect errors about items for which a method has no stored features."""
        for ready in {id(r): r for r in self.ready.values()}.values():
            if ready.method.check is not None and ready.items:
                with self.checks.collect():
                    ready.method.check(list(ready.items.values()))

    def finish(self, request: RunRequest) -> PreparedRun:
        """Return the prepared request. Requires that no errors were collected."""
        key = task_key(request)
        task, ready = self.tasks[key], self.ready[key, request_key(request)]
        if task is None:
            raise RuntimeError(f"{request.method} on {request.task} was not prepared before the run")
        protocols = checked_protocols(task, request.protocols)
        seconds = self.seconds.pop(key, 0.0)
        method = _named(ready.method, request)
        opened = data_for_family(task, self.opened[key], method.family)
        method = with_oracle(method, opened)
        return PreparedRun(request, task, protocols, opened, method, ready.fit, seconds)


def _named(method: Method, request: RunRequest) -> Method:
    """Return the method with the name that the request sets."""
    return method if request.name is None else replace(method, name=request.name)


def _resolve(request: RunRequest, task: Task, root: Path, fit: Callable[..., Any]) -> Method:
    from ..methods.keypoints.spec import locate_keypoint_sets
    from ..methods.resolve import resolve

    spec = locate_keypoint_sets(request.method, root)
    family = method_family(task, request.method, request.method_options)
    method: Method = resolve(spec, family=family, fit=fit, **request.method_options)
    return method


def is_cacheable(opened: TaskData, method: Method) -> bool:
    """Return whether features can be cached, i.e. whether the method has a complete cache key."""
    return not opened.items or method.key(opened.items[0]) is not None


def make_context(
    prepared: PreparedRun, store: Store, session: RunSession, method: Method | None = None
) -> RunContext:
    """Return the context of a run, see `RunSession.context`."""
    method = method or prepared.fit_transforms(store.root)[0]
    return session.context(
        RunContext(prepared.task, prepared.opened, method, store.features, store.records), prepared.request
    )


def worker_recipe(request: RunRequest, method: Method, store: Store) -> ContextRecipe | None:
    """Return the recipe for worker processes. None if workers cannot run the method or `jobs` is 1."""
    if method.spec is None or request.jobs <= 1:
        return None
    store.save_hashes()  # for workers, which open the dataset as well
    return make_recipe(request, method, store.root, max(1, cores() // request.jobs))


def make_recipe(request: RunRequest, method: Method, root: Path, threads: int) -> ContextRecipe:
    """Return the recipe from which another process builds the context. `root` is the store folder."""
    from ..methods.identity import outside_hash

    return ContextRecipe(
        request.task,
        str(request.data),
        dict(request.options),
        method.spec or "",
        dict(request.method_options),
        str(root),
        threads,
        None if request.fit_on is None else str(request.fit_on),
        outside_hash(method.config),
    )


def initial_manifest(prepared: PreparedRun, method: Method, fit: TransformFitter) -> Manifest:
    """Build the manifest of a run before it starts."""
    request = prepared.request
    warnings = [
        *prepared.opened.warnings,
        *protocol_warnings(prepared.opened, prepared.protocols),
        *method.notices,
        *fit.notices,
        *prepared.notices,
    ]
    if not is_cacheable(prepared.opened, method):
        warnings.append(method.notice or f"The features of {method.name} are not cached.")
    return Manifest(
        task=prepared.task.name,
        method=MethodFacts(
            name=method.name,
            name_given=request.name is not None,
            spec=method.spec,
            family=method.family,
            distance=method.distance,
            config=dict(method.config),
            fitted=tuple(fit.log),
            meta={**method.meta, **request.meta},
        ),
        protocols=prepared.protocols,
        warnings=tuple(warnings),
        **dataset_facts(
            prepared.opened,
            request.data,
            identity_options(prepared.task.info, request.options),
            prepared.subset,
        ),
        subset=prepared.subset,
    )


def protocol_warnings(opened: TaskData, protocols: Sequence[str]) -> list[str]:
    """Return the warnings about a task's data that concern the given protocols."""
    return list(opened.protocol_warnings(protocols)) if isinstance(opened, HasProtocolWarnings) else []


def dataset_facts(
    opened: TaskData, data: Path, options: Mapping[str, Any], subset: SubsetFacts | None = None
) -> dict[str, Any]:
    """Return the manifest fields of an open task: options, split, dataset and hash of the pair lists."""
    name = data.name if subset is None else f"{data.name} ({subset.name})"
    return {
        "options": plain_options(options),
        "split": opened.split,
        "dataset": DatasetFacts(
            hash=opened.data_hash, name=name, path=str(data.absolute()), items=len(opened.items)
        ),
        "lists": hash_json([u.definition for u in opened.units]),
    }


def stored_result(
    context: RunContext, manifest: Manifest, protocols: Sequence[str], store: Store
) -> StoredRun | None:
    """Return the stored run if it has scores under all given protocols, else None.

    Scores of an earlier scoring version are first recomputed from their records.
    """
    if context.temporary_key is not None:
        return None
    own = run_id(manifest)
    run = next((r for r in load_runs(store, run_id=own) if r.id == own), None)
    if run is None or run.status != "done":
        return None
    run = update_run(store, run) or run
    requested = set(protocols)
    if not requested.issubset(protocols_of(run)) or requested.intersection(outdated_protocols(run)):
        return None
    units = run.manifest.units
    if not all(key in store.records for by in units.values() for key in by.values()):
        return None
    return run if context.matches_stored(units) and reproduces_records(context, run.manifest) else None
