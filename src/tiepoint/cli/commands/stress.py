# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint stress``: find out at which change of an image each method breaks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ...core.errors import InputError
from ...core.formatting import count_text
from ..common import (
    as_text,
    console,
    dump_json,
    join_words,
    merge_warnings,
    notice,
    open_store_for_writing,
    print_columns,
    print_status,
    progress_bars,
    resumable,
    split_values,
    task_options,
)
from ..shell.flag_names import as_flags
from .run import RunMonitor, evaluate_each, suggest_spec

if TYPE_CHECKING:
    from ...run.result import Run


def stress_command(
    methods: list[str] = typer.Argument(
        None, metavar="METHOD...", help="Keypoint methods (with ?matcher=), pair matchers or dense methods."
    ),
    images: Path = typer.Option(None, "--images", help="Folder of images, or a dataset; required."),
    kinds: list[str] = typer.Option(
        None,
        "--kinds",
        help="Kinds of changes: rotation, scale, tilt, blur, gamma, jpeg, noise; default all.",
    ),
    metric: str = typer.Option(
        "corner", "--metric", help="Score of the curves: corner, mma or matching_score."
    ),
    max_side: int = typer.Option(
        None,
        "--max-side",
        help="Reduce larger images to this longer side in px; default 640, 0 for never.",
    ),
    seed: int = typer.Option(None, "--seed", help="Seed of the noise; default 0."),
    option: list[str] = typer.Option(None, "-o", "--option", help="Option of the tasks, key=value."),
    jobs: int = typer.Option(
        None, "--jobs", min=0, help="Maximum number of workers; 0 (default) means one per core."
    ),
    cluster: str = typer.Option(
        None, "--cluster", help="Dask workers: tcp://HOST:8786, local:NUMBER or a YAML file."
    ),
    device: str = typer.Option(None, "--device", help="Device of networks and comparisons; default cpu."),
    out: Path = typer.Option(None, "--out", help="Write the figure: .pdf, .svg, .png, or .csv for its data."),
    store: str = typer.Option(None, "--store", help="Folder or database URL; default tiepoint-store."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> int:
    """Change images more and more, and print where each method breaks.

    Each kind of change gives a run of the task `stress/KIND`. Reports, `serve` and `plot stress` show these
    runs.

    Example: `tiepoint stress sift orb --images photos`
    """
    from ...core.gpu_start import start_gpu_early

    start_gpu_early(device or "cpu")
    from ...run.costs import cores
    from ...run.preparation import prepare_all
    from ...run.session import RunSession
    from ...run.stress import stress_requests
    from ...store.status_files import track_progress

    given = {"METHOD": methods, "--images DIR": images is not None}
    if missing := [name for name, present in given.items() if not present]:
        raise InputError(f"stress needs {join_words(missing)}; see tiepoint stress --help")
    if cluster is not None:
        from ...run.executors.cluster_spec import read_spec

        read_spec(cluster)  # report a mistake before anything is opened
    requests = stress_requests(
        [as_text(m) for m in methods],
        images,
        kinds=split_values(kinds),
        metric=metric,
        options=task_options(option, max_side=max_side),
        seed=seed,
        device=device or "cpu",
        jobs=jobs or cores(),
        on_cluster=cluster is not None,
    )
    with (
        open_store_for_writing(store) as opened,
        progress_bars(not json_) as bars,
        track_progress(opened.root, f"stress of {', '.join(methods)}", bars) as progress,
        resumable(),
    ):
        work = RunMonitor(progress)
        with suggest_spec(opened):
            prepared = prepare_all(requests, opened.root, work)
        with RunSession(opened.root, cluster, print_status) as session:
            session.submit(prepared, opened, work)
            runs, code = evaluate_each(prepared, opened, session, work, None, "auto")
    _print(runs, metric, out, as_json=json_)
    return code


def _print(runs: list[Run], metric: str, out: Path | None, *, as_json: bool) -> None:
    """Print warnings, the table of breakdown points, and the curves. Write the figure to `out`."""
    from ...report.stress_curves import breakdown_table, curve_table, curves_of_runs, notes

    curves = curves_of_runs(runs, metric)
    if out is not None and curves:
        from ...report.figures.stress import stress_panels
        from ...report.runs.sections import sections

        stress_panels(sections(runs), metric).save(out, columns=2)
        print_status(f"wrote {out}")
    warnings = merge_warnings(runs)
    if as_json:
        found: list[Any] = [c.to_dict() for some in curves for c in some]
        dump_json({"curves": found, "warnings": warnings})
        return
    for warning in dict.fromkeys(warnings):
        notice(warning)
    if not curves:
        return
    print(f"where methods break ({metric}, {count_text(curves[0][0].scenes, 'image')})")
    header, rows = breakdown_table(curves)
    print_columns(header, rows, right=len(header) - 1)
    for some in curves:
        title, header, rows = curve_table(some)
        print(f"\n{title}; {metric} in percent")
        print_columns(header, rows, right=len(header) - 1)
    print()
    for line in notes(curves):
        console().print(as_flags(line), markup=False, highlight=False)
