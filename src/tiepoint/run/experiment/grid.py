# SPDX-License-Identifier: BSD-3-Clause
"""Expand an experiment file to a grid of runs. Each run has a method specification, a task and options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...methods.keypoints.pooling import SCALES
from ...methods.keypoints.spec import ALIASES, with_params, workbench_part
from ...methods.spec import is_program
from .config import AGGREGATIONS, DescriptorPlan, Evaluation, Experiment, KeypointPlaces

PROJECTED_BORDER_PX = 40.0
OF_SCALES = ("scales", "scale_weights", "scale_weighting", "scale_weight_sigma")
OF_ONE = (
    *("extended", *OF_SCALES, "pooling_aggregation", "secondary_descriptor", "stacking_weight", "norm_type"),
    *("normalize_before_pooling", "normalize_after_pooling", "pooling"),
)
"""Settings that apply to a single descriptor."""


@dataclass(frozen=True)
class KeypointSource:
    """Keypoints at which a descriptor is computed, as written after ``@`` in the specification.

    If `make` is set, a keypoint set of this detector is created before the runs start.
    """

    text: str
    label: str
    make: str | None = None


@dataclass(frozen=True)
class GridCell:
    """One run of the grid."""

    name: str
    spec: str
    task: str
    protocols: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    make: str | None = None


def plan(experiment: Experiment) -> list[GridCell]:
    """Return all combinations of keypoints, descriptors, poolings, tasks and matchings, in file order.

    A run is named after its descriptor. Settings that vary are appended: ``NAME/pooling=dsp@surf``.
    """
    names = [d.name for d in experiment.descriptors]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two descriptors have the name {name!r}; give each its own name")
    found = []
    for descriptor in experiment.descriptors:
        own = places(experiment.keypoints, descriptor, experiment.experiment.name)
        if is_program(descriptor.type):
            own = [KeypointSource("", "own keypoints")]
        for varied, text in variants(descriptor):
            for place in own:
                label = f"{descriptor.name}{varied}" + (f"@{place.label}" if len(own) > 1 else "")
                spec = text if place.text == "" else _at(text, place.text)
                for task, protocols, options, suffix in enabled_tasks(
                    experiment.evaluation, experiment.keypoints
                ):
                    if experiment.dataset.scenes:
                        options = {**options, "scenes": list(experiment.dataset.scenes)}
                    found.append(GridCell(label + suffix, spec, task, protocols, options, place.make))
    if not found:
        raise InputError("this experiment has no task; switch on ranking, geometry or another evaluation")
    return found


def _at(text: str, place: str) -> str:
    """Insert keypoints into the specification ``DESCRIPTOR+transform``, before the transforms."""
    head, plus, rest = text.partition("+")
    return f"{head}@{place}{plus}{rest}"


def places(keypoints: KeypointPlaces, descriptor: DescriptorPlan, experiment: str) -> list[KeypointSource]:
    """Return the keypoint sources of a descriptor: the set it names, or all sets or detectors of the file."""
    if any(c.keypoint_set_name for c in descriptor.components):
        if not all(c.keypoint_set_name for c in descriptor.components):
            raise InputError(f"{descriptor.name}: give a keypoint_set_name to all components or to none")
        return [KeypointSource("", "own sets")]
    if descriptor.keypoint_set_name:
        return [KeypointSource(f"set:{descriptor.keypoint_set_name}", descriptor.keypoint_set_name)]
    tuned = keypoints.model_dump(include={"contrast_threshold", "edge_threshold", "sigma"}, exclude_none=True)
    if keypoints.source == "database":
        if tuned or "generator" in keypoints.model_fields_set or "max_features" in keypoints.model_fields_set:
            raise InputError(
                "keypoints: remove generator, max_features and thresholds; a keypoint set does not use them"
            )
        named = [keypoints.keypoint_set_name] if keypoints.keypoint_set_name else []
        named += [a.keypoint_set_name for a in keypoints.alternative_keypoints]
        if not named:
            raise InputError("keypoints: `source: database` needs a keypoint_set_name; add one")
        return [KeypointSource(f"set:{name}", name) for name in named]
    if keypoints.keypoint_set_name or keypoints.alternative_keypoints:
        raise InputError(f"keypoints: keypoint sets need `source: database`, found {keypoints.source}")
    out = []
    for detector in keypoints.generator:
        detector = workbench_part(detector)
        name = detector.partition("?")[0]
        if tuned and name != "sift":
            raise InputError(
                f"keypoints: {', '.join(tuned)} apply to sift, not to {name}; write {name}?key=value"
            )
        text = with_params(detector, [f"{k}={v}" for k, v in tuned.items()])
        if keypoints.source == "homography_projection":
            out.append(KeypointSource(f"set:{experiment}_{name}_projected", name, make=text))
        else:
            out.append(KeypointSource(with_params(text, _limits(keypoints, text)), name))
    return out


def _limits(keypoints: KeypointPlaces, detector: str) -> list[str]:
    most = "none" if keypoints.max_features is None else keypoints.max_features
    parts = [] if "max_features" in detector else [f"max_features={most}"]
    if keypoints.border_px is not None and "border_px" not in detector:
        parts.append(f"border_px={keypoints.border_px:g}")
    return parts


def variants(d: DescriptorPlan) -> Iterator[tuple[str, str]]:
    """Return the name and specification of each pooling variant of a descriptor, without keypoints."""
    aggregations: Sequence[str | None] = d.pooling_aggregation or (None,)
    axes = {"pooling": d.pooling, "pooling_aggregation": aggregations, "rooting_stage": d.rooting_stage}
    for pooling, aggregation, root in product(*axes.values()):
        values = {"pooling": pooling, "pooling_aggregation": aggregation, "rooting_stage": root}
        varied = "".join(f"/{k}={v}" for k, v in values.items() if len(axes[k]) > 1)
        yield varied, _spec(d, str(pooling), aggregation, str(root))


def _spec(d: DescriptorPlan, pooling: str, aggregation: str | None, root: str) -> str:
    if is_program(d.type):
        _refuse(d, (*OF_ONE, "components", "aggregation", "rooting_stage"), "has no effect on a program")
        return d.type
    kind, _, query = workbench_part(d.type).partition("?")
    aggregation = None if aggregation is None else AGGREGATIONS.get(aggregation, aggregation)
    if kind == "composite":
        return composite(d, root)
    if d.components or d.aggregation:
        raise InputError(f"{d.name}: components and aggregation apply only to type: composite; remove them")
    if kind in ALIASES:
        if pooling not in ("none", "domain_size_pooling", "dsp"):
            raise InputError(f"{d.name}: {d.type} is already pooled over sizes; remove pooling")
        kind, pooling = ALIASES[kind].partition(":")[2], "dsp"
    kind = with_params(kind, [query] if query else [])
    if pooling == "stacking":
        return stacked_descriptor(d, kind, aggregation, root)
    if d.secondary_descriptor or d.stacking_weight is not None:
        raise InputError(f"{d.name}: secondary_descriptor and stacking_weight need `pooling: stacking`")
    return pooling_variant(d, kind, pooling, aggregation, root)


def _numbers(values: tuple[float, ...]) -> str:
    return ",".join(f"{v:g}" for v in values)


def _base(kind: str, extended: bool, name: str) -> tuple[str, list[str]]:
    """Return the method name of a descriptor and its parameters."""
    if extended and kind != "surf":
        raise InputError(f"{name}: extended applies only to surf, not to {kind}; remove it")
    head, _, query = kind.partition("?")
    params = query.split("&") if query else []
    return head, [*params, "extended=true"] if extended else params


def _refuse(d: DescriptorPlan, names: Sequence[str], why: str) -> None:
    """Raise an error for descriptor settings that have no effect."""
    for name in names:
        if getattr(d, name) != DescriptorPlan.model_fields[name].default:
            raise InputError(f"{d.name}: {name} {why}")


def _normalize(d: DescriptorPlan) -> str | None:
    """Return when to normalise: `before` or `after` pooling, or `none`. None if the file has no setting."""
    if d.normalize_before_pooling and d.normalize_after_pooling:
        raise InputError(f"{d.name}: normalise either before or after pooling, not both")
    if d.normalize_before_pooling:
        return "before"
    if d.normalize_after_pooling is None:
        return None
    return "after" if d.normalize_after_pooling else "none"


def pooling_variant(d: DescriptorPlan, kind: str, pooling: str, aggregation: str | None, root: str) -> str:
    """Return a descriptor with or without domain-size pooling.

    If `pooling` is none, rooting and normalisation become pooling over the single scale 1. If these are not
    set either, the descriptor is unchanged.
    """
    head, params = _base(kind, d.extended, d.name)
    normalize = _normalize(d)
    if pooling == "none":
        _refuse(d, OF_SCALES, "has an effect only with pooling: domain_size_pooling")
        if aggregation is not None:
            raise InputError(f"{d.name}: pooling_aggregation has an effect only with pooling; remove it")
        if normalize is None and root == "none" and d.norm_type is None:
            return with_params(head, params)
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
        "root": None if root == "none" else root.removesuffix("_pooling"),
    }
    params += [f"{k}={v}" for k, v in given.items() if v is not None]
    return with_params(f"dsp:{head}", params)


def stacked_descriptor(d: DescriptorPlan, kind: str, aggregation: str | None, root: str) -> str:
    """Concatenate two unit-length descriptors. The second is multiplied by the weight."""
    _refuse(d, (*OF_SCALES, "norm_type"), "has no effect with pooling: stacking")
    if _normalize(d) is not None:
        raise InputError(f"{d.name}: stacking normalises each descriptor; remove normalize_…_pooling")
    if aggregation not in (None, "concatenate"):
        raise InputError(f"{d.name}: stacking always concatenates; remove pooling_aggregation")
    head, params = _base(kind, d.extended, d.name)
    other, of_other = _base(workbench_part(d.secondary_descriptor or "sift"), False, d.name)
    weight = 0.5 if d.stacking_weight is None else d.stacking_weight
    shared = dict.fromkeys([*params, *of_other])
    text = with_params(f"fuse:{head},{other}", [*shared, f"weights=1,{weight:g}"])
    return text if root == "none" else f"{text}+rootsift"


def composite(d: DescriptorPlan, root: str) -> str:
    """Fuse several descriptors. Each is computed at its own keypoint set, if it has one."""
    _refuse(d, OF_ONE, "has no effect on a composite; give it to a component's descriptor")
    if len(d.components) < 2:
        raise InputError(f"{d.name}: a composite needs at least two components")
    parts, own = [], []
    for c in d.components:
        head, params = _base(workbench_part(c.descriptor), c.extended, d.name)
        own += params
        parts.append(head + (f"@set:{c.keypoint_set_name}" if c.keypoint_set_name else ""))
    params = list(dict.fromkeys(own))
    if d.aggregation is not None:
        params.append(f"aggregation={AGGREGATIONS.get(d.aggregation, d.aggregation)}")
    weights = [c.weight for c in d.components]
    if any(w is not None for w in weights):
        params.append(f"weights={_numbers(tuple(1.0 if w is None else w for w in weights))}")
    text = with_params(f"fuse:{','.join(parts)}", params)
    return text if root == "none" else f"{text}+rootsift"


def enabled_tasks(
    e: Evaluation, keypoints: KeypointPlaces
) -> Iterator[tuple[str, tuple[str, ...], dict[str, Any], str]]:
    """Return the enabled tasks with their protocols, options and name suffixes."""
    from ...tasks import TASKS

    def known(task: str) -> tuple[str, ...]:
        return tuple(p for p in e.protocols if p in TASKS.load(task).protocols)

    unknown = [p for p in e.protocols if p not in ("exact", "workbench", "bojanic")]
    if unknown:
        raise InputError(f"evaluation: unknown protocol {unknown[0]!r}; choose exact, workbench or bojanic")
    wanted: list[tuple[str, dict[str, Any], str]] = []
    if e.ranking:
        options: dict[str, Any] = {
            "tau_px": e.tau_px, "policy": e.policy, "gallery": list(e.gallery), "seed": e.seed,
            "keypoint_source": keypoints.source,
        }  # fmt: skip
        wanted.append(("keypoints/ranking", options, ""))
    for name, section in (("verification", e.keypoint_verification), ("retrieval", e.keypoint_retrieval)):
        if section.enabled:
            options = section.model_dump(exclude={"enabled"}) | {"tau_px": e.tau_px}
            wanted.append((f"keypoints/{name}", options, ""))
    if e.pair_matching:
        wanted.append(("keypoints/matching", {"tau_px": e.tau_px, "seed": e.seed}, ""))
    if e.image_retrieval.enabled:
        for method in e.matching.method:
            options = {"matching": method, "scorer": e.image_retrieval.scorer, "seed": e.seed}
            suffix = f"/matching={Path(method).name}" if len(e.matching.method) > 1 else ""
            wanted.append(("keypoints/images", options, suffix))
    if e.geometry:
        options = {"seed": e.seed, "ratio": e.matching.ratio_threshold}
        own = [m for m in e.matching.method if ".py:" in m]
        if len(own) > 1:
            raise InputError(
                "evaluation.matching: keypoints/geometry takes only one custom matcher; remove the others"
            )
        wanted.append(("keypoints/geometry", options | ({"matcher": own[0]} if own else {}), ""))
    for task, options, suffix in wanted:
        if known(task):
            yield task, known(task), options, suffix
