# SPDX-License-Identifier: BSD-3-Clause
"""Tasks `stress/*`: how far can an image change until a method no longer matches it?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ...core.errors import InputError
from ...core.records import Records
from ...core.scores import Score
from ...datasets.single_images import first_images
from ...datasets.stress_kinds import KINDS, StressKind
from ...stats.breakdown import StressCurve
from ..base import BaseTask, MetricInfo, TaskInfo
from ..cases import Cases, pair_cases
from ..info import ASIFT
from ..unit_values import Means, MeansOfUnits, Reasons, UnitFacts, UnitWeights, unit_weights
from .data import NoiseOptions, OpenStress, StressOptions
from .score import DESCRIPTIONS, METRICS, curves_from_values, score_levels

_CHANGES = {
    "rotation": "be rotated",
    "scale": "be reduced",
    "tilt": "be tilted in space",
    "blur": "be blurred",
    "gamma": "be darkened",
    "jpeg": "be compressed",
    "noise": "be covered with noise",
}
_TITLES = {"corner": "corner score", "mma": "matching accuracy", "matching_score": "matching score"}


def _words(metric: str) -> Any:
    def words(parts: Mapping[str, str]) -> str:
        where = f"at level {parts['level']}" if "level" in parts else "mean over levels and scenes"
        return f"{DESCRIPTIONS[metric]}, {where}"

    return words


def _metrics(kind: StressKind) -> dict[str, MetricInfo]:
    better = "lower" if kind.last < kind.levels[0] else "higher"
    points = {
        f"breakdown_{m}": MetricInfo(
            f"level at which a non-increasing fit of {_TITLES[m]} falls to half of its first value",
            unit=kind.unit,
            better=better,
            title=f"breakdown ({_TITLES[m]})",
        )
        for m in METRICS
    }
    return {m: MetricInfo(_words(m), title=_TITLES[m]) for m in METRICS} | points


class Stress(MeansOfUnits, BaseTask):
    """One of the tasks `stress/*`: match an image with itself after one kind of change, at several levels."""

    family = "pairs"
    means: ClassVar[Means] = {"corner": frozenset({"level"}), "mma": frozenset({"level"})}
    reasons: ClassVar[Reasons] = {
        "matching_score": "methods that return matches have none",
        **{f"breakdown_{metric}": "a point of a curve is no mean of unit values" for metric in METRICS},
    }

    def __init__(self, kind: StressKind) -> None:
        self.kind = kind
        self.name = f"stress/{kind.name}"
        self.options = NoiseOptions if kind.name == "noise" else StressOptions
        self.info = TaskInfo(
            f"How far can an image {_CHANGES[kind.name]} until it is no longer matched?",
            ("corner", "all"),
            _metrics(kind),
            columns=(*METRICS, "breakdown_corner"),
            summary_metrics=("corner", "breakdown_corner"),
            table_note="scores are means over all levels; synthetic changes of one plane do not show the "
            "order of methods on photographs",
            cite=(ASIFT,) if kind.name == "tilt" else (),
            licence="images: the licence of their dataset",
            title=f"Stress: {kind.name}",
        )

    def open(self, data: Path, options: Mapping[str, Any]) -> OpenStress:
        """Open a folder of images or a dataset. Report unknown options and bad images in one error."""
        chosen: Any = self.options.parse(self.name, options)
        levels: tuple[float, ...] = chosen.levels or self.kind.levels
        try:
            levels = self.kind.check(levels)
        except ValueError as e:
            given, known = (",".join(f"{x:g}" for x in some) for some in (levels, self.kind.levels))
            raise InputError(f"option levels of {self.name}: {e}, such as {known}; found {given}") from None
        return OpenStress(self.name, self.kind, levels, first_images(data), chosen)

    def score(self, records: Sequence[Records], protocol: str) -> list[Score]:
        """Compute the scores from the records alone."""
        self.comparison(protocol)
        return score_levels(records, self.kind)

    # races

    def unit_facts(self, opened: OpenStress) -> Mapping[str, UnitFacts]:
        """Return the scene of every unit."""
        return {scene: UnitFacts(scene, "other") for scene in opened.images}

    def facts_of(self, record: Records) -> UnitFacts:
        """Return the scene of a record as the properties of its unit."""
        return UnitFacts(str(record.meta["scene"]), "other")

    def weigh(
        self,
        units: Mapping[str, UnitFacts],
        sizes: Mapping[str, float],
        protocol: str,
        parts: Mapping[str, str],
    ) -> UnitWeights:
        """Return equal weights of all scenes."""
        return unit_weights(units, sizes, unit="scene")

    # curves and pictures

    def stress_curves(self, tables: Mapping[tuple[str, str], object]) -> Mapping[str, StressCurve]:
        """Return the curve of each metric from scene values by metric and group."""
        return curves_from_values(tables, self.kind)

    def pair_accuracy(self, records: Sequence[Records]) -> Iterator[tuple[str, float]]:
        """Return the score `corner` of each pair."""
        for r in records:
            yield from zip(map(str, r.meta["pairs"]), map(float, r["corner"]), strict=True)

    def cases(self, records: Sequence[Records], scene: str) -> Cases | None:
        """Return the levels of a scene, scored by `corner`."""
        own = [r for r in records if r.meta["scene"] == scene]
        return pair_cases(list(self.pair_accuracy(own))) if own else None

    def match_count(self, records: Sequence[Records], scene: str, key: str) -> int | None:
        """Return the number of matches of the pair `key`. None if its records do not contain it."""
        for r in records:
            if key in r.meta["pairs"]:
                return int(r["matches"][list(r.meta["pairs"]).index(key)])
        return None


ROTATION, SCALE, TILT, BLUR, GAMMA, JPEG, NOISE = (Stress(kind) for kind in KINDS.values())
