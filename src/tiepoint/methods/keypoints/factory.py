# SPDX-License-Identifier: BSD-3-Clause
"""Create detectors and descriptors from the specification of a keypoint method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, UnknownNameError
from ...core.keypoints import Keypoints
from ...core.plugins import distance_of
from ...core.records import Item
from ..registry import METHODS, unknown_method
from ..spec import Stage, display_name, instantiate, parameters_of, parse_stage
from ..transforms import l2_normalise
from ..user_code import UserFactory, as_network, load_from_file
from .adapter import detect_keypoints
from .pooling import AGGREGATIONS, aggregate, load_user_descriptor, parse_numbers
from .spec import ALIASES, FUSE, HOME, canonical_name, fused_parts, split_detector

DETECTORS = "detectors"
"""Registry family of detectors. Descriptors at keypoints belong to the family ``keypoints``."""


@dataclass(frozen=True)
class FactoryPlan:
    """Plan to create an object: a factory, its arguments, and plans of the components that it combines.

    A parameter is passed to the factory or, if the factory does not accept it, to the components that do.
    """

    text: str
    factory: Callable[..., Any]
    argument: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[FactoryPlan, ...] = ()

    def accepted_parameters(self) -> set[str]:
        """Return the names of the parameters that the factory or a component accepts."""
        own = set(parameters_of(self.factory)) - {"device", "base", "components"}
        return own.union(*(p.accepted_parameters() for p in self.parts)) if self.parts else own

    def build(self, device: str, params: Mapping[str, Any] | None = None) -> Any:
        """Create the object."""
        given = dict(self.params) if params is None else {**params, **self.params}
        stage = Stage(parse_stage(self.text).name, given, self.argument)
        if not self.parts:
            return instantiate(self.factory, stage, device)
        known = parameters_of(self.factory)
        own = {k: v for k, v in given.items() if k in known}
        rest = {k: v for k, v in given.items() if k not in known}
        for key in rest:
            if key not in self.accepted_parameters():
                raise UnknownNameError(f"parameter of {stage.name}", key, sorted(self.accepted_parameters()))
        made = [
            p.build(device, {k: v for k, v in rest.items() if k in p.accepted_parameters()})
            for p in self.parts
        ]
        typed = Stage(stage.name, own).typed_for(self.factory).params
        return self.factory(made[0] if len(made) == 1 else made, **typed)

    def factories(self) -> list[Callable[..., Any]]:
        """Return the factories, of this plan and its components, that may receive parameters."""
        return [self.factory, *(f for part in self.parts for f in part.factories())]

    def name(self, thing: Any, *others: Callable[..., Any]) -> str:
        """Return the display name of the object, with the parameters that differ from the defaults.

        `others` are more factories that received its parameters.
        """
        where = getattr(thing, "set_name", None)
        if where is not None:
            return f"set:{where}"
        if isinstance(self.factory, UserFactory):
            return display_name(thing, Stage(self.text, self.params), *self.factories(), *others)
        stage = parse_stage(self.text)
        if stage.name == "torch":
            return display_name(thing, stage, *self.factories(), *others)
        if self.text.startswith(FUSE):
            parts = [part.name(made) for part, made in zip(self.parts, thing.components, strict=True)]
            stage = Stage("fuse", self.params, ",".join(parts))
        return str(stage.without_defaults(*self.factories(), *others).without_paths())


def plan_part(text: str, family: str) -> FactoryPlan:
    """Return the plan to create one descriptor or detector."""
    text = canonical_name(text)
    if family != DETECTORS and text.startswith(FUSE):
        components, query = fused_parts(text)
        params = parse_stage(f"fuse?{query}").params if query else {}
        return FactoryPlan(text, Fusion, None, params, tuple(plan_part(c, family) for c in components))
    stage = parse_stage(text)
    if stage.name.endswith(".py"):
        found = load_from_file(stage.name, str(stage.argument))
        return FactoryPlan(str(stage.argument), found, None, stage.params)
    if family != DETECTORS and stage.name in ALIASES:
        stage = parse_stage(ALIASES[stage.name] + (f"?{stage.query}" if stage.params else ""))
    if family != DETECTORS and stage.name == "dsp":
        from .pooling import DomainSizePooling

        if not stage.argument:
            raise InputError(
                "dsp: the descriptor to pool is missing; write one, as in dsp:sift?scales=1,1.5,2"
            )
        return FactoryPlan(text, DomainSizePooling, None, stage.params, (plan_part(stage.argument, family),))
    factory = load_part(stage.name, family)
    if hasattr(factory, "variant"):
        factory = factory.variant(stage.argument)
    return FactoryPlan(text, factory, stage.argument, stage.params)


def load_part(name: str, family: str) -> Any:
    """Return the registered detector or descriptor class. Raise if the family has no class of this name."""
    plugged = {e.name for e in METHODS if e.family == "plug-in"}
    if f"{family}/{name}" in METHODS:
        return METHODS.load(f"{family}/{name}")
    if name in plugged:
        return METHODS.load(f"plug-in/{name}")
    here = [e.name for e in METHODS if e.family == family]
    if family == DETECTORS:
        raise unknown_method("detector", name, family, here)
    if f"{DETECTORS}/{name}" in METHODS:
        raise InputError(
            f"{name!r} is a detector without descriptors; combine it with a descriptor, as in sift@{name}"
        )
    METHODS.entry(name, family=family)
    raise UnknownNameError("method", name, here)


def check_roles(thing: Any, text: str, *needed: str) -> None:
    """Raise an error if an object lacks one of the methods `needed`, such as ``describe``."""
    for method in needed:
        options = {"detect": ("detect", "detect_item"), "describe": ("describe", "describe_item")}[method]
        if not any(hasattr(thing, option) for option in options):
            what = "detect(image)" if method == "detect" else "describe(image, keypoints)"
            raise InputError(f"{text!r}: the method {what} is missing; add it to the class")


def make_keypoint_method(text: str, device: str) -> tuple[Any, str]:
    """Return the object of a keypoint specification and its display name.

    The object has ``extract``, or it combines a detector and a descriptor.
    """
    text = canonical_name(text)
    if text.startswith(FUSE):
        components, _ = fused_parts(text)
        if all(split_detector(c).detector is not None for c in components):
            return _fuse_paired_sets(text, device)
    spec = split_detector(text)
    if spec.detector is not None:
        return _at_detector(
            plan_part(spec.descriptor, "keypoints"), plan_part(spec.detector, DETECTORS), device
        )
    plan = plan_part(text, "keypoints")
    stage = parse_stage(text)
    home = HOME.get(ALIASES.get(stage.name, stage.name).partition(":")[0])
    if home is None:
        return _lone(plan, text, device)
    native = getattr(plan.factory, "native", None)
    if native is not None:  # one call that detects and describes gives other results than two calls
        plan = FactoryPlan(text, native, None, plan.params)
        thing = plan.build(device)
        return thing, plan.name(thing)
    return _with_default_detector(plan, plan_part(home, DETECTORS), text, device)


def _at_detector(
    what: FactoryPlan, where: FactoryPlan, device: str, params: Mapping[str, Any] | None = None
) -> tuple[Any, str]:
    """Create a method that describes the keypoints of a detector. Return it and its name.

    The descriptor receives the `params` that it accepts.
    """
    from .adapter import DetectThenDescribe

    detector = where.build(device)
    check_roles(detector, where.text, "detect")
    accepted = {k: v for k, v in (params or {}).items() if k in what.accepted_parameters()}
    descriptor = what.build(device, accepted)
    check_roles(descriptor, what.text, "describe")
    name = f"{what.name(descriptor)}@{where.name(detector)}"
    return DetectThenDescribe(detector, descriptor, name=name), name


def _with_default_detector(
    descriptor: FactoryPlan, detector: FactoryPlan, text: str, device: str
) -> tuple[Any, str]:
    """Combine a descriptor with its default detector. Return the method and its name.

    Both receive the parameters that they accept.
    """
    from .adapter import DetectThenDescribe

    params = dict(descriptor.params)
    for key in params:
        if key not in descriptor.accepted_parameters() | detector.accepted_parameters():
            name = parse_stage(text).name
            raise UnknownNameError(
                f"parameter of {name}",
                key,
                sorted(descriptor.accepted_parameters() | detector.accepted_parameters()),
            )
    first = {k: v for k, v in params.items() if k in detector.accepted_parameters()}
    second = {k: v for k, v in params.items() if k in descriptor.accepted_parameters()}
    places = detector.build(device, first)
    made = replace(descriptor, params=second).build(device)
    name = descriptor.name(made, *detector.factories())
    return DetectThenDescribe(places, made, name=name), name


def _lone(plan: FactoryPlan, text: str, device: str) -> tuple[Any, str]:
    thing = plan.build(device)
    whole = ("extract", "lookup_item", "lookup")
    if not any(hasattr(thing, method) for method in whole):
        if hasattr(thing, "describe") and not hasattr(thing, "detect"):
            raise InputError(f"{text!r} is a descriptor without a detector; add one, as in {text}@sift")
        check_roles(thing, text, "detect", "describe")
    return thing, plan.name(thing)


def _fuse_paired_sets(text: str, device: str) -> tuple[Any, str]:
    """Create a fusion of descriptors that each have their own, paired keypoint set. Return it and its name.

    Parameters that the fusion does not accept are passed to the descriptors that accept them.
    """
    components, query = fused_parts(text)
    params = dict(parse_stage(f"fuse?{query}").params) if query else {}
    specs = [split_detector(component) for component in components]
    plans = [plan_part(spec.descriptor, "keypoints") for spec in specs]
    own = {k for k in parameters_of(Fusion) if k != "components"}
    known = own.union(*(plan.accepted_parameters() for plan in plans))
    for key in params:
        if key not in known:
            raise UnknownNameError("parameter of fuse", key, sorted(known))
    rest = {k: v for k, v in params.items() if k not in own}
    parts, names = zip(
        *(
            _at_detector(plan, plan_part(str(spec.detector), DETECTORS), device, rest)
            for plan, spec in zip(plans, specs, strict=True)
        ),
        strict=True,
    )
    typed = Stage("fuse", {k: v for k, v in params.items() if k in own}).typed_for(Fusion)
    fusion = Fusion([p.descriptor for p in parts], **typed.params)
    factories = [factory for plan in plans for factory in plan.factories()]
    name = str(Stage("fuse", params, ",".join(names)).without_defaults(Fusion, *factories))
    return FusionOfPairs(fusion, parts, name=name), name


def make_pair(pair: tuple[Any, ...], device: str) -> tuple[Any, str]:
    """Combine a pair (descriptor, detector) into one method. Return the method and its name.

    The descriptor and the detector may each be a specification, a class or an object.
    """
    from .adapter import DetectThenDescribe

    if len(pair) != 2:
        raise InputError(
            f"a keypoint method must be one object or a pair (descriptor, detector), found {len(pair)} items"
        )
    made, names = [], []
    for part, family, needed in zip(pair, ("keypoints", DETECTORS), ("describe", "detect"), strict=True):
        called = getattr(part, "__name__", type(part).__name__)
        plan = plan_part(part, family) if isinstance(part, str) else FactoryPlan(called, part)
        made.append(as_network(plan.build(device), "keypoints", device))
        check_roles(made[-1], plan.text, needed)
        names.append(plan.name(made[-1]) if isinstance(part, str) else display_name(made[-1], called))
    name = "@".join(names)
    return DetectThenDescribe(made[1], made[0], name=name), name


Image = NDArray[np.uint8]
Array = NDArray[Any]
Mask = NDArray[np.bool_]


class Fusion:
    """Fusion of several descriptors by concatenation (default), average, weighted, max or min.

    Each component is normalised to length 1 first. Otherwise the component with the largest values would
    dominate, such as SIFT (length 512) over a network (length 1). `weights` multiply the components for
    concatenation and are the coefficients for ``weighted``. All aggregations except concatenation require
    equal dimensions. Bit strings can only be concatenated with bit strings. A keypoint fails if one component
    could not describe it.
    """

    def __init__(
        self, components: Sequence[Any], aggregation: str = "concatenate", weights: Any = None
    ) -> None:
        kinds = {distance_of(c) for c in components}
        self.binary = kinds == {"hamming"}
        if "hamming" in kinds and not self.binary:
            raise InputError(
                "binary and real-valued descriptors have no common distance; fuse descriptors of one type"
            )
        self.pool = load_user_descriptor(aggregation)
        if self.pool is None and aggregation not in AGGREGATIONS:
            raise UnknownNameError("aggregation", aggregation, AGGREGATIONS)
        if self.binary and (aggregation != "concatenate" or weights is not None):
            raise InputError("binary descriptors need aggregation=concatenate without weights")
        if weights is not None and aggregation not in ("concatenate", "weighted"):
            raise InputError(
                "weights have an effect only with aggregation=concatenate or weighted; remove them"
            )
        if aggregation == "weighted" and weights is None:
            raise InputError("aggregation=weighted needs weights, as in fuse:sift,rootsift?weights=2,1")
        self.components = list(components)
        self.aggregation = aggregation
        self.weights = None if weights is None else np.array(parse_numbers(weights, "weights"))
        if self.weights is not None:
            if len(self.weights) != len(self.components):
                raise InputError(
                    f"found {len(self.weights)} weights for {len(self.components)} descriptors; "
                    "give one for each"
                )
            if (self.weights < 0).any() or not self.weights.sum() > 0:
                raise InputError(f"weights must not be negative or all zero, found {self.weights.tolist()}")
        self.distance = "hamming" if self.binary else "l2"
        self.rooted = all(getattr(c, "rooted", False) for c in components)
        self.tiepoint_parts = {f"component{i}": c for i, c in enumerate(components)}
        if self.pool is not None:
            self.tiepoint_parts["pool"] = self.pool
        self.config = {
            "aggregation": aggregation, "weights": None if self.weights is None else self.weights.tolist()
        }  # fmt: skip

    def describe(self, image: Image, keypoints: Keypoints) -> tuple[Array, Mask]:
        """Return the fused descriptors (n, d) of keypoints, and a mask (n,) of described keypoints."""
        return self.join([c.describe(image, keypoints) for c in self.components])

    def join(self, made: Sequence[Any]) -> tuple[Array, Mask]:
        """Fuse what the components returned for the same keypoints. Return rows (n, d) and a mask (n,)."""
        pairs = [m if isinstance(m, tuple) else (m, np.ones(len(m), bool)) for m in made]
        counts = {len(values) for values, _ in pairs}
        if len(counts) != 1:
            raise InputError(
                f"fusion: the components returned {sorted(counts)} rows; each must return one row for "
                "every keypoint"
            )
        valid = np.logical_and.reduce([np.asarray(v, bool) for _, v in pairs])
        if self.binary:
            return np.concatenate([np.asarray(v) for v, _ in pairs], axis=1), valid
        rows = [l2_normalise(np.asarray(v)) for v, _ in pairs]
        if self.aggregation == "concatenate" and self.pool is None:
            shares = self.weights if self.weights is not None else np.ones(len(rows))
            joined = np.concatenate([r * np.float32(w) for r, w in zip(rows, shares, strict=True)], axis=1)
        else:
            if len({r.shape[1] for r in rows}) != 1:
                raise InputError(
                    f"{self.aggregation}: the descriptors have dimensions {[r.shape[1] for r in rows]}; use "
                    "equal dimensions or aggregation=concatenate"
                )
            mask = np.broadcast_to(valid, (len(rows), len(valid)))
            joined, _ = aggregate(
                np.stack(rows), mask, self.aggregation, weights=self.weights, pool=self.pool
            )
        done = np.where(valid[:, None], l2_normalise(joined), np.float32(0))
        return done, valid & done.any(axis=1)


class FusionOfPairs:
    """Fusion of descriptors at paired keypoint sets, where row i of every set is the same physical point.

    Rows are checked by the pair numbers of the sets. The returned keypoints are those of the first component,
    and the ground truth refers to them.
    """

    identity = "keypoints/fuse-at-own-places"

    def __init__(self, fusion: Fusion, parts: Sequence[Any], *, name: str) -> None:
        self.fusion, self.parts, self.name = fusion, list(parts), name
        self.distance = fusion.distance
        self.tiepoint_parts = {"fusion": fusion} | {f"place{i}": p.detector for i, p in enumerate(parts)}
        self.keypoint_set = getattr(parts[0], "keypoint_set", None)
        self.given_keypoints = bool(getattr(parts[0], "given_keypoints", False))
        for part in self.parts:
            if not hasattr(part.detector, "pair_ids"):
                raise InputError(
                    f"{name}: components with different keypoints need paired keypoint sets, not "
                    "detectors; create sets with `keypoints intersect` and write set:NAME"
                )

    def extract_item(self, item: Item, image: Image) -> tuple[Keypoints, Array, Mask]:
        """Return keypoints of the first component and the fused rows."""
        ids = [p.detector.pair_ids(item) for p in self.parts]
        if any(not np.array_equal(ids[0], other) for other in ids[1:]):
            raise InputError(
                f"{item.key}: the rows of the keypoint sets of {self.name} do not correspond; use sets of "
                "one `keypoints intersect`"
            )
        found = [detect_keypoints(p.detector, item, image, f"{self.name} on {item.key}") for p in self.parts]
        if len(found[0]) == 0:
            return found[0], np.empty((0, 1), np.float32), np.empty(0, bool)
        made = [p.descriptor.describe(image, k) for p, k in zip(self.parts, found, strict=True)]
        return (found[0], *self.fusion.join(made))
