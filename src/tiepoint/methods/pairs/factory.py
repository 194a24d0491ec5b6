# SPDX-License-Identifier: BSD-3-Clause
"""From a specification to a method on two images: a pair matcher, keypoints with a matcher, or a flow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...core.plugins import PLUGGED
from ...core.regular_files import is_folder
from ..base import Method
from ..keypoints.files import holds_features
from ..keypoints.spec import HOME, split_detector
from ..registry import METHODS, unknown_method
from ..spec import FilesSpec, Spec, parse_spec
from ..user_code import as_network, load_from_file
from .adapter import EDGES

KEYPOINT_EDGES = ("extract", "extract_item", "detect", "lookup")
_OURS = re.compile(r"(?P<sep>[?&])(?P<key>matcher|ratio)=(?P<value>[^&+@]*)")


def split_matcher(text: str) -> tuple[str, dict[str, str]]:
    """A keypoint specification without the parameters of its matcher, and those parameters.

    They may stand behind any name of it: the method, its detector or a transform.

    >>> split_matcher("sift?max_features=500&matcher=mnn&ratio=0.8+rootsift")
    ('sift?max_features=500+rootsift', {'matcher': 'mnn', 'ratio': '0.8'})
    >>> split_matcher("sift?matcher=nn&max_features=500")
    ('sift?max_features=500', {'matcher': 'nn'})
    """
    given: dict[str, str] = {}
    while found := _OURS.search(text):
        if found["key"] in given:
            raise InputError(f"parameter {found['key']!r} is given twice in {text!r}")
        given[found["key"]] = found["value"]
        rest = text[found.end() :]
        if found["sep"] == "?" and rest.startswith("&"):
            rest = "?" + rest[1:]
        text = text[: found.start()] + rest
    return text, given


def family_of(parsed: Spec, given: Mapping[str, str]) -> str:
    """Where a name of the pairs family is looked up: pairs first, then keypoints, then dense.

    ``DESCRIPTOR@DETECTOR``, and whatever is `given` a matcher, are keypoints. A name that nobody knows is an
    error that lists all.

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
    raise unknown_method("method", name, "pairs", known)


def choose_family(thing: Any) -> str:
    """``pairs`` for an object that sees two images, ``keypoints`` for one that finds keypoints in one."""
    if any(hasattr(thing, edge) for edge in EDGES):
        return "pairs"
    return "keypoints" if any(hasattr(thing, edge) for edge in KEYPOINT_EDGES) else "pairs"


def family_of_geometry(method: Any) -> str:
    """Whether a method for image sequences finds ``keypoints`` in each image or sees ``pairs`` of them.

    A keypoint method stays one unless its specification names a matcher. Pairs are the matchers, flows and
    match files, and classes and objects that have ``match`` and find no keypoints.

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
    if parsed.base.name == "torch":
        from ..keypoints.torch_module import TorchImages

        return _sees_pairs(TorchImages(parsed.base.argument, **parsed.base.params))
    both = all(f"{family}/{name}" in METHODS for family in ("keypoints", "pairs"))
    if both and name not in HOME:
        return "pairs"  # a descriptor without a detector of its own finds nothing
    if f"keypoints/{name}" in METHODS:
        return "keypoints"
    if any(f"{family}/{name}" in METHODS for family in ("pairs", "dense")):
        return "pairs"
    return _sees_pairs(METHODS.load(name)) if f"{PLUGGED}/{name}" in METHODS else "keypoints"


def _sees_pairs(thing: Any) -> str:
    """By what a class or object has; ``lookup_item`` alone tells nothing."""
    thing = as_network(thing, "pairs", "cpu")
    edges = set(EDGES) - {"lookup_item"}
    finds = any(hasattr(thing, edge) for edge in KEYPOINT_EDGES)
    return "pairs" if not finds and any(hasattr(thing, edge) for edge in edges) else "keypoints"


def _of_files(path: str) -> str:
    """Matches of pairs and flows are ``pairs``; a folder of anything else is left to keypoints."""
    from ...formats.matches.answers import AnswerFiles
    from ...formats.matches.detect_layout import detect_match_layout

    root = Path(path).expanduser()
    found = detect_match_layout(root) if is_folder(root) else None
    if found is not None and not isinstance(found, AnswerFiles):
        return "pairs"
    flows = is_folder(root) and not holds_features(root) and next(root.rglob("flow1.flo"), None) is not None
    return "pairs" if flows else "keypoints"
