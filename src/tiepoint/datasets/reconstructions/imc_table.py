# SPDX-License-Identifier: BSD-3-Clause
"""Pose tables of the Image Matching Challenges 2023, 2024 and 2025: CSV files with one image per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...core.errors import FormatError
from ...formats.csv_table import csv_rows, named_columns
from ...formats.file_io import read_lines
from .poses import PoseBuilder, Poses

OUTLIERS = "outliers"
"""Cluster name of images that belong to no scene."""
_BY_POSITION = ("image_path", "dataset", "scene", "rotation_matrix", "translation_vector")
_IMAGE_COLUMNS = ("image", "image_path", "image_name")


@dataclass(frozen=True)
class TableScene:
    """One scene of a table: its images in clusters, and the images of the cluster `outliers`.

    In tables up to 2024 a scene has one cluster. In 2025, a dataset counts as the scene, and the table's
    scenes are its clusters.
    """

    kind: str
    clusters: Mapping[str, Poses]
    outliers: tuple[str, ...] = ()


def read_imc_table(path: Path) -> dict[str, TableScene]:
    """Read the scenes of a table. In the layout of 2025 (column `image`), each dataset is a scene.

    Tables up to 2024 have columns `dataset`, `scene` and `image_path` or `image_name`. If a table has no
    header, the fields are image_path, dataset, scene, rotation, translation, in this order.

    Raises:
        FormatError: A row does not have these fields, or an image occurs twice.
    """
    lines = read_lines(path)
    rows = list(csv_rows(lines, path))
    header = named_columns(rows[0], path) if rows else []
    image = next((name for name in _IMAGE_COLUMNS if name in header), None)
    by_name = image is not None and {*_BY_POSITION[1:]} <= set(header)
    if by_name:
        assert image is not None
        wanted = [header.index(name) for name in (image, *_BY_POSITION[1:])]
    else:
        wanted = list(range(len(_BY_POSITION)))
        if not rows or len(header) != len(_BY_POSITION):
            raise FormatError(
                path,
                f"not a table of poses: the first row has {len(header)} fields; expected the columns "
                "dataset, scene, image, rotation_matrix, translation_vector",
                line=1,
            )
    grouped = by_name and image == "image"
    builders: dict[tuple[str, str], PoseBuilder] = {}
    outliers: dict[str, list[str]] = {}
    kinds: dict[str, str] = {}
    place: dict[tuple[str, str], int] = {}
    shared = PoseBuilder(path)
    skip = by_name or not _is_pose(rows[0][3])
    for number, row in enumerate(rows[1:] if skip else rows, start=2 if skip else 1):
        if len(row) != len(header):
            shared.errors.errors.append(
                FormatError(path, f"has {len(row)} fields, expected {len(header)}", line=number)
            )
            continue
        name, dataset, scene, rotation, translation = (row[i].strip() for i in wanted)
        key = dataset if grouped else f"{dataset}/{scene}"
        kinds[key] = dataset
        if place.setdefault((key, name), number) != number:
            first = place[key, name]
            shared.errors.errors.append(
                FormatError(path, f"duplicate image {name} (first in line {first})", line=number)
            )
            continue
        if grouped and scene == OUTLIERS:
            outliers.setdefault(key, []).append(name)
            continue
        builder = builders.setdefault((key, scene), PoseBuilder(path, shared.errors))
        R, t = _numbers(rotation), _numbers(translation)
        if len(R) != 9 or len(t) != 3:
            shared.errors.errors.append(
                FormatError(path, "expected 9 and 3 numbers separated by semicolons", line=number)
            )
        elif np.isnan([*R, *t]).all():
            builder.add_missing(name, line=number)
        else:
            builder.add_matrix(name, R, t, line=number)
    shared.build()
    built: dict[str, dict[str, Poses]] = {key: {} for key in kinds}
    for (key, scene), builder in builders.items():
        built[key][scene] = builder.build()
    return {
        key: TableScene(kinds[key], clusters, tuple(outliers.get(key, ()))) for key, clusters in built.items()
    }


def _numbers(text: str) -> Sequence[float]:
    try:
        return [float(part) for part in text.split(";") if "_" not in part]
    except ValueError:
        return []


def _is_pose(text: str) -> bool:
    return len(_numbers(text)) == 9
