# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint data make|cut|pack``: datasets that are made here."""

from __future__ import annotations

from pathlib import Path

import typer

from ..common import progress_bars
from ..shell.flag_names import as_flags


def make(
    out: Path = typer.Argument(Path("tiepoint-demo"), help="Folder to write to."),
    width: int = typer.Option(320, help="Image width in pixels."),
    height: int = typer.Option(240, help="Image height in pixels."),
    seed: int = typer.Option(0, help="Seed for cameras, light and noise."),
) -> None:
    """Make the demo set from photographs inside scikit-image: no data and no network needed.

    Example: `tiepoint data make tiepoint-demo`
    """
    from ...datasets.demo.dataset import make_demo

    made = make_demo(out, size=(width, height), seed=seed)
    print(f"image sequences: {made.sequences}\ndense pairs: {made.dense}\npairs with cameras: {made.pose}")


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
    from ...datasets.patch_cutting.dataset import cut_patches
    from ...datasets.patch_cutting.sequence import CutOptions
    from ...run.machine import cores

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
        None, "--to", help="File to write (.tiepack), then given as --data; default: into the folder."
    ),
) -> None:
    """Decode all patch strips once into one file that is mapped: runs on the dataset then read no PNG.

    Scores and feature keys are the same. The pack is used by itself until a strip changes.

    Example: `tiepoint data pack hpatches-release`
    """
    from ...datasets.hpatches.pack import pack_dataset

    with progress_bars() as progress:
        made = pack_dataset(data, to, progress=lambda d, t: progress("pack", d, t))
    print(as_flags(str(made)))
