# SPDX-License-Identifier: BSD-3-Clause
"""Race methods from Python."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from ..report.figures.figure import Figure
    from ..run.race.engine import RunningRace
    from ..store.races import RaceClaim, StoredRace
    from ..store.store import Store
    from ..store.stored_run import StoredRun


@dataclass(frozen=True)
class RaceResult:
    """Result of a race. ``str()`` lists the decisions and what they hold for: the benchmark or its scenes.

    Attributes:
        stored: The race with all details: order, values by unit, confidence sequences.
    """

    stored: StoredRace

    @property
    def id(self) -> str:
        """Id of the race."""
        return self.stored.id

    @property
    def claims(self) -> Sequence[RaceClaim]:
        """Claims in the order of their decision.

        Each has the methods `better` and `worse`, the `step`, and the confidence set `low` to `high`.
        """
        return self.stored.claims

    @property
    def decided(self) -> bool:
        """Whether the race reached its goal."""
        return self.stored.ended == "decided"

    @property
    def steps(self) -> int:
        """Number of units evaluated until the end of the race."""
        return self.stored.steps

    @property
    def evaluations(self) -> Mapping[str, int]:
        """Number of units that each method was evaluated on."""
        return self.stored.evaluations

    @property
    def best(self) -> str | None:
        """Method that the claims show to be ahead of all others. None if there is none."""
        names = {m.name for m in self.stored.question.methods}
        for name in names:
            if {c.worse for c in self.claims if c.better == name} == names - {name}:
                return name
        return None

    def to_frame(self) -> pd.DataFrame:
        """Return one row per pair of methods: the claim, if any, and the confidence set of the difference."""
        import pandas as pd

        rows: list[dict[str, Any]] = [
            {
                "better": c.better,
                "worse": c.worse,
                "claimed": True,
                "step": c.step,
                "low": c.low,
                "high": c.high,
            }
            for c in self.claims
        ]
        rows += [
            {
                "better": p.first,
                "worse": p.second,
                "claimed": False,
                "step": None,
                "low": p.low,
                "high": p.high,
            }
            for p in self.stored.open_pairs
        ]
        return pd.DataFrame(rows, columns=["better", "worse", "claimed", "step", "low", "high"])

    def plot(self, out: str | Path | None = None) -> Figure:
        """Draw the confidence sequences over units with the decisions. Write the figure to `out`."""
        from ..report.figures.race import race_figure

        figure = race_figure(self.stored)
        if out is not None:
            figure.save(out)
        return figure

    def __str__(self) -> str:
        from ..report.race_text import full_sentences, sentences

        return "\n".join([*sentences(self.stored), *full_sentences(self.stored)])


def race(
    methods: Sequence[Any],
    *,
    task: str | None = None,
    data: str | Path | None = None,
    protocol: str | None = None,
    metric: str | None = None,
    group: str | None = None,
    goal: str | None = None,
    about: str = "benchmark",
    alpha: float = 0.05,
    seed: int = 0,
    limit: int | None = None,
    batch: int | None = None,
    replay: bool = False,
    keep: bool = False,
    store: str | Path | None = None,
    jobs: int = 1,
    on_bad: str = "error",
    device: str = "cpu",
    fit_on: str | Path | None = None,
    cluster: Any = None,
    progress: bool = True,
    on_step: Callable[[RunningRace], None] | None = None,
    **options: Any,
) -> RaceResult:
    """Run methods unit by unit until the requested decisions are certain enough; see docs/less-work.md.

    Features and records have the same keys as those of `tiepoint.evaluate`, so a later complete run computes
    only what is missing. A race is not a run: it has no score.

    Args:
        methods: Names, objects, or with `replay` names or ids of stored runs; at least two.
        task: Name of the task.
        data: Folder of the dataset. Not needed with `replay`.
        protocol: Protocol; default the task's first.
        metric: Score to race; default the headline score of the task.
        group: Group of the score.
        goal: ``"best"`` (default from three methods), ``"order"`` (default for two) or ``"baseline=NAME"``.
        about: ``"benchmark"`` claims what complete runs on all units would show. ``"scenes"`` claims what
            holds for the population of scenes that the units are a sample of.
        alpha: Largest probability of any wrong claim, at any time.
        seed: Seed of the order of the units.
        limit: Number of units after which the race ends without a decision.
        batch: Number of units computed at the same time; default one per worker.
        replay: Race complete stored runs. Computes nothing and needs no data.
        keep: Store the race of stored runs.
        store: Folder or database URL; default ``tiepoint-store`` in the current folder.
        jobs: Number of worker processes.
        on_bad: Treatment of invalid descriptors, as in `tiepoint.evaluate`.
        device: Device of learned methods.
        fit_on: Dataset for fitting transforms.
        cluster: Dask cluster that does the work, as in `tiepoint.evaluate`.
        progress: Whether to show progress bars if standard error is a terminal.
        on_step: Function called with the running race after every unit.
        **options: Options of the task.

    Returns:
        A `RaceResult`: ``.claims``, ``.to_frame()``, ``.steps``, ``.plot()``.
    """
    from ..run.race.engine import RaceSettings, no_step

    if isinstance(methods, str) or not isinstance(methods, Sequence):
        raise InputError(f"`methods` is {methods!r}; expected a list of methods")
    settings = RaceSettings(metric, group, goal, about, alpha, seed, limit, batch)
    step = on_step or no_step
    if replay:
        given = {"data": data, "cluster": cluster, **options}
        if named := [name for name, value in given.items() if value is not None]:
            raise InputError(f"`{named[0]}` has no effect with `replay`, which reads stored runs; omit it")
        return RaceResult(_replay(methods, settings, store, task, protocol, keep, step))
    if keep:
        raise InputError("`keep` has no effect without `replay`: other races are always stored; omit it")
    if task is None or data is None:
        raise InputError("a race needs `task` and `data`, or `replay` to race stored runs")
    from ..cli.shell.console import bars_on_a_terminal
    from ..methods.programs.settings import split_options
    from ..run.race.live import race_methods
    from ..run.request import RunRequest
    from ..store.store import Store

    protocols = () if protocol is None else (protocol,)
    where = Path(data)
    fitted = None if fit_on is None else Path(fit_on)
    options, of_programs = split_options(methods, options)
    how = {"on_bad": on_bad, "device": device, **of_programs}
    requests = [
        RunRequest(m, task, where, protocols, options, how, jobs, fitted, on_cluster=cluster is not None)
        for m in methods
    ]
    with Store.open(store, later=True) as opened, bars_on_a_terminal(progress) as drawn:
        found = race_methods(
            requests, settings, opened, drawn, cluster=cluster, report=warnings.warn, on_step=step
        )
    for message in found.warnings:
        warnings.warn(message, UserWarning, stacklevel=2)
    return RaceResult(found)


def _replay(
    names: Sequence[Any],
    settings: Any,
    store: str | Path | None,
    task: str | None,
    protocol: str | None,
    keep: bool,
    on_step: Callable[[RunningRace], None],
) -> StoredRace:
    from ..run.race.replay import replay_runs
    from ..store.store import Store

    with Store.open(store, mode="write" if keep else "read") as opened:
        runs, notes = stored_runs(opened, names, task)
        for note in notes:
            warnings.warn(note, UserWarning, stacklevel=3)
        return replay_runs(runs, settings, opened, protocol, keep=keep, on_step=on_step)


def stored_runs(
    store: Store, names: Sequence[Any], task: str | None
) -> tuple[dict[str, StoredRun], list[str]]:
    """Return stored runs by display name, from names or ids, and notes about the choice."""
    from ..report.runs.selection import one_run

    found: dict[str, StoredRun] = {}
    notes: list[str] = []
    for text in names:
        run, told = one_run(store, str(text), task=task)
        notes += told
        name = run.method if run.method not in found else f"{run.method} ({run.id})"
        if any(run.id == other.id for other in found.values()):
            raise InputError(f"run {run.id} is in the race twice; remove one")
        found[name] = run
    return found, notes
