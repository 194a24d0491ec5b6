# SPDX-License-Identifier: BSD-3-Clause
"""`ExperimentMetrics`: results of a keypoint experiment, collected by query, aggregated and serialised.

Names and conventions follow an older tool: the order of averaging, skipped values, and -1 or 0 for "not
measured". Task scores use NaN and a reason instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from .macro_means import Lists, exact_mean, macro_mean, macro_with_zeros, union_with_zeros

NOT_MEASURED = -1.0
_HISTOGRAM_RANKS = 10
_AT_K = tuple(f"{kind}_at_{k}" for kind in ("precision", "recall") for k in (1, 5, 10))
_LEGACY = ("mean_precision", "legacy_macro_precision_by_scene", "total_matches", "total_keypoints")
_QUERIES = ("true_map_micro_including_zeros", "total_queries_processed", "total_queries_excluded")
_ANSWERED = ("true_map_micro", "true_map_macro_by_scene", "true_map_macro_by_scene_including_zeros", *_AT_K)
METADATA = (*_LEGACY, *_QUERIES, *_ANSWERED, "viewpoint_map", "illumination_map")
"""Allowed metadata keys of a ranking result, in addition to its per-scene keys."""

_SWITCHED = (
    "image_retrieval_map",
    *(f"keypoint_{task}_ap" for task in ("verification", "retrieval")),
    *(
        f"{task}_{kind}_ap"
        for task in ("verification", "retrieval")
        for kind in ("viewpoint", "illumination")
    ),
)
"""Values of optional tasks; -1 if the task was not run."""


def _lists() -> Lists:
    return {}


@dataclass(frozen=True)
class QueryAPResult:
    """Result of one query. The default values describe a query without ground truth."""

    ap: float = 0.0
    rank_of_true_match: int = -1
    total_relevant: int = 0
    has_potential_match: bool = False


@dataclass
class ExperimentMetrics:
    """Results of an experiment per image and per query; `calculate_mean_precision` aggregates them.

    Scenes are visited in the order of their names. `merge` joins the results of two objects and is
    associative. It does not merge aggregates, times, or verification and retrieval values: call
    `calculate_mean_precision` afterwards.

    The legacy precision of an image pair is the share of its mutual nearest neighbours that are correct.
    `get_scene_average_precision` is the mean of the legacy precision; it is not an AP. `precision_at_k` is
    the share of queries with the answer among the first k (success at k). `mean_average_precision` is the
    macro value, or the micro value if the macro value is 0.

    >>> m = ExperimentMetrics()
    >>> m.add_query_ap("v_wall", QueryAPResult(0.5, 2, 1, True))
    >>> m.add_query_ap("v_wall", QueryAPResult())
    >>> m.calculate_mean_precision()
    >>> m.true_map_micro, m.true_map_micro_including_zeros, m.precision_at_5
    (0.5, 0.25, 1.0)
    """

    precisions_per_image: list[float] = field(default_factory=list)
    mean_precision: float = 0.0
    legacy_macro_precision_by_scene: float = 0.0
    true_map_micro: float = 0.0
    true_map_macro_by_scene: float = 0.0
    true_map_micro_including_zeros: float = 0.0
    true_map_macro_by_scene_including_zeros: float = 0.0
    viewpoint_map: float = 0.0
    illumination_map: float = 0.0
    viewpoint_map_including_zeros: float = 0.0
    illumination_map_including_zeros: float = 0.0
    precision_at_1: float = 0.0
    precision_at_5: float = 0.0
    precision_at_10: float = 0.0
    recall_at_1: float = 0.0
    recall_at_5: float = 0.0
    recall_at_10: float = 0.0
    total_matches: int = 0
    total_keypoints: int = 0
    total_images_processed: int = 0
    per_scene_precisions: Lists = field(default_factory=_lists)
    per_scene_matches: dict[str, int] = field(default_factory=dict)
    per_scene_keypoints: dict[str, int] = field(default_factory=dict)
    per_scene_image_count: dict[str, int] = field(default_factory=dict)
    ap_per_query: list[float] = field(default_factory=list)
    per_scene_ap: Lists = field(default_factory=_lists)
    per_scene_excluded: dict[str, int] = field(default_factory=dict)
    viewpoint_scene_ap: Lists = field(default_factory=_lists)
    illumination_scene_ap: Lists = field(default_factory=_lists)
    viewpoint_scene_excluded: dict[str, int] = field(default_factory=dict)
    illumination_scene_excluded: dict[str, int] = field(default_factory=dict)
    total_queries_processed: int = 0
    total_queries_excluded: int = 0
    ranks_per_query: list[int] = field(default_factory=list)
    image_retrieval_ap_per_query: list[float] = field(default_factory=list)
    image_retrieval_ap_per_scene: Lists = field(default_factory=_lists)
    image_retrieval_map: float = NOT_MEASURED
    image_retrieval_queries: int = 0
    keypoint_verification_ap: float = NOT_MEASURED
    verification_viewpoint_ap: float = NOT_MEASURED
    verification_illumination_ap: float = NOT_MEASURED
    keypoint_retrieval_ap: float = NOT_MEASURED
    retrieval_viewpoint_ap: float = NOT_MEASURED
    retrieval_illumination_ap: float = NOT_MEASURED
    retrieval_num_true_positives: int = 0
    retrieval_num_hard_negatives: int = 0
    retrieval_num_distractors: int = 0
    processing_time_ms: float = 0.0
    success: bool = True
    error_message: str = ""

    @classmethod
    def create_error(cls, message: str) -> ExperimentMetrics:
        """Return metrics that mark the experiment as failed with a message. Merging keeps the failure."""
        return cls(success=False, error_message=message)

    @classmethod
    def create_success(cls) -> ExperimentMetrics:
        """Return empty metrics of a successful experiment."""
        return cls()

    def add_image_result(self, scene: str, precision: float, matches: int, keypoints: int) -> None:
        """Add the legacy precision of one image pair, with its numbers of matches and target keypoints."""
        self.precisions_per_image.append(float(precision))
        self.per_scene_precisions.setdefault(scene, []).append(float(precision))
        self.total_matches += int(matches)
        self.total_keypoints += int(keypoints)
        self.total_images_processed += 1
        _add(self.per_scene_matches, scene, int(matches))
        _add(self.per_scene_keypoints, scene, int(keypoints))
        _add(self.per_scene_image_count, scene, 1)

    def add_query_ap(self, scene: str, result: QueryAPResult) -> None:
        """Add the AP of a query, or count the query as excluded if it has no ground truth."""
        split = {"v": self.viewpoint_scene_ap, "i": self.illumination_scene_ap}.get(scene[:1])
        excluded = {"v": self.viewpoint_scene_excluded, "i": self.illumination_scene_excluded}.get(scene[:1])
        if result.has_potential_match:
            self.ap_per_query.append(result.ap)
            self.per_scene_ap.setdefault(scene, []).append(result.ap)
            self.ranks_per_query.append(result.rank_of_true_match)
            self.total_queries_processed += 1
            if split is not None:
                split.setdefault(scene, []).append(result.ap)
        else:
            self.ranks_per_query.append(-1)
            self.total_queries_excluded += 1
            _add(self.per_scene_excluded, scene, 1)
            if excluded is not None:
                _add(excluded, scene, 1)

    def add_image_retrieval_ap(self, scene: str, ap: float) -> None:
        """Add the AP of one query image of a scene in the image retrieval task."""
        self.image_retrieval_ap_per_query.append(float(ap))
        self.image_retrieval_ap_per_scene.setdefault(scene, []).append(float(ap))
        self.image_retrieval_queries = len(self.image_retrieval_ap_per_query)

    def calculate_mean_precision(self) -> None:
        """Compute all aggregates and reset the verification values to "not measured"."""
        self.mean_precision = exact_mean(self.precisions_per_image)
        self.legacy_macro_precision_by_scene = macro_mean(
            self.per_scene_precisions, empty=self.mean_precision
        )
        self.true_map_micro = exact_mean(self.ap_per_query)
        self.true_map_macro_by_scene = macro_mean(self.per_scene_ap, empty=self.true_map_micro)
        queries = self.total_queries_processed + self.total_queries_excluded
        self.true_map_micro_including_zeros = math.fsum(self.ap_per_query) / queries if queries else 0.0
        self.true_map_macro_by_scene_including_zeros = macro_with_zeros(
            self.per_scene_ap, self.per_scene_excluded, empty=self.true_map_micro_including_zeros
        )
        self.viewpoint_map = macro_mean(self.viewpoint_scene_ap)
        self.illumination_map = macro_mean(self.illumination_scene_ap)
        self.viewpoint_map_including_zeros = union_with_zeros(
            self.viewpoint_scene_ap, self.viewpoint_scene_excluded
        )
        self.illumination_map_including_zeros = union_with_zeros(
            self.illumination_scene_ap, self.illumination_scene_excluded
        )
        for k in (1, 5, 10):
            value = self._success_at(k)
            setattr(self, f"precision_at_{k}", value)
            setattr(self, f"recall_at_{k}", value)
        self.image_retrieval_queries = len(self.image_retrieval_ap_per_query)
        self.image_retrieval_map = (
            exact_mean(self.image_retrieval_ap_per_query) if self.image_retrieval_queries else NOT_MEASURED
        )
        self.keypoint_verification_ap = NOT_MEASURED
        self.verification_viewpoint_ap = NOT_MEASURED
        self.verification_illumination_ap = NOT_MEASURED

    def _success_at(self, k: int) -> float:
        ranks = [r for r in self.ranks_per_query if r > 0]
        return sum(r <= k for r in ranks) / len(ranks) if ranks else 0.0

    def merge(self, other: ExperimentMetrics) -> ExperimentMetrics:
        """Add the results of `other`. The result has failed if either has; messages are joined by "; "."""
        if not other.success:
            self.success = False
            self.error_message = "; ".join(m for m in (self.error_message, other.error_message) if m)
        for name in (
            "precisions_per_image",
            "ap_per_query",
            "ranks_per_query",
            "image_retrieval_ap_per_query",
        ):
            getattr(self, name).extend(getattr(other, name))
        for name in ("matches", "keypoints", "images_processed", "queries_processed", "queries_excluded"):
            setattr(self, f"total_{name}", getattr(self, f"total_{name}") + getattr(other, f"total_{name}"))
        for name in _LIST_MAPS:
            own: Lists = getattr(self, name)
            for scene, values in getattr(other, name).items():
                own.setdefault(scene, []).extend(values)
        for scene, values in other.per_scene_precisions.items():
            _add(self.per_scene_matches, scene, other.per_scene_matches.get(scene, 0))
            _add(self.per_scene_keypoints, scene, other.per_scene_keypoints.get(scene, 0))
            _add(self.per_scene_image_count, scene, other.per_scene_image_count.get(scene, len(values)))
        for name in ("per_scene_excluded", "viewpoint_scene_excluded", "illumination_scene_excluded"):
            for scene, count in getattr(other, name).items():
                _add(getattr(self, name), scene, count)
        self.image_retrieval_queries = len(self.image_retrieval_ap_per_query)
        return self

    def get_scene_average_precision(self, scene: str) -> float:
        """Return the mean legacy precision of a scene, 0.0 if the scene is unknown."""
        return exact_mean(self.per_scene_precisions.get(scene, []))

    def get_scene_names(self) -> list[str]:
        """Return the sorted names of the scenes that have a legacy precision."""
        return sorted(self.per_scene_precisions)

    def rank_histogram(self) -> dict[str, int]:
        """Count queries by rank of the answer: ``"0"`` (no ground truth), ``"1"`` to ``"10"``, ``">10"``.

        >>> m = ExperimentMetrics(ranks_per_query=[1, 1, 30, -1])
        >>> h = m.rank_histogram(); h["0"], h["1"], h[">10"]
        (1, 2, 1)
        """
        above = f">{_HISTOGRAM_RANKS}"
        counts = dict.fromkeys([*(str(i) for i in range(_HISTOGRAM_RANKS + 1)), above], 0)
        for rank in self.ranks_per_query:
            counts[str(max(rank, 0)) if rank <= _HISTOGRAM_RANKS else above] += 1
        return counts

    @property
    def mean_average_precision(self) -> float:
        """The macro mAP `true_map_macro_by_scene` if it is positive, else the micro mAP `true_map_micro`."""
        return self.true_map_macro_by_scene if self.true_map_macro_by_scene > 0 else self.true_map_micro

    @property
    def true_map_micro_with_zeros(self) -> float:
        """Alias of `true_map_micro_including_zeros`; the schema uses this name."""
        return self.true_map_micro_including_zeros

    @property
    def true_map_macro_with_zeros(self) -> float:
        """Alias of `true_map_macro_by_scene_including_zeros`; the schema uses this name."""
        return self.true_map_macro_by_scene_including_zeros

    @property
    def viewpoint_map_with_zeros(self) -> float:
        """Alias of `viewpoint_map_including_zeros`; the schema uses this name."""
        return self.viewpoint_map_including_zeros

    @property
    def illumination_map_with_zeros(self) -> float:
        """Alias of `illumination_map_including_zeros`; the schema uses this name."""
        return self.illumination_map_including_zeros

    def to_metadata_string(self, extra: Mapping[str, object] | None = None) -> str:
        """Format the `metadata` column: ``key=value;`` in sorted order, floats with six decimals.

        The values are those of `metadata_pairs`. `extra` adds keys, such as experiment name, times and
        device.
        """
        return metadata_string(metadata_pairs(self) | dict(extra or {}))


_LIST_MAPS = (
    "per_scene_precisions",
    "per_scene_ap",
    "viewpoint_scene_ap",
    "illumination_scene_ap",
    "image_retrieval_ap_per_scene",
)


def _add(counts: dict[str, int], key: str, amount: int) -> None:
    counts[key] = counts.get(key, 0) + amount


def metadata_pairs(metrics: ExperimentMetrics) -> dict[str, object]:
    """Return the metadata of a result, with the keys that the older tool writes and documents.

    A value that was not measured is omitted, whereas the older tool writes 0. Keys are present only if the
    result has their data:

    - precision, and numbers of matches, keypoints and images: image results;
    - counts of queries: at least one query;
    - means and success at k: a query with ground truth;
    - mean of a scene kind (viewpoint, illumination): a scene of that kind.

    Each scene with at least one AP adds its `scene_pairs`. `r0_rate` is excluded / (processed + excluded).
    """
    pairs: dict[str, object] = {"success": "true" if metrics.success else "false"}
    if metrics.error_message:
        pairs["error_message"] = metrics.error_message.replace(";", ",")
    names: list[str] = [name for name in _SWITCHED if getattr(metrics, name) != NOT_MEASURED]
    if metrics.keypoint_retrieval_ap != NOT_MEASURED:
        names += [f"retrieval_num_{x}" for x in ("true_positives", "hard_negatives", "distractors")]
    if metrics.precisions_per_image:
        names += _LEGACY
        pairs["total_images"] = metrics.total_images_processed
    if metrics.ranks_per_query:
        names += _QUERIES
        pairs["r0_rate"] = metrics.total_queries_excluded / len(metrics.ranks_per_query)
    if metrics.ap_per_query:
        names += _ANSWERED
    for name, by_scene in (
        ("viewpoint_map", metrics.viewpoint_scene_ap),
        ("illumination_map", metrics.illumination_scene_ap),
    ):
        names += [name] * bool(by_scene)
    pairs |= {name: getattr(metrics, name) for name in names}
    for scene, values in metrics.per_scene_ap.items():
        if values:
            excluded = metrics.per_scene_excluded.get(scene, 0)
            zeros = math.fsum(values) / (len(values) + excluded)
            pairs |= scene_pairs(scene, exact_mean(values), len(values), zeros, excluded)
    return pairs


def scene_pairs(scene: str, mean: float, count: int, with_zeros: float, excluded: int) -> dict[str, object]:
    """Return the metadata of one scene: its mean AP, with and without excluded queries, and their numbers.

    >>> list(scene_pairs("v_wall", 0.5, 2, 0.25, 2))
    ['v_wall_true_map', 'v_wall_query_count', 'v_wall_true_map_with_zeros', 'v_wall_excluded_count']
    """
    return {
        f"{scene}_true_map": float(mean),
        f"{scene}_query_count": int(count),
        f"{scene}_true_map_with_zeros": float(with_zeros),
        f"{scene}_excluded_count": int(excluded),
    }


def metadata_string(pairs: Mapping[str, object]) -> str:
    """Format key-value pairs as ``key=value;`` in sorted order, floats with six decimals.

    >>> metadata_string({"b": 0.5, "a": 3})
    'a=3;b=0.500000;'
    """
    return "".join(
        f"{key}={value:.6f};" if isinstance(value, float) else f"{key}={value};"
        for key, value in sorted(pairs.items())
    )
