# SPDX-License-Identifier: BSD-3-Clause
"""From a specification or a user's object to a `Method` that can be run and cached."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..model.edges import DISTANCES, distance_of
from ..model.errors import InputError
from ..model.hashing import hash_json
from ..model.units import Arrays, Item
from .base import Method
from .checks import check_on_bad
from .names import METHODS
from .registry import FAMILIES
from .sources import library_versions, source_hash
from .spec import FilesSpec, Stage, arguments, parameters_of, parse_spec
from .user_code import load_from_file, plain_state, source_file

BINDERS: dict[str, str] = {
    "patches": "tiepoint.methods.patches.bind:bind_patches",
    "keypoints": "tiepoint.methods.keypoints.bind:bind_keypoints",
    "dense": "tiepoint.methods.dense.bind:bind_dense",
}
"""By family, what turns an object into `extract`: called with (thing, name=, distance=, on_bad=)."""


def resolve(
    spec: Any,
    *,
    family: str,
    device: str = "cpu",
    on_bad: str = "error",
    fit: Callable[..., Any] | None = None,
) -> Method:
    """The method that `spec` stands for.

    Args:
        spec: a registered name (``sift``), with parameters (``resize?size=6``) and transforms
            (``sift+rootsift``); ``files:DIR``, ``onnx:FILE``, ``torchscript:FILE``,
            ``kornia:NAME?weights=FILE``; ``my_file.py:MyDescriptor``; or an object or class with
            ``describe`` or ``lookup``; or a `Method`, which is returned as it is. For keypoints also
            ``DESCRIPTOR@DETECTOR`` (``brief@fast``, ``sift@set:NAME``), and a pair (descriptor, detector).
        family: ``patches``, ``keypoints`` or ``dense``.
        device: handed to methods that take one.
        on_bad: ``error`` (rows that cannot be compared stop the run), ``miss`` (they count as failures) or
            ``keep-zeros`` (rows of zeros are ordinary vectors, those with NaN or infinity failures).
        fit: makes the fitted transforms, called with (method so far, request); needed only by those.

    >>> resolve("constant", family="patches").distance
    'l2'
    """
    if isinstance(spec, Method):
        return spec
    if family not in FAMILIES:
        raise InputError(f"unknown family {family!r}; one of {', '.join(FAMILIES)}")
    if not isinstance(spec, str):
        if family == "keypoints" and isinstance(spec, tuple):
            from .keypoints.make import make_pair

            spec = make_pair(spec, device)
        return _bound(_instance(spec, device), Stage(type(spec).__name__), family, device, on_bad, None)
    parsed = parse_spec(spec)
    if family == "keypoints":
        from .keypoints.make import make_keypoint_thing

        thing = make_keypoint_thing(str(parsed.base), device)
        method = _bound(thing, Stage(_short(str(parsed.base))), family, device, on_bad, str(parsed.base))
    else:
        thing = _made(parsed.base, parsed.is_python_file, family, device)
        named = spec if isinstance(spec, FilesSpec) else str(parsed.base)
        method = _bound(thing, parsed.base, family, device, on_bad, named)
    if parsed.transforms:
        from .chain import transformed

        for stage in parsed.transforms:
            method = transformed(method, stage, on_bad=on_bad, fit=fit)
    return method


def _short(spec: str) -> str:
    from .keypoints.spec import shown

    return shown(spec)


def _made(base: Stage, is_python_file: bool, family: str, device: str) -> Any:
    if is_python_file:
        found = load_from_file(base.name, str(base.argument))
        return _instance(found, device, Stage(str(base.argument), base.params))
    return _instance(METHODS.load(base.name, family=family), device, base)


def _instance(thing: Any, device: str, stage: Stage | None = None) -> Any:
    if not inspect.isclass(thing) and not inspect.isfunction(thing):
        if stage is not None and stage.params:
            raise InputError(f"method {stage.name!r} is an object and takes no parameters")
        return thing
    positional, keywords = arguments(thing, stage or Stage(thing.__name__), extra={"device": device})
    return thing(*positional, **keywords)


def _bound(thing: Any, stage: Stage, family: str, device: str, on_bad: str, spec: str | None) -> Method:
    name = str(getattr(thing, "name", None) or stage.name)
    distance = distance_of(thing)
    if distance not in DISTANCES:
        raise InputError(f"method {name!r}: unknown distance {distance!r}; one of {', '.join(DISTANCES)}")
    check_on_bad(on_bad, distance, name)
    if stage.params and "?" not in name:
        name = f"{name}?{stage.query}"
    target = BINDERS.get(family)
    if target is None:
        raise InputError(f"there are no methods of the family {family!r} yet")
    module, _, attribute = target.partition(":")
    binder = getattr(importlib.import_module(module), attribute)
    extract: Callable[[Item, Any], Arrays] = binder(thing, name=name, distance=distance, on_bad=on_bad)
    config, reason = _config(thing, distance, device, on_bad)
    return Method(
        name=name,
        family=family,
        distance=distance,
        config=config,
        extract=extract,
        key=_key(thing, config, cacheable=reason is None),
        spec=spec,
        reads_payload=not (hasattr(thing, "lookup_item") or hasattr(thing, "lookup")),
        check=getattr(thing, "check_items", None),
        has=getattr(thing, "has_item", None),
        meta=_meta(thing, name, reason),
    )


def _meta(thing: Any, name: str, reason: str | None) -> dict[str, Any]:
    """What else a run should know: why features are not kept, the keypoint set, whether values are roots."""
    meta: dict[str, Any] = {"notice": f"features of {name!r} are not kept: {reason}"} if reason else {}
    for key in ("keypoint_set", "rooted"):
        if getattr(thing, key, None):
            meta[key] = getattr(thing, key)
    return meta


def _config(thing: Any, distance: str, device: str, on_bad: str) -> tuple[dict[str, Any], str | None]:
    """All that determines the output, and why it does not suffice to keep features (None if it does)."""
    # the class, not the name: resize and resize?size=4 share their features
    config: dict[str, Any] = {"class": type(thing).__qualname__, "distance": distance, "on_bad": on_bad}
    parts = getattr(thing, "tiepoint_parts", None)
    if parts is not None:
        config["params"] = dict(getattr(thing, "config", {}))
        config["source"] = source_hash(source_file(thing) or Path(__file__))
        known = {k: _config(part, distance_of(part), device, on_bad) for k, part in parts.items()}
        config["parts"] = {k: made for k, (made, _) in known.items()}
        return config, next((why for _, why in known.values() if why), None)
    if "device" in parameters_of(type(thing)):
        config["device"] = device
    if hasattr(thing, "weight_hashes"):
        config["weights"] = dict(thing.weight_hashes)
    state = plain_state(thing)
    if state is not None:
        config["params"] = state
    file = source_file(thing)
    if file is None:
        return config, "its class was defined in a session or script, so a change of it would not be noticed"
    config["source"] = source_hash(file)
    config["libraries"] = library_versions(file)
    if state is None:
        return config, "it holds more than numbers, text and arrays; give it a dict `config` that says all"
    if hasattr(thing, "lookup") and not hasattr(thing, "item_key"):
        return config, "it looks descriptors up by itself; give it item_key(item) that changes with them"
    return config, None


def _key(thing: Any, config: Mapping[str, Any], *, cacheable: bool) -> Callable[[Item], str | None]:
    if not cacheable:
        return lambda item: None
    if hasattr(thing, "item_key"):
        return lambda item: hash_json([dict(config), thing.item_key(item)])
    if hasattr(thing, "lookup_item"):
        return lambda item: hash_json([dict(config), item.key, item.count])
    fixed = hash_json(dict(config))
    return lambda item: fixed
