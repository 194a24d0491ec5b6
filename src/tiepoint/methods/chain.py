# SPDX-License-Identifier: BSD-3-Clause
"""A method followed by a transform is a method again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.units import Arrays, Item
from . import normalise
from . import transforms as plain
from .base import Finish, Method
from .output_checks import check_descriptors
from .resolve import REAL_VALUED
from .spec import Stage, arguments

ROOTING = ("rootsift", "power")
ZERO_IS_DEFINED = ("hpatches-python", "hpatches-matlab")
"""The older tools set undefined rows to zero and compared them; that is part of these two methods."""


def apply_transform(
    method: Method, stage: Stage, *, on_bad: str = "error", fit: Callable[..., Any] | None = None
) -> Method:
    """`method` followed by the transform of `stage`, e.g. ``sift`` then ``rootsift``.

    Transforms work on real-valued descriptors; bits have no square root, so `hamming` is refused. Rows
    that failed stay failed.
    """
    if method.family not in ("patches", "keypoints"):
        raise InputError(
            f"+{stage.name} works on descriptors, and {method.name!r} makes none that are kept; leave it out"
        )
    if method.distance not in REAL_VALUED:
        raise InputError(
            f"+{stage.name} works on real-valued descriptors, and {method.name!r} is compared by "
            f"{method.distance}; leave the transform out"
        )
    if stage.name in ROOTING and method.meta.get("rooted"):
        raise InputError(f"{method.name!r} is rooted already; leave out +{stage.name}")
    plain_apply = plain.TRANSFORMS[stage.name].apply
    if plain_apply is not None:
        if stage.params:
            raise InputError(f"+{stage.name} takes no parameters, found {stage.query}")
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
        if keep_nan and values.dtype.kind == "f":  # only what a method of keypoints gave as NaN is still so
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
    """Config of a method followed by a transform; `fitted` is the hash of its numbers, where it has some."""
    revision = plain.TRANSFORMS[stage.name].revision
    config = {"base": dict(base), "transform": str(stage), "revision": revision}
    return config if fitted is None else {**config, "fitted": fitted}


def _fitted(
    method: Method, stage: Stage, fit: Callable[..., Any] | None
) -> tuple[normalise.FittedTransform, Stage]:
    """The fitted transform, and its stage without parameters that are the default."""
    fitter, images = normalise.FITTERS[stage.name]
    if fit is None:
        raise InputError(
            f"+{stage.name} is fitted on the training sequences of a split; run it on a task with a split "
            "that has some (for hpatches, `split` a, b or c)"
        )
    _, keywords = arguments(fitter, stage, given=1)
    known = stage.without_defaults(fitter)
    revision = plain.TRANSFORMS[stage.name].revision
    request = normalise.FitRequest(str(known), images, partial(fitter, **keywords), revision)
    fitted: normalise.FittedTransform = fit(method, request)
    return fitted, known
