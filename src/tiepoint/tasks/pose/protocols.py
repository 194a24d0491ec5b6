# SPDX-License-Identifier: BSD-3-Clause
"""Protocols of `pose/relative`: how estimators are called and how poses are scored.

A *setting* defines the estimator calls: frame, estimator, threshold and repeats. A *scoring* defines how
poses become scores: angle rule, failure error and area. Values that depend on the dataset of a pair
(`scannet`, `megadepth`) are looked up by its name. For an unknown dataset, the protocol uses original pixels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from ...core.errors import InputError
from ...geometry.two_view.estimator import Estimator
from ...geometry.two_view.pose_errors import ACOS, ACOS_FLOAT32, ACOS_TRUTH_FLOAT32, IMC, STABLE, AngleRule
from ...geometry.two_view.scaling import Resize, long_side, original_size, short_side, stretched_to

Size = tuple[int, int]
_TEXT = re.compile(r"original|(?P<rule>long|short):(?P<side>\d+(\.\d+)?)|(?P<width>\d+)x(?P<height>\d+)")


@dataclass(frozen=True)
class ImageFrame:
    """Frame: size to which both images are resized. Points and intrinsics are scaled without rounding.

    `rule` is `original`, `long` (longer side becomes `side`), `short` (shorter side becomes `side`) or `size`
    (width becomes `side`, height becomes `height`, whatever the aspect ratio).

    >>> ImageFrame("long", 1000).scales((500, 250)), ImageFrame("size", 640, 480).scales((1280, 1440))
    ((2.0, 2.0), (0.5, 0.3333333333333333))
    """

    rule: str = "original"
    side: float = 0.0
    height: float = 0.0

    def resize(self, size: Size) -> Resize:
        """Return the resize of an image of size (width, height)."""
        if self.rule == "original":
            return original_size(size)
        if self.rule == "size":
            return stretched_to(size, self.side, self.height)
        return (long_side if self.rule == "long" else short_side)(size, self.side)

    def scales(self, size: Size) -> tuple[float, float]:
        """Return the scale factors of x and y for an image of size (width, height)."""
        return self.resize(size).scale

    def __str__(self) -> str:
        if self.rule == "original":
            return "original"
        if self.rule == "size":
            return f"{self.side:g}x{self.height:g}"
        return f"{self.rule}:{self.side:g}"


ORIGINAL = ImageFrame()


def parse_image_frame(text: str) -> ImageFrame:
    """Parse a frame such as ``original``, ``640x480``, ``long:1200`` or ``short:480``.

    >>> parse_image_frame("640x480"), str(parse_image_frame("long:1200"))
    (ImageFrame(rule='size', side=640.0, height=480.0), 'long:1200')
    """
    found = _TEXT.fullmatch(text.strip())
    numbers = [] if found is None else [float(v) for k, v in found.groupdict().items() if v and k != "rule"]
    if found is None or any(number <= 0 for number in numbers):
        raise InputError(f"unknown frame {text!r}; write original, WIDTHxHEIGHT, long:SIDE or short:SIDE")
    if found["rule"]:
        return ImageFrame(found["rule"], float(found["side"]))
    if found["width"]:
        return ImageFrame("size", float(found["width"]), float(found["height"]))
    return ORIGINAL


SCANNET, MEGADEPTH = "scannet", "megadepth"
THRESHOLDS_DEG = (5, 10, 20)
MIN_MATCHES = 6
"""Minimum number of matches for an estimate under `exact`."""
XFEAT_SCANNET_PX = tuple(k / 2 for k in range(1, 13))
EXACT_PX = (0.5, 1.0, 2.0)
INF = float("inf")
_NONE: Mapping[str, Any] = MappingProxyType({})
Parts = Mapping[str, str | int | float]


@dataclass(frozen=True)
class PoseScoring:
    """How estimated poses are scored.

    Attributes:
        angles: Name of the angle rule.
        failure: Error in degrees of a pair without a pose. It overrides the settings.
        area: Name of the area rule. `exact`, `trapezoid`, `as-sorted` (Python's sort, which NaN errors
            disturb), `rounded` (trapezoid rounded to four decimals) or `degrees` (integer degrees, mean over
            scenes).
        last_duplicate: Whether only the last of several pairs with the same two images counts.
        both_directions_once: Whether a pair that occurs in both directions counts once.
        limit: Value that replaces non-finite errors.
        strict: Whether an error equal to the threshold is wrong in `accuracy`.
        best_px: Datasets for which the estimator threshold with the best mean area on the test set is used.
        again: Datasets for which the error of the last repeat counts twice.
    """

    angles: AngleRule = ACOS
    failure: float | None = None
    area: str = "trapezoid"
    last_duplicate: bool = False
    both_directions_once: bool = False
    limit: float | None = None
    strict: bool = True
    best_px: tuple[str, ...] = ()
    again: tuple[str, ...] = ()


@dataclass(frozen=True)
class PoseSetting:
    """How poses are estimated for every image pair.

    Attributes:
        estimator: Estimator to call.
        frames: Frame by dataset. Other datasets use original pixels.
        repeats: Number of calls per pair.
        order: Order of the matches. `given`: as the method lists them. `shuffled`: a seeded random
            permutation for each repeat, applied to the order of the previous repeat. `sorted`: by coordinates
            without duplicates; repeat k has seed k.
        centre: Whether points are shifted to the pixel convention of the intrinsics.
        only: Datasets for which this setting is used. Empty for all datasets.
        failure: Error in degrees of a pair without a pose. If None, the angle rule is applied to the zero
            translation of a failed estimate.
        success: `eloftr` for that tool's validity test of a pose. Otherwise the estimator reports success.
        scoring: Scoring of its poses, if it differs from that of the protocol.
        parts: Parts of the group name of its scores.
    """

    estimator: Estimator
    frames: Mapping[str, ImageFrame] = field(default_factory=dict)
    repeats: int = 1
    order: str = "given"
    centre: bool = False
    only: tuple[str, ...] = ()
    failure: float | None = INF
    success: str = ""
    scoring: PoseScoring | None = None
    parts: Parts = field(default_factory=dict)

    def frame(self, dataset: str) -> ImageFrame:
        """Return the frame for pairs of a dataset."""
        return self.frames.get(dataset, self.frames.get("", ORIGINAL))


@dataclass(frozen=True)
class PoseProtocol:
    """A pose protocol: settings of estimators, scoring, and the headline setting of each dataset.

    `comparison` is the name of the records. Protocols with the same name share estimated poses.
    `precision` defines the match precision: distance rule and thresholds.
    """

    settings: tuple[PoseSetting, ...]
    scoring: PoseScoring
    headline: Mapping[str, Parts] = field(default_factory=lambda: {"": _NONE})
    precision: tuple[str, tuple[float, ...]] | None = None
    comparison: str = ""

    def parts_of(self, dataset: str) -> Parts:
        """Return the group name parts of the setting with which the paper reports a dataset."""
        return self.headline.get(dataset, self.headline[""])

    def knows(self, dataset: str) -> bool:
        """Return whether the protocol has a setting for the dataset, or one setting for all datasets."""
        named = {name for s in self.settings for name in (*s.frames, *s.only)} | set(self.headline)
        return dataset in named or not named - {""}


_OPENCV = Estimator("opencv-e", threshold_px=0.5, confidence=0.99999, max_iterations=1000)
_POSELIB = Estimator("poselib-e", threshold_px=1.0, confidence=0.9999, max_iterations=100000, fewest=0)
_SCANNET_FRAME = {SCANNET: ImageFrame("size", 640, 480), MEGADEPTH: ORIGINAL}
_ROMA_FRAME = {SCANNET: ImageFrame("short", 480), MEGADEPTH: ImageFrame("long", 1200)}


def _parts(estimator: str, px: float) -> Parts:
    return {"estimator": estimator, "threshold_px": px}


def _superglue() -> PoseProtocol:
    estimator = replace(_OPENCV, threshold_px=1.0, focal="slip")
    setting = PoseSetting(estimator, {SCANNET: ImageFrame("size", 640, 480)}, parts=_parts("opencv", 1.0))
    return PoseProtocol((setting,), PoseScoring(), {"": setting.parts}, precision=("squared", (5e-4,)))


def _loftr() -> PoseProtocol:
    estimator = replace(_OPENCV, focal="slip", dtype="float32")
    resized = PoseSetting(estimator, _SCANNET_FRAME, parts=_parts("opencv", 0.5))
    original = replace(resized, frames={}, only=(SCANNET,), parts={**resized.parts, "frame": "original"})
    scoring = PoseScoring(ACOS_TRUTH_FLOAT32, area="as-sorted", last_duplicate=True)
    return PoseProtocol((resized, original), scoring, {"": resized.parts}, precision=("squared", (5e-4,)))


def _eloftr() -> PoseProtocol:
    ransac = replace(_loftr().settings[0], repeats=5, order="shuffled")
    lo = PoseSetting(
        replace(_POSELIB, threshold_px=2.0, dtype="float32"),
        _SCANNET_FRAME,
        repeats=5,
        order="shuffled",
        failure=90.0,
        success="eloftr",
        parts=_parts("poselib", 2.0),
    )
    return PoseProtocol((ransac, lo), _loftr().scoring, {"": ransac.parts}, ("squared", (5e-4,)))


def _roma() -> PoseProtocol:
    estimator = replace(_OPENCV, skew=True, focal="blocks")
    setting = PoseSetting(
        estimator, _ROMA_FRAME, repeats=5, order="shuffled", failure=90.0, parts=_parts("opencv", 0.5)
    )
    return PoseProtocol((setting,), PoseScoring(again=(SCANNET,)), {"": setting.parts})


def _roma_poselib() -> PoseProtocol:
    estimator = replace(_POSELIB, max_iterations=10000)
    setting = PoseSetting(estimator, repeats=5, order="shuffled", failure=None, parts=_parts("poselib", 1.0))
    return PoseProtocol((setting,), PoseScoring(), {"": setting.parts})


def _dad() -> PoseProtocol:
    e = PoseSetting(
        replace(_POSELIB, threshold_px=2.0),
        repeats=5,
        order="shuffled",
        failure=None,
        parts=_parts("poselib-essential", 2.0),
    )
    f = PoseSetting(
        replace(_POSELIB, kind="poselib-f", threshold_px=2.0, dtype="float32"),
        repeats=5,
        order="shuffled",
        failure=None,
        parts=_parts("poselib-fundamental", 2.0),
    )
    return PoseProtocol((e, f), PoseScoring(), {"": e.parts})


def _xfeat() -> PoseProtocol:
    """Return the protocol of XFeat, with the settings of its two scripts, which also score differently.

    The MegaDepth script stores K and T in float32. The ScanNet script sorts NaN last, and counts only errors
    below the threshold.
    """
    estimator = replace(
        _POSELIB, threshold_px=2.5, confidence=0.99999, min_iterations=20, max_iterations=1000
    )
    mega = PoseSetting(replace(estimator, camera_dtype="float32"), failure=None, parts=_parts("poselib", 2.5))
    scannet = tuple(
        PoseSetting(
            replace(_POSELIB, threshold_px=px, confidence=0.99999, max_iterations=10000),
            only=(SCANNET,),
            scoring=PoseScoring(),
            parts={**_parts("poselib", px), "iterations": 10000},
        )
        for px in XFEAT_SCANNET_PX
    )
    scoring = PoseScoring(ACOS_TRUTH_FLOAT32, area="as-sorted", strict=False, best_px=(SCANNET,))
    return PoseProtocol(
        (mega, *scannet), scoring, {"": mega.parts, MEGADEPTH: mega.parts, SCANNET: {"iterations": 10000}}
    )


def _glue_factory() -> PoseProtocol:
    opencv = [
        PoseSetting(replace(_OPENCV, threshold_px=px, dtype="float32"), parts=_parts("opencv", px))
        for px in (0.5, 1.0)
    ]
    poselib = [
        PoseSetting(
            replace(_POSELIB, threshold_px=px, dtype="float32"), failure=None, parts=_parts("poselib", px)
        )
        for px in (1.0, 2.0)
    ]
    return PoseProtocol(
        (*opencv, *poselib),
        PoseScoring(ACOS_FLOAT32, area="rounded"),
        {"": opencv[0].parts, MEGADEPTH: opencv[0].parts, SCANNET: opencv[1].parts},
        ("mean", (1e-4, 5e-4, 1e-3)),
    )


def _zeb() -> PoseProtocol:
    """Return the protocol of ZEB: that of `loftr`, in original pixels for every dataset."""
    loftr = _loftr()
    headline = {"": loftr.settings[0].parts, SCANNET: loftr.settings[1].parts}
    scoring = PoseScoring(ACOS_TRUTH_FLOAT32, last_duplicate=True, limit=180.0)
    return PoseProtocol(loftr.settings, scoring, headline, loftr.precision, comparison="loftr")


def _imc() -> PoseProtocol:
    estimator = Estimator(
        "degensac-f", threshold_px=0.5, confidence=0.999999, max_iterations=100000, fewest=8
    )
    setting = PoseSetting(estimator, repeats=3, failure=180.0, parts=_parts("degensac", 0.5))
    return PoseProtocol((setting,), PoseScoring(IMC, area="degrees"), {"": setting.parts})


def exact_protocol(
    estimator: str = "poselib", side_px: float = 1000.0, threshold_px: float = 1.0, seeds: int = 5
) -> PoseProtocol:
    """Return the protocol `exact` with given options.

    >>> [s.parts["threshold_px"] for s in exact_protocol().settings]
    [0.5, 1.0, 2.0]
    """
    base = (
        replace(_POSELIB, max_iterations=10000, fewest=MIN_MATCHES)
        if estimator == "poselib"
        else Estimator(
            "usac-e", 1.0, confidence=0.9999, max_iterations=10000, distance=1e9, fewest=MIN_MATCHES
        )
    )
    settings = tuple(
        PoseSetting(
            replace(base, threshold_px=px),
            {"": ImageFrame("long", side_px)},
            repeats=seeds,
            order="sorted",
            centre=True,
            parts=_parts(estimator, px),
        )
        for px in sorted({*EXACT_PX, threshold_px})
    )
    scoring = PoseScoring(STABLE, failure=180.0, area="exact", both_directions_once=True)
    return PoseProtocol(settings, scoring, {"": _parts(estimator, threshold_px)}, ("squared", (5e-4,)))


PROTOCOLS: Mapping[str, PoseProtocol] = {
    "exact": exact_protocol(),
    "superglue": _superglue(),
    "loftr": _loftr(),
    "eloftr": _eloftr(),
    "roma": _roma(),
    "roma-poselib": _roma_poselib(),
    "dad": _dad(),
    "xfeat": _xfeat(),
    "glue-factory": _glue_factory(),
    "zeb": _zeb(),
    "imc": _imc(),
}
