# SPDX-License-Identifier: BSD-3-Clause
"""Transforms written after a method's name: ``sift+rootsift``, ``tfeat+l2``. Pure functions on arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def l2_normalise(values: Array) -> NDArray[np.float32]:
    """Each row over its Euclidean length; a zero row stays zero.

    >>> l2_normalise(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    return _divided(values, lambda v: np.sqrt(np.square(v).sum(axis=1)))


def rootsift(values: Array) -> NDArray[np.float32]:
    """Hellinger mapping: each row over the sum of its magnitudes, then the signed square root.

    For non-negative descriptors the l2 distance between the results is the Hellinger distance, and rows
    have length 1. Signs are kept, so it is defined for every real-valued descriptor.

    >>> rootsift(np.array([[1, 4, 4, 0]], np.uint8)).round(3).tolist()
    [[0.3330000042915344, 0.6669999957084656, 0.6669999957084656, 0.0]]
    """
    return _signed_root(_divided(values, lambda v: np.abs(v).sum(axis=1), np.float64))


def power(values: Array) -> NDArray[np.float32]:
    """Power law: signed square root, then l2 normalisation.

    Equal to `rootsift` up to rounding, because both end at length 1: use either, not both.

    >>> power(np.array([[-9.0, 16.0]])).round(2).tolist()
    [[-0.6000000238418579, 0.800000011920929]]
    """
    return l2_normalise(_signed_root(np.asarray(values, np.float64), np.float64))


def _divided(values: Array, size: Callable[[Array], Array], dtype: Any = np.float32) -> Array:
    exact = np.asarray(values, np.float64)
    scale = size(exact)[:, None]
    return np.divide(exact, scale, out=np.zeros_like(exact), where=scale > 0).astype(dtype)


def _signed_root(values: Array, dtype: Any = np.float32) -> Array:
    return (np.sign(values) * np.sqrt(np.abs(values))).astype(dtype)


@dataclass(frozen=True)
class Transform:
    """A transform by name: `apply` for the plain ones, None for those fitted on training descriptors.

    `revision` is raised when its output changes, so that features are made anew.
    """

    name: str
    summary: str
    apply: Callable[[Array], Array] | None
    revision: int = 1


TRANSFORMS: Mapping[str, Transform] = {
    t.name: t
    for t in (
        Transform("rootsift", "l1 normalisation, then signed square root", rootsift),
        Transform("l2", "l2 normalisation", l2_normalise),
        Transform("power", "signed square root, then l2 normalisation", power),
        Transform("pca", "fitted: rotation to the strongest directions", None),
        Transform("zca", "fitted: whitening with raised small eigenvalues", None),
        Transform("hpatches-python", "fitted: the --pcapl of the Python reference", None),
        Transform("hpatches-matlab", "fitted: the ZCA power law of the MATLAB reference", None),
    )
}
