# SPDX-License-Identifier: BSD-3-Clause
"""Resolve methods on image pairs: pair matchers, keypoint methods with a matcher, and flows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from ...core.errors import InputError, known_names
from ...core.hashing import hash_array
from ...core.plugins import PLUGGED
from ...core.records import Arrays, ImageFacts, Item
from ...core.regular_files import is_folder
from ...formats.image.reader import SUFFIXES
from ..base import Method, method_key
from ..keypoints.factory import plan_part
from ..keypoints.files import holds_features
from ..keypoints.spec import HOME, split_detector
from ..registry import METHODS, unknown_method
from ..spec import FilesSpec, Spec, parse_spec
from ..user_code import as_network, load_from_file
from .adapter import EDGES
from .image_memo import MEMO, ImageOf
from .matchers import ImageKeypoints, Matcher

COLMAP, COLMAP_SIFT = "colmap", "keypoints/colmap-sift"
"""Matcher of COLMAP, and the method whose descriptors it needs."""
KEYPOINT_EDGES = ("extract", "extract_item", "detect", "lookup")
_OURS = re.compile(r"(?P<sep>[?&])(?P<key>matcher|ratio)=(?P<value>[^&+@]*)")


def split_matcher(text: str) -> tuple[str, dict[str, str]]:
    """Split a keypoint specification into the method and the parameters of the matcher.

    Matcher parameters (``matcher``, ``ratio``) may follow the method, its detector or a transform.

    >>> split_matcher("sift?max_features=500&matcher=mnn&ratio=0.8+rootsift")
    ('sift?max_features=500+rootsift', {'matcher': 'mnn', 'ratio': '0.8'})
    >>> split_matcher("sift?matcher=nn&max_features=500")
    ('sift?max_features=500', {'matcher': 'nn'})
    """
    given: dict[str, str] = {}
    while found := _OURS.search(text):
        if found["key"] in given:
            raise InputError(f"{text!r}: the parameter {found['key']!r} is given twice; remove one")
        given[found["key"]] = found["value"]
        rest = text[found.end() :]
        if found["sep"] == "?" and rest.startswith("&"):
            rest = "?" + rest[1:]
        text = text[: found.start()] + rest
    return text, given


def family_of(parsed: Spec, given: Mapping[str, str]) -> str:
    """Return the family in which a name is looked up: pairs first, then keypoints, then dense.

    ``DESCRIPTOR@DETECTOR`` and specifications with matcher parameters (`given`) are keypoint methods. An
    unknown name raises an error that lists all known names.

    >>> from ..spec import parse_spec
    >>> family_of(parse_spec("sift"), {}), family_of(parse_spec("dis"), {})
    ('keypoints', 'dense')
    """
    name = parsed.base.name
    if given or split_detector(str(parsed.base)).detector is not None:
        return "keypoints"
    if parsed.is_python_file:
        return "pairs"
    if name == "files":
        from .files import family_of_folder

        return family_of_folder(str(parsed.base.argument))
    for family in ("pairs", "keypoints", "dense", PLUGGED):
        if f"{family}/{name}" in METHODS:
            return "pairs" if family == PLUGGED else family
    known = {e.name for e in METHODS if e.family in ("pairs", "keypoints", "dense")}
    elsewhere = sorted({e.family for e in METHODS if e.name == name})
    if elsewhere:
        raise InputError(
            f"method {name!r} is for {' and '.join(elsewhere)}, but pairs of images need methods for pairs, "
            f"keypoints or dense: {known_names('method', sorted(known))}"
        )
    raise unknown_method("method", name, "pairs", known)


def choose_family(thing: Any) -> str:
    """Return the family of an object: ``pairs`` if it receives two images, ``keypoints`` if one."""
    if any(hasattr(thing, edge) for edge in EDGES):
        return "pairs"
    return "keypoints" if any(hasattr(thing, edge) for edge in KEYPOINT_EDGES) else "pairs"


def family_of_geometry(method: Any) -> str:
    """Return the family of a method for image sequences: ``keypoints`` (single images) or ``pairs``.

    Keypoint methods with a matcher, pair matchers, flows and match files belong to ``pairs``. So do classes
    and objects that have ``match`` and do not detect keypoints.

    >>> [family_of_geometry(m) for m in ("sift", "sift?matcher=mnn", "dis", "constant", "oracle")]
    ['keypoints', 'pairs', 'pairs', 'keypoints', 'pairs']
    """
    if isinstance(method, Method):
        return method.family
    if isinstance(method, tuple):
        return "keypoints"
    if not isinstance(method, str):
        return _sees_pairs(method)
    if not isinstance(method, FilesSpec) and split_matcher(method)[1]:
        return "pairs"
    parsed = parse_spec(method)
    if parsed.is_python_file:
        made = load_from_file(parsed.base.name, str(parsed.base.argument)).made_of
        return _sees_pairs(made)
    if parsed.base.name == "files":
        return _of_files(str(parsed.base.argument))
    name = parsed.base.name
    if split_detector(str(parsed.base)).detector is not None:
        return "keypoints"
    if name in ("torch", "hf", "kornia"):
        return _sees_pairs(plan_part(str(parsed.base), "keypoints").build("cpu"))
    both = all(f"{family}/{name}" in METHODS for family in ("keypoints", "pairs"))
    if both and name not in HOME:
        return "pairs"  # a descriptor without a default detector detects no keypoints
    if f"keypoints/{name}" in METHODS:
        return "keypoints"
    if any(f"{family}/{name}" in METHODS for family in ("pairs", "dense")):
        return "pairs"
    return _sees_pairs(METHODS.load(name)) if f"{PLUGGED}/{name}" in METHODS else "keypoints"


def _sees_pairs(thing: Any) -> str:
    """Return the family of a class or object, judging by its method names except ``lookup_item``."""
    thing = as_network(thing, "pairs", "cpu")
    edges = set(EDGES) - {"lookup_item"}
    finds = any(hasattr(thing, edge) for edge in KEYPOINT_EDGES)
    return "pairs" if not finds and any(hasattr(thing, edge) for edge in edges) else "keypoints"


def _of_files(path: str) -> str:
    """Return ``pairs`` for a folder of matches or flows, else ``keypoints``."""
    from ...formats.matches.detect_layout import detect_match_layout, holds_files
    from ...formats.matches.native import AnswerFiles

    root = Path(path).expanduser()
    found = detect_match_layout(root) if holds_files(root) else None
    if found is not None and not isinstance(found, AnswerFiles):
        return "pairs"
    flows = is_folder(root) and not holds_features(root) and next(root.rglob("flow1.flo"), None) is not None
    return "pairs" if flows else "keypoints"


_NUMBERS = count()
"""Counter that gives uncacheable methods distinct keys in memory."""


def with_matcher(base: Method, given: Mapping[str, str], spec: str | None) -> Method:
    """Combine a keypoint method with a matcher into a method on image pairs.

    `given` are the parameters ``matcher`` (default `mnn`) and ``ratio``, which become part of the name and
    the cache key. An image in several pairs is described once per process, within a memory limit. If the
    keypoint method is costly, its features are also stored on disk.
    """
    matcher = Matcher.of(given)
    config, why = matcher.config()
    unknown = next(_NUMBERS) if base.uncached_reason else None
    name = f"{base.name}{'&' if '?' in base.name.rpartition('+')[2] else '?'}{matcher.label}"

    def extract(item: Item, payload: Any) -> Arrays:
        sides = []
        for i, single in enumerate(image_items(item, payload)):
            image = None if payload is None else payload[i]
            if base.keep_images:
                (arrays,) = MEMO.of_images([ImageOf(base, single, image)], partial(_extracted, base))
            else:
                key = method_key(base.config, [*base.of_item(single), single.key, single.content, unknown])
                arrays = MEMO.get(key, partial(base.extract, single, image))
            sides.append(ImageKeypoints.of(f"{i}/{single.content or single.key}", arrays))
        a, b = sides
        found, confidence = matcher.match(a, b, distance=base.distance)
        out: dict[str, Any] = {
            "points0": np.asarray(a.xy[found.first], np.float64).reshape(-1, 2),
            "points1": np.asarray(b.xy[found.second], np.float64).reshape(-1, 2),
        }
        if confidence is not None:
            out["confidence"] = confidence
        out["keypoints0"], out["keypoints1"] = np.array([len(a)], np.int64), np.array([len(b)], np.int64)
        return out

    def of_item(item: Item) -> Sequence[Any]:
        return [part for single in image_items(item, None) for part in base.of_item(single)]

    def check(items: Sequence[Item]) -> None:
        singles = {single.key: single for item in items for single in image_items(item, None)}
        assert base.check is not None
        base.check(list(singles.values()))

    return replace(
        base,
        name=name,
        family="pairs",
        config={"base": dict(base.config), **config},
        extract=extract,
        of_item=of_item,
        spec=spec,
        check=None if base.check is None else check,
        has=None,
        stream=None,
        thread_safe=False,
        uncached_reason=base.uncached_reason or why,
    )


def with_image_matcher(base: Method, given: Mapping[str, str], spec: str | None) -> Method:
    """Return a keypoint method for tasks that match all images of a scene, with a matcher in its config.

    The features are those of the keypoint method. `meta` has the matcher parameters. Without parameters,
    COLMAP's keypoints are matched by COLMAP and others by the default matcher.
    """
    own = base.config.get("method") == COLMAP_SIFT
    given = dict(given) or ({"matcher": COLMAP} if own else {})
    if given.get("matcher") == COLMAP:
        if not own:
            raise InputError(
                f"matcher={COLMAP} works only on the descriptors of colmap-sift; use matcher=mnn or "
                "matcher=nn"
            )
        if "ratio" in given:
            raise InputError(f"matcher={COLMAP} has a fixed ratio (0.8); remove `ratio` or use matcher=mnn")
        config, why, label = {"matcher": COLMAP, "revision": 1}, None, ""
    else:
        matcher = Matcher.of(given)
        config, why = matcher.config()
        label = f"{'&' if '?' in base.name.rpartition('+')[2] else '?'}{matcher.label}"
    return replace(
        base,
        name=base.name + label,
        config={"base": dict(base.config), **config},
        features_config=base.config,
        spec=spec,
        meta={**base.meta, "matcher": given, "matcher_config": config},
        uncached_reason=base.uncached_reason or why,
    )


def _extracted(base: Method, images: Sequence[ImageOf]) -> list[Arrays]:
    return [base.extract(image.item, image.pixels) for image in images]


def image_items(item: Item, payload: Any) -> list[Item]:
    """Return the two images of a pair as items, identified by name and pixels."""
    images = item.images or (ImageFacts(f"{item.key}/0"), ImageFacts(f"{item.key}/1"))
    if len(images) != 2:
        raise InputError(
            f"{item.key} has {len(images)} images, but a keypoint matcher needs two; choose a method "
            "for pairs"
        )
    contents = ["", ""] if payload is None else [hash_array(np.ascontiguousarray(i)) for i in payload[:2]]
    return [Item(image_key(f.name), c) for f, c in zip(images, contents, strict=True)]


def image_key(name: str) -> str:
    """Return the name of an image without its suffix, as in the names of keypoint files.

    >>> image_key("scene/1.ppm"), image_key("a.b/frame.12")
    ('scene/1', 'a.b/frame.12')
    """
    path = PurePosixPath(name)
    return str(path.with_suffix("")) if path.suffix.lower() in SUFFIXES else str(path)
