# SPDX-License-Identifier: BSD-3-Clause
"""The page of a run: its summary, the command to repeat it, and downloads of its scores."""

from __future__ import annotations

import io
import json
import shlex
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ...core.formatting import count_text
from ...report.cells import score_cell
from ...report.export import scores_frame, scores_text
from ...report.runs.card import card_rows
from ...report.runs.lazy_records import try_part
from ...report.runs.scene_views import scenes_of
from ...run.recompare import requested_options
from ...run.result import Run
from ...store.run_queries import load_run
from ...tasks import stored_task
from ...tasks.info import metric_info
from .. import params
from ..cached_results import scene_names
from ..rendering import page
from ..run_index import RunIndex

FILES = {
    "scores.csv": "text/csv",
    "scores.json": "application/json",
    "scores.parquet": "application/vnd.apache.parquet",
    "manifest.json": "application/json",
}
MAX_SCORES, MAX_CAMERAS = 400, 200


def run_page(library: RunIndex, request: Request) -> Response:
    """Return the page of a run."""
    shelf = library.snapshot()
    run = params.run_param(shelf, request.path_params["id"])
    section = shelf.section_of(run)
    task = stored_task(run.task)
    scores = [s for s in run.score_rows if s.metric != "metadata"]
    rows = [
        {
            "protocol": s.protocol,
            "metric": s.metric,
            "group": s.group,
            "cell": score_cell(metric_info(task.info, s.metric), s),
            "n": s.n,
        }
        for s in scores[:MAX_SCORES]
    ]
    skipped: list[str] = []
    scenes = None
    if section is not None:
        scenes = try_part("scenes", partial(scene_names, library, section, run), skipped)
    manifest = run.manifest.plain()
    manifest["units"] = f"{count_text(len(manifest['units']), 'unit')}; keys are in manifest.json"
    return page(
        request,
        "run.html",
        title=f"{run.method} on {run.task}",
        run=run,
        name=run.method if section is None else section.names[run.id],
        card=[(k, v) for k, v in card_rows(run) if k != "warning"],
        warnings=[*run.manifest.warnings, *skipped],
        command=rerun_command(run, library.store.where),
        scores=rows,
        left=len(scores) - len(rows),
        manifest=json.dumps(manifest, indent=1, sort_keys=True, default=str),
        section=section,
        scenes=scenes or [],
        cameras=scenes_of(run)[:MAX_CAMERAS],
        files=list(FILES),
        made=run.created_at[:16].replace("T", " "),
    )


def rerun_command(run: Run, store: str = "") -> str:
    """Return the shell command that repeats a run. Empty for imported results and Python objects."""
    m = run.manifest
    if m.is_imported or m.method.spec is None or not m.dataset.path:
        return ""
    words = ["tiepoint", "run", m.method.spec, "--task", m.task, "--data", m.dataset.path]
    words += ["--protocol", ",".join(m.protocols)] if m.protocols else []
    for key, value in m.options.items():
        words += ["-o", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    asked_besides = requested_options(m.method.config)
    for flag, name, usual in (("--on-bad", "on_bad", "error"), ("--device", "device", "cpu")):
        words += [] if asked_besides.get(name, usual) == usual else [flag, str(asked_besides[name])]
    for key, value in asked_besides.get("program", {}).items():
        words += ["-o", f"exec.{key}={value}"]
    if (subset := m.subset) is not None:
        score = subset.metric if subset.group == "all" else f"{subset.metric}:{subset.group}"
        words += ["--subset", f"informative:{subset.n}", "--design", subset.design]
        words += ["--references", ",".join(subset.references.values()), "--subset-score", score]
        words += ["--subset-seed", str(subset.seed)] if subset.seed else []
    if m.method.name_given:
        words += ["--name", m.method.name]
    if store:
        words += ["--store", store]
    return shlex.join(words)


def download(library: RunIndex, request: Request) -> Response:
    """Return a download: the scores of a run (including single scenes) or its manifest."""
    run = params.run_param(library.snapshot(), request.path_params["id"])
    name = request.path_params["file"]
    if name not in FILES:
        raise HTTPException(404, f"unknown download; a run has {', '.join(FILES)}")
    body = _file(library, run, name)
    safe = "".join(c if c.isalnum() and c.isascii() else "-" for c in run.id)
    headers = {"content-disposition": f'attachment; filename="tiepoint-{safe}-{name}"'}
    return Response(body, media_type=FILES[name], headers=headers)


def _file(library: RunIndex, run: Run, name: str) -> bytes:
    if name == "manifest.json":
        return json.dumps(run.manifest.plain(), indent=1, sort_keys=True, default=str).encode()
    whole: Any = Run(load_run(library.store, run.id))
    if name == "scores.parquet":
        buffer = io.BytesIO()
        scores_frame([whole]).to_parquet(buffer, index=False)
        return buffer.getvalue()
    return scores_text([whole], name.rpartition(".")[2]).encode()
