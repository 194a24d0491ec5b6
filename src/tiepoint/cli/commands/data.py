# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint data``: check, create, cut and pack datasets, and write task files."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from ...core.errors import InputError, UnknownNameError
from ...core.formatting import printable
from ..common import progress_bars, split_values, without_effect
from ..shell.flag_names import as_flags


def check_data_command(
    context: typer.Context,
    folder: Path = typer.Argument(None, metavar="[DATASET]", help="Dataset to check, of any known layout."),
    data: Path = typer.Option(None, "--data", help="The same as DATASET."),
    store: str = typer.Option(
        None, "--store", help="Store to verify; its database is rebuilt from the files."
    ),
    fast: bool = typer.Option(False, "--fast", help="Check only headers and names."),
    missing: bool = typer.Option(
        False, "--missing", help="List all files of the published dataset that are missing."
    ),
) -> int:
    """Identify a published dataset. List missing or wrong files and the supported tasks.

    With --store, verify a store instead, as `tiepoint store check` does.

    Example: `tiepoint data check hpatches-release`
    """
    if folder is not None and data is not None:
        raise InputError("two datasets given; pass either DATASET or --data")
    data = folder if data is None else data
    if data is None and store is None:
        raise InputError("nothing to check; pass DATASET or --store STORE")
    if data is None:
        without_effect(context, ("fast", "missing"), "on a store, which is always read completely")
    code = 0
    if data is not None:
        from ...datasets.validation.dataset import check_dataset
        from ...datasets.validation.releases import MAX_MISSING_LISTED

        with progress_bars() as progress:
            report = check_dataset(data, deep=not fast, progress=lambda d, t: progress("check", d, t))
        shown = 1 << 30 if missing else MAX_MISSING_LISTED
        print(as_flags(report.summary(shown=shown, protocols=_protocols)))
        _origin(data)
        code = 0 if report.ok else 2
    if store is not None:
        from .store import check_and_report

        code = max(code, check_and_report(store))
    return code


def _origin(data: Path) -> None:
    """Print the source and checksum of a dataset that `data get` has installed."""
    from ...datasets.download.install import read_record, record_path

    for entry in read_record(data).get("files") or ():
        if isinstance(entry, dict):
            place = str(entry.get("url") or "a local file")
            print(printable(f"installed from {place}, SHA-256 {entry.get('sha256')} ({record_path(data)})"))


def _protocols(task: str) -> list[str]:
    from ...tasks import TASKS

    entry = next((e for e in TASKS if e.name == task), None)
    return [] if entry is None else list(TASKS.load_entry(entry).protocols)


MADE = {"demo": (320, 240), "sfm": (640, 480)}
"""Kinds of rendered data, and their image sizes."""


def make(
    out: Path = typer.Argument(Path("tiepoint-demo"), help="Folder to write to."),
    kind: str = typer.Option("demo", "--kind", help="demo (pairs and sequences) or sfm (scenes)."),
    width: int = typer.Option(None, help="Image width in pixels; default 320, for sfm 640."),
    height: int = typer.Option(None, help="Image height in pixels; default 240, for sfm 480."),
    seed: int = typer.Option(0, help="Seed for cameras, light and noise."),
) -> None:
    """Render the demo set from photographs in scikit-image, without network.

    `--kind sfm` renders scenes for the task sfm/reconstruct, with exact camera poses.

    Example: `tiepoint data make tiepoint-demo`
    """
    from ...datasets.demo.dataset import make_demo
    from ...datasets.demo.rooms import make_rooms

    if kind not in MADE:
        raise UnknownNameError("kind of rendered data", kind, MADE)
    usual = MADE[kind]
    size = (width or usual[0], height or usual[1])
    if kind == "sfm":
        root = make_rooms(out, size=size, seed=seed)
        print(f"scenes with exact poses: {root}")
        print(f"next: tiepoint run colmap-sift --task sfm/reconstruct --data {shlex.quote(str(root))}")
        return
    demo = make_demo(out, size=size, seed=seed)
    print(f"image sequences: {demo.sequences}\ndense pairs: {demo.dense}\npairs with cameras: {demo.pose}")


def cut(
    data: Path = typer.Option(..., "--data", help="Folder of image sequences with homographies."),
    out: Path = typer.Option(..., "--out", help="Folder for the patch strips."),
    max_patches: int = typer.Option(2000, "--max-patches", help="Maximum number of patches per sequence."),
    side: int = typer.Option(65, "--side", help="Patch side in pixels."),
    magnification: float = typer.Option(
        5.0, "--magnification", help="Patch size as a multiple of the keypoint region."
    ),
    seed: int = typer.Option(0, "--seed", help="Random seed of the patch jitter."),
    jobs: int = typer.Option(
        0, "--jobs", min=0, help="Maximum number of sequences cut in parallel; 0 means one per core."
    ),
) -> None:
    """Cut patches from image sequences into the HPatches layout and print the measured overlaps.

    Example: `tiepoint data cut --data sequences --out patches`
    """
    from ...datasets.patch_cutting.dataset import cut_patches
    from ...datasets.patch_cutting.sequence import CutOptions
    from ...run.costs import cores

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


def pack(
    data: Path = typer.Argument(..., help="Folder of patch strips."),
    to: Path = typer.Option(
        None, "--to", help="Pack file to write (.tiepack); by default a file in the folder of strips."
    ),
) -> None:
    """Decode all patch strips into one memory-mapped file, so that runs read no PNG.

    Scores and cache keys stay the same. Runs use the pack automatically until a strip changes.

    Example: `tiepoint data pack hpatches-release`
    """
    from ...datasets.hpatches.pack import pack_dataset

    with progress_bars() as progress:
        packed = pack_dataset(data, to, progress=lambda d, t: progress("pack", d, t))
    print(as_flags(str(packed)))


SUITES = ("hpatches-v1", "hpatches")


def tasks(
    context: typer.Context,
    suite: str = typer.Option(..., "--suite", help="Benchmark: hpatches-v1 (2016) or hpatches (2017)."),
    data: Path = typer.Option(..., "--data", help="Folder of patch strips, or a JSON file of patch counts."),
    out: Path = typer.Option(..., "--out", help="Folder for the task files."),
    seed: int = typer.Option(0, "--seed", help="Seed of random sampling (hpatches-v1, clean lists)."),
    label_column: bool = typer.Option(
        False, "--label-column", help="hpatches-v1: write the label into .pairs files: patch_a,patch_b,label."
    ),
    lists: str = typer.Option("official", "--lists", help="hpatches: kind of pair lists, official or clean."),
    split: list[str] = typer.Option(
        None, "--split", help="hpatches: splits to write; by default all whose sequences the dataset has."
    ),
    given: Path = typer.Option(None, "--tasks", help="hpatches: folder with splits.json or retrieval files."),
) -> None:
    """Write the task files of a suite for a dataset.

    Example: `tiepoint data tasks --suite hpatches-v1 --data patches --out patches/benchmarks`
    """
    if suite not in SUITES:
        raise UnknownNameError("suite", suite, SUITES)
    if suite == "hpatches-v1":
        without_effect(context, ("lists", "split", "given"), "on the suite hpatches-v1")
        print(as_flags(write_v1(data, out, seed=seed, label_column=label_column)))
        return
    without_effect(context, ("label_column",), "on the suite hpatches")
    if lists != "clean":
        without_effect(context, ("seed",), "on the official lists, which have a fixed seed")
    print(as_flags(write_v2(data, out, lists=lists, names=split_values(split), given=given, seed=seed)))


def write_v1(data: Path, out: Path, *, seed: int, label_column: bool) -> str:
    """Sample and write the 2016 task files. Return a summary."""
    from ...datasets.hpatches.dataset import HPatchesDataset
    from ...datasets.hpatches.task_files_2016 import write_v1_tasks

    report = write_v1_tasks(HPatchesDataset(data), out, seed=seed, label_column=label_column)
    lines = [f"{rows:>9,}  {out / name}" for name, rows in report.rows.items()]
    return "\n".join([*lines, *(f"note: {n}" for n in report.notes)])


def _given_files(folder: Path | None) -> tuple[Path | None, Path | None]:
    """Return the path of splits.json in a folder, and the folder itself if it contains retrieval lists."""
    from ...formats.hpatches.task_lists import splits_file

    if folder is None:
        return None, None
    if not folder.is_dir():
        raise InputError(f"the folder of task files {folder} does not exist; see --tasks")
    splits, has_lists = splits_file(folder), any(folder.glob("retr_*_split-*.csv"))
    if splits is None and not has_lists:
        raise InputError(
            f"{folder} has neither a splits.json nor a retr_*_split-*.csv; omit --tasks or change it"
        )
    return splits, folder if has_lists else None


def write_v2(
    data: Path, out: Path, *, lists: str, names: Sequence[str], given: Path | None, seed: int
) -> str:
    """Write the 2017 task files. Return a summary that marks files equal to the published files."""
    from ...datasets.hpatches.dataset import HPatchesDataset
    from ...datasets.hpatches.task_files_2017 import write_v2_tasks

    splits, retrieval = _given_files(given)
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
