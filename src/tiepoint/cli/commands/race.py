# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint race``: find out with few units which method is ahead."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ...core.errors import InputError
from ..common import (
    as_text,
    console,
    dump_json,
    join_words,
    notice,
    open_store_for_reading,
    open_store_for_writing,
    print_status,
    progress_bars,
    resumable,
    split_values,
    task_options,
    without_effect,
)
from ..shell.console import redraws
from ..shell.flag_names import as_flags

if TYPE_CHECKING:
    from ...run.race.engine import OnStep, RaceSettings, RunningRace
    from ...store.races import StoredRace

_LIVE_ONLY = ("data", "option", "tasks", "split", "jobs", "cluster", "on_bad", "device", "fit_on", "batch")


def race_command(
    context: typer.Context,
    methods: list[str] = typer.Argument(
        None, metavar="METHOD...", help="Methods as in `run`; with --replay names or ids of stored runs."
    ),
    task: str = typer.Option(None, "--task", help="Task; required without --replay."),
    data: Path = typer.Option(None, "--data", help="Folder of the dataset; required without --replay."),
    protocol: str = typer.Option(None, "--protocol", help="Protocol; the default is exact."),
    metric: str = typer.Option(None, "--metric", help="Score to race; by default the task's headline score."),
    group: str = typer.Option(None, "--group", help="Group of the score, e.g. threshold_deg=5."),
    goal: str = typer.Option(
        None, "--goal", help="best, order or baseline=NAME; by default order for two methods, else best."
    ),
    about: str = typer.Option(
        "benchmark",
        "--about",
        help="Scope of the claims: benchmark (these units) or scenes (scenes like these).",
    ),
    alpha: float = typer.Option(0.05, "--alpha", help="Largest probability of any wrong claim."),
    seed: int = typer.Option(0, "--seed", help="Seed of the order of the units."),
    limit: int = typer.Option(None, "--limit", help="Units after which to stop without a decision."),
    batch: int = typer.Option(
        None, "--batch", help="Units computed at the same time; by default one per worker."
    ),
    replay: bool = typer.Option(False, "--replay", help="Race complete stored runs; compute nothing."),
    keep: bool = typer.Option(
        False, "--keep", help="With --replay: save the result of the race in the store."
    ),
    option: list[str] = typer.Option(None, "-o", "--option", help="Option of the task, key=value."),
    tasks: Path = typer.Option(None, "--tasks", help="Folder of benchmark definitions."),
    split: str = typer.Option(None, "--split", help="Split of the task (HPatches 2017)."),
    jobs: int = typer.Option(
        None, "--jobs", min=0, help="Number of workers, default 1; 0 means one per core."
    ),
    cluster: str = typer.Option(
        None, "--cluster", help="Dask workers: tcp://HOST:8786, local:NUMBER or a YAML file."
    ),
    on_bad: str = typer.Option(
        None, "--on-bad", help="How to treat invalid descriptors: error (default), miss or keep-zeros."
    ),
    device: str = typer.Option(None, "--device", help="Device of networks and comparisons; default cpu."),
    fit_on: Path = typer.Option(None, "--fit-on", help="Dataset to fit +pca, +zca … on."),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Run methods unit by unit and stop when it is certain which one is ahead.

    Features and records are those of `run`, which afterwards computes only what is missing. A race is not a
    run and has no score. With `--replay`, show what a race of stored runs would have saved.

    Example: `tiepoint race "sift?matcher=mnn" "orb?matcher=mnn" --task pose/relative --data pairs.json`
    """
    from ...methods.programs.settings import split_options
    from ...run.race.engine import RaceSettings

    settings = RaceSettings(metric, group, goal, about, alpha, seed, limit, batch)
    settings.check()
    if not methods:
        raise InputError("race needs METHOD, at least two of them; see tiepoint race --help")
    with _live_view(not json_) as on_step:
        if replay:
            without_effect(context, _LIVE_ONLY, "with --replay: stored runs need no data and no work")
            found = _replayed(methods, settings, store, task, protocol, keep, on_step)
        else:
            without_effect(context, ("keep",), "without --replay: other races are always stored")
            given = {"--task TASK": task, "--data DIR": data}
            if missing := [name for name, value in given.items() if value is None]:
                raise InputError(f"race needs {join_words(missing)}, or --replay; see tiepoint race --help")
            options, of_programs = split_options(methods, task_options(option, tasks=tasks, split=split))
            how = {"on_bad": on_bad or "error", "device": device or "cpu", **of_programs}
            request = (task, data, protocol, options, how, jobs, fit_on)
            found = _raced(methods, settings, store, request, cluster, on_step, quiet=json_)
    print_race(found, as_json=json_)


def _raced(
    methods: Sequence[str],
    settings: RaceSettings,
    store: str | None,
    request: tuple[Any, ...],
    cluster: str | None,
    on_step: OnStep,
    *,
    quiet: bool,
) -> StoredRace:
    from ...run.costs import cores
    from ...run.race.live import race_methods
    from ...run.request import RunRequest

    task, data, protocol, options, how, jobs, fit_on = request
    if cluster is not None:
        from ...run.executors.cluster_spec import read_spec

        read_spec(cluster)  # report a mistake before anything is opened
    workers = 1 if jobs is None else jobs or cores()
    protocols = tuple(split_values([protocol])) if protocol else ()
    if len(protocols) > 1:
        raise InputError(f"--protocol {protocol!r}: a race is under one protocol; choose one")
    requests = [
        RunRequest(
            as_text(m), task, data, protocols, options, how, workers, fit_on, on_cluster=cluster is not None
        )
        for m in methods
    ]
    with (
        open_store_for_writing(store) as opened,
        progress_bars(not quiet and not redraws(sys.stderr)) as bars,
        resumable(),
    ):
        return race_methods(
            requests, settings, opened, bars, cluster=cluster, report=print_status, on_step=on_step
        )


def _replayed(
    names: Sequence[str],
    settings: RaceSettings,
    store: str | None,
    task: str | None,
    protocol: str | None,
    keep: bool,
    on_step: OnStep,
) -> StoredRace:
    from ...run.race.replay import replay_runs
    from ...tools.racing import stored_runs

    opening = open_store_for_writing(store, create=False) if keep else open_store_for_reading(store)
    with opening as opened:
        runs, notes = stored_runs(opened, names, task)
        for note in notes:
            print_status(note)
        return replay_runs(runs, settings, opened, protocol, keep=keep, on_step=on_step)


def print_race(race: StoredRace, *, as_json: bool) -> None:
    """Print a race: warnings, sentences, and what the complete runs say if they are known."""
    from ...report.race_text import full_sentences, sentences

    if as_json:
        dump_json(race.model_dump())
        return
    for warning in race.warnings:
        notice(warning)
    out = console()
    stored = "" if race.replayed else f"race {race.id}: `tiepoint show {race.id}`"
    for line in [*sentences(race), *full_sentences(race), stored]:
        if line:
            out.print(as_flags(line), markup=False, highlight=False)


@contextlib.contextmanager
def _live_view(wanted: bool) -> Iterator[OnStep]:
    """Yield a callback that shows the state of a race: a table on a terminal, else decisions as lines."""
    from ...run.race.engine import no_step

    if not wanted:
        yield no_step
    elif redraws(sys.stderr):
        from rich.live import Live

        with Live(console=console(stderr=True), refresh_per_second=8, transient=True) as live:

            def update(running: RunningRace) -> None:
                live.update(_table(running), refresh=bool(running.newest))
                for text in _decisions(running):
                    live.console.print(text, markup=False, highlight=False)

            yield update
    else:

        def report(running: RunningRace) -> None:
            for text in _decisions(running):
                print_status(text)

        yield report


def _decisions(running: RunningRace) -> list[str]:
    return [
        f"{c.better} is ahead of {c.worse}: decided after {c.step:,} of {running.plan.total:,}"
        for c in running.newest
    ]


def _table(running: RunningRace) -> Any:
    """Return one line per method: units used, whether it is in the race, its difference to the leader."""
    from rich.table import Table

    race = running.race
    wins = {m: sum((c.better == m) - (c.worse == m) for c in race.claims) for m in race.methods}
    means = {m: sum(v) / len(v) if (v := running.values[m]) else 0.0 for m in race.methods}
    leader = max(race.active or race.methods, key=lambda m: (wins[m], means[m]))
    table = Table(box=None, title=f"{running.question.task}, {running.extent}", title_justify="left")
    for name in ("method", "units", "state", f"difference to {leader} (points)"):
        table.add_column(name, justify="right" if name == "units" else "left")
    for name in race.methods:
        state = "in the race" if name in race.active else "settled"
        table.add_row(name, f"{race.evaluations[name]:,}", state, _difference(running, name, leader))
    return table


def _difference(running: RunningRace, name: str, leader: str) -> str:
    from ...stats.racing import running as cut

    race = running.race
    pair = next((p for p in race.pairs if set(p) == {name, leader}), None)
    sets = race.intervals.get(pair, []) if pair and name != leader else []
    if not sets or pair is None:
        return ""
    _, low, high = cut(sets)[-1]
    low, high = (low, high) if pair[0] == name else (-high, -low)
    return f"{100 * low:+.1f} to {100 * high:+.1f}"
