# SPDX-License-Identifier: BSD-3-Clause
"""From the text of a keypoint method to objects that detect and describe."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...model.errors import InputError, UnknownNameError
from ..names import METHODS
from ..spec import Stage, arguments, parameters_of, parse_stage
from ..user_code import load_from_file
from .spec import ALIASES, FUSE, HOME, KeypointSpec, fused_parts, shown, split_detector

DETECTORS = "detectors"
"""Family of the registry that holds detectors; descriptors at keypoints are the family ``keypoints``."""


@dataclass(frozen=True)
class Plan:
    """How to make an object: a factory, what it is given first, and parts made by plans of their own.

    Parameters written behind a name go to the factory if it knows them, else to the parts that do.
    """

    text: str
    factory: Callable[..., Any]
    argument: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[Plan, ...] = ()

    def known(self) -> set[str]:
        """Parameters that the factory or a part understands."""
        own = set(parameters_of(self.factory)) - {"device", "base", "components"}
        return own.union(*(p.known() for p in self.parts)) if self.parts else own

    def build(self, device: str, params: Mapping[str, Any] | None = None) -> Any:
        """The object."""
        given = dict(self.params) if params is None else {**params, **self.params}
        factory: Any = self.factory
        if not (inspect.isclass(factory) or inspect.isfunction(factory)):
            if given:
                raise InputError(f"{self.text!r} is an object and takes no parameters")
            return factory
        stage = Stage(parse_stage(self.text).name, given, self.argument)
        if not self.parts:
            positional, keywords = arguments(self.factory, stage, extra={"device": device})
            return factory(*positional, **keywords)
        known = parameters_of(self.factory)
        own = {k: v for k, v in given.items() if k in known}
        rest = {k: v for k, v in given.items() if k not in known}
        for key in rest:
            if key not in self.known():
                raise UnknownNameError(f"parameter of {stage.name}", key, sorted(self.known()))
        made = [p.build(device, {k: v for k, v in rest.items() if k in p.known()}) for p in self.parts]
        return self.factory(made[0] if len(made) == 1 else made, **own)


def plan_part(text: str, family: str) -> Plan:
    """The plan of one descriptor or detector."""
    if family != DETECTORS and text.startswith(FUSE):
        from .fusion import Fusion

        components, query = fused_parts(text)
        params = parse_stage(f"fuse?{query}").params if query else {}
        return Plan(text, Fusion, None, params, tuple(plan_part(c, family) for c in components))
    stage = parse_stage(text)
    if stage.name.endswith(".py"):
        found = load_from_file(stage.name, str(stage.argument))
        return Plan(str(stage.argument), found, None, stage.params)
    if family != DETECTORS and stage.name in ALIASES:
        stage = parse_stage(ALIASES[stage.name] + (f"?{stage.query}" if stage.params else ""))
    if family != DETECTORS and stage.name == "dsp":
        from .pooling import DomainSizePooling

        if not stage.argument:
            raise InputError("dsp needs a descriptor to pool, as in dsp:sift?scales=1,1.5,2")
        return Plan(text, DomainSizePooling, None, stage.params, (plan_part(stage.argument, family),))
    return Plan(text, load_part(stage.name, family), stage.argument, stage.params)


def load_part(name: str, family: str) -> Any:
    """The registered class of a detector or descriptor; a name of the other role is explained."""
    plugged = {e.name for e in METHODS if e.family == "plug-in"}
    if f"{family}/{name}" in METHODS:
        return METHODS.load(f"{family}/{name}")
    if name in plugged:
        return METHODS.load(f"plug-in/{name}")
    here = [e.name for e in METHODS if e.family == family]
    if family == DETECTORS:
        raise UnknownNameError("detector", name, here)
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


def make_keypoint_thing(text: str, device: str) -> Any:
    """The object behind a keypoint specification: something with ``extract``, or detector and descriptor."""
    from .bind import DetectThenDescribe

    if text.startswith(FUSE):
        components, _ = fused_parts(text)
        own = [split_detector(c).detector is not None for c in components]
        if all(own):
            return _fused_at_own_places(text, device)
    spec = split_detector(text)
    if spec.detector is not None:
        detector = plan_part(spec.detector, DETECTORS).build(device)
        check_roles(detector, spec.detector, "detect")
        descriptor = plan_part(spec.descriptor, "keypoints").build(device)
        check_roles(descriptor, spec.descriptor, "describe")
        return DetectThenDescribe(detector, descriptor, name=_name(spec, detector))
    plan = plan_part(text, "keypoints")
    stage = parse_stage(text)
    home = HOME.get(ALIASES.get(stage.name, stage.name).partition(":")[0])
    if home is None:
        return _lone(plan, text, device)
    native = getattr(plan.factory, "native", None)
    if native is not None:  # detects and describes in one go, which is not the same as one after the other
        return Plan(text, native, None, plan.params).build(device)
    return _at_home(plan, plan_part(home, DETECTORS), text, device)


def _at_home(descriptor: Plan, detector: Plan, text: str, device: str) -> Any:
    """A descriptor named alone, with its own detector; parameters go to whoever knows them, or to both."""
    from .bind import DetectThenDescribe

    params = dict(descriptor.params)
    for key in params:
        if key not in descriptor.known() | detector.known():
            name = parse_stage(text).name
            raise UnknownNameError(f"parameter of {name}", key, sorted(descriptor.known() | detector.known()))
    first = {k: v for k, v in params.items() if k in detector.known()}
    second = {k: v for k, v in params.items() if k in descriptor.known()}
    made = Plan(descriptor.text, descriptor.factory, descriptor.argument, second, descriptor.parts)
    return DetectThenDescribe(detector.build(device, first), made.build(device), name=shown(text))


def _lone(plan: Plan, text: str, device: str) -> Any:
    thing = plan.build(device)
    whole = ("extract", "lookup_item", "lookup")
    if any(hasattr(thing, method) for method in whole):
        return thing
    if hasattr(thing, "describe") and not hasattr(thing, "detect"):
        raise InputError(f"{text!r} describes and does not detect; say where, as in {text}@sift")
    check_roles(thing, text, "detect", "describe")
    return thing


def _fused_at_own_places(text: str, device: str) -> Any:
    """Components at keypoints of their own; row i of every component is the same physical point."""
    from .fusion import Fusion, FusionOfPairs

    components, query = fused_parts(text)
    params = dict(parse_stage(f"fuse?{query}").params) if query else {}
    parts = []
    for component in components:
        thing = make_keypoint_thing(component, device)
        parts.append(thing)
    fusion = Fusion([p.descriptor for p in parts], **_checked(params))
    name = FUSE + ",".join(p.name for p in parts) + (f"?{query}" if query else "")
    return FusionOfPairs(fusion, parts, name=name)


def make_pair(pair: tuple[Any, ...], device: str) -> Any:
    """A (descriptor, detector) given from Python, each a text, a class or an object."""
    from .bind import DetectThenDescribe

    if len(pair) != 2:
        raise InputError(
            f"a keypoint method is one object or (descriptor, detector), found {len(pair)} things"
        )
    made = []
    for part, family, needed in zip(pair, ("keypoints", DETECTORS), ("describe", "detect"), strict=True):
        plan = plan_part(part, family) if isinstance(part, str) else Plan(_called(part), part)
        made.append(plan.build(device))
        check_roles(made[-1], plan.text, needed)
    names = [shown(p) if isinstance(p, str) else _called(p) for p in pair]
    return DetectThenDescribe(made[1], made[0], name="@".join(names))


def _called(thing: Any) -> str:
    own = getattr(thing, "name", None)
    return str(own or (thing.__name__ if inspect.isclass(thing) else type(thing).__name__))


def _checked(params: Mapping[str, Any]) -> dict[str, Any]:
    from .fusion import Fusion

    known = [k for k in parameters_of(Fusion) if k != "components"]
    for key in params:
        if key not in known:
            raise UnknownNameError("parameter of fuse", key, known)
    return dict(params)


def _name(spec: KeypointSpec, detector: Any) -> str:
    where = getattr(detector, "set_name", None)
    right = f"set:{where}" if where else shown(str(spec.detector))
    if spec.descriptor.startswith(FUSE):
        parts, query = fused_parts(spec.descriptor)
        left = FUSE + ",".join(shown(p) for p in parts) + (f"?{query}" if query else "")
    else:
        left = shown(spec.descriptor)
    return f"{left}@{right}"
