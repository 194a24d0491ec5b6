# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint demo``: create a small dataset, run all method families, write a report."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..common import console, notice, print_runs_json, progress_bars, resumable
from ..shell.console import TABLE

if TYPE_CHECKING:
    from ...run.demo import DemoStep


def demo(
    out: Path = typer.Option(Path("tiepoint-demo"), "--out", help="Folder for data, store and report."),
    jobs: int = typer.Option(0, "--jobs", min=0, help="Maximum number of workers; 0 means one per core."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Create a small photo set, run methods of all families on it, print tables and write a report.

    Example: `tiepoint demo`
    """
    from ...report.export import write
    from ...report.terminal.score_table import BEST, TIE
    from ...run.costs import cores
    from ...run.demo import lacking, run_demo
    from ...store.status_files import track_progress

    if (missing := lacking()) is not None:
        notice(missing)
    report = out / "report.html"
    with (
        progress_bars(not json_) as bars,
        track_progress(out / "store", "the demo", bars) as progress,
        resumable(),
    ):
        tell = (lambda _step: None) if json_ else _print_step
        runs, store = run_demo(out, jobs=jobs or cores(), progress=progress, report=tell)
        start = time.perf_counter()
        write(runs, report, "html", title="tiepoint demo", progress=progress)
    if json_:
        print_runs_json(runs, [] if missing is None else [missing])
        return
    print(f"{'report':<10} {time.perf_counter() - start:5.1f} s  {report}")
    print(f"Scores: percent [95 % interval]; {BEST} best, {TIE} not separated from the best. Next:")
    at = shlex.quote(str(store))
    print(f"  tiepoint compare rootsift sift --task hpatches/matching --store {at}")
    print(f"  tiepoint show rootsift --task hpatches/matching --conventions --store {at}")
    data = shlex.quote(str(out / "sequences"))
    print(f"  tiepoint run akaze --task keypoints/matching --data {data} --store {at}")


ABOUT = {
    "data": "8 photographs: image sequences, patches, dense pairs, a stereo pair",
    "patches": "descriptors of given patches",
    "keypoints": "detectors and descriptors on image sequences",
    "pairs": "matchers of image pairs: relative pose",
    "dense": "dense flow",
    "sfm": "reconstruction of 5 rendered views",
}
"""Description of each step of the demo."""


def _print_step(step: DemoStep) -> None:
    """Print the name, time and scores of a finished step."""
    from ...report.runs.sections import sections
    from ...report.terminal.scores import family_table

    alone = step.name == "sfm"  # too few runs for a table
    about = ABOUT[step.name] + (f": {_areas(step)}" if alone else "")
    print(f"{step.name:<10} {step.seconds:5.1f} s  {about}", flush=True)
    if step.runs and not alone:
        found = {s.task: s for s in sections(step.runs)}
        order = [found[task] for task in dict.fromkeys(r.task for r in step.runs)]
        console(piped=TABLE).print(family_table(order, indent="  "))


def _areas(step: DemoStep) -> str:
    """Return the headline score of each run of a step in one line."""
    found = []
    for run in step.runs:
        best = next((s for s in run.score_rows if (s.metric, s.group) == ("auc", "all")), None)
        if best is not None and best.value is not None:
            found.append(f"{run.method.partition('?')[0]} {100 * best.value:.1f}")
    return f"auc @5° {', '.join(found)}"
