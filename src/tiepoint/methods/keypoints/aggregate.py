# SPDX-License-Identifier: BSD-3-Clause
"""Joining several descriptors of the same keypoints into one row: what pooling and fusion share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...model.errors import InputError
from ..user_code import load_from_file

Array = NDArray[Any]
Mask = NDArray[np.bool_]
AGGREGATIONS = ("average", "max", "min", "concatenate", "weighted")


def numbers(given: Any, what: str) -> list[float]:
    """Numbers from ``1,1.5,2``, a list or one number.

    >>> numbers("1,1.5", "scales")
    [1.0, 1.5]
    """
    parts = given.split(",") if isinstance(given, str) else given
    parts = parts if isinstance(parts, list | tuple | np.ndarray) else [parts]
    try:
        found = [float(p) for p in parts]
    except (TypeError, ValueError) as e:
        raise InputError(f"{what} are numbers separated by commas, found {given!r}") from e
    if not found or not np.isfinite(found).all():
        raise InputError(f"{what} are finite numbers, at least one, found {given!r}")
    return found


def plugged(aggregation: str) -> Any:
    """The user's object of ``my.py:Class``, None for a name of ours."""
    file, _, name = aggregation.rpartition(":")
    if not file.endswith(".py"):
        return None
    made = load_from_file(file, name)()
    if not hasattr(made, "pool"):
        raise InputError(f"{aggregation} has no pool(stack, scales); a pooling needs it")
    return made


def aggregated(
    stack: Array,
    mask: Mask,
    how: str,
    *,
    weights: NDArray[np.float64] | None = None,
    pool: Any = None,
    labels: Any = None,
) -> tuple[Array, Mask]:
    """Join (s, n, d) into one row for each of n keypoints; returns the rows and which are valid.

    `mask` is (s, n): what did not fail. average, max, min and weighted (weights (s,), made to sum to 1 over
    what is left) go over what did not fail; concatenate and a user's `pool.pool(stack, labels)` need all.

    >>> stack, mask = np.array([[[1.0]], [[3.0]]]), np.array([[True], [False]])
    >>> aggregated(stack, mask, "average")[0].tolist()
    [[1.0]]
    """
    whole, some = np.asarray(mask.all(axis=0)), np.asarray(mask.any(axis=0))
    if pool is not None:
        made = np.asarray(pool.pool(stack[:, whole], labels))
        if made.ndim != 2 or len(made) != int(whole.sum()):
            raise InputError(f"pool(stack, scales) returns {int(whole.sum())} rows, found {made.shape}")
        out = np.zeros((len(whole), made.shape[1]), np.float32)
        out[whole] = made
        return out, whole
    if how == "concatenate":
        parts = stack if weights is None else stack * weights[:, None, None]
        joined = np.concatenate(list(parts), axis=1).astype(np.float32)
        return np.where(whole[:, None], joined, np.float32(0)), whole
    if how in ("max", "min"):
        fill, take = (-np.inf, np.max) if how == "max" else (np.inf, np.min)
        best = take(np.where(mask[:, :, None], stack, np.float32(fill)), axis=0)
        return np.where(some[:, None], best, np.float32(0)).astype(np.float32), some
    share = np.ones(len(stack)) if weights is None else np.asarray(weights, float)
    shares = share[:, None] * mask
    total = shares.sum(axis=0)
    mean = np.einsum("sn,snd->nd", shares, stack.astype(np.float64))
    mean = np.divide(mean, total[:, None], out=np.zeros_like(mean), where=total[:, None] > 0)
    return mean.astype(np.float32), total > 0
