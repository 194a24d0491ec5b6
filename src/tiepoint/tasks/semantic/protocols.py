# SPDX-License-Identifier: BSD-3-Clause
"""PCK conventions of published tools: image frames, reference lengths and comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import FormatError, InputError
from ...core.records import Records
from ...formats.json_yaml import read_json
from ...metrics.dense import pck_length, point_errors

Floats = NDArray[np.float64]
BY_DATASET = {"spair": "box", "pf-pascal": "image", "pf-willow": "keypoints"}
"""Reference length that papers use, by dataset."""
PADDED = -1.0


@dataclass(frozen=True)
class PckRule:
    """PCK convention of a tool.

    Attributes:
        frame: Resizing before the comparison. `original`: none. `at-most:N`: shrink the longer side to N.
            `stretch:N`: resize both sides to N. `pad:N`: resize the longer side to N and centre the image in
            a square of zeros.
        compare: Arithmetic of the comparison. `float64`: error <= alpha L. `float32`: the same with all
            values rounded. `ratio`: error / L <= alpha. `mixed`: float32 error and float64 limit.
        single_length: Whether L is computed in float32, with the factors of the frame in float32.
        strict: Whether an error equal to the limit is wrong.
        back: Whether target points are transferred to the source, using the source's box.
        padding: Whether the extent of keypoints includes the padding value -1.
        box_scale: Scaling of the box. `both`: stretched with the image. `y`: longer side times the vertical
            factor. `min`: longer side times the smaller factor.
        lengths: Reference length by dataset, if it differs from `BY_DATASET`.
        alphas: Thresholds that the tool prints.
    """

    frame: str = "original"
    compare: str = "float64"
    single_length: bool = False
    strict: bool = False
    back: bool = False
    padding: bool = False
    box_scale: str = "both"
    lengths: Mapping[str, str] = field(default_factory=dict)
    alphas: tuple[float, ...] = ()


_USUAL = (0.05, 0.1, 0.15)
_FINE = (0.01, 0.05, 0.1)
PROTOCOLS: dict[str, PckRule] = {
    "exact": PckRule(alphas=_FINE),
    "hpf": PckRule("at-most:300", "float32", single_length=True, box_scale="min", alphas=_USUAL),
    "dhpf": PckRule("stretch:240", "float32", single_length=True, padding=True, alphas=_USUAL),
    "cats": PckRule("stretch:256", "float32", single_length=True, back=True, padding=True, alphas=_USUAL),
    "dift": PckRule(compare="ratio", alphas=(0.1,)),
    "geoaware": PckRule("pad:840", "mixed", strict=True, alphas=_FINE),
    "distilldift-stretched": PckRule("stretch:840", "mixed", strict=True, box_scale="y", alphas=_FINE),
}
"""PCK conventions by protocol name."""


class PckFrame(NamedTuple):
    """Estimated and true points in the image frame of a convention, and the reference length there."""

    found: Floats
    truth: Floats
    length: float


def make_pck_frame(record: Records, rule: PckRule, length: str = "") -> PckFrame:
    """Transform the points of a pair to the image frame of a convention.

    `length` selects the reference length; by default it is that of the dataset.
    """
    size = (int(record.meta["size"][0]), int(record.meta["size"][1]))
    kind, _, number = rule.frame.partition(":")
    side = int(number or 0)
    scale, offset = _scales(kind, side, size)
    found, truth = (_moved(np.asarray(record[k]), scale, offset, rule) for k in ("found", "truth"))
    named = length or length_of(record, rule)
    real: Any = np.float32 if rule.single_length else np.float64
    if named == "image":
        long = side if kind in ("stretch", "pad") else real(max(size)) * real(scale[0])
        return PckFrame(found, truth, float(long))
    if named == "keypoints":
        if rule.single_length and kind == "at-most":  # the extent is scaled, not the points
            extent = _extent(np.asarray(record["truth"]).astype(real), padding=rule.padding)
            return PckFrame(found, truth, float(real(extent) * real(scale[0])))
        return PckFrame(found, truth, _extent(truth, padding=rule.padding))
    box = record.meta["box"]
    if box is None:
        raise InputError(f"{record.meta['pair']} has no object box; choose another `length`")
    return PckFrame(found, truth, _box_length(box, scale, rule))


def length_of(record: Records, rule: PckRule) -> str:
    """Return the name of the reference length: that of the dataset, else `box`, else `keypoints`."""
    dataset = str(record.meta["dataset"])
    known = {**BY_DATASET, **rule.lengths}.get(dataset)
    return known or ("keypoints" if record.meta["box"] is None else "box")


def errors_of(pair: PckFrame, rule: PckRule) -> Floats:
    """Return the distance of each point from its true position, in the tool's precision; inf if missing."""
    if rule.compare in ("float64", "ratio"):
        return point_errors(pair.found, pair.truth)
    delta = pair.found.astype(np.float32) - pair.truth.astype(np.float32)
    error = np.sqrt((delta**2).sum(axis=1, dtype=np.float32))
    return np.where(np.isnan(error), np.inf, error).astype(np.float64)


def is_correct(error: Floats, length: float, alpha: float, rule: PckRule) -> NDArray[np.bool_]:
    """Return a mask of the errors within the limit ``alpha * length``.

    Whether an error equal to the limit is correct depends on `strict` and on the precision of the rule.

    >>> e = np.array([1.0])
    >>> [is_correct(e, 100.0, 0.01, r).tolist() for r in (PROTOCOLS["exact"], PROTOCOLS["geoaware"])]
    [[True], [False]]
    """
    if rule.compare == "ratio":
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(error / length <= alpha)
    limit = alpha * length
    if rule.compare == "float32":
        limit = float(np.float32(length) * np.float32(alpha))
    elif rule.compare == "mixed":
        limit = float(np.float64(np.float32(alpha)) * length)
    return np.asarray(error < limit if rule.strict else error <= limit)


def _scales(kind: str, side: int, size: tuple[int, int]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the scale factors (x, y) and offsets (x, y) from original pixels to a frame."""
    w, h = size
    none = (0.0, 0.0)
    if kind == "original":
        return (1.0, 1.0), none
    if kind == "stretch":
        return (side / w, side / h), none
    if kind == "at-most":
        s = min(1.0, side / max(w, h))
        return (s, s), none
    s = side / max(w, h)
    gap = int((side - round(side * min(w, h) / max(w, h))) / 2)
    return (s, s), ((0.0, float(gap)) if w >= h else (float(gap), 0.0))


def _moved(points: Floats, scale: tuple[float, float], offset: tuple[float, float], rule: PckRule) -> Any:
    if rule.compare in ("float64", "ratio"):
        return points * np.array(scale) + np.array(offset)
    return points.astype(np.float32) * np.array(scale, np.float32) + np.array(offset, np.float32)


def _extent(truth: Floats, *, padding: bool) -> float:
    if not padding:
        return pck_length("keypoints", size=(0, 0), points=truth)
    return float(np.ptp(np.vstack([truth, np.full((1, 2), PADDED)]), axis=0).max())


def _box_length(box: Any, scale: tuple[float, float], rule: PckRule) -> float:
    real: Any = np.float32 if rule.single_length else np.float64
    corners, factors = np.asarray(box, real), np.asarray(scale, real)
    if rule.box_scale == "both":
        corners = corners * np.tile(factors, 2)
    length = max(corners[2] - corners[0], corners[3] - corners[1])
    if rule.box_scale != "both":
        length = length * (factors[1] if rule.box_scale == "y" else factors.min())
    return float(length)


Groups = Mapping[str, Sequence[Sequence[int]]]
AMBIGUOUS: Groups = {
    "aeroplane": ((4, 5), (6, 7), (8, 9), (10, 11), (12, 13), (14, 15), (16, 17), (18, 19), (20, 21))
}
"""Groups of SPair keypoints that differ only by side (left or right), by class; other classes have none."""


def ambiguous_points(
    ids: ArrayLike, visible: ArrayLike, groups: Sequence[Sequence[int]]
) -> NDArray[np.bool_]:
    """Return a mask (n,) of points whose group has at least two keypoints visible in the target image.

    Args:
        ids: Numbers of the keypoints that occur in both images.
        visible: Numbers of all keypoints that occur in the target image.
        groups: Groups of keypoint numbers of the class.

    >>> ambiguous_points([4, 6, 9], [4, 5, 6, 8, 9], [(4, 5), (6, 7), (8, 9)]).tolist()
    [True, False, True]
    """
    there = np.asarray(visible).astype(np.int64)
    chosen = [i for group in groups if np.isin(np.asarray(group), there).sum() >= 2 for i in group]
    return np.isin(np.asarray(ids).astype(np.int64), np.array(chosen, np.int64))


def read_groups(value: Any) -> dict[str, tuple[tuple[int, ...], ...]]:
    """Return keypoint groups by class, from a mapping or JSON file such as ``{"cat": [[0, 1], [2, 3]]}``."""
    if isinstance(value, str | Path):
        try:
            value = read_json(Path(value).expanduser())
        except FormatError as e:
            raise ValueError(f"groups: {e}") from None
    try:
        return {
            str(name): tuple(tuple(int(i) for i in group) for group in groups)
            for name, groups in value.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            'groups: not a JSON file of interchangeable keypoints; write {"CLASS": [[number, number], …]}'
        ) from None
