# SPDX-License-Identifier: BSD-3-Clause
"""The public class `Runs`: several runs as one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from ..run.result import Run
from ..stats.paired import SIGN_FLIP
from ..tasks import stored_task
from ..tasks.info import summary_metrics
from .runs.names import DisplayNames, distinct_names

if TYPE_CHECKING:
    import pandas as pd

    from .figures.figure import Figure

TERMINAL_WIDTH = 100


class Runs(Sequence[Run]):
    """Runs of several methods or tasks, in the order of their evaluation.

    Index and iterate it like a list. It prints one table per task, and shows them in notebooks.
    """

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs = tuple(runs)

    @overload
    def __getitem__(self, index: int) -> Run: ...

    @overload
    def __getitem__(self, index: slice) -> Runs: ...

    def __getitem__(self, index: int | slice) -> Run | Runs:
        return Runs(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def scores(self) -> pd.DataFrame:
        """Tidy scores of all runs, one row per score, with the columns of `Run.scores`."""
        import pandas as pd

        from ..run.score_frame import ScoreFrame

        frames = [pd.DataFrame(run.scores) for run in self._runs]
        return ScoreFrame(pd.concat(frames, ignore_index=True) if frames else None)

    def to_frame(self) -> pd.DataFrame:
        """Return the main scores: one row per method, one column per task, protocol and metric."""
        import pandas as pd

        cells: dict[str, dict[tuple[str, str, str], float | None]] = {}
        for run, name in zip(self._runs, distinct_names(self._runs), strict=True):
            rows = [s for s in run.score_rows if s.group == "all"]
            main = summary_metrics(stored_task(run.task).info, [s.metric for s in rows])
            found = {(run.task, s.protocol, s.metric): s.value for s in rows if s.metric in main}
            cells.setdefault(name, {}).update(found)
        columns = list(dict.fromkeys(column for row in cells.values() for column in row))
        frame = pd.DataFrame(
            [[row.get(column) for column in columns] for row in cells.values()],
            index=pd.Index(list(cells), name="method"),
            columns=pd.MultiIndex.from_tuples(columns, names=["task", "protocol", "metric"]),
        )
        return frame.astype(float)

    def to_latex(self, *, table: str | None = None, names: Any = None, test: str = SIGN_FLIP) -> str:
        """Return the tables of a paper in LaTeX; see `tiepoint.write_report` for the options."""
        from .export import scores_text
        from .figures.plot import display_names

        display = None if names is None else display_names(names)
        return scores_text(self, "latex", table=table, display=display, test=test)

    def plot(self, kind: str = "scores", *, out: str | Path | None = None, **how: Any) -> Figure:
        """Draw a figure of these runs, as in the report; see `Run.plot`. `out` is a file to write."""
        from .figures.plot import plot

        return plot(kind, self, out=out, **how)

    def __repr__(self) -> str:
        return f"<{len(self)} runs: {', '.join(f'{r.method} on {r.task}' for r in self._runs)}>"

    def __str__(self) -> str:
        from rich.console import Console

        from .terminal.scores import score_tables

        console = Console(width=TERMINAL_WIDTH, color_system=None, highlight=False)
        with console.capture() as captured:
            for table in score_tables(self):
                console.print(table)
        return captured.get().rstrip("\n")

    def _repr_html_(self) -> str:
        from .paper_tables import TIED, task_tables

        parts = []
        for table in task_tables(self, DisplayNames()):
            heads = ["method", *(h.whole for h in table.heads)]
            parts.append(f"<table><caption>{escape(table.caption)}</caption>")
            parts.append("<tr>" + "".join(f"<th>{escape(h)}</th>" for h in heads) + "</tr>")
            for name, cells in table.rows:
                shown = [escape(c.with_interval) + (TIED if c.tied else "") for c in cells]
                shown = [f"<b>{text}</b>" if c.best else text for c, text in zip(cells, shown, strict=True)]
                parts.append(
                    "<tr>" + "".join(f"<td>{text}</td>" for text in [escape(name), *shown]) + "</tr>"
                )
            parts.append("</table>")
        return "".join(parts) or str(self.scores.to_html())
