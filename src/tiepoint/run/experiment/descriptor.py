# SPDX-License-Identifier: BSD-3-Clause
"""Descriptors of an experiment file as specifications: pooled, stacked, composite."""

from __future__ import annotations

from typing import Any

from ...methods.keypoints.pooling import SCALES
from ...model.errors import InputError
from .config import DescriptorPlan
from .old_words import AGGREGATIONS, TYPES

_STAGE = {"none": "none", "before_pooling": "before", "after_pooling": "after"}


def _numbers(values: tuple[float, ...]) -> str:
    return ",".join(f"{v:g}" for v in values)


def _base(kind: str, extended: bool, name: str) -> tuple[str, list[str]]:
    """The text of a descriptor and the parameters that belong to it."""
    if extended and kind != "surf":
        raise InputError(f"{name}: extended belongs to surf, not to {kind}")
    head, _, query = kind.partition("?")
    params = query.split("&") if query else []
    return head, [*params, "extended=true"] if extended else params


def _joined(head: str, params: list[str]) -> str:
    return f"{head}?{'&'.join(params)}" if params else head


def _normalize(d: DescriptorPlan) -> str | None:
    """none, before or after; None where nothing is said."""
    if d.normalize_before_pooling and d.normalize_after_pooling:
        raise InputError(f"{d.name}: normalise before or after pooling, once is enough")
    if d.normalize_before_pooling:
        return "before"
    if d.normalize_after_pooling is None:
        return None
    return "after" if d.normalize_after_pooling else "none"


def pooled(d: DescriptorPlan, kind: str, pooling: str, aggregation: str | None, root: str) -> str:
    """A descriptor with or without domain-size pooling.

    Without pooling it is what it is alone; rooting and normalising it is pooling over the single scale 1.
    """
    head, params = _base(kind, d.extended, d.name)
    normalize = _normalize(d)
    if pooling == "none":
        for what in ("scales", "scale_weights", "scale_weighting", "scale_weight_sigma"):
            if getattr(d, what) is not None:
                raise InputError(f"{d.name}: {what} has an effect only with pooling: domain_size_pooling")
        if aggregation is not None:
            raise InputError(f"{d.name}: pooling_aggregation has an effect only with pooling")
        if normalize is None and root == "none" and d.norm_type is None:
            return _joined(head, params)
        scales: tuple[float, ...] = (1.0,)
    else:
        scales = d.scales or SCALES
    params += [f"scales={_numbers(scales)}"]
    if aggregation is not None:
        params.append(f"aggregation={aggregation}")
    given: dict[str, Any] = {
        "weights": None if d.scale_weights is None else _numbers(d.scale_weights),
        "weighting": d.scale_weighting,
        "weight_sigma": d.scale_weight_sigma,
        "normalize": normalize,
        "norm": d.norm_type,
        "root": None if root == "none" else _STAGE[root],
    }
    params += [f"{k}={v}" for k, v in given.items() if v is not None]
    return _joined(f"dsp:{head}", params)


def stacked(d: DescriptorPlan, kind: str, aggregation: str | None, root: str) -> str:
    """Two descriptors side by side, each of length 1, the second multiplied by the weight."""
    for what in ("scales", "scale_weights", "scale_weighting", "scale_weight_sigma", "norm_type"):
        if getattr(d, what) is not None:
            raise InputError(f"{d.name}: {what} has no effect with pooling: stacking")
    if _normalize(d) is not None:
        raise InputError(f"{d.name}: stacking normalises each descriptor; remove normalize_…_pooling")
    if aggregation not in (None, "concatenate"):
        raise InputError(f"{d.name}: stacking concatenates; remove pooling_aggregation")
    head, params = _base(kind, d.extended, d.name)
    other = d.secondary_descriptor or "sift"
    weight = 0.5 if d.stacking_weight is None else d.stacking_weight
    text = _joined(f"fuse:{head},{TYPES.get(other, other)}", [*params, f"weights=1,{weight:g}"])
    return text if root == "none" else f"{text}+rootsift"


def composite(d: DescriptorPlan, root: str) -> str:
    """Several descriptors fused; each at the keypoints of its own set where sets are named."""
    unused = {
        "extended": d.extended or None, "scales": d.scales, "scale_weights": d.scale_weights,
        "scale_weighting": d.scale_weighting, "scale_weight_sigma": d.scale_weight_sigma,
        "pooling_aggregation": d.pooling_aggregation, "secondary_descriptor": d.secondary_descriptor,
        "stacking_weight": d.stacking_weight, "norm_type": d.norm_type, "normalize": _normalize(d),
        "pooling": None if d.pooling == ("none",) else d.pooling,
    }  # fmt: skip
    for what, value in unused.items():
        if value is not None:
            raise InputError(
                f"{d.name}: {what} has no effect on a composite; give it to a component's descriptor"
            )
    if len(d.components) < 2:
        raise InputError(f"{d.name}: a composite has at least two components")
    parts, own = [], []
    for c in d.components:
        head, params = _base(TYPES.get(c.descriptor, c.descriptor), c.extended, d.name)
        own += params
        parts.append(head + (f"@set:{c.keypoint_set_name}" if c.keypoint_set_name else ""))
    params = list(dict.fromkeys(own))
    if d.aggregation is not None:
        params.append(f"aggregation={AGGREGATIONS.get(d.aggregation, d.aggregation)}")
    weights = [c.weight for c in d.components]
    if any(w is not None for w in weights):
        params.append(f"weights={_numbers(tuple(1.0 if w is None else w for w in weights))}")
    text = _joined(f"fuse:{','.join(parts)}", params)
    return text if root == "none" else f"{text}+rootsift"
