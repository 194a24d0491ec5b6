# SPDX-License-Identifier: BSD-3-Clause
"""Reports, figures, pictures and store commands on one small store, for snapshots of `equality.py`."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from equality_masks import is_time, json_parts, mask
from equality_pages import page_parts, picture, pixels
from equality_snapshot import (
    KEYPOINT_TASKS,
    V1_TASKS,
    V2_TASKS,
    Cell,
    Place,
    checked,
    command,
    digest,
    outcome_parts,
    tiepoint,
)

STORE = "WORK/stores/pages"
SIFT = "sift?matcher=mnn&ratio=0.8&max_features=600"
PAGES = (
    f"run sift rootsift orb oracle constant --task {','.join(V1_TASKS)} --data WORK/patches "
    "--tasks WORK/benchmarks --on-bad miss --protocol exact,hbench-2016",
    f"run sift rootsift orb random --task {','.join(V2_TASKS)} --data WORK/patches --on-bad miss "
    "--protocol exact,hpatches-python",
    f"run sift?max_features=150 orb?max_features=150 surf?max_features=150 --task {','.join(KEYPOINT_TASKS)} "
    "--data WORK/demo/sequences -o scenes=i_coins,v_astronaut,v_camera",
    "run dis zero WORK/user.py:Shift --task tss,dense/flow --data WORK/demo/dense",
    "run dis zero --task dense/pck --data DATA/pf_willow -o kinds=duck(S)",
    f"run {SIFT} oracle klt --task pose/relative --data DATA/scannet_sample --protocol exact,superglue "
    "-o seeds=2",
    f"run {SIFT} klt --task wxbs/points,wxbs/fundamental --data DATA/wxbs -o scenes=WGBS/kn-church,WLABS/kpi",
    f"run {SIFT} klt oracle --task evd/homography --data DATA/evd -o scenes=adam,cat,mag",
    "run dense-sift zero --task semantic/pck --data DATA/spair_sample --protocol exact,dift",
)
"""Commands that fill the small store: every task, several methods, canaries among them."""
FORMATS = (
    "html", "md", "md --table combined", "md --table tasks", "md --table scores", "latex",
    "latex --table combined", "latex --table tasks", "csv", "csv --table combined", "csv --table tasks",
    "json", "parquet",
    "md --protocol hpatches-python", "html --task hpatches/matching,pose/relative",
    "latex --names WORK/names.yaml --task hpatches/matching",
)  # fmt: skip
NAMES = (
    "methods: {sift: SIFT, rootsift: RootSIFT}\ntasks: {hpatches/matching: Matching}\nmetrics: {map: mAP}\n"
)
ENDINGS = {"html": "html", "md": "md", "latex": "tex", "csv": "csv", "json": "json", "parquet": "parquet"}


def table_parts(path: Path, place: Place) -> dict[str, Any]:
    """Return columns and rows of a CSV, JSON or Parquet table without measured times."""
    import pandas as pd

    if path.suffix == ".parquet":
        frame = pd.read_parquet(path)
    elif path.suffix == ".json":
        values, words = json_parts(place.plain_tree(json.loads(path.read_text())))
        return {"values": {"json": values}, "words": {"json": words}}
    else:
        frame = pd.read_csv(io.StringIO(place.plain(path.read_text())), dtype=str, keep_default_na=False)
    types = [f"{n} {t}" for n, t in frame.dtypes.astype(str).items()]
    if "metric" in frame:
        frame = frame[[not is_time(str(m)) for m in frame["metric"]]]
    notes = [str(n) for n in frame.pop("note")] if "note" in frame else []
    rows = [mask(place.plain(repr(r)), durations=False) for r in frame.itertuples(index=False, name=None)]
    values = {"columns": types, "rows": [digest(r.encode())[:16] for r in rows]}
    return {"values": {"table": values}, "words": {"notes": sorted({place.words(n) for n in notes if n})}}


def report(form: str) -> Cell:
    """Write a report and describe it by its format."""

    def work(place: Place) -> dict[str, Any]:
        name, *options = form.split()
        called = form.replace(" ", "_").replace("/", "-").replace("WORK", "")
        out = place.work / "reports" / f"{called}.{ENDINGS[name]}"
        out.parent.mkdir(exist_ok=True)
        (place.work / "names.yaml").write_text(NAMES)
        line = ["report", "--format", name, *options, "--out", str(out), "--store", STORE]
        found = outcome_parts(place, checked(place, line))
        if name == "html":
            values, words = page_parts(place, out.read_text())
            found["values"] |= values
            found["words"] |= words
        elif name in ("md", "latex"):
            lines = [place.words(line) for line in out.read_text().splitlines()]
            rows = [line for line in lines if line.startswith("|") or "&" in line]
            found["values"]["table rows"] = rows
            found["words"]["lines"] = [line for line in lines if line not in set(rows)]
        else:
            content = table_parts(out, place)
            found["values"] |= content["values"]
            found["words"]["table"] = content["words"]
        return found

    return Cell("outputs", f"report | {form}", work)


def plots(place: Place) -> dict[str, Any]:
    """Draw every figure that the store offers as PNG, and write its numbers as CSV."""
    listed = json.loads(checked(place, ["plot", "--json", "--store", STORE]).out)
    values, words = json_parts(place.plain_tree(listed))
    found: dict[str, Any] = {"json": values, "pixels": {}, "files": {}, "exit code": {}}
    told: dict[str, Any] = {"json": words, "figures": {}}
    groups = {(row["kind"], row["task"]): row["group"] for row in listed}
    groups |= {("differences", task): "all" for task in dict.fromkeys(row["task"] for row in listed)}
    for (kind, task), group in groups.items():
        name = f"{kind} {task}"
        out = place.work / "figures" / f"{kind}-{task.replace('/', '-')}.png"
        out.parent.mkdir(exist_ok=True)
        chosen = [] if group == "all" else ["--group", group]
        line = ["plot", kind, "--task", task, *chosen, "--store", STORE, "--json", "--out"]
        done = tiepoint(place, [*line, str(out)])
        found["exit code"][name] = done.code
        told["figures"][name] = [place.words(x) for x in (*done.out.splitlines(), *done.messages)]
        if not done.code:
            found["pixels"][name] = pixels(out.read_bytes())
            checked(place, [*line, str(out.with_suffix(".csv"))])
            found["files"][name] = digest(out.with_suffix(".csv").read_bytes())
    return {"values": found, "words": told}


def drawn(name: str, line: str, out: str) -> Cell:
    """Run a command that writes pictures to a file or below a folder."""

    def work(place: Place) -> dict[str, Any]:
        found = outcome_parts(
            place, checked(place, [w.replace("RUN", place.runs.get("pose", "")) for w in line.split()])
        )
        target = Path(place.full(out))
        paths = [target] if target.is_file() else sorted(p for p in target.rglob("*") if p.is_file())
        images = {p.name if p == target else str(p.relative_to(target)): p for p in paths}
        found["values"]["pixels"] = {n: picture(p.read_bytes(), p.suffix) for n, p in images.items()}
        return found

    return Cell("outputs", name, work)


def flow_cells() -> Iterator[Cell]:
    """Draw, convert and warp flows."""
    flow, one, two = "DATA/flow/RubberWhale.flo", "DATA/flow/RubberWhale1.png", "DATA/flow/RubberWhale2.png"
    truth = "--truth DATA/flow/RubberWhale.flo"
    zero = "WORK/results/dis/dis"
    for name, more in (
        ("plain", f"{flow} --plain"),
        ("sheet", f"{flow} --image1 {one} --image2 {two} {truth}"),
        ("colours", f"{flow} --image2 {two} --bg-color 10,20,30 --flow-bg-color 000000255"),
    ):
        out = f"WORK/flow/{name}.png"
        yield drawn(f"flow show | {name}", f"flow show {more} --out {out}", out)
    yield drawn(
        "flow show | results",
        f"flow show --results {zero} --data WORK/demo/dense --out WORK/flow/all",
        "WORK/flow/all",
    )
    warp = "WORK/flow/warped.png"
    yield drawn("flow warp", f"flow warp {two} {flow} --image1 {one} --out {warp}", warp)
    for ending in ("png", "npy", "npz", "flo"):
        out = f"WORK/converted/{ending}"
        source = flow if ending != "flo" else "WORK/converted/npy/flow.npy"
        yield command("outputs", f"flow convert {source} {out}/flow.{ending}", files=out)


def choose_runs(place: Place) -> dict[str, Any]:
    """Look up the runs that later cells name."""
    rows = json.loads(checked(place, ["list", "runs", "--json", "--store", STORE]).out)
    values, words = json_parts(place.plain_tree(rows))
    ids = [
        (r["task"], r["method"], r.get("id") or r.get("run"))
        for r in rows
    ]  # fmt: skip
    for task, method, run in ids:
        place.runs[f"pages {task} {method}"] = run
        if task == "pose/relative" and method.startswith("sift"):
            place.runs["pose"] = run
    return {"values": {"json": values}, "words": {"json": words}}


def shown_runs(place: Place) -> dict[str, Any]:
    """Show one run of every task, as text and as JSON."""
    values: dict[str, Any] = {}
    words: dict[str, Any] = {}
    seen = set()
    for name, run in list(place.runs.items()):
        task = name.split()[1] if name.startswith("pages ") else None
        if task is None or task in seen:
            continue
        seen.add(task)
        for form in ((), ("--json",), ("--conventions", "--json")):
            done = outcome_parts(place, tiepoint(place, ["show", run, *form, "--store", STORE]))
            values[f"{task} {' '.join(form)}"] = done["values"]
            words[f"{task} {' '.join(form)}"] = done["words"]
    return {"values": {"show": values}, "words": {"show": words}}


def compared_tables(place: Place) -> dict[str, Any]:
    """Compare the runs of every task, as JSON and in every table format."""
    import tiepoint as tp

    values: dict[str, Any] = {}
    words: dict[str, Any] = {}
    folder = place.work / "compared"
    folder.mkdir(exist_ok=True)
    for task in tp.list_tasks():
        line = ["compare", "--task", task, "--store", STORE]
        done = outcome_parts(place, tiepoint(place, [*line, "--json"]))
        values[task], words[task] = done["values"], done["words"]
    for ending in ("md", "tex", "csv", "json", "parquet", "txt"):
        out = folder / f"table.{ending}"
        done = tiepoint(
            place, ["compare", "--task", "hpatches/matching", "--store", STORE, "--out", str(out)]
        )
        values[ending] = {"exit code": done.code, "written": out.is_file()}
        if ending in ("csv", "json", "parquet"):
            content = table_parts(out, place)
            values[ending] |= content["values"]
            words[ending] = content["words"]
        else:
            words[ending] = [place.words(x) for x in out.read_text().splitlines()]
    return {"values": {"compare": values}, "words": {"compare": words}}


def copy_store(place: Place) -> dict[str, Any]:
    """Copy the small store for commands that change it."""
    shutil.copytree(place.full(STORE), place.work / "stores" / "changed")
    return {}


def store_commands() -> Iterator[Cell]:
    """List, measure, check, query, rename, prune and delete."""
    part, same, other = "outputs", f"--store {STORE}", "--store WORK/stores/changed"
    for line in (
        "store ls",
        "store ls --task tss",
        "store ls --method sift",
        "store size",
        "store check",
        "list",
    ):
        yield command(part, f"{line} --json {same}", sizes=True)
    for line in (
        "list runs",
        "list methods",
        "list tasks",
        "list datasets",
        "list",
        "store check",
        "keypoints list",
    ):
        yield command(
            part,
            f"{line} {same}" if line.startswith(("list runs", "list datasets", "store", "key")) else line,
            sizes=True,
        )
    yield command(part, f"data check --store {STORE}")
    for line in (
        "DATA/evd",
        "DATA/wxbs",
        "DATA/scannet_sample --fast",
        "WORK/patches",
        "WORK/demo/sequences",
    ):
        yield command(part, f"data check {line}")
    yield command(part, "data get --list")
    yield command(part, "data get evd --dry-run")
    yield Cell(part, "sql | joins", sql_queries)
    yield Cell(part, "a copy of the small store", copy_store)
    yield Cell(part, "store commands that change a copy", changed_store)
    yield command(part, f"store check --json {other}", sizes=True)


def sql_queries(place: Place) -> dict[str, Any]:
    """Query tables and views through the command."""
    queries = (
        "select task, count(*) as runs from runs group by task order by task",
        "select name, spec, family, distance from methods order by name, id",
        "select protocol, metric, [group], value, n from scores where metric not like '%time%' "
        "order by run_id, position limit 500",
        "select * from tiepoint_schema",
        "select method, protocol, true_map_micro, precision_at_1, image_retrieval_map from results "
        "order by 1, 2",
    )
    values, words = {}, {}
    for query in queries:
        done = outcome_parts(place, checked(place, ["sql", query, "--json", "--store", STORE]))
        values[query], words[query] = done["values"], done["words"]
        text = checked(place, ["sql", query, "--store", STORE]).out
        words[f"{query} as text"] = [place.words(line) for line in text.splitlines()]
    return {"values": {"queries": values}, "words": {"queries": words}}


def changed_store(place: Place) -> dict[str, Any]:
    """Rename a method, prune features and delete a run in a copy of the store."""
    run = place.runs["pose"]
    lines = (
        "rename rootsift RootSIFT --dry-run --json",
        "rename rootsift RootSIFT --json",
        "rename orb RootSIFT",
        f"rm {run} --dry-run --json",
        f"rm {run} --json",
        f"rm {run} --yes --json",
        f"rm {run} --yes",
        "prune --larger-than-total 1kB --dry-run --json",
        "prune --older-than 0s --yes --json",
        "ls --json",
        "size --json",
    )
    values, words = {}, {}
    for line in lines:
        done = tiepoint(place, ["store", *line.split(), "--store", "WORK/stores/changed"])
        found = outcome_parts(place, done, sizes=True)
        values[line], words[line] = found["values"], found["words"]
    return {"values": {"store": values}, "words": {"store": words}}


def output_cells() -> Iterator[Cell]:
    """Fill the small store and describe all outputs of it."""
    part = "outputs"
    for line in PAGES:
        yield command(part, f"{line} --jobs 1 --json --store {STORE}")
    yield command(part, f"{PAGES[1]} --jobs 1 --json --dry-run --store {STORE}")
    yield Cell(part, "runs of the small store", choose_runs)
    yield Cell(part, "show | one run of every task", shown_runs)
    yield Cell(part, "compare | every task", compared_tables)
    for form in FORMATS:
        yield report(form)
    yield Cell(part, "plot | every kind", plots)
    pair = "scene0711_00_frame-001680--scene0711_00_frame-001995"
    for name, more in (("matches", ""), ("lines", "--lines 4 --max 50"), ("points", "--points 0,1,2")):
        out = f"WORK/flow/pair-{name}.png"
        yield drawn(f"pairs show | {name}", f"pairs show RUN {pair} {more} --store {STORE} --out {out}", out)
    yield from flow_cells()
    yield from store_commands()
