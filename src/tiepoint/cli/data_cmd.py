# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint data``: make, cut, draw task files, pack, check."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from ..model.errors import InputError, UnknownNameError
from .common import progress_bars, values, without_effect, writing
from .words import as_flags

app = typer.Typer(help="Datasets: make, cut, task files, pack, check.", no_args_is_help=True)

SUITES = ("hpatches-v1", "hpatches")


@app.command("make")
def make(
    out: Path = typer.Argument(Path("tiepoint-demo"), help="Folder to write to."),
    width: int = typer.Option(320, help="Image width in pixels."),
    height: int = typer.Option(240, help="Image height in pixels."),
    seed: int = typer.Option(0, help="Seed for cameras, light and noise."),
) -> None:
    """Make the demo set from photographs inside scikit-image: no data and no network needed.

    Example: `tiepoint data make tiepoint-demo`
    """
    from ..datasets.demo.make import make_demo

    made = make_demo(out, size=(width, height), seed=seed)
    print(f"image sequences: {made.sequences}\ndense pairs: {made.dense}\npairs with cameras: {made.pose}")


@app.command("cut")
def cut(
    data: Path = typer.Option(..., "--data", help="Folder of image sequences with homographies."),
    out: Path = typer.Option(..., "--out", help="Folder for the patch strips."),
    max_patches: int = typer.Option(2000, "--max-patches", help="At most this many patches per sequence."),
    side: int = typer.Option(65, "--side", help="Patch side in pixels."),
    magnification: float = typer.Option(
        5.0, "--magnification", help="Patch size as a multiple of the region."
    ),
    seed: int = typer.Option(0, "--seed", help="Seed of the jitter."),
    jobs: int = typer.Option(
        0, "--jobs", min=0, help="At most this many sequences at the same time; 0 means one per core."
    ),
) -> None:
    """Cut patches from image sequences into the HPatches layout; prints the measured overlaps.

    Example: `tiepoint data cut --data sequences --out patches`
    """
    from ..datasets.cut.make import cut_patches
    from ..datasets.cut.sequence import CutOptions
    from ..run.machine import cores

    options = CutOptions(side=side, magnification=magnification, max_patches=max_patches, seed=seed)
    with progress_bars() as progress:
        result = cut_patches(
            data,
            out,
            options=options,
            jobs=jobs or cores(),
            progress=lambda done, total: progress("patches", done, total),
        )
    print(as_flags(str(result)))
    if result.sheets:
        print(f"contact sheets: {next(iter(result.sheets.values())).parent}")


@app.command("tasks")
def tasks(
    context: typer.Context,
    suite: str = typer.Option(..., "--suite", help="hpatches-v1 (2016) or hpatches (2017)."),
    data: Path = typer.Option(..., "--data", help="Folder of patch strips, or a JSON file of lengths."),
    out: Path = typer.Option(..., "--out", help="Folder for the task files."),
    seed: int = typer.Option(0, "--seed", help="Seed for the draws of hpatches-v1 and of clean lists."),
    lists: str = typer.Option("official", "--lists", help="hpatches: official or clean."),
    split: list[str] = typer.Option(None, "--split", help="hpatches: splits to write; default all that fit."),
    given: Path = typer.Option(None, "--tasks", help="hpatches: folder with splits.json or retrieval files."),
) -> None:
    """Write the task files of a suite for a dataset.

    Example: `tiepoint data tasks --suite hpatches-v1 --data patches --out patches/benchmarks`
    """
    if suite not in SUITES:
        raise UnknownNameError("suite", suite, SUITES)
    if suite == "hpatches-v1":
        without_effect(context, ("lists", "split", "given"), "on the suite hpatches-v1")
        print(as_flags(write_v1(data, out, seed=seed)))
        return
    if lists != "clean":
        without_effect(context, ("seed",), "on the official lists, whose recipe has its own")
    print(as_flags(write_v2(data, out, lists=lists, names=values(split), given=given, seed=seed)))


@app.command("pack")
def pack(
    data: Path = typer.Argument(..., help="Folder of patch strips."),
    to: Path = typer.Option(
        None, "--to", help="File to write (.tiepack), then given as --data; default: into the folder."
    ),
) -> None:
    """Decode all patch strips once into one file that is mapped: runs on the dataset then read no PNG.

    Scores and feature keys are the same. The pack is used by itself until a strip changes.

    Example: `tiepoint data pack hpatches-release`
    """
    from ..datasets.hpatches.pack import pack_dataset

    with progress_bars() as progress:
        made = pack_dataset(data, to, progress=lambda d, t: progress("pack", d, t))
    print(as_flags(str(made)))


@app.command("check")
def check(
    context: typer.Context,
    data: Path = typer.Option(None, "--data", help="Dataset to check, of any known layout."),
    store: str = typer.Option(
        None, "--store", help="Store to verify; its database is rebuilt from the files."
    ),
    fast: bool = typer.Option(False, "--fast", help="Check only headers and names."),
) -> int:
    """Validate a dataset and say in words what is wrong, or verify a store.

    Example: `tiepoint data check --data hpatches-release`
    """
    if data is None and store is None:
        raise InputError("check needs --data DIR or --store STORE")
    if data is None:
        without_effect(context, ("fast",), "on a store, whose files are all read")
    code = 0
    if data is not None:
        from ..datasets.check import check_dataset

        with progress_bars() as progress:
            report = check_dataset(data, deep=not fast, progress=lambda d, t: progress("check", d, t))
        print(as_flags(str(report)))
        code = 0 if report.ok else 2
    if store is not None:
        from ..store.check import check_store

        with writing(store, create=False) as opened:
            problems, count = check_store(opened)
        print(f"{count} runs in the store, database rebuilt from their files")
        for problem in problems:
            print(f"  - {as_flags(problem)}")
        code = max(code, 2 if problems else 0)
    return code


def write_v1(data: Path, out: Path, *, seed: int) -> str:
    """Draw the 2016 task files; returns what was written, in words."""
    from ..datasets.hpatches.strips import HPatchesDataset
    from ..datasets.hpatches.task_files_2016 import write_v1_tasks

    report = write_v1_tasks(HPatchesDataset(data), out, seed=seed)
    lines = [f"{rows:>9,}  {out / name}" for name, rows in report.rows.items()]
    return "\n".join([*lines, *(f"note: {n}" for n in report.notes)])


def _found(folder: Path | None) -> tuple[Path | None, Path | None]:
    """The splits.json of a folder, and the folder itself if it has retrieval files."""
    from ..formats.hpatches.splits import splits_file

    if folder is None:
        return None, None
    if not folder.is_dir():
        raise InputError(f"the folder of task files {folder} does not exist; see --tasks")
    splits, has_lists = splits_file(folder), any(folder.glob("retr_*_split-*.csv"))
    if splits is None and not has_lists:
        raise InputError(
            f"{folder} has neither a splits.json nor a retr_*_split-*.csv; leave --tasks out or name another"
        )
    return splits, folder if has_lists else None


def write_v2(
    data: Path, out: Path, *, lists: str, names: Sequence[str], given: Path | None, seed: int
) -> str:
    """Write the 2017 task files; returns what was written and whether it is what was published."""
    from ..datasets.hpatches.strips import HPatchesDataset
    from ..datasets.hpatches.task_files_2017 import write_v2_tasks

    splits, retrieval = _found(given)
    report = write_v2_tasks(
        HPatchesDataset(data),
        out,
        splits=splits,
        names=list(names) or None,
        lists=lists,
        retrieval=retrieval,
        seed=seed,
        progress=(lambda words: print(words, file=sys.stderr)) if sys.stderr.isatty() else None,
    )
    lines = []
    for name, facts in report.files.items():
        same = "  equals the published file" if facts.get("published") else ""
        lines.append(f"{facts['rows']:>9,}  {out / name}{same}")
    if lists == "official":
        for split, by_kind in report.facts.items():
            shown = ", ".join(f"{k.replace('_', ' ')} {v:,}" for k, v in by_kind["official"].items())
            lines.append(f"split {split}: {shown}")
    return "\n".join([*lines, *(f"note: {n}" for n in report.notes)])
