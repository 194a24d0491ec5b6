# SPDX-License-Identifier: BSD-3-Clause
"""The homography protocols of matching papers: how each calls an estimator, and what it makes of it.

A *setting* is a comparison: matches used, frame, estimator, repeats. A *scoring* is what is made of the
homographies: corners, value of a failure, area. Sequences that a paper leaves out are excluded when scoring.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ....core.errors import InputError
from ....geometry.two_view.linear_estimation import HomographyEstimator
from ....geometry.two_view.scaling import Resize, long_side, original_size, short_side

Size = tuple[int, int]
_TEXT = re.compile(
    r"original|(?P<rule>long|short|unit|divided):(?P<side>\d+(\.\d+)?)(:(?P<rounding>real|round|trunc))?"
)


@dataclass(frozen=True)
class ThresholdFrame:
    """Resized images, or original ones with another unit.

    `original`; `short` or `long`: the shorter or longer side of both images becomes `side`, sides rounded by
    `rounding` (`real`, `round`, `trunc`); `unit`: original images, and a pixel is min(w2, h2)/`side` of them,
    for the threshold as well as for errors; `divided`: for errors alone.
    """

    rule: str = "original"
    side: float = 0.0
    rounding: str = "real"

    def resizes(self, sizes: tuple[Size, Size], *, single: bool = False) -> tuple[Resize, Resize]:
        """Return how both images are resized; `single` rounds factors to float32.

        >>> ThresholdFrame("short", 480, "trunc").resizes(((1000, 700), (640, 480)))[0].size
        (685, 480)
        """
        if self.rule not in ("short", "long"):
            made = [original_size(size) for size in sizes]
        else:
            rule = short_side if self.rule == "short" else long_side
            made = [rule(size, self.side, self.rounding) for size in sizes]
        if single:
            made = [
                Resize(r.size, (float(np.float32(r.scale[0])), float(np.float32(r.scale[1])))) for r in made
            ]
        return made[0], made[1]

    def unit(self, sizes: tuple[Size, Size]) -> float:
        """Return the factor that errors are divided by.

        >>> ThresholdFrame("divided", 480).unit(((100, 100), (1440, 960)))
        2.0
        """
        return min(sizes[1]) / self.side if self.rule in ("unit", "divided") else 1.0

    def threshold_unit(self, sizes: tuple[Size, Size]) -> float:
        """Return the factor that a threshold is multiplied by."""
        return self.unit(sizes) if self.rule == "unit" else 1.0

    def __str__(self) -> str:
        if self.rule == "original":
            return "original"
        more = f":{self.rounding}" if self.rule in ("short", "long") and self.rounding != "real" else ""
        return f"{self.rule}:{self.side:g}{more}"


ORIGINAL = ThresholdFrame()


def parse_threshold_frame(text: str) -> ThresholdFrame:
    """Parse a frame: ``original``, ``short:480``, ``short:480:round``, ``long:1024``, ``unit:480``.

    >>> str(parse_threshold_frame("short:480:trunc")), parse_threshold_frame("original") == ORIGINAL
    ('short:480:trunc', True)
    """
    found = _TEXT.fullmatch(text.strip())
    if found is None or (found["rule"] and float(found["side"]) <= 0):
        raise InputError(
            f"unknown frame {text!r}; it is original, short:SIDE or long:SIDE with :round or :trunc behind "
            "it where sides are whole numbers, unit:SIDE or divided:SIDE"
        )
    if not found["rule"]:
        return ORIGINAL
    if found["rounding"] and found["rule"] in ("unit", "divided"):
        raise InputError(f"frame {text!r}: {found['rule']} resizes nothing; leave out {found['rounding']}")
    return ThresholdFrame(found["rule"], float(found["side"]), found["rounding"] or "real")


LEFT_OUT = frozenset(
    (
        "i_contruction",
        "i_crownnight",
        "i_dc",
        "i_pencils",
        "i_whitebuilding",
        "v_artisans",
        "v_astronautis",
        "v_talent",
    )
)
"""Sequences of large images that D2-Net and most matching papers leave out: 108 of 116 stay."""
HEADLINE_PX = 3
Parts = Mapping[str, str | int | float]


@dataclass(frozen=True)
class HomographySetting:
    """Estimator calls of one kind for every pair.

    Attributes:
        estimator: What is called; its threshold is in pixels of the frame.
        frame: Size of both images in which it is called.
        order: `given` (as the method lists its matches), `shuffled` (repeat k in the k-th order of a seeded
            stream) or `exact` (as under `exact`).
        repeats: Calls a pair.
        top: Matches of highest confidence that are used; all where the method gives none.
        parts: What its group of scores is called.
    """

    estimator: HomographyEstimator
    frame: ThresholdFrame = ORIGINAL
    order: str = "given"
    repeats: int = 1
    top: int | None = None
    parts: Parts = field(default_factory=dict)


@dataclass(frozen=True)
class HomographyScoring:
    """Scoring of estimated homographies.

    Attributes:
        thresholds_px: Of the areas that the paper prints.
        area: Name of the area rule: `trapezoid`, `rounded` (trapezoid to four decimals) or `exact`.
        edge: Corners at w, h instead of w - 1, h - 1.
        single: Whether corners are mapped in float32.
        collapsed: A pair without a homography has the error of one that maps everything to (0, 0), which is
            finite; otherwise it is never recalled.
        in_front: The rule of `exact`: corners that the truth sends behind the camera are excluded, and an
            estimate that sends others there is a failure.
    """

    thresholds_px: tuple[float, ...] = (3, 5, 10)
    area: str = "trapezoid"
    edge: bool = False
    single: bool = False
    collapsed: bool = False
    in_front: bool = False


@dataclass(frozen=True)
class HomographyProtocol:
    """Settings, their scoring, and which of them makes the headline: the first.

    `comparison` is the name of its comparison; `leaves_out` whether it has 108 sequences; `kinds` how kinds
    of sequences are distinguished: by the `first` letters of names, or by those that a name does not
    `contain`.
    """

    settings: tuple[HomographySetting, ...]
    scoring: HomographyScoring
    leaves_out: bool = False
    comparison: str = ""
    kinds: str = "first"


def _parts(estimator: str, px: float, **more: str) -> Parts:
    return {"estimator": estimator, "threshold_px": px, **more}


_RANSAC = HomographyEstimator("opencv", 3.0, 0.995, 2000)
_POSELIB = HomographyEstimator("poselib", 2.0, 0.9999, 100_000)
_SHORT_ROUND = ThresholdFrame("short", 480, "round")
_SHORT_TRUNC = ThresholdFrame("short", 480, "trunc")


def _loftr() -> HomographyProtocol:
    setting = HomographySetting(_RANSAC, _SHORT_ROUND, top=1000, parts=_parts("opencv", 3.0))
    return HomographyProtocol((setting,), HomographyScoring(), leaves_out=True)


def _dkm() -> HomographyProtocol:
    setting = HomographySetting(
        replace(_RANSAC, confidence=0.99999), ThresholdFrame("unit", 480), parts=_parts("opencv", 3.0)
    )
    return HomographyProtocol((setting,), HomographyScoring(collapsed=True), leaves_out=True)


def _roma() -> HomographyProtocol:
    return replace(_dkm(), leaves_out=False, comparison="dkm")


def _dad() -> HomographyProtocol:
    setting = HomographySetting(
        _POSELIB, ThresholdFrame("divided", 480), order="shuffled", repeats=5, parts=_parts("poselib", 2.0)
    )
    return HomographyProtocol((setting,), HomographyScoring(), kinds="contain")


def _glue_factory() -> HomographyProtocol:
    opencv = replace(_RANSAC, max_iterations=3000, dtype="float32")
    poselib = replace(_POSELIB, threshold_px=1.0, dtype="float32")
    dlt = HomographyEstimator("dlt", dtype="float32")
    settings = (
        *(
            HomographySetting(replace(opencv, threshold_px=px), _SHORT_TRUNC, parts=_parts("opencv", px))
            for px in (0.5, 3.0)
        ),
        HomographySetting(poselib, _SHORT_TRUNC, parts=_parts("poselib", 1.0)),
        HomographySetting(dlt, _SHORT_TRUNC, parts={"estimator": "dlt"}),
    )
    return HomographyProtocol(
        settings, HomographyScoring((1, 3, 5), "rounded", edge=True, single=True), leaves_out=True
    )


def _toolbox() -> HomographyProtocol:
    estimators = {
        "opencv": _RANSAC,
        "magsac": replace(_RANSAC, method="USAC_MAGSAC"),
        "degensac": HomographyEstimator("degensac", 2.0, 0.9999, 10_000),
    }
    settings = tuple(
        HomographySetting(estimator, frame, parts=_parts(name, estimator.threshold_px, frame=words))
        for name, estimator in estimators.items()
        for frame, words in ((ORIGINAL, "original"), (_SHORT_ROUND, "short:480"))
    )
    return HomographyProtocol(settings, HomographyScoring((1, 3, 5, 10)))


PROTOCOLS: Mapping[str, HomographyProtocol] = {
    "loftr": _loftr(),
    "dkm": _dkm(),
    "roma": _roma(),
    "dad": _dad(),
    "glue-factory": _glue_factory(),
    "toolbox": _toolbox(),
}


def protocol_under(name: str, options: Mapping[str, Any]) -> HomographyProtocol:
    """Return a protocol under the options of its records: another frame, other sequences, further thresholds.

    >>> protocol_under("dkm", {"sequences": "116", "tau_px": [1]}).scoring.thresholds_px
    (1, 3, 5, 10)
    """
    protocol = PROTOCOLS[name]
    more = tuple(sorted({*protocol.scoring.thresholds_px, *options.get("tau_px", ())}))
    protocol = replace(protocol, scoring=replace(protocol.scoring, thresholds_px=more))
    if options.get("sequences") == "116":
        protocol = replace(protocol, leaves_out=False)
    if options.get("frame"):
        frame = parse_threshold_frame(options["frame"])
        settings = (_framed(s, frame) for s in protocol.settings)
        protocol = replace(protocol, settings=tuple({str(s.parts): s for s in settings}.values()))
    return protocol


def _framed(setting: HomographySetting, frame: ThresholdFrame) -> HomographySetting:
    """Return the setting in another frame; a group that was named by its frame is named without."""
    parts = {k: v for k, v in setting.parts.items() if k != "frame"}
    return replace(setting, frame=frame, parts=parts)
