# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint describe``: descriptors in the HPatches CSV layout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from .common import progress_bars


def describe(
    method: str = typer.Argument(..., metavar="METHOD", help="A patch method."),
    data: Path = typer.Option(..., "--data", help="Folder of patch strips."),
    out: Path = typer.Option(..., "--out", help="Folder for SEQ/IM.csv."),
    on_bad: str = typer.Option(
        "error", "--on-bad", help="NaN, inf or zero descriptors: error, miss (NaN rows), keep-zeros."
    ),
    device: str = typer.Option("cpu", "--device", help="Device of learned methods."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace files that exist."),
) -> None:
    """Describe every patch of a dataset and write SEQ/IM.csv, one descriptor a line.

    Example: `tiepoint describe rootsift --data hpatches-release --out descriptors/rootsift`
    """
    from ..datasets.hpatches import HPatchesDataset
    from ..methods.resolve import resolve
    from ..methods.write import write_descriptors

    dataset = HPatchesDataset(data)
    made = resolve(method, family="patches", on_bad=on_bad, device=device)
    keys = [(s, i) for s in dataset.sequences for i in dataset.images(s)]
    with progress_bars() as progress:

        def items() -> Iterator[tuple[Any, Any]]:
            for n, (sequence, image) in enumerate(keys):
                progress(f"{made.name}: descriptors", n, len(keys))
                yield dataset.item(sequence, image), dataset.patches(sequence, image)

        written = write_descriptors(made, items(), out, overwrite=overwrite)
    print(f"wrote {len(written)} files to {out}")
