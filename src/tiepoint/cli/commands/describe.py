# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint describe``: write descriptors in the HPatches CSV layout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from ...core.errors import InputError
from ...core.formatting import count_text
from ..common import notice, progress_bars


def describe(
    method: str = typer.Argument(..., metavar="METHOD", help="A patch method."),
    data: Path = typer.Option(..., "--data", help="Folder of patch strips."),
    out: Path = typer.Option(..., "--out", help="Folder for SEQ/IM.csv."),
    on_bad: str = typer.Option(
        "error", "--on-bad", help="Invalid descriptors: error, miss (written as NaN) or keep-zeros."
    ),
    device: str = typer.Option("cpu", "--device", help="Device of learned methods."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace files that exist."),
) -> None:
    """Describe every patch of a dataset and write SEQ/IM.csv, one descriptor per line.

    Example: `tiepoint describe rootsift --data hpatches-release --out descriptors/rootsift`
    """
    from ...datasets.hpatches.dataset import HPatchesDataset
    from ...methods.patches.files import describe_to_csv
    from ...methods.resolve import resolve

    dataset = HPatchesDataset(data)
    resolved = resolve(method, family="patches", on_bad=on_bad, device=device)
    keys = [(s, i) for s in dataset.sequences for i in dataset.images(s)]
    existing = [path for s, i in keys if (path := out / s / f"{i}.csv").exists()]
    if existing and not overwrite:
        more = f" and {count_text(len(existing) - 1, 'more file')}" if len(existing) > 1 else ""
        raise InputError(
            f"cannot replace {existing[0]}{more}; choose another folder, or pass --overwrite to replace files"
        )
    if resolved.check is not None:
        resolved.check([dataset.item(s, i) for s, i in keys])
    failed, total = 0, 0

    def counted(item: Any, payload: Any) -> Any:
        nonlocal failed, total
        arrays = resolved.extract(item, payload)
        total += len(arrays["values"])
        failed += int((~arrays["valid"]).sum()) if "valid" in arrays else 0
        return arrays

    with progress_bars() as progress:

        def items() -> Iterator[tuple[Any, Any]]:
            for n, (sequence, image) in enumerate(keys):
                progress(f"{resolved.name}: descriptors", n, len(keys))
                yield dataset.item(sequence, image), dataset.patches(sequence, image)

        written = describe_to_csv(replace(resolved, extract=counted), items(), out, overwrite=overwrite)
    if failed:
        notice(f"{failed} of {count_text(total, 'descriptor')} failed; their rows are written as NaN")
    print(f"wrote {count_text(len(written), 'file')} to {out}")
