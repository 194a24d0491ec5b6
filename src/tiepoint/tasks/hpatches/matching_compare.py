# SPDX-License-Identifier: BSD-3-Clause
"""First neighbours of the 2017 matching task, one sequence at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...kernels import Team, first_two, one_blas_thread, pair_distances
from ...model.records import Records
from ...model.units import Features
from .opened import Setting, base_meta, compact, rows_of, smallest

NAME = "hpatches/matching"


def is_subset(setting: Setting) -> bool:
    """Whether the dataset has sequences that the split leaves out."""
    return len(setting.data.sequences) > len(setting.split.test)


def compare(setting: Setting, sequence: str, features: Features) -> Records:
    """Neighbours of every reference patch in every other image of a sequence.

    Rows are image after image (`meta["images"]`), patch after patch. Columns: `d1`, `d2` first and second
    distance (reference, squared for l2, infinite where there is none); `index` the lowest index at `d1`;
    `ties` how many targets lie at it; `right` whether the right one is among them; where any descriptor
    failed also `failed_ref`, `failed_target` (of the patch itself; its index then means nothing).
    """
    reference, good = rows_of(features, f"{sequence}/ref")
    n, images = len(reference), setting.images
    whole = (len(images), n)
    columns: dict[str, NDArray[Any]] = {
        "d1": np.full(whole, np.inf),
        "d2": np.full(whole, np.inf),
        "index": np.zeros(whole, np.int64),
        "ties": np.ones(whole, np.int64),
        "right": np.zeros(whole, bool),
        "failed_ref": np.broadcast_to(~good, whole),
        "failed_target": np.zeros(whole, bool),
    }
    squared = features.distance == "l2"

    def one(i: int, _: int) -> None:
        target, usable = rows_of(features, f"{sequence}/{images[i]}")
        columns["failed_target"][i] = ~usable
        queries, rows = np.flatnonzero(good), np.flatnonzero(usable)
        if not len(queries) or not len(rows):
            return
        a = reference if good.all() else reference[queries]
        b = target if usable.all() else target[rows]
        near = first_two(a, b, distance=features.distance, squared=squared)
        for name in ("d1", "d2", "ties"):
            columns[name][i, queries] = getattr(near, name)
        columns["index"][i, queries] = rows[near.index]
        both = np.flatnonzero(good & usable)
        truth = pair_distances(reference, target, both, both, distance=features.distance, squared=squared)
        columns["right"][i, both] = truth == columns["d1"][i, both]

    # Image by image on threads of their own: a kernel alone cannot keep several busy with so little.
    with Team() as team, one_blas_thread():
        team.each([(i, i + 1) for i in range(len(images))], one)
    for name in ("index", "ties"):
        columns[name] = smallest(columns[name])
    for name in ("d1", "d2"):
        columns[name] = compact(columns[name])
    if not (columns["failed_ref"].any() or columns["failed_target"].any()):
        del columns["failed_ref"], columns["failed_target"]
    meta = base_meta(NAME, [sequence], features)
    meta |= {"images": list(images), "patches": n, "in_split": sequence in setting.split.test}
    meta |= {"noises": list(setting.noises), "is_subset": is_subset(setting)}
    return Records("rank", {k: np.ascontiguousarray(v).reshape(-1) for k, v in columns.items()}, meta)
