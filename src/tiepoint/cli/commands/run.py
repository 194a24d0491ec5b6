# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint run``: run methods on tasks."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ...core.errors import ClusterError, InputError, StoreError, TiepointError, UnknownNameError
from ...core.formatting import count_text, method_name
from ..common import (
    as_text,
    error,
    join_words,
    merge_warnings,
    open_store_for_reading,
    open_store_for_writing,
    print_plan,
    print_runs_json,
    print_status,
    print_tables,
    print_verbose,
    progress_bars,
    resumable,
    split_values,
    task_options,
    without_effect,
)
from ..shell.console import redraws
from .run_config import run_config

if TYPE_CHECKING:
    from ...run.context import Progress
    from ...run.preparation import PreparedRun
    from ...run.request import RunRequest
    from ...run.result import Run
    from ...run.session import RunSession
    from ...run.subset.choose import SubsetRequest
    from ...store.store import Store

SUBSET_OPTIONS = ("references", "design", "subset_score", "subset_seed")
SET_BY_CONFIG = (
    "methods", "task", "data", "tasks", "benchmark", "protocol", "split", "fit_on", "write_results",
    "results_form", "option", "exec_revision", "name", "time", "subset", *SUBSET_OPTIONS,
)  # fmt: skip
"""Options that have no effect with ``--config``."""


def run(
    context: typer.Context,
    methods: list[str] = typer.Argument(
        None, metavar="METHOD...", help="Methods: NAME, files:DIR, my.py:Class, exec:COMMAND …"
    ),
    task: list[str] = typer.Option(
        None, "--task", help="Tasks, repeated or comma-separated; required without --config."
    ),
    data: Path = typer.Option(None, "--data", help="Folder of the dataset; required without --config."),
    tasks: Path = typer.Option(None, "--tasks", help="Folder of benchmark definitions."),
    benchmark: list[str] = typer.Option(
        None, "--benchmark", help="Benchmark definitions to use, NAME or NAME*."
    ),
    protocol: list[str] = typer.Option(None, "--protocol", help="Protocols; the default is exact."),
    split: str = typer.Option(None, "--split", help="Split of the task (HPatches 2017)."),
    jobs: int = typer.Option(
        None, "--jobs", min=0, help="Maximum number of workers; 0 (default) means one per core."
    ),
    cluster: str = typer.Option(
        None, "--cluster", help="Dask workers: tcp://HOST:8786, local:NUMBER or a YAML file."
    ),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
    name: str = typer.Option(None, "--name", help="Name of the run; only for a single method."),
    on_bad: str = typer.Option(
        None, "--on-bad", help="How to treat invalid descriptors: error (default), miss or keep-zeros."
    ),
    device: str = typer.Option(None, "--device", help="Device of networks and comparisons; default cpu."),
    fit_on: Path = typer.Option(
        None, "--fit-on", help="Dataset to fit +pca, +zca … on instead of the split's training sequences."
    ),
    write_results: Path = typer.Option(
        None, "--write-results", help="Write the result files of the task to this folder."
    ),
    results_form: str = typer.Option(
        "auto", "--results-form", help="Layout of result files: auto, final, or document (HPatches 2016)."
    ),
    option: list[str] = typer.Option(None, "-o", "--option", help="Option of the task, key=value."),
    subset: str = typer.Option(
        None, "--subset", help="informative:N estimates the score from N units of every stratum."
    ),
    references: list[str] = typer.Option(
        None, "--references", help="Complete runs that choose the subset; default all."
    ),
    design: str = typer.Option(None, "--design", help="Sampling of the subset: ordered (default) or pps."),
    subset_score: str = typer.Option(
        None,
        "--subset-score",
        help="Score of the subset, METRIC or METRIC:GROUP; default the headline score.",
    ),
    subset_seed: int = typer.Option(None, "--subset-seed", help="Seed of the subset; default 0."),
    exec_revision: str = typer.Option(
        None, "--exec-revision", help="Text that is added to the cache key of exec: programs."
    ),
    time: bool = typer.Option(False, "--time", help="Measure the times and the memory of the methods."),
    config: Path = typer.Option(None, "--config", help="Experiment file (YAML)."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Print the plan and stop."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> int:
    """Run methods on tasks and print their scores.

    With `--config`, an experiment file defines the runs; `--jobs`, `--device`, `--on-bad` and `--store`
    override its settings. With `--cluster`, Dask workers do the work instead of local processes.

    Example: `tiepoint run sift rootsift orb --task hpatches-v1/matching --data hpatches-release`
    """
    from ...core.gpu_start import start_gpu_early

    start_gpu_early(device or "cpu")
    from ...methods.programs.settings import split_options
    from ...run.costs import cores
    from ...run.request import RunRequest

    if cluster is not None:
        from ...run.executors.cluster_spec import read_spec

        without_effect(context, ("jobs",), "with --cluster: the cluster sets the number of workers")
        read_spec(cluster)  # report a mistake before anything is opened
    if config is not None:
        without_effect(context, SET_BY_CONFIG, "with --config: the experiment file defines the runs")
        performance = {"num_threads": jobs, "device": device, "on_bad": on_bad}
        return run_config(config, store, performance, dry_run=dry_run, as_json=json_, cluster=cluster)
    names = split_values(task)
    _check_arguments(context, methods, names, data, name, results_form)
    options = task_options(option, tasks=tasks, split=split, benchmark=split_values(benchmark) or None)
    if exec_revision is not None:
        options = task_options([], **options, **{"exec.revision": exec_revision})
    options, of_programs = split_options(methods, options)
    method_options = {"on_bad": on_bad or "error", "device": device or "cpu", **of_programs}
    display_name = None if name is None else method_name(str(as_text(name)))
    protocols = tuple(split_values(protocol))
    requests = [
        RunRequest(
            method, one, data, protocols, options, method_options, jobs or cores(), fit_on,
            name=display_name, on_cluster=cluster is not None, time=time,
        )
        for one in names for method in methods
    ]  # fmt: skip
    chosen = _subset_request(context, subset, split_values(references), design, subset_score, subset_seed)
    return _run_requests(requests, chosen, store, cluster, write_results, results_form, dry_run, json_)


def _subset_request(
    context: typer.Context,
    text: str | None,
    references: Sequence[str],
    design: str | None,
    score: str | None,
    seed: int | None,
) -> SubsetRequest | None:
    """Return the requested subset. None if all units are requested."""
    if text is None:
        without_effect(context, SUBSET_OPTIONS, "without --subset")
        return None
    without_effect(context, ("write_results",), "with --subset: result files need all units")
    from ...run.subset.choose import SubsetRequest, parse_subset

    metric, _, group = (score or "").partition(":")
    request = SubsetRequest(
        parse_subset(text), design or "ordered", seed or 0, tuple(references), metric or None, group or None
    )
    request.check()
    return request


def _run_requests(
    requests: Sequence[RunRequest],
    subset: SubsetRequest | None,
    store: str | None,
    cluster: str | None,
    write_results: Path | None,
    results_form: str,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Prepare and run requests and print results, or print the plan. Return the exit code."""
    from ...run.preparation import prepare_all
    from ...run.result_files import has_result_files, refuse_options_of_writing
    from ...run.session import RunSession
    from ...store.status_files import track_progress
    from ...store.store import store_root

    def check(task: Any) -> None:
        if write_results is None:
            refuse_options_of_writing(task, requests[0].options)
        else:
            has_result_files(task, results_form)

    if dry_run:
        planned = prepare_all(requests, store_root(store), check=check)
        if subset is not None:
            from ...run.subset.choose import restrict_to_subset

            with open_store_for_reading(store) as opened:
                planned = restrict_to_subset(planned, subset, opened)
        print_plan(_plan(planned), as_json)
        return 0
    methods, tasks = (dict.fromkeys(str(getattr(r, k)) for r in requests) for k in ("method", "task"))
    with (
        open_store_for_writing(store) as opened,
        progress_bars(not as_json) as bars,
        track_progress(opened.root, f"{', '.join(methods)} on {', '.join(tasks)}", bars) as progress,
        resumable(),
    ):
        work = RunMonitor(progress)
        with suggest_spec(opened):
            prepared = prepare_all(requests, opened.root, work, check=check)
        if subset is not None:
            from ...run.subset.choose import restrict_to_subset

            prepared = restrict_to_subset(prepared, subset, opened)
        with RunSession(opened.root, cluster, print_status) as session:
            session.submit(prepared, opened, work)
            runs, code = evaluate_each(prepared, opened, session, work, write_results, results_form)
    if as_json:
        print_runs_json(runs, merge_warnings(runs))
    else:
        print_tables(runs)
    return code


def _check_arguments(
    context: typer.Context,
    methods: Sequence[str] | None,
    tasks: Sequence[str],
    data: Path | None,
    name: str | None,
    results_form: str,
) -> None:
    """Raise an error for missing or contradictory arguments."""
    from ...run.result_files import FORMS

    given = {"METHOD": methods, "--task TASK": tasks, "--data DIR": data is not None}
    if missing := [argument for argument, present in given.items() if not present]:
        raise InputError(f"run needs {join_words(missing)}, or --config FILE; see tiepoint run --help")
    if name is not None and methods and len(methods) > 1:
        raise InputError(f"--name is for a single method, found {len(methods)}: {', '.join(methods)}")
    if results_form not in FORMS:
        raise UnknownNameError("form of result files", results_form, FORMS)
    if context.params.get("write_results") is None:
        without_effect(context, ("results_form",), "without --write-results")


@contextlib.contextmanager
def suggest_spec(store: Store) -> Iterator[None]:
    """Within this block, extend the error for an unknown method name by a suggestion.

    If stored runs have this display name, the error names the specification of their method.
    """
    from ...store.run_queries import load_heads

    try:
        yield
    except UnknownNameError as e:
        if e.what == "method" and "," in e.name and "?" not in e.name:
            raise InputError(
                f"unknown method {e.name!r}; separate methods by spaces: {' '.join(e.name.split(','))}"
            ) from e
        heads = load_heads(store) if store.exists and e.what == "method" else []
        own = [h for h in heads if h.method == e.name]
        spec = own[-1].manifest.method.spec if own else None
        if not spec or spec == e.name:
            raise
        raise InputError(
            f"{e.name!r} is the name of stored runs, not a method; pass the method of these runs: "
            f"{shlex.quote(spec)} --name {shlex.quote(e.name)}"
        ) from e


class RunMonitor:
    """A progress callback that counts the work of each run, for ``-v``, and prints finished runs."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._done: dict[str, int] = {}

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Count and forward the progress of a stage."""
        self._done[stage] = done
        self._progress(stage, done, total)

    def report(self, run: Run) -> None:
        """Print the main scores of a finished run on a terminal, and with ``-v`` what it computed."""
        own = [
            f"{s.partition(': ')[2]} {n}" for s, n in self._done.items() if s.startswith(f"{run.method}: ")
        ]
        computed = f"computed {', '.join(own)}" if own else "found in the store"
        print_verbose(f"{run.method} on {run.task}: run {run.id}, {computed}")
        if redraws(sys.stderr):
            from ...report.terminal.scores import summary_text

            for protocol in dict.fromkeys(s.protocol for s in run.score_rows):
                print_status(f"{run.method} on {run.task}, {protocol}: {summary_text(run, protocol)}")
        for stage in [s for s in self._done if s.startswith(f"{run.method}: ")]:
            del self._done[stage]


def evaluate_each(
    prepared: list[PreparedRun],
    store: Store,
    shared: RunSession,
    progress: RunMonitor,
    out: Path | None,
    form: str,
) -> tuple[list[Run], int]:
    """Run prepared requests in order. Print a failure immediately and continue with the next request."""
    from ...run.engine import evaluate_prepared
    from ...run.result_files import write_result_files

    alone = len(prepared) == 1
    runs: list[Run] = []
    errors: dict[str, int] = {}
    while prepared:
        one = prepared.pop(0)  # frees the open task after its last method
        try:
            runs.append(evaluate_prepared(one, store, shared, progress))
            progress.report(runs[-1])
            if out is not None:
                paths, written = write_result_files(one, runs[-1], store, shared, out, form)
                print_status(f"wrote {count_text(len(paths), 'result')} below {out}, form {written}")
        except (StoreError, ClusterError) as e:  # fatal; print the finished runs
            runs += [e.unsaved] if isinstance(e, StoreError) and e.unsaved is not None else []
            if not runs:
                raise
            error(str(e))
            return runs, e.exit_code
        except TiepointError as e:
            if alone and isinstance(e, InputError):
                raise
            if str(e) not in errors:
                error(str(e))
            errors[str(e)] = e.exit_code
    return runs, max(errors.values(), default=0)


def _plan(prepared: Sequence[PreparedRun]) -> list[dict[str, Any]]:
    """Return the planned runs with their numbers of items, descriptors and units."""
    return [
        {
            "method": one.method.name,
            "task": one.task.name,
            "items": len(one.opened.items),
            "rows": sum(i.count or 0 for i in one.opened.items) or None,
            "units": len(one.opened.units),
            "protocols": list(one.protocols),
        }
        for one in prepared
    ]
