# SPDX-License-Identifier: BSD-3-Clause
"""A method followed by a transform is a method again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..model.errors import InputError
from ..model.hashing import hash_json
from ..model.units import Arrays, Item
from . import transforms as plain
from .base import Method
from .checks import check_descriptors
from .sources import source_hash
from .spec import Stage

REAL_VALUED = ("l2", "l1", "cosine")


def transformed(
    method: Method, stage: Stage, *, on_bad: str = "error", fit: Callable[..., Any] | None = None
) -> Method:
    """`method` followed by the transform of `stage`, e.g. ``sift`` then ``rootsift``.

    Transforms work on real-valued descriptors; bits have no square root, so `hamming` is refused. Rows
    that failed stay failed.
    """
    if method.distance not in REAL_VALUED:
        raise InputError(
            f"+{stage.name} works on real-valued descriptors, and {method.name!r} is compared by "
            f"{method.distance}; leave the transform out"
        )
    apply = plain.TRANSFORMS[stage.name].apply
    if apply is None:
        raise InputError(f"+{stage.name} is fitted on training descriptors, which this command does not give")
    config = {
        "base": dict(method.config),
        "transform": str(stage),
        "source": source_hash(Path(plain.__file__)),
    }

    def extract(item: Item, payload: Any) -> Arrays:
        arrays = method.extract(item, payload)
        values, valid = arrays["values"], arrays.get("valid")
        out = apply(values)
        return check_descriptors(
            (out, valid if valid is not None else np.ones(len(out), bool)),
            rows=len(values),
            distance=method.distance,
            where=f"{method.name}+{stage.name} on {item.key}",
            on_bad=on_bad,
        )

    def key(item: Item) -> str | None:
        before = method.key(item)
        return None if before is None else hash_json([before, config["transform"], config["source"]])

    spec = None if method.spec is None else f"{method.spec}+{stage}"
    return replace(method, name=f"{method.name}+{stage}", config=config, extract=extract, key=key, spec=spec)
