# SPDX-License-Identifier: BSD-3-Clause
"""Parse experiment files in the YAML format of DescriptorWorkbench. Unknown keys are errors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ...core.errors import InputError, UnknownNameError
from ...formats.json_yaml import read_mapping

_NEVER = "had no effect in DescriptorWorkbench and has none here; remove it"
DEAD_KEYS = {
    "dataset.type": "sequences are recognised by their files; remove it",
    "keypoints.alternative_keypoints.description": "write it as a comment; remove it",
    "keypoints.num_octaves": "SIFT computes the number of octaves from the image size; remove it",
    "keypoints.use_locked_keypoints": f"{_NEVER}, and name the set in keypoint_set_name",
    "keypoints.locked_keypoints_path": f"{_NEVER}; the command `keypoints import` reads such files",
    "keypoints.keypoints_params": _NEVER,
    "descriptors.use_color": "colour follows from the type of the descriptor; remove it",
    "descriptors.root_normalization": f"{_NEVER}; write rooting_stage: after_pooling",
    "descriptors.normalization": f"{_NEVER}; write normalize_after_pooling and norm_type",
    "descriptors.normalization_stage": f"{_NEVER}; write normalize_before_pooling or normalize_after_pooling",
    "descriptors.device": "all descriptors share one device; write performance.device",
    "descriptors.components.rooting_stage": f"{_NEVER}; use rootsift as the component's descriptor",
    "evaluation.validation": f"{_NEVER}; the tolerance is evaluation.tau_px",
    "evaluation.num_distractors": f"{_NEVER}; write num_distractor_scenes and num_distractors_per_scene",
    "evaluation.keypoint_verification.num_distractors": f"{_NEVER}; write num_distractors_per_scene",
    "evaluation.keypoint_retrieval.num_distractors": f"{_NEVER}; write num_distractors_per_scene",
    "evaluation.matching.norm": "the descriptor determines the distance; remove it",
    "evaluation.matching.cross_check": "brute_force is always mutual; remove it",
    "evaluation.matching.threshold": f"{_NEVER}; write ratio_threshold",
    "evaluation.matching.ratio_test_threshold": f"{_NEVER}; write ratio_threshold",
    "database.save_keypoints": f"{_NEVER}; features are always stored",
    "database.save_descriptors": "features are always stored; remove it",
    "database.save_matches": "records are always stored; remove it",
    "database.save_visualizations": "the report draws pictures; remove it",
    "performance.parallel_scenes": "scenes always run in parallel; write performance.num_threads",
    "performance.parallel_images": _NEVER,
    "performance.batch_size": _NEVER,
    "performance.enable_profiling": f"{_NEVER}; costs are always measured",
}
"""Unsupported keys of DescriptorWorkbench's experiment files, with advice for each key."""

AGGREGATIONS = {
    "avg": "average",
    "concat": "concatenate",
    "weighted_avg": "weighted",
}
"""Accepted spellings of aggregation names."""


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


several = BeforeValidator(_as_tuple)
"""One value or a list of values."""
Several = Annotated[tuple[str, ...], several]


def _no_truth(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("expected a number, found a Boolean; YAML reads yes, no, on and off as Booleans")
    return value


number = BeforeValidator(_no_truth)
"""A number. A YAML boolean such as `yes` is an error."""
Fraction = Annotated[float, number, Field(gt=0, lt=1)]
Positive = Annotated[float, number, Field(gt=0)]
Count = Annotated[int, number, Field(ge=1)]
Matcher = Annotated[str, Field(pattern=r"^(brute_force|ratio_test|.+\.py:\w+)$")]


class ConfigSection(BaseModel):
    """One section of the file. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ExperimentInfo(ConfigSection):
    """Section ``experiment``: a description, stored in the manifest of every run."""

    name: str
    description: str = ""
    version: str = "1.0"
    author: str = ""


class DatasetConfig(ConfigSection):
    """Section ``dataset``: a folder of image sequences."""

    path: Path
    scenes: tuple[str, ...] = ()


class Alternative(ConfigSection):
    """A keypoint set that extends the grid of runs."""

    keypoint_set_name: str


class KeypointPlaces(ConfigSection):
    """Section ``keypoints``: positions of the descriptors. Several detectors or keypoint sets form a grid."""

    generator: Several = ("sift",)
    """Detectors, with parameters in command-line syntax: ``surf?threshold=0.001``."""
    max_features: Count | None = 2000
    border_px: Annotated[float, number, Field(ge=0)] | None = None
    """Margin in pixels: 40 by default for `homography_projection`, 0 otherwise."""
    contrast_threshold: Positive | None = None
    edge_threshold: Positive | None = None
    sigma: Positive | None = None
    source: Literal["independent_detection", "homography_projection", "database"] = "independent_detection"
    keypoint_set_name: str | None = None
    alternative_keypoints: tuple[Alternative, ...] = ()


class Component(ConfigSection):
    """One component of a composite descriptor."""

    descriptor: str
    weight: Positive | None = None
    keypoint_set_name: str | None = None
    extended: bool = False


class DescriptorPlan(ConfigSection):
    """Entry of ``descriptors``. Lists in `pooling`, `pooling_aggregation` or `rooting_stage` form a grid."""

    name: str
    type: str
    keypoint_set_name: str | None = None
    pooling: Annotated[tuple[Literal["none", "domain_size_pooling", "dsp", "stacking"], ...], several] = (
        "none",
    )
    pooling_aggregation: Annotated[tuple[str, ...], several] | None = None
    scales: tuple[Positive, ...] | None = None
    scale_weights: tuple[float, ...] | None = None
    scale_weighting: Literal["uniform", "triangular", "gaussian"] | None = None
    scale_weight_sigma: Positive | None = None
    normalize_before_pooling: bool = False
    normalize_after_pooling: bool | None = None
    rooting_stage: Annotated[tuple[Literal["none", "before_pooling", "after_pooling"], ...], several] = (
        "none",
    )
    norm_type: Literal["l1", "l2"] | None = None
    extended: bool = False
    secondary_descriptor: str | None = None
    stacking_weight: Annotated[float, number, Field(gt=0)] | None = None
    components: tuple[Component, ...] = ()
    aggregation: str | None = None


class MatchingConfig(ConfigSection):
    """Section ``matching``: how `keypoints/images` and `keypoints/geometry` match image pairs.

    A method is `brute_force`, `ratio_test` or a custom class, ``my.py:Class``.
    """

    method: Annotated[tuple[Matcher, ...], several] = ("brute_force",)
    ratio_threshold: Fraction = 0.8


class ImageRetrieval(ConfigSection):
    """Section ``image_retrieval``: options of the task `keypoints/images`."""

    enabled: bool = False
    scorer: Literal["total_matches", "ratio_sum", "correct_matches"] = "total_matches"


class Distractors(ConfigSection):
    """Sections ``keypoint_verification`` and ``keypoint_retrieval``: number and seed of distractors."""

    enabled: bool = False
    num_distractor_scenes: Annotated[int, number, Field(ge=0)] = 10
    num_distractors_per_scene: Annotated[int, number, Field(ge=0)] = 20
    seed: Annotated[int, number] = 42


class Evaluation(ConfigSection):
    """Section ``evaluation``: tasks, protocols and their options."""

    protocols: Annotated[tuple[str, ...], several] = ("exact", "workbench")
    ranking: bool = True
    pair_matching: bool = False
    geometry: bool = False
    tau_px: Positive = 3.0
    policy: Literal["all_within_tau", "nearest", "mutual"] = "all_within_tau"
    gallery: tuple[Annotated[int, number, Field(ge=2)], ...] = (250, 500, 1000, 2000)
    seed: Annotated[int, number] = 0
    matching: MatchingConfig = MatchingConfig()
    image_retrieval: ImageRetrieval = ImageRetrieval()
    keypoint_verification: Distractors = Distractors()
    keypoint_retrieval: Distractors = Distractors()


class DatabaseConfig(ConfigSection):
    """Section ``database``: the store. ``sqlite:///NAME`` selects a folder beside the experiment file."""

    connection: str | None = None


class Performance(ConfigSection):
    """Section ``performance``: number of processes and device."""

    num_threads: Annotated[int, number, Field(ge=0)] = 0
    device: str = "cpu"
    on_bad: Literal["error", "miss", "keep-zeros"] = "error"


class Experiment(ConfigSection):
    """An experiment file."""

    experiment: ExperimentInfo
    dataset: DatasetConfig
    keypoints: KeypointPlaces = KeypointPlaces()
    descriptors: Annotated[tuple[DescriptorPlan, ...], Field(min_length=1)]
    evaluation: Evaluation = Evaluation()
    database: DatabaseConfig = DatabaseConfig()
    performance: Performance = Performance()


def read_experiment(path: Path, performance: Mapping[str, Any] | None = None) -> Experiment:
    """Read and check an experiment file. Error messages name the key in the file.

    Values of the argument `performance` override the values in the file.
    """
    found = read_mapping(path, "no section found; expected experiment, dataset, descriptors …")
    stated = found.get("performance") or {}
    if performance and isinstance(stated, dict):
        found = found | {"performance": {**stated, **performance}}
    return parse_experiment(found, str(path))


def parse_experiment(found: dict[str, Any], where: str) -> Experiment:
    """Check a parsed YAML file and return it as an `Experiment`.

    >>> parse_experiment({"experiment": {"name": "a"}, "datset": {}}, "a.yaml")
    Traceback (most recent call last):
    tiepoint.core.errors.UnknownNameError: unknown key of a.yaml 'datset'; did you mean 'dataset' ...
    """
    _known(found, Experiment, "", where)
    try:
        return Experiment.model_validate(found)
    except ValidationError as e:
        first = e.errors()[0]
        place = ".".join(str(p) for p in first["loc"])
        problem = first["msg"].removeprefix("Value error, ")
        raise InputError(f"{where}: {place}: {problem}, found {first.get('input')!r}") from e


def _known(found: Any, model: type[BaseModel], place: str, where: str) -> None:
    """Raise an error for unknown keys, with suggestions, before any other check."""
    if not isinstance(found, dict):
        return
    for key, value in found.items():
        at = f"{place}{key}"
        if key not in model.model_fields:
            if at.replace("[]", "") in DEAD_KEYS:
                raise InputError(f"{where}: {at.replace('[]', '')}: {DEAD_KEYS[at.replace('[]', '')]}")
            raise UnknownNameError(f"key of {where}", at, [f"{place}{f}" for f in model.model_fields])
        inner = _inner(model, key)
        if inner is None:
            continue
        many = value if isinstance(value, list) else [value]
        for part in many:
            _known(part, inner, f"{at}{'[]' if isinstance(value, list) else ''}.", where)


def _inner(model: type[BaseModel], key: str) -> type[BaseModel] | None:
    """Return the section class of a key, None for a plain value."""
    kind: Any = model.model_fields[key].annotation
    for candidate in (kind, *getattr(kind, "__args__", ())):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


__all__ = ["Experiment", "parse_experiment", "read_experiment"]
