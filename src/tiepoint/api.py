# SPDX-License-Identifier: BSD-3-Clause
"""Public Python functions: evaluate, compare, load, merge, write a report, list names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from .core.errors import InputError
    from .report.compare.comparison import Comparison
    from .report.run_list import Runs
    from .run.result import Run


@overload
def evaluate(
    methods: list[Any],
    *,
    task: str | Sequence[str],
    data: str | Path,
    protocol: str | Sequence[str] = ...,
    store: str | Path | None = ...,
    jobs: int = ...,
    on_bad: str = ...,
    device: str = ...,
    fit_on: str | Path | None = ...,
    name: str | None = ...,
    cluster: Any = ...,
    progress: bool = ...,
    time: bool = ...,
    **options: Any,
) -> Runs: ...


@overload
def evaluate(
    methods: Any,
    *,
    task: list[str] | tuple[str, ...],
    data: str | Path,
    protocol: str | Sequence[str] = ...,
    store: str | Path | None = ...,
    jobs: int = ...,
    on_bad: str = ...,
    device: str = ...,
    fit_on: str | Path | None = ...,
    name: str | None = ...,
    cluster: Any = ...,
    progress: bool = ...,
    time: bool = ...,
    **options: Any,
) -> Runs: ...


@overload
def evaluate(
    methods: Any,
    *,
    task: str,
    data: str | Path,
    protocol: str | Sequence[str] = ...,
    store: str | Path | None = ...,
    jobs: int = ...,
    on_bad: str = ...,
    device: str = ...,
    fit_on: str | Path | None = ...,
    name: str | None = ...,
    cluster: Any = ...,
    progress: bool = ...,
    time: bool = ...,
    **options: Any,
) -> Run: ...


def evaluate(
    methods: Any,
    *,
    task: str | Sequence[str],
    data: str | Path,
    protocol: str | Sequence[str] = (),
    store: str | Path | None = None,
    jobs: int = 1,
    on_bad: str = "error",
    device: str = "cpu",
    fit_on: str | Path | None = None,
    name: str | None = None,
    cluster: Any = None,
    progress: bool = True,
    time: bool = False,
    **options: Any,
) -> Run | Runs:
    """Evaluate methods on tasks and store the runs.

    Args:
        methods: A name (``"sift"``, ``"sift+rootsift"``, ``"files:DIR"``, …) or an object with the
            interface of the task's family, e.g. ``describe(patches)``; or a list of names and objects.
        task: Name of the task, e.g. ``"hpatches-v1/matching"``, or a list of names.
        data: Folder of the dataset.
        protocol: One protocol or several; default `exact`.
        store: Folder or database URL; default ``tiepoint-store`` in the current folder.
        jobs: Number of worker processes. It does not change scores.
        on_bad: Treatment of NaN, infinite or zero descriptors: ``"error"``, ``"miss"`` or ``"keep-zeros"``
            (zero descriptors are ordinary vectors, as in the older tools; NaN and infinity are misses).
        device: Device of learned methods.
        fit_on: Dataset for fitting transforms such as ``+pca``; default the training sequences of the split.
        name: Display name of the runs of a single method; default the name of the method.
        cluster: Dask cluster that does the work: the address of its scheduler (``"tcp://host:8786"``),
            ``"local:4"``, a YAML file, its content as a mapping, or a `distributed.Client`; see
            docs/clusters.md. It does not change scores.
        progress: Whether to show progress bars if standard error is a terminal.
        time: Whether to measure the times and the memory of the methods; see docs/performance.md.
        **options: Options of the task: ``tasks``, ``benchmark``, ``split``, ``tau_px`` …; and those of
            programs, such as ``**{"exec.timeout_s": 60}``.

    Returns:
        A `Run` for one method and one task: ``run.scores`` is a tidy pandas frame with intervals,
        ``run.records`` the underlying records. A list of methods or of tasks gives `Runs`: one run per method
        and task, with ``.scores``, ``.to_frame()``, ``.to_latex()`` and ``.plot()``. All arguments are
        checked before the first run. The first failure ends the call; finished runs are stored.
    """
    import logging

    from .cli.shell.console import bars_on_a_terminal
    from .core.formatting import method_name
    from .methods.programs.settings import split_options
    from .run.engine import evaluate_all
    from .run.request import RunRequest
    from .store.store import Store

    _is_text(on_bad=on_bad, device=device, **({} if name is None else {"name": name}))
    if not hasattr(jobs, "__index__") or isinstance(jobs, bool):
        raise _wrong("jobs", jobs, "expected an integer")
    several = isinstance(methods, list) or not isinstance(task, str)
    chosen, tasks = methods if isinstance(methods, list) else [methods], _texts("task", task)
    if not chosen or not tasks:
        raise _wrong("methods" if not chosen else "task", [], "expected at least one name")
    if name is not None and len(chosen) > 1:
        raise _wrong(
            "name",
            name,
            f"expected None for {len(chosen)} methods, because a name applies to a single method",
        )
    protocols = _texts("protocol", protocol)
    _place("store", store)
    options, of_programs = split_options(chosen, options)
    requests = [
        RunRequest(
            method,
            one,
            _path("data", data),
            protocols,
            options,
            {"on_bad": on_bad, "device": device, **of_programs},
            int(jobs),
            None if fit_on is None else _path("fit_on", fit_on),
            None if name is None else method_name(name),
            on_cluster=cluster is not None,
            time=time,
        )
        for one in tasks
        for method in chosen
    ]
    say = logging.getLogger("tiepoint").warning
    with Store.open(store, later=True) as opened, bars_on_a_terminal(progress) as drawn:
        _warn(opened.notices)
        runs = evaluate_all(requests, opened, drawn, cluster=cluster, report=say)
    _warn(list(dict.fromkeys(warning for run in runs for warning in run.warnings)))
    if not several:
        return runs[0]
    from .report.run_list import Runs

    return Runs(runs)


def load(
    run: str | None = None, *, task: str | None = None, store: str | Path | None = None
) -> list[Run] | Run:
    """Load runs from a store.

    With a run id, return that run. With the name of a method, return its newest run; `task` is required if
    the method has runs on several tasks. Without either, return all runs, oldest first. Each run reads its
    records and scene values on first access.
    """
    from .report.runs.lazy_records import lazy_run
    from .report.runs.selection import one_run
    from .store.run_queries import load_runs
    from .store.store import Store

    _is_text(**{k: v for k, v in (("run", run), ("task", task)) if v is not None})
    _place("store", store)
    with Store.open(store, mode="read") as opened:
        _warn(opened.notices)
        if run is not None:
            stored, notes = one_run(opened, run, task=task)
            _warn(notes)
            return lazy_run(stored, opened)
        return [lazy_run(r, opened) for r in load_runs(opened, task=task)]


def compare(
    runs: Sequence[Run | str] | Run | str = (),
    *,
    task: str,
    metric: str | None = None,
    group: str | None = None,
    protocol: str | None = None,
    split: str | None = None,
    dataset: str | None = None,
    baseline: str | None = None,
    allow: str | Sequence[str] = (),
    test: str = "sign-flip",
    margin: float | None = None,
    subset: str | None = None,
    store: str | Path | None = None,
) -> Comparison:
    """Compare methods on the same scenes by differences, intervals, tests and group letters.

    Args:
        runs: `Run` objects, names of methods or run ids, one or several; empty for all runs of the task.
        task: Name of the task.
        metric: Score to compare; default the headline score of the task.
        group: Group of the score, e.g. ``noise=hard``.
        protocol: Protocol; default `exact`, or another one that all runs have.
        split: Only runs of this split. Required if a method has runs on several splits and the other methods
            do not determine one.
        dataset: Only runs on a dataset of this name.
        baseline: Method to compare the others with; default the best method.
        allow: Differences to accept between the runs: ``dataset``, ``lists``, ``scenes``, ``split`` …, as a
            list or separated by commas.
        test: ``sign-flip`` (assumes differences symmetric about 0) or ``bootstrap-t``; see docs/inference.md.
        margin: Test whether each method loses at most this much against the baseline, in percentage points
            for scores between 0 and 1. Without a baseline, two runs are required; the second is the baseline.
        subset: Name of a subset: compare its runs, and complete runs restricted to its units. By default
            runs on subsets are excluded.
        store: Store with the named runs.

    Returns:
        A `Comparison`: ``str()``, ``.to_frame()``, ``.to_latex()``, ``.to_markdown()``, ``.save(path)``.
    """
    from dataclasses import replace

    from .report.compare.margin import margin_notes
    from .report.compare.runs import compare_runs, shared_protocol, under_protocol
    from .report.runs.selection import choose_split, has_runs, of_dataset, of_split, of_subset, runs_of
    from .run.result import Run
    from .store.store import Store

    _is_text(task=task)
    _place("store", store)
    runs = _runs([runs] if isinstance(runs, Run | str) else runs, Run | str)
    named = [r for r in runs if not isinstance(r, Run)]
    chosen = [r for r in runs if isinstance(r, Run)]
    allow = allow.split(",") if isinstance(allow, str) else allow
    notes: list[str] = []
    if named or not chosen:
        with Store.open(store, mode="read") as opened:
            has_runs(opened, task)
            chosen += runs_of(opened, named, task=task, singles=group is not None)
            notes += opened.notices
    asked = [str(r) for r in named]
    if dataset is not None:
        chosen = of_dataset(chosen, dataset)
    given = [r.id for r in runs if isinstance(r, Run)]
    chosen, told = of_subset(chosen, subset, [*asked, *given])
    notes += told
    if split is not None:
        chosen = of_split(chosen, split, asked)
    elif asked or not runs:
        chosen, told = choose_split(chosen, asked, allow)
        notes += told
    if not runs:
        chosen, told = under_protocol(chosen, protocol or shared_protocol(chosen))
        notes += told
    found = compare_runs(
        chosen,
        metric=metric,
        group=group,
        protocol=protocol,
        baseline=baseline,
        allow=allow,
        test=test,
        margin=margin,
    )
    root = next((r.root for r in chosen if r.root is not None), None)
    notes += [] if root is None else margin_notes(root, found)
    return replace(found, notes=(*found.notes, *notes))


def merge(runs: Sequence[Run]) -> Run:
    """Merge runs of one method and task on different scenes into one run; see `tiepoint.run.finish`.

    To copy the runs of one store into another, use ``tiepoint store merge``.
    """
    from .run.finish import merge_runs

    return merge_runs(_runs(runs))


def write_report(
    runs: Sequence[Run],
    path: str | Path,
    *,
    form: str = "html",
    split: str | None = None,
    dataset: str | None = None,
    protocol: str | None = None,
    table: str | None = None,
    names: Any = None,
    test: str = "sign-flip",
    intervals: bool = False,
) -> Path:
    """Write a report of runs: ``html``, ``md``, ``latex``, ``csv``, ``json`` or ``parquet``.

    Args:
        runs: Runs to report.
        path: File to write.
        form: File format.
        split: Only runs of this split.
        dataset: Only runs on a dataset of this name.
        protocol: Only scores under this protocol; default `exact` if the runs have it.
        table: Table in Markdown, LaTeX and CSV: ``combined``, ``tasks`` or ``scores``; see docs/paper.md.
        names: Display names in tables: a YAML file, or its content as a mapping.
        test: Test of the comparisons: ``sign-flip`` or ``bootstrap-t``; see docs/inference.md.
        intervals: Add confidence intervals to the tables in Markdown and LaTeX.
    """
    from .report.export import write
    from .report.figures.plot import display_names
    from .report.runs.lazy_records import report_damage
    from .report.runs.selection import of_dataset, of_protocol, of_split

    display = None if names is None else display_names(names)
    chosen = _runs(runs) if split is None else of_split(_runs(runs), split)
    chosen = chosen if dataset is None else of_dataset(chosen, dataset)
    chosen = chosen if protocol is None else of_protocol(chosen, protocol)
    target = _path("path", path)
    with report_damage(lambda told: _warn([told])):
        write(chosen, target, form, table=table, display=display, test=test, intervals=intervals)
    return target


def list_methods(family: str | None = None) -> list[str]:
    """Return the names of the registered methods.

    >>> "sift" in list_methods("patches")
    True
    """
    from .core.errors import UnknownNameError
    from .methods.registry import METHODS

    known = sorted({e.family for e in METHODS})
    if family is not None and family not in known:
        raise UnknownNameError("family of methods", str(family), known)
    return sorted({e.name.split(":")[-1] for e in METHODS if family in (None, e.family)})


def pack(data: str | Path, to: str | Path | None = None) -> Path:
    """Decode all strips of a patch dataset into one memory-mapped file and return its path.

    Runs on the dataset use the file until a strip changes. Scores and cache keys stay the same.

    Args:
        data: Folder of patch strips.
        to: File to write, ending in ``.tiepack``; pass it as ``data`` later. By default the file is in the
            dataset folder, or in the user's cache folder if the dataset folder is read-only.
    """
    from .datasets.hpatches.pack import pack_dataset

    return pack_dataset(_path("data", data), None if to is None else _path("to", to)).path


def list_tasks() -> list[str]:
    """Return the names of the tasks.

    >>> "hpatches-v1/matching" in list_tasks()
    True
    """
    from .tasks import TASKS

    return [e.name for e in TASKS]


def _warn(messages: Sequence[str]) -> None:
    import warnings

    for message in messages:
        warnings.warn(message, UserWarning, stacklevel=3)


def _wrong(name: str, value: Any, remedy: str) -> InputError:
    from .core.errors import InputError

    return InputError(f"`{name}` is {repr(value)[:60]}; {remedy}")


def _is_text(**given: Any) -> None:
    for name, value in given.items():
        if not isinstance(value, str):
            raise _wrong(name, value, "expected a string")


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence) or not all(isinstance(v, str) for v in value):
        raise _wrong(name, value, "expected a string or a list of strings")
    return tuple(value)


def _path(name: str, value: Any) -> Path:
    """Convert an argument to a path. Raise `InputError` if it is not a valid path or is inaccessible."""
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        raise _wrong(name, value, "expected a path")
    try:
        os.stat(value)
    except (FileNotFoundError, NotADirectoryError):
        pass  # the reader reports a missing file
    except (OSError, ValueError) as e:
        raise _wrong(name, value, f"expected a path ({getattr(e, 'strerror', None) or e})") from e
    return Path(value)


def _place(name: str, value: Any) -> None:
    """Check that a store is a path or a URL."""
    if value is not None and not (isinstance(value, str) and "://" in value):
        _path(name, value)


def _runs(given: Any, kinds: Any = None) -> list[Any]:
    from .run.result import Run

    words = "runs from `evaluate` or `load`" if kinds is None else "runs, run names or run ids"
    if isinstance(given, Iterable) and not isinstance(given, str):
        runs = list(given)
        if all(isinstance(run, kinds or Run) for run in runs):
            return runs
    raise _wrong("runs", given, f"expected a list of {words}")
