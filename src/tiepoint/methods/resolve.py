# SPDX-License-Identifier: BSD-3-Clause
"""Resolve a specification or a user's object to a `Method` that can be run and cached."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..core.errors import InputError, UnknownNameError
from ..core.hashing import HashedFiles, watch_hashed_files
from ..core.plugins import check_distance, distance_of
from ..core.processes import check_threads
from ..core.records import Arrays, Item
from . import transforms
from .base import Finish, Method, has_user_code
from .identity import config_of, item_part
from .opened_files import OpenedFiles
from .output_checks import check_descriptors, check_on_bad
from .registry import FAMILIES, MATCHED, METHODS
from .spec import (
    FilesSpec,
    Spec,
    Stage,
    arguments,
    display_name,
    instantiate,
    is_program,
    parameters_of,
    parse_spec,
)
from .user_code import as_network, check_hook, is_builtin_class, load_from_file, view_for_user

BINDERS: dict[str, str] = {
    "patches": "tiepoint.methods.patches.adapter:bind_patches",
    "keypoints": "tiepoint.methods.keypoints.adapter:bind_keypoints",
    "dense": "tiepoint.methods.dense.adapter:bind_dense",
    "pairs": "tiepoint.methods.pairs.adapter:bind_pairs",
}
"""Adapter of each family. It takes (thing, name=, distance=, on_bad=) and returns the `extract` function."""


REAL_VALUED = ("l2", "l1", "cosine")
"""Distances for real-valued descriptors. Binary descriptors use `hamming`."""

CHOICES = ("l1", "l2")
"""Values of ``?distance=`` for built-in patch descriptors."""

_DEVICE = re.compile(r"cpu|mps|cuda(:\d+)?")


def check_device(device: str) -> None:
    """Raise an error if `device` is not a valid device name. Whether the device exists is not checked.

    >>> check_device("banana")
    Traceback (most recent call last):
    tiepoint.core.errors.InputError: unknown device 'banana'; write cpu, cuda, cuda:NUMBER or mps
    """
    if not _DEVICE.fullmatch(device):
        raise InputError(f"unknown device {device!r}; write cpu, cuda, cuda:NUMBER or mps")


def resolve(
    spec: Any,
    *,
    family: str,
    device: str = "cpu",
    on_bad: str = "error",
    fit: Callable[..., Any] | None = None,
    name: str | None = None,
    program: Mapping[str, Any] | None = None,
) -> Method:
    """Return the method of a specification or object.

    Args:
        spec: A registered name (``sift``), with parameters (``resize?size=6``, for real-valued patch
            descriptors also ``sift?distance=l1``) and transforms (``sift+rootsift``); ``files:DIR``,
            ``onnx:FILE``, ``torchscript:FILE``, ``kornia:NAME?weights=FILE``; ``my_file.py:MyDescriptor``,
            ``torch:net.py:Net?weights=FILE``; ``exec:COMMAND``; an object or class with ``describe`` or
            ``lookup``; a torch module; or a `Method`, which is returned unchanged. For keypoints also
            ``DESCRIPTOR@DETECTOR`` (``brief@fast``, ``sift@set:NAME``) and a pair (descriptor, detector).
        family: ``patches``, ``keypoints``, ``dense``, ``pairs`` or `MATCHED`. A name of pairs is looked up
            among pairs, then among keypoints (``sift?matcher=mnn&ratio=0.8``), then among dense methods.
        device: Passed to methods that take one.
        on_bad: ``error`` (rows that cannot be compared stop the run), ``miss`` (they count as failures) or
            ``keep-zeros`` (rows of zeros are ordinary vectors, rows with NaN or infinity failures).
        fit: Function that fits a transform, called with (method before the transform, `FitRequest`).
        program: Options of a program (``exec:COMMAND``), such as ``timeout_s``.
        name: Display name. Default: the class name with the parameters that differ from their defaults.

    >>> resolve("constant", family="patches").distance
    'l2'
    >>> resolve("resize?size=4", family="patches").name, resolve("resize?size=6", family="patches").name
    ('resize', 'resize?size=6')
    >>> resolve("pixels?distance=l1", family="patches").distance
    'l1'
    """
    if isinstance(spec, Method):
        return spec if name is None else replace(spec, name=name)
    with watch_hashed_files() as files:
        if is_program(spec) and family in (*FAMILIES, MATCHED):
            check_device(device)
            method = replace(_program(spec, family, device, on_bad, program or {}), files=files)
        elif family == MATCHED:
            method = _resolve_matched(spec, files, device=device, on_bad=on_bad, fit=fit)
        else:
            method = _resolved(spec, files, family=family, device=device, on_bad=on_bad, fit=fit)
    return replace(method, files=files, name=method.name if name is None else name)


def _resolved(
    spec: Any,
    files: HashedFiles,
    *,
    family: str,
    device: str,
    on_bad: str,
    fit: Callable[..., Any] | None,
) -> Method:
    """Return the method of a specification or object. Add the files in its cache key to `files`."""
    if family not in FAMILIES:
        raise InputError(f"unknown family {family!r}; choose one of {', '.join(FAMILIES)}")
    check_device(device)
    check_threads("NUMBA_NUM_THREADS")
    check_threads("OPENCV_FOR_THREADS_NUM", least=0)
    parsed = parse_spec(spec) if isinstance(spec, str) else None
    if family == "pairs":
        return _watched(_resolve_pairs(spec, parsed, device=device, on_bad=on_bad, fit=fit))
    if family == "keypoints" and (parsed is not None or isinstance(spec, tuple)):
        from .keypoints.factory import make_keypoint_method, make_pair

        thing, own = (
            make_pair(spec, device) if parsed is None else make_keypoint_method(str(parsed.base), device)
        )
    else:
        thing, own = _made(spec, family, device) if parsed is None else _made_from(parsed, family, device)
    text = None if parsed is None else spec if isinstance(spec, FilesSpec) else str(parsed.base)
    if family == "keypoints" and text is not None and not isinstance(text, FilesSpec):
        from .keypoints.spec import canonical_name

        text = canonical_name(text)
    method = replace(_watched(_bound(thing, own, family, device, on_bad, text)), files=files)
    for stage in () if parsed is None else parsed.transforms:
        method = apply_transform(method, stage, on_bad=on_bad, fit=fit)
    return method


def _resolve_matched(spec: Any, files: HashedFiles, **how: Any) -> Method:
    """Return a keypoint method whose matcher the task applies to the cached features of images."""
    from .pairs.factory import split_matcher, with_image_matcher

    plain = isinstance(spec, str) and not isinstance(spec, FilesSpec)
    rest, given = split_matcher(spec) if plain else (spec, {})
    base = _resolved(rest, files, family="keypoints", **how)
    return with_image_matcher(base, given, spec if given else base.spec)


def _program(spec: str, family: str, device: str, on_bad: str, options: Mapping[str, Any]) -> Method:
    """Return the method of a program (``exec:COMMAND``)."""
    from .programs.method import make_program_method, with_program

    thing, matching = make_program_method(spec, family, options, device)
    matched = family in ("pairs", MATCHED) and thing.role == "keypoints"
    home = "keypoints" if matched else family
    method = with_program(_bound(thing, thing.name, home, device, on_bad, spec), thing)
    if not matched:
        return method
    from .pairs.factory import with_image_matcher, with_matcher

    return (with_image_matcher if family == MATCHED else with_matcher)(method, matching, spec)


def _watched(method: Method) -> Method:
    """Return a method that records which files its user code opens. Other methods are unchanged."""
    if not method.needs_payload or method.uncached_reason or not has_user_code(method.config):
        return method
    opened = method.opened or OpenedFiles()
    return replace(
        method,
        opened=opened,
        extract=opened.calls(method.extract),
        stream=None if method.stream is None else opened.steps(method.stream),
    )


def _resolve_pairs(spec: Any, parsed: Spec | None, **options: Any) -> Method:
    """Resolve a method on image pairs: a pair matcher, a flow, or a keypoint method with a matcher."""
    from .pairs.factory import choose_family, family_of, split_matcher, with_matcher

    device, on_bad = options["device"], options["on_bad"]
    if parsed is None:
        if isinstance(spec, tuple):
            return with_matcher(resolve(spec, family="keypoints", **options), {}, None)
        thing, own = _made(spec, "pairs", device)
        if choose_family(thing) == "keypoints":
            return with_matcher(resolve(thing, family="keypoints", **options), {}, None)
        return _bound(thing, own, "pairs", device, on_bad, None)
    plain, given = (spec, {}) if isinstance(spec, FilesSpec) else split_matcher(spec)
    home = family_of(parsed, given)
    if home != "keypoints":
        thing, own = _made_from(parsed, home, device)
        if choose_family(thing) == "pairs":
            if parsed.transforms:
                raise InputError(
                    f"+{parsed.transforms[0].name} needs descriptors, but {own} returns matches; remove "
                    "the transform"
                )
            return _bound(thing, own, "pairs", device, on_bad, spec)
    return with_matcher(resolve(plain, family="keypoints", **options), given, spec)


def _made(thing: Any, family: str, device: str) -> tuple[Any, str]:
    """Return an object and its name, given a specification, a class (which is instantiated) or an object."""
    if thing is None or type(thing) in (bool, int, float, bytes, list, dict, set):
        raise InputError(f"`method` is {repr(thing)[:60]}; expected a name, a class or an object")
    made = as_network(instantiate(thing, Stage(getattr(thing, "__name__", "")), device), family, device)
    return made, display_name(made, type(made).__name__)


def _made_from(parsed: Spec, family: str, device: str) -> tuple[Any, str]:
    """Create the object of a parsed specification. Return it and its name."""
    base = parsed.base
    if parsed.is_python_file:
        factory: Any = load_from_file(base.name, str(base.argument))
        made = instantiate(factory, Stage(str(base.argument), base.params), device)
    else:
        base = replace(base, name=METHODS.canonical_case(base.name, family))
        module, _, attribute = str(parsed.base).partition(":")
        if attribute.isidentifier() and "." in module and base.name not in METHODS:
            file = f"{module.replace('.', '/')}.py"
            raise InputError(
                f"unknown method '{module}:{attribute}'; pass the file, as in {file}:{attribute}"
            )
        factory = METHODS.load(base.name, family=family)
        if family == "patches" and "distance" in base.params and _is_plain(factory):
            return _with_distance(factory, base, device)
        made = instantiate(factory, base, device)
    return made, display_name(made, base, factory)


def _is_plain(factory: Any) -> bool:
    """Return whether a factory is a built-in class without a constructor parameter `distance`."""
    return inspect.isclass(factory) and is_builtin_class(factory) and "distance" not in parameters_of(factory)


def _with_distance(factory: Any, base: Stage, device: str) -> tuple[Any, str]:
    """Return a built-in patch descriptor that uses the distance of ``?distance=``, and its name."""
    rest = {k: v for k, v in base.params.items() if k != "distance"}
    made = instantiate(factory, Stage(base.name, rest, base.argument), device)
    own, wanted = distance_of(made), str(base.params["distance"])
    if wanted == own:
        return made, display_name(made, Stage(base.name, rest, base.argument), factory)
    if own not in REAL_VALUED:
        raise InputError(f"{base.name} computes bits, which are compared by {own}; remove ?distance={wanted}")
    if wanted not in CHOICES:
        raise UnknownNameError(f"distance of {base.name}", wanted, CHOICES)
    made.distance = wanted
    return made, display_name(made, base, factory)


def _bound(thing: Any, name: str, family: str, device: str, on_bad: str, spec: str | None) -> Method:
    if family == "dense":
        from .dense.adapter import as_matcher

        thing = as_matcher(thing)
    distance = check_distance(distance_of(thing), f"method {name!r}")
    check_on_bad(on_bad, distance, name)
    module, _, attribute = BINDERS[family].partition(":")
    binder = getattr(importlib.import_module(module), attribute)
    extract = binder(thing, name=name, distance=distance, on_bad=on_bad)
    config, reason = config_of(thing, distance=distance, device=device, on_bad=on_bad)
    if family == "pairs":  # the same object returns other arrays on a dense task
        config = {**config, "edge": "pairs"}
    if family == "patches":
        config = {**config, **extract.form.config()}
    return Method(
        name=name,
        family=family,
        distance=distance,
        config=config,
        extract=extract,
        of_item=item_part(thing) if on_bad == "error" else _with_nan(item_part(thing), family, config),
        spec=spec,
        needs_payload=not (hasattr(thing, "lookup_item") or hasattr(thing, "lookup")),
        check=check_hook(thing),
        has=(lambda item: thing.has_item(view_for_user(thing, item))) if hasattr(thing, "has_item") else None,
        meta=_meta(thing, family),
        uncached_reason=reason,
        notices=thing.warnings if is_builtin_class(type(thing)) and hasattr(thing, "warnings") else (),
        stream=getattr(extract, "stream", None),
        thread_safe=is_builtin_class(type(thing)) and bool(getattr(thing, "thread_safe", False)),
        keep_images=is_builtin_class(type(thing)) and bool(getattr(thing, "keep_images", False)),
    )


_OF_OTHERS = ("files", "onnx", "torchscript", "kornia", "patch")


def _with_nan(part: Callable[[Item], Any], family: str, config: Mapping[str, Any]) -> Callable[[Item], Any]:
    """Return `part` with a marker added for keypoint methods whose descriptors may contain NaN.

    `part` computes the item-dependent part of the cache key.
    """

    def may(config: Mapping[str, Any]) -> bool:
        own = str(config.get("method", "")).rpartition("/")[2]
        return "class" in config or own in _OF_OTHERS or any(map(may, config.get("parts", {}).values()))

    return (lambda item: [*part(item), "nan"]) if family == "keypoints" and may(config) else part


def _meta(thing: Any, family: str) -> dict[str, Any]:
    """Return the properties of a method that tasks need, such as `given_keypoints` (read from files)."""
    names = ("keypoint_set", "rooted", "given_keypoints")
    found = {name: value for name in names if (value := getattr(thing, name, None))}
    looks_up = hasattr(thing, "lookup_item") or hasattr(thing, "lookup")
    return found | ({"given_keypoints": True} if family == "keypoints" and looks_up else {})


ROOTING = ("rootsift", "power")
ZERO_IS_DEFINED = ("hpatches-python", "hpatches-matlab")
"""Transforms that set undefined rows to zero and compare these, as the older tools do."""


def apply_transform(
    method: Method, stage: Stage, *, on_bad: str = "error", fit: Callable[..., Any] | None = None
) -> Method:
    """Return `method` followed by the transform of `stage`, as in ``sift+rootsift``.

    Transforms require real-valued descriptors and raise an error for `hamming`. Failed rows stay failed.
    """
    if method.family not in ("patches", "keypoints"):
        raise InputError(f"+{stage.name} needs descriptors, but {method.name!r} has none; omit the transform")
    if method.distance not in REAL_VALUED:
        raise InputError(
            f"+{stage.name} needs real-valued descriptors, but {method.name!r} is compared by "
            f"{method.distance}; remove the transform"
        )
    if stage.name in ROOTING and method.meta.get("rooted"):
        raise InputError(f"{method.name!r} is already square-rooted; remove +{stage.name}")
    plain_apply = transforms.TRANSFORMS[stage.name].apply
    if plain_apply is not None:
        if stage.params:
            raise InputError(f"+{stage.name} takes no parameters; remove {stage.query}")
        apply, known = plain_apply, stage
        config = transform_config(method.config, known)
    else:
        fitted, known = _fitted(method, stage, fit)
        apply, config = fitted.apply, transform_config(method.config, known, fitted.hash)

    keep_nan = method.family == "keypoints"

    def extract(item: Item, payload: Any) -> Arrays:
        return after(item, partial(method.extract, item, payload))

    def stream(payloads: Iterator[tuple[Item, Any]]) -> Iterator[tuple[Item, Finish]]:
        assert method.stream is not None
        for item, finish in method.stream(payloads):
            yield item, partial(after, item, finish)

    def after(item: Item, finish: Finish) -> Arrays:
        arrays = finish()
        values, valid = arrays["values"], arrays.get("valid")
        good = np.ones(len(values), bool) if valid is None else np.asarray(valid)
        done = apply(values[good])
        out = np.zeros((len(values), done.shape[1]), done.dtype)
        out[good] = done
        if keep_nan and values.dtype.kind == "f":  # non-finite rows of a keypoint method
            out[~np.isfinite(values).all(axis=1)] = np.nan
            good = good | np.isnan(out).any(axis=1)
        others = {k: v for k, v in arrays.items() if k not in ("values", "valid")}
        return others | check_descriptors(
            (out, good),
            rows=len(values),
            distance=method.distance,
            where=f"{method.name}+{stage.name} on {item.key}",
            on_bad=on_bad,
            zero_rows_are_valid=stage.name in ZERO_IS_DEFINED,
            keep_nan=keep_nan,
        )

    return replace(
        method,
        name=f"{method.name}+{known}",
        config=config,
        extract=extract,
        stream=stream if method.stream is not None else None,
        spec=None if method.spec is None else f"{method.spec}+{stage}",
        meta={**method.meta, "rooted": True} if stage.name in ROOTING else method.meta,
    )


def transform_config(base: Mapping[str, Any], stage: Stage, fitted: str | None = None) -> dict[str, Any]:
    """Return the config of a method with a transform. `fitted` is the hash of a fitted transform."""
    revision = transforms.TRANSFORMS[stage.name].revision
    config = {"base": dict(base), "transform": str(stage), "revision": revision}
    return config if fitted is None else {**config, "fitted": fitted}


def _fitted(
    method: Method, stage: Stage, fit: Callable[..., Any] | None
) -> tuple[transforms.FittedTransform, Stage]:
    """Fit a transform on training data. Return it and its stage without default parameters."""
    fitter, images = transforms.FITTERS[stage.name]
    if fit is None:
        raise InputError(
            f"+{stage.name} must be fitted on the training sequences of a split; choose a task and split "
            "with training sequences (for hpatches, `split` a, b or c)"
        )
    _, keywords = arguments(fitter, stage, given=1)
    known = stage.without_defaults(fitter)
    revision = transforms.TRANSFORMS[stage.name].revision
    request = transforms.FitRequest(str(known), images, partial(fitter, **keywords), revision)
    fitted: transforms.FittedTransform = fit(method, request)
    return fitted, known
