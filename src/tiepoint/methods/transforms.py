# SPDX-License-Identifier: BSD-3-Clause
"""Descriptor transforms written after a method's name: ``sift+rootsift``, ``tfeat+l2``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.hashing import hash_array, hash_json
from ..core.regular_files import regular_file_size

Array = NDArray[Any]


def l2_normalise(values: Array) -> NDArray[np.float32]:
    """Divide each row by its Euclidean length. A zero row stays zero.

    >>> l2_normalise(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    return _divided(values, lambda v: np.sqrt(np.square(v).sum(axis=1)))


def rootsift(values: Array) -> NDArray[np.float32]:
    """Apply the Hellinger mapping: divide each row by its l1 norm, then take the signed square root.

    For non-negative descriptors the l2 distance between the results is the Hellinger distance, and rows have
    length 1. Signs are preserved, so the mapping is defined for every real-valued descriptor.

    >>> rootsift(np.array([[1, 4, 4, 0]], np.uint8)).round(3).tolist()
    [[0.3330000042915344, 0.6669999957084656, 0.6669999957084656, 0.0]]
    """
    return _signed_root(_divided(values, lambda v: np.abs(v).sum(axis=1), np.float64))


def power(values: Array) -> NDArray[np.float32]:
    """Apply the power law: signed square root, then l2 normalisation.

    The result equals `rootsift` up to rounding, because both return rows of length 1.

    >>> power(np.array([[-9.0, 16.0]])).round(2).tolist()
    [[-0.6000000238418579, 0.800000011920929]]
    """
    return l2_normalise(_signed_root(np.asarray(values, np.float64), np.float64))


def half_precision(values: Array) -> NDArray[np.float32]:
    """Round descriptors to float16, as if they were stored in that type, and return them as float32.

    Values beyond 65504 become infinite, which the check of descriptors reports.

    >>> half_precision(np.array([[0.1, 2049.0]])).tolist()
    [[0.0999755859375, 2048.0]]
    """
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(np.float16).astype(np.float32)


def _divided(values: Array, size: Callable[[Array], Array], dtype: Any = np.float32) -> Array:
    exact = np.asarray(values, np.float64)
    scale = size(exact)[:, None]
    return np.divide(exact, scale, out=np.zeros_like(exact), where=scale > 0).astype(dtype)


def _signed_root(values: Array, dtype: Any = np.float32) -> Array:
    return (np.sign(values) * np.sqrt(np.abs(values))).astype(dtype)


@dataclass(frozen=True)
class Transform:
    """A registered transform. `apply` is its function, or None if the transform needs training descriptors.

    `revision` is incremented when its output changes, which invalidates cached features.
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
        Transform("fp16", "rounded to float16 (storage=fp16)", half_precision),
        Transform("pca", "fitted: rotation to the strongest directions", None),
        Transform("zca", "fitted: whitening with raised small eigenvalues", None),
        Transform("hpatches-python", "fitted: the --pcapl of the Python reference", None),
        Transform("hpatches-matlab", "fitted: the ZCA power law of the MATLAB reference", None),
    )
}


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FittedTransform:
    """A fitted transform: (x - mean) matrix, optionally followed by the signed power |x|^exponent and l2.

    If `mean` is None, the mean of each image's descriptors is subtracted. If `exponent` is None, the power
    and the l2 normalisation are skipped. With `single`, the centred values and the matrix are first rounded
    to float32, as in the older tools.
    """

    name: str
    mean: Floats | None
    matrix: Floats
    exponent: float | None = None
    single: bool = False
    keep_double: bool = False

    @property
    def hash(self) -> str:
        """Hash of the fitted numbers."""
        mean = None if self.mean is None else hash_array(self.mean)
        flags = [self.exponent, self.single, self.keep_double]
        return hash_json([self.name, mean, hash_array(self.matrix), flags])

    def apply(self, values: Array) -> Array:
        """Transform descriptors (n, d) of one image to (n, k). Undefined rows become zero."""
        if values.shape[1] != len(self.matrix):
            raise InputError(
                f"+{self.name} was fitted on {len(self.matrix)} dimensions, but the descriptors have "
                f"{values.shape[1]}; fit it on the same method"
            )
        kind: Any = np.float32 if self.single else np.float64
        x = np.asarray(values, kind)
        x = x - (x.mean(axis=0) if self.mean is None else self.mean.astype(kind))
        from ..kernels import one_blas_thread  # slow to import

        with one_blas_thread():  # the number of threads changes the last bits of products
            out = x.astype(np.float64) @ self.matrix
        if self.exponent is not None:
            out = np.sign(out) * np.abs(out) ** self.exponent
            length = np.sqrt(np.square(out).sum(axis=1, keepdims=True))
            out = np.divide(out, length, out=np.zeros_like(out), where=length > 0)
        return out if self.keep_double else out.astype(np.float32)


@dataclass(frozen=True)
class FitRequest:
    """Training data that a transform requires, and the function that fits it.

    `images` selects the images of the training sequences to describe (`ref` or `all`). `fit` takes the
    descriptors of these images, (n, d), without failed rows.
    """

    name: str
    images: str
    fit: Callable[[Array], FittedTransform]
    revision: int = 1


def _decomposed(descriptors: Array, name: str) -> tuple[Floats, Floats, Floats]:
    """Return mean, eigenvalues (descending) and eigenvectors of the covariance (divided by n)."""
    x = np.array(descriptors, np.float64)
    if x.ndim != 2 or len(x) <= x.shape[1]:
        raise InputError(
            f"+{name} needs more training descriptors than dimensions, found shape {x.shape}; "
            "train on more sequences"
        )
    if not np.isfinite(x).all():
        raise InputError(f"+{name}: the training descriptors contain NaN or infinity; remove these rows")
    mean = x.mean(axis=0)
    x -= mean  # in place: training sets fill gigabytes
    covariance = x.T @ x
    values, vectors = np.linalg.eigh((covariance + covariance.T) / (2 * len(x)))
    return mean, np.maximum(values[::-1], 0.0), vectors[:, ::-1]


def _clipped(eigenvalues: Floats, energy: float) -> Floats:
    """Raise small eigenvalues to a lower bound.

    The bound is the first eigenvalue in ascending order whose cumulative share of the sum exceeds `energy`.
    """
    if not 0 <= energy < 1:
        raise InputError(f"clip must be a fraction of the energy, at least 0 and below 1, found {energy}")
    if energy == 0:
        return eigenvalues
    ascending = np.sort(eigenvalues)
    share = np.cumsum(ascending) / ascending.sum()
    return np.maximum(eigenvalues, ascending[np.argmax(share > energy)])


def _inverse_root(eigenvalues: Floats, name: str) -> Floats:
    floor = eigenvalues.max(initial=0.0) * len(eigenvalues) * np.finfo(np.float64).eps
    if (eigenvalues <= floor).any():
        flat = int((eigenvalues <= floor).sum())
        raise InputError(
            f"+{name}: {flat} of {len(eigenvalues)} directions have no variance in the training data and "
            "cannot be whitened; use clip, or pca with fewer dims"
        )
    return np.asarray(1 / np.sqrt(eigenvalues))


def fit_pca(descriptors: Array, *, dims: int | None = None, whiten: bool = False) -> FittedTransform:
    """Fit a PCA projection to the `dims` strongest directions (default: all).

    `whiten` gives unit variance.

    >>> x = np.array([[0.0, 0], [2, 0], [0, 1], [2, 1]])
    >>> np.abs(fit_pca(x, dims=1).apply(x)).ravel().tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    mean, values, vectors = _decomposed(descriptors, "pca")
    keep = len(values) if dims is None else dims
    if not 1 <= keep <= len(values):
        raise InputError(f"+pca: dims must be 1 to {len(values)}, found {dims}")
    scale = _inverse_root(values[:keep], "pca") if whiten else np.ones(keep)
    return FittedTransform("pca", mean, vectors[:, :keep] * scale)


def fit_zca(descriptors: Array, *, clip: float = 0.0) -> FittedTransform:
    """Fit ZCA whitening, W = V diag(d^-1/2) V', with small eigenvalues raised by `clip`."""
    mean, values, vectors = _decomposed(descriptors, "zca")
    scale = _inverse_root(_clipped(values, clip), "zca")
    return FittedTransform("zca", mean, (vectors * scale) @ vectors.T)


def fit_hpatches_python(descriptors: Array) -> FittedTransform:
    """Fit the whitening of the Python reference of HPatches (``--pcapl``) on reference images.

    The reference subtracts the mean of each image, so equal patches in two images get different descriptors.
    Eigenvalues are at least the one at index floor(0.6 d) in ascending order.
    """
    _, values, vectors = _decomposed(descriptors, "hpatches-python")
    level = np.sort(values)[int(0.6 * len(values))]
    scale = _inverse_root(np.maximum(values, level), "hpatches-python")
    matrix = (vectors * scale) @ vectors.T
    return FittedTransform("hpatches-python", None, matrix, 0.5, single=True, keep_double=True)


def fit_hpatches_matlab(descriptors: Array, *, clip: float = 0.0, power: float = 0.5) -> FittedTransform:
    """Fit the ZCA of HPatches' MATLAB reference (``wzca_ceig<clip>_pl<power>_l2n``) in single precision."""
    mean, values, vectors = _decomposed(descriptors, "hpatches-matlab")
    scale = 1 / np.sqrt(_clipped(values, clip) + 1e-6)
    matrix = ((vectors * scale) @ vectors.T).astype(np.float32).astype(np.float64)
    return FittedTransform("hpatches-matlab", mean, matrix, power, single=True)


FITTERS: Mapping[str, tuple[Callable[..., FittedTransform], str]] = {
    "pca": (fit_pca, "all"),
    "zca": (fit_zca, "all"),
    "hpatches-python": (fit_hpatches_python, "ref"),
    "hpatches-matlab": (fit_hpatches_matlab, "all"),
}
"""Fit function of each fitted transform, and which images of the training sequences it uses (ref or all)."""


PLAIN = ("name", "exponent", "single", "keep_double")
"""Non-array fields of a fitted transform."""


def load_transform(path: Path) -> FittedTransform | None:
    """Read a fitted transform. Return None if the file is corrupt; the caller then fits it again."""
    try:
        regular_file_size(path)
        with np.load(path, allow_pickle=False) as found:
            about: Mapping[str, Any] = json.loads(str(found["about"]))
            mean = found["mean"] if "mean" in found.files else None
            made = FittedTransform(mean=mean, matrix=found["matrix"], **{name: about[name] for name in PLAIN})
        return made if made.hash == about["hash"] else None
    except Exception:  # a corrupt archive may raise any exception
        return None
