# SPDX-License-Identifier: BSD-3-Clause
"""Homography protocols of matching papers: how estimators are called and how results are scored.

A *setting* defines the estimator calls: matches, frame, estimator and repeats. A *scoring* defines how
homographies become scores: corners, failure error and area. Sequences that a paper excludes are dropped when
scoring.
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
    """Frame: image size or unit of length in which thresholds and errors are measured.

    * `original`: original images, in pixels.
    * `short`, `long`: the shorter or longer side of both images becomes `side`. The other side is rounded as
      `rounding` specifies (`real`, `round`, `trunc`).
    * `unit`: original images. The unit for threshold and errors is min(w2, h2)/`side` pixels.
    * `divided`: as `unit`, for errors only.
    """

    rule: str = "original"
    side: float = 0.0
    rounding: str = "real"

    def resizes(self, sizes: tuple[Size, Size], *, single: bool = False) -> tuple[Resize, Resize]:
        """Return the resize transforms of both images. With `single`, factors are rounded to float32.

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
        """Return the unit of length in pixels by which errors are divided.

        >>> ThresholdFrame("divided", 480).unit(((100, 100), (1440, 960)))
        2.0
        """
        return min(sizes[1]) / self.side if self.rule in ("unit", "divided") else 1.0

    def threshold_unit(self, sizes: tuple[Size, Size]) -> float:
        """Return the factor that converts estimator thresholds to pixels."""
        return self.unit(sizes) if self.rule == "unit" else 1.0

    def __str__(self) -> str:
        if self.rule == "original":
            return "original"
        more = f":{self.rounding}" if self.rule in ("short", "long") and self.rounding != "real" else ""
        return f"{self.rule}:{self.side:g}{more}"


ORIGINAL = ThresholdFrame()


def parse_threshold_frame(text: str) -> ThresholdFrame:
    """Parse a frame such as ``original``, ``short:480``, ``short:480:round``, ``long:1024`` or ``unit:480``.

    >>> str(parse_threshold_frame("short:480:trunc")), parse_threshold_frame("original") == ORIGINAL
    ('short:480:trunc', True)
    """
    found = _TEXT.fullmatch(text.strip())
    if found is None or (found["rule"] and float(found["side"]) <= 0):
        raise InputError(
            f"unknown frame {text!r}; write original, unit:SIDE, divided:SIDE, short:SIDE or long:SIDE; "
            "for integer sizes, append :round or :trunc to short or long"
        )
    if not found["rule"]:
        return ORIGINAL
    if found["rounding"] and found["rule"] in ("unit", "divided"):
        raise InputError(f"frame {text!r}: {found['rule']} takes no rounding; remove {found['rounding']}")
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
"""Sequences of large images that D2-Net and most matching papers exclude, leaving 108 of 116."""
HEADLINE_PX = 3
Parts = Mapping[str, str | int | float]


@dataclass(frozen=True)
class HomographySetting:
    """How homographies are estimated for every image pair.

    Attributes:
        estimator: Estimator to call. Its threshold is in pixels of the frame.
        frame: Frame of both images.
        order: Order of the matches. `given`: as the method lists them. `shuffled`: a seeded random order for
            each repeat. `exact`: the order of the protocol `exact`.
        repeats: Number of calls per pair.
        top: Number of matches of highest confidence to use. All matches if the method has no confidence.
        parts: Parts of the group name of its scores.
    """

    estimator: HomographyEstimator
    frame: ThresholdFrame = ORIGINAL
    order: str = "given"
    repeats: int = 1
    top: int | None = None
    parts: Parts = field(default_factory=dict)


@dataclass(frozen=True)
class HomographyScoring:
    """How estimated homographies are scored.

    Attributes:
        thresholds_px: Thresholds of the areas that the paper prints.
        area: Name of the area rule: `trapezoid`, `rounded` (trapezoid rounded to four decimals) or `exact`.
        edge: Whether corners are at w, h instead of w - 1, h - 1.
        single: Whether corners are mapped in float32.
        collapsed: Whether a missing homography has the finite error of one that maps all points to (0, 0).
            Otherwise its error is infinite.
        in_front: Whether to use the convention of `exact`: corners that the true homography maps behind the
            camera are excluded, and an estimate that maps other corners there is a failure.
    """

    thresholds_px: tuple[float, ...] = (3, 5, 10)
    area: str = "trapezoid"
    edge: bool = False
    single: bool = False
    collapsed: bool = False
    in_front: bool = False


@dataclass(frozen=True)
class HomographyProtocol:
    """A homography protocol: settings of estimators, and scoring. The first setting gives the headline.

    `comparison` is the name of its records. `leaves_out` states whether eight sequences are excluded.
    `kinds` is the rule that determines the kind of a sequence (see `is_of`): `first` or `contain`.
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
    """Return a protocol changed by a run's options: frame, sequences and additional thresholds.

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
    """Return the setting with another frame, without the part of the group name that states its old frame."""
    parts = {k: v for k, v in setting.parts.items() if k != "frame"}
    return replace(setting, frame=frame, parts=parts)
