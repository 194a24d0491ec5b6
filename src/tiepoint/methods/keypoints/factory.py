# SPDX-License-Identifier: BSD-3-Clause
"""From the text of a keypoint method to objects that detect and describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...core.errors import InputError, UnknownNameError
from ..registry import METHODS, unknown_method
from ..spec import Stage, display_name, instantiate, parameters_of, parse_stage
from ..user_code import UserFactory, as_network, load_from_file
from .spec import FUSE, HOME, fused_parts, split_detector
from .spelling import ALIASES, canonical_name

DETECTORS = "detectors"
"""Family of the registry that holds detectors; descriptors at keypoints are the family ``keypoints``."""


@dataclass(frozen=True)
class FactoryPlan:
    """How to make an object: a factory, what it is given first, and parts made by plans of their own.

    Parameters written behind a name go to the factory if it knows them, else to the parts that do.
    """

    text: str
    factory: Callable[..., Any]
    argument: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[FactoryPlan, ...] = ()

    def known(self) -> set[str]:
        """Parameters that the factory or a part understands."""
        own = set(parameters_of(self.factory)) - {"device", "base", "components"}
        return own.union(*(p.known() for p in self.parts)) if self.parts else own

    def build(self, device: str, params: Mapping[str, Any] | None = None) -> Any:
        """The object."""
        given = dict(self.params) if params is None else {**params, **self.params}
        stage = Stage(parse_stage(self.text).name, given, self.argument)
        if not self.parts:
            return instantiate(self.factory, stage, device)
        known = parameters_of(self.factory)
        own = {k: v for k, v in given.items() if k in known}
        rest = {k: v for k, v in given.items() if k not in known}
        for key in rest:
            if key not in self.known():
                raise UnknownNameError(f"parameter of {stage.name}", key, sorted(self.known()))
        made = [p.build(device, {k: v for k, v in rest.items() if k in p.known()}) for p in self.parts]
        return self.factory(made[0] if len(made) == 1 else made, **own)

    def factories(self) -> list[Callable[..., Any]]:
        """What its parameters may go to."""
        return [self.factory, *(f for part in self.parts for f in part.factories())]

    def name(self, thing: Any, *others: Callable[..., Any]) -> str:
        """What tables call the object it has made; `others` were given its parameters, too."""
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
    """The plan of one descriptor or detector."""
    text = canonical_name(text)
    if family != DETECTORS and text.startswith(FUSE):
        from .fusion import Fusion

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
            raise InputError("dsp needs a descriptor to pool, as in dsp:sift?scales=1,1.5,2")
        return FactoryPlan(text, DomainSizePooling, None, stage.params, (plan_part(stage.argument, family),))
    return FactoryPlan(text, load_part(stage.name, family), stage.argument, stage.params)


def load_part(name: str, family: str) -> Any:
    """The registered class of a detector or descriptor; a name of the other role is explained."""
    plugged = {e.name for e in METHODS if e.family == "plug-in"}
    if f"{family}/{name}" in METHODS:
        return METHODS.load(f"{family}/{name}")
    if name in plugged:
        return METHODS.load(f"plug-in/{name}")
    here = [e.name for e in METHODS if e.family == family]
    if family == DETECTORS:
        raise unknown_method("detector", name, family, here)
    if f"{DETECTORS}/{name}" in METHODS:
        raise InputError(f"{name!r} detects and does not describe; write a descriptor before it: sift@{name}")
    METHODS.entry(name, family=family)
    raise UnknownNameError("method", name, here)


def check_roles(thing: Any, text: str, *needed: str) -> None:
    """That an object has the methods its place asks for."""
    for method in needed:
        options = {"detect": ("detect", "detect_item"), "describe": ("describe", "describe_item")}[method]
        if not any(hasattr(thing, option) for option in options):
            what = "detect(image)" if method == "detect" else "describe(image, keypoints)"
            raise InputError(f"{text!r} has no {what}; it cannot be used there")


def make_keypoint_method(text: str, device: str) -> tuple[Any, str]:
    """The object behind a keypoint specification, and its name.

    It has ``extract``, or it is a detector and a descriptor in one.
    """
    from .adapter import DetectThenDescribe

    text = canonical_name(text)
    if text.startswith(FUSE):
        components, _ = fused_parts(text)
        if all(split_detector(c).detector is not None for c in components):
            return _fused_at_own_places(text, device)
    spec = split_detector(text)
    if spec.detector is not None:
        where, what = plan_part(spec.detector, DETECTORS), plan_part(spec.descriptor, "keypoints")
        detector = where.build(device)
        check_roles(detector, spec.detector, "detect")
        descriptor = what.build(device)
        check_roles(descriptor, spec.descriptor, "describe")
        name = f"{what.name(descriptor)}@{where.name(detector)}"
        return DetectThenDescribe(detector, descriptor, name=name), name
    plan = plan_part(text, "keypoints")
    stage = parse_stage(text)
    home = HOME.get(ALIASES.get(stage.name, stage.name).partition(":")[0])
    if home is None:
        return _lone(plan, text, device)
    native = getattr(plan.factory, "native", None)
    if native is not None:  # detects and describes in one go, which is not the same as one after the other
        plan = FactoryPlan(text, native, None, plan.params)
        thing = plan.build(device)
        return thing, plan.name(thing)
    return _at_home(plan, plan_part(home, DETECTORS), text, device)


def _at_home(descriptor: FactoryPlan, detector: FactoryPlan, text: str, device: str) -> tuple[Any, str]:
    """A descriptor named alone, with its own detector; parameters go to whoever knows them, or to both."""
    from .adapter import DetectThenDescribe

    params = dict(descriptor.params)
    for key in params:
        if key not in descriptor.known() | detector.known():
            name = parse_stage(text).name
            raise UnknownNameError(f"parameter of {name}", key, sorted(descriptor.known() | detector.known()))
    first = {k: v for k, v in params.items() if k in detector.known()}
    second = {k: v for k, v in params.items() if k in descriptor.known()}
    places = detector.build(device, first)
    made = replace(descriptor, params=second).build(device)
    name = descriptor.name(made, *detector.factories())
    return DetectThenDescribe(places, made, name=name), name


def _lone(plan: FactoryPlan, text: str, device: str) -> tuple[Any, str]:
    thing = plan.build(device)
    whole = ("extract", "lookup_item", "lookup")
    if not any(hasattr(thing, method) for method in whole):
        if hasattr(thing, "describe") and not hasattr(thing, "detect"):
            raise InputError(f"{text!r} describes and does not detect; say where, as in {text}@sift")
        check_roles(thing, text, "detect", "describe")
    return thing, plan.name(thing)


def _fused_at_own_places(text: str, device: str) -> tuple[Any, str]:
    """Components at keypoints of their own; row i of every component is the same physical point."""
    from .fusion import Fusion, FusionOfPairs

    components, query = fused_parts(text)
    params = dict(parse_stage(f"fuse?{query}").params) if query else {}
    known = [k for k in parameters_of(Fusion) if k != "components"]
    for key in params:
        if key not in known:
            raise UnknownNameError("parameter of fuse", key, known)
    parts, names = zip(*(make_keypoint_method(component, device) for component in components), strict=True)
    fusion = Fusion([p.descriptor for p in parts], **params)
    name = str(Stage("fuse", params, ",".join(names)).without_defaults(Fusion))
    return FusionOfPairs(fusion, parts, name=name), name


def make_pair(pair: tuple[Any, ...], device: str) -> tuple[Any, str]:
    """A (descriptor, detector) given from Python, each a text, a class or an object; and its name."""
    from .adapter import DetectThenDescribe

    if len(pair) != 2:
        raise InputError(
            f"a keypoint method must be one object or a pair (descriptor, detector), not {len(pair)} things"
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
