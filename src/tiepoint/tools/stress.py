# SPDX-License-Identifier: BSD-3-Clause
"""Find out from Python where methods break."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from ..report.figures.figure import Figure
    from ..report.stress_curves import MethodCurve
    from ..run.result import Run


@dataclass(frozen=True)
class StressResult:
    """Curves of several methods under several kinds of changes. ``str()`` is the table of breakdown points.

    Attributes:
        runs: The runs of the tasks `stress/KIND`, by kind and method.
        metric: Score of the curves.
    """

    runs: Sequence[Run]
    metric: str

    @cached_property
    def curves(self) -> list[MethodCurve]:
        """One curve per kind and method: `method`, `kind`, `point`, `interval` as text, and `curve`."""
        return [c for some in self._by_kind for c in some]

    @cached_property
    def _by_kind(self) -> list[list[MethodCurve]]:
        from ..report.stress_curves import curves_of_runs

        return curves_of_runs(self.runs, self.metric)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per kind, method and level: mean score and non-increasing fit."""
        import pandas as pd

        rows = [
            {"kind": c.kind.name, "method": c.method, "level": level, "mean": mean, "fit": fit}
            for c in self.curves
            for level, mean, fit in zip(c.curve.levels, c.curve.mean, c.curve.fit, strict=True)
        ]
        return pd.DataFrame(rows, columns=["kind", "method", "level", "mean", "fit"])

    def breakdown(self) -> pd.DataFrame:
        """Return one row per kind and method: the breakdown point and its interval.

        `beyond` is True if the fitted curve is still above half of its first value at the last level.
        `nothing` is True if the score at the first level is 0. `low` and `high` are in ascending difficulty,
        and None with fewer than six images. `rise` is the largest amount by which the curve is above its fit.
        """
        import pandas as pd

        rows = []
        for c in self.curves:
            ends = [None, None] if c.curve.interval is None else [p.level for p in c.curve.interval]
            point = c.curve.point
            rows.append(
                {
                    "kind": c.kind.name,
                    "method": c.method,
                    "breakdown": point.level,
                    "beyond": point.beyond,
                    "nothing": point.nothing,
                    "low": ends[0],
                    "high": ends[1],
                    "high_beyond": c.curve.interval is not None and c.curve.interval[1].beyond,
                    "rise": c.curve.rise,
                }
            )
        return pd.DataFrame(rows)

    def plot(self, out: str | Path | None = None) -> Figure:
        """Draw the curves, one panel per kind. Write the figure to `out`."""
        from ..report.figures.stress import stress_panels
        from ..report.runs.sections import sections

        figure = stress_panels(sections(self.runs), self.metric)
        if out is not None:
            figure.save(out, columns=2)
        return figure

    def __str__(self) -> str:
        from ..report.stress_curves import breakdown_table, notes

        header, rows = breakdown_table(self._by_kind)
        grid = [header, *rows]
        widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
        lines = ["  ".join(t.ljust(w) for t, w in zip(row, widths, strict=True)).rstrip() for row in grid]
        return "\n".join([*lines, *notes(self._by_kind)])


def stress(
    methods: Any,
    *,
    images: str | Path,
    kinds: Sequence[str] = (),
    metric: str = "corner",
    max_side: int | None = None,
    seed: int | None = None,
    store: str | Path | None = None,
    jobs: int = 1,
    device: str = "cpu",
    cluster: Any = None,
    progress: bool = True,
    **options: Any,
) -> StressResult:
    """Change images more and more, and return where each method breaks; see docs/tasks/stress.md.

    Args:
        methods: A name, an object with ``match(image1, image2)`` or the interface of a keypoint method, or a
            list of names and objects.
        images: Folder of images, or a dataset, of which the first image of each scene is used.
        kinds: Kinds of changes: rotation, scale, tilt, blur, gamma, jpeg, noise; default all.
        metric: Score of the curves: ``"corner"``, ``"mma"`` or ``"matching_score"``.
        max_side: Longer side in pixels to which larger images are reduced; default 640, 0 keeps their size.
        seed: Seed of the noise; default 0.
        store: Folder or database URL; default ``tiepoint-store`` in the current folder.
        jobs: Number of worker processes.
        device: Device of learned methods.
        cluster: Dask cluster that does the work, as in `tiepoint.evaluate`.
        progress: Whether to show progress bars if standard error is a terminal.
        **options: Options of the tasks: ``scenes``, ``levels``, ``estimator``, ``ransac_px`` …

    Returns:
        A `StressResult`: ``.breakdown()``, ``.to_frame()``, ``.plot()``, ``.runs``.
    """
    import logging

    from ..cli.shell.console import bars_on_a_terminal
    from ..run.engine import evaluate_all
    from ..run.stress import stress_requests
    from ..store.store import Store

    if isinstance(kinds, str):
        raise InputError(f"`kinds` is {kinds!r}; expected a list of kinds")
    requests = stress_requests(
        methods if isinstance(methods, list) else [methods],
        Path(images),
        kinds=kinds,
        metric=metric,
        options=options if max_side is None else {"max_side": max_side, **options},
        seed=seed,
        device=device,
        jobs=jobs,
        on_cluster=cluster is not None,
    )
    say = logging.getLogger("tiepoint").warning
    with Store.open(store, later=True) as opened, bars_on_a_terminal(progress) as drawn:
        runs = evaluate_all(requests, opened, drawn, cluster=cluster, report=say)
    for message in dict.fromkeys(warning for run in runs for warning in run.warnings):
        warnings.warn(message, UserWarning, stacklevel=2)
    return StressResult(runs, metric)
