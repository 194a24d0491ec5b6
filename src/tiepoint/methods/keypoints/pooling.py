# SPDX-License-Identifier: BSD-3-Clause
"""Aggregate several descriptors per keypoint, and pool a descriptor over several sizes of the keypoint."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, UnknownNameError
from ...core.keypoints import Keypoints
from ...core.plugins import distance_of
from ..transforms import l2_normalise, rootsift
from ..user_code import load_from_file

Array = NDArray[Any]
Mask = NDArray[np.bool_]
AGGREGATIONS = ("average", "max", "min", "concatenate", "weighted")


def parse_numbers(given: Any, what: str) -> list[float]:
    """Return numbers given as text (``1,1.5,2``), as a list or as one number. `what` names them in errors.

    >>> parse_numbers("1,1.5", "scales")
    [1.0, 1.5]
    """
    parts = given.split(",") if isinstance(given, str) else given
    parts = parts if isinstance(parts, list | tuple | np.ndarray) else [parts]
    try:
        found = [float(p) for p in parts]
    except (TypeError, ValueError) as e:
        raise InputError(f"{what} must be numbers separated by commas, found {given!r}") from e
    if not found or not np.isfinite(found).all():
        raise InputError(f"{what} must be one or more finite numbers, found {given!r}")
    return found


def load_user_descriptor(aggregation: str) -> Any:
    """Load the user's pooling object from ``my.py:Class``. None for a built-in aggregation."""
    file, _, name = aggregation.rpartition(":")
    if not file.endswith(".py"):
        return None
    made = load_from_file(file, name)()
    if not hasattr(made, "pool"):
        raise InputError(f"{aggregation}: the method pool(stack, scales) is missing; add it to the class")
    return made


def aggregate(
    stack: Array,
    mask: Mask,
    how: str,
    *,
    weights: NDArray[np.float64] | None = None,
    pool: Any = None,
    labels: Any = None,
) -> tuple[Array, Mask]:
    """Combine s descriptors (s, n, d) of each keypoint. Return one row per keypoint and a validity mask (n,).

    `mask` (s, n) marks valid descriptors. average, max, min and weighted use only the valid descriptors of a
    keypoint, with `weights` (s,) normalised over them. concatenate and a user's `pool.pool(stack, labels)`
    require all s descriptors to be valid.

    >>> stack, mask = np.array([[[1.0]], [[3.0]]]), np.array([[True], [False]])
    >>> aggregate(stack, mask, "average")[0].tolist()
    [[1.0]]
    """
    whole, some = np.asarray(mask.all(axis=0)), np.asarray(mask.any(axis=0))
    if pool is not None:
        made = np.asarray(pool.pool(stack[:, whole], labels))
        if made.ndim != 2 or len(made) != int(whole.sum()):
            raise InputError(
                f"pool(stack, scales) must return {int(whole.sum())} rows, found shape {made.shape}"
            )
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


Image = NDArray[np.uint8]
STAGES = ("none", "before", "after")
WEIGHTINGS = ("uniform", "triangular", "gaussian")
NORMS = ("l2", "l1")
SCALES = (1.0, 1.5, 2.0)
SIGMA = 0.15


def scale_weights(scales: Array, weighting: str, sigma: float) -> NDArray[np.float64]:
    """Return the weights of scale factors, with sum 1. The weight of a factor a depends on |ln a|.

    It is exp(-(ln a / sigma)^2 / 2) for gaussian, max(0, 1 - |ln a| / sigma) for triangular, and constant for
    uniform.

    >>> scale_weights(np.array([0.5, 1, 2]), "triangular", 1.0).round(3).tolist()
    [0.19, 0.62, 0.19]
    """
    away = np.abs(np.log(scales)) / sigma
    raw = {
        "uniform": np.ones_like(away),
        "triangular": np.maximum(0.0, 1 - away),
        "gaussian": np.exp(-0.5 * away**2),
    }[weighting]
    if not raw.sum() > 0:
        raise InputError(f"{weighting} weights of width {sigma:g} vanish at all scales; choose other scales")
    return np.asarray(raw / raw.sum())


class DomainSizePooling:
    """Domain-size pooling: `base` at `scales` times the keypoint's size, joined by `aggregation`.

    Normalisation and square root are applied to each scale (``before``) or to the joined row (``after``),
    each at most once. average, max, min and weighted exclude scales at which a keypoint failed. concatenate
    fails if one scale failed.

    Args:
        base: A real-valued descriptor at keypoints.
        scales: Factors on the keypoint's size, ``1,1.5,2``.
        aggregation: average, max, min, concatenate, weighted, or ``my.py:Class`` with
            ``pool(stack, scales)``.
        weighting: For ``weighted``: uniform, triangular or gaussian in ln(scale).
        weight_sigma: Width of the triangular and gaussian weighting, in ln(scale).
        weights: Explicit weights of the scales in place of `weighting`, ``0.25,0.5,0.25``.
        normalize: none, before or after.
        norm: l2 or l1.
        root: none, before or after: l1 normalisation, then the signed square root.
    """

    distance = "l2"

    def __init__(
        self,
        base: Any,
        scales: Any = SCALES,
        aggregation: str = "average",
        weighting: str | None = None,
        weight_sigma: float | None = None,
        weights: Any = None,
        normalize: str = "after",
        norm: str | None = None,
        root: str = "none",
    ) -> None:
        for what, value in (("normalize", normalize), ("root", root)):
            if value not in STAGES:
                raise UnknownNameError(f"value of {what}", str(value), STAGES)
        if distance_of(base) not in ("l2", "l1", "cosine"):
            raise InputError(
                f"dsp: {type(base).__name__} returns bits (distance {distance_of(base)}), which cannot be "
                "pooled; choose a real-valued descriptor"
            )
        self.scales = np.array(parse_numbers(scales, "scales"))
        if not (self.scales > 0).all():
            raise InputError(f"scales must be positive factors, found {self.scales.tolist()}")
        self.pool = load_user_descriptor(aggregation)
        if self.pool is None and aggregation not in AGGREGATIONS:
            raise UnknownNameError("aggregation", aggregation, AGGREGATIONS)
        self.weights = self._weights(aggregation, weighting, weight_sigma, weights)
        if norm is not None and normalize == "none":
            raise InputError("norm has no effect with normalize=none; remove one of them")
        if norm is not None and norm not in NORMS:
            raise UnknownNameError("norm", norm, NORMS)
        self.base, self.aggregation = base, aggregation
        self.normalize, self.norm, self.root = normalize, norm or "l2", root
        self.distance = distance_of(base)
        self.rooted = root != "none" or bool(getattr(base, "rooted", False))
        if root != "none" and getattr(base, "rooted", False):
            raise InputError("the descriptor is already square-rooted; remove root")
        self.tiepoint_parts = {"base": base} | ({"pool": self.pool} if self.pool is not None else {})
        self.config = {
            "scales": self.scales.tolist(), "aggregation": aggregation, "normalize": normalize,
            "norm": self.norm, "root": root,
            "weights": None if self.weights is None else self.weights.tolist(),
        }  # fmt: skip

    def _weights(
        self, aggregation: str, weighting: str | None, sigma: float | None, weights: Any
    ) -> NDArray[np.float64] | None:
        if aggregation != "weighted":
            given = {"weighting": weighting, "weight_sigma": sigma, "weights": weights}
            for what, value in given.items():
                if value is not None:
                    raise InputError(f"{what} has an effect only with aggregation=weighted; remove it")
            return None
        if weights is not None:
            if weighting is not None or sigma is not None:
                raise InputError(
                    "weights cannot be combined with weighting and weight_sigma; remove either weights or "
                    "both of the others"
                )
            given_weights = np.array(parse_numbers(weights, "weights"))
            if len(given_weights) != len(self.scales):
                raise InputError(
                    f"found {len(given_weights)} weights for {len(self.scales)} scales; give one per scale"
                )
            if (given_weights < 0).any() or not given_weights.sum() > 0:
                raise InputError(f"weights must not be negative or all zero, found {given_weights.tolist()}")
            return np.asarray(given_weights / given_weights.sum())
        chosen = weighting or "gaussian"
        if chosen not in WEIGHTINGS:
            raise UnknownNameError("weighting", chosen, WEIGHTINGS)
        if chosen == "uniform" and sigma is not None:
            raise InputError("weight_sigma has no effect with weighting=uniform; remove one of them")
        width = SIGMA if sigma is None else float(sigma)
        if not width > 0:
            raise InputError(f"weight_sigma must be positive, found {width:g}")
        return scale_weights(self.scales, chosen, width)

    def describe(self, image: Image, keypoints: Keypoints) -> tuple[Array, NDArray[np.bool_]]:
        """Return descriptors (n, d), or (n, scales · d) if concatenated, and a mask (n,) of valid rows."""
        rows, masks = [], []
        for scale in self.scales:
            made = self.base.describe(image, _resized(keypoints, float(scale)))
            values, valid = made if isinstance(made, tuple) else (made, np.ones(len(keypoints), bool))
            rows.append(self._staged(np.asarray(values, np.float32), "before"))
            masks.append(np.asarray(valid, bool))
        stack, mask = np.stack(rows), np.stack(masks)
        values, valid = aggregate(
            stack, mask, self.aggregation, weights=self.weights, pool=self.pool, labels=self.scales
        )
        done = self._staged(values, "after")
        return np.where(valid[:, None], done, np.float32(0)), valid & done.any(axis=1)

    def _staged(self, values: Array, stage: str) -> Array:
        """Normalise and square-root descriptors, if `stage` (``before`` or ``after`` pooling) requires it.

        Before pooling, normalisation comes first; after pooling, the square root.
        """
        norm = _NORM[self.norm] if self.normalize == stage else None
        root = rootsift if self.root == stage else None
        for step in (norm, root) if stage == "before" else (root, norm):
            values = values if step is None else step(values)
        return values


def _l1(values: Array) -> Array:
    total = np.abs(values).sum(axis=1, keepdims=True)
    return np.divide(values, total, out=np.zeros_like(values), where=total > 0)


_NORM = {"l2": l2_normalise, "l1": _l1}


def _resized(keypoints: Keypoints, factor: float) -> Keypoints:
    return Keypoints(
        keypoints.xy, keypoints.size_px * factor, keypoints.angle_deg, keypoints.response,
        keypoints.octave, keypoints.class_id,
    )  # fmt: skip
