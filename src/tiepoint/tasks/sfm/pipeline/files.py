# SPDX-License-Identifier: BSD-3-Clause
"""Write cached databases and models as files that COLMAP's own programs can open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ....core.errors import InputError
from ....core.formatting import path_below
from ....core.records import Records
from .mapping import DATABASE, MODEL, cached_stage, write_files


def write_models(records: Sequence[Records], folder: Path) -> list[Path]:
    """Write the database and the models of each scene and seed. Seeds that failed have no files.

    Raises:
        InputError: A database or model is no longer cached, or no seed has a model.
    """
    written: list[Path] = []
    for record in records:
        meta = record.meta
        if meta["failure"]:
            continue
        scene, seed = str(meta["scene"]), int(meta["seed"])
        target = path_below(folder, scene, f"seed{seed}", what="the export: the scene")
        stages = [cached_stage(name, meta["keys"][name]) for name in (DATABASE, MODEL)]
        if None in stages:
            raise InputError(
                f"{scene}, seed {seed}: the database or the model is not in the store; remove the run, then "
                "run the method again"
            )
        for stage in stages:
            assert stage is not None
            written += write_files(stage, target)
        models = target / "models"
        if models.is_dir():
            models.rename(target / "sparse")
    if not written:
        raise InputError(
            "no seed of this run has a model, so nothing can be exported; check the run's warnings"
        )
    return written
