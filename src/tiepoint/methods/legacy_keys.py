# SPDX-License-Identifier: BSD-3-Clause
"""Keys as they were while built-in methods were known by their source, and what they are now.

Stores made before built-ins had revisions name methods, and keep features, by a hash of the source; the
hashes in ``legacy_sources.json`` are those of the last commit that did so. A store is brought up to date
without extracting anything: `migrated` turns the entry ``method`` of an old manifest into what it is now, or
says in words why its features have to be made again; and where features are missing under the key of a
method, `old_keys` says under which keys they may be. There are several, because the version of OpenCV in a
key depended on whether it had been imported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ..core.errors import TiepointError
from ..core.hashing import hash_json
from .source_files import library_versions
from .spec import Stage, parse_stage
from .transforms import FITTERS

_OPENCV = "opencv-contrib-python-headless"


class Outdated(ValueError):
    """A config whose features cannot be taken over; says why in words."""


class _Class(NamedTuple):
    """What a method was known by: the name of its class, the source of its module, the libraries of that."""

    name: str
    source: str
    libraries: tuple[str, ...]


class _Known(NamedTuple):
    """The sources of old: classes by the name of the method, and the transforms'."""

    classes: Mapping[str, _Class]
    transforms: str
    normalise: str
    libraries: Mapping[str, list[str]]


@lru_cache(maxsize=1)
def _known() -> _Known:
    found = json.loads((Path(__file__).parent / "legacy_sources.json").read_text(encoding="utf-8"))
    classes = {
        method: _Class(name, module["source"], tuple(module["libraries"]))
        for module in found["modules"]
        for name, method in module["classes"].items()
    }
    return _Known(classes, found["transforms"], found["normalise"], found["libraries"])


def migrated(method: Mapping[str, Any], versions: Mapping[str, str]) -> dict[str, Any] | str:
    """The entry ``method`` of an old manifest as it is now; where that cannot be, the reason in words.

    What has no source, such as imported results, stays as it is. `versions` are those of the manifest: they
    tell the versions of libraries that old keys did not name.

    >>> migrated({"name": "mine", "config": {"class": "Mine", "source": "abc"}}, {})
    'Mine is not a built-in method, or its source is older'
    """
    if "source" not in method["config"]:
        return dict(method)
    try:
        return {**method, "config": new_config(method["config"], versions), "name": new_name(method)}
    except Outdated as e:
        return str(e)


def new_config(old: Mapping[str, Any], versions: Mapping[str, str]) -> dict[str, Any]:
    """The config that the method of an old manifest has now; `Outdated` where its features are others."""
    if "base" in old:
        fitted = old.get("fitted")
        if old["source"] != (_known().transforms if fitted is None else _known().normalise):
            raise Outdated(f"+{old['transform']} was made by an older source")
        base, transform = new_config(old["base"], versions), str(_shown(old["transform"]))
        made: dict[str, Any] = {"base": base, "transform": transform, "revision": 1}
        return made if fitted is None else {**made, "fitted": fitted}
    wanted = old.get("class"), old.get("source")
    name = next((n for n, c in _known().classes.items() if (c.name, c.source) == wanted), None)
    if name is None:
        raise Outdated(f"{old.get('class')} is not a built-in method, or its source is older")
    made = {"method": name, "revision": 1, "distance": old["distance"], "on_bad": old["on_bad"]}
    made |= {k: old[k] for k in ("device", "weights", "params") if k in old}
    libraries = _known().libraries.get(name, ["numpy"])
    stated = {k: _version_of(k, old.get("libraries", {}), versions) for k in libraries}
    made["libraries"] = {k: v for k, v in stated.items() if v is not None}
    if "parts" in old:
        made["parts"] = {k: new_config(part, versions) for k, part in old["parts"].items()}
    return made


def _shown(transform: str) -> Stage:
    stage = parse_stage(transform)
    return stage.without_defaults(FITTERS[stage.name][0]) if stage.name in FITTERS else stage


def _version_of(name: str, stated: Mapping[str, str], versions: Mapping[str, str]) -> str | None:
    """Version of the installed distribution, as far as an old manifest tells."""
    found = stated.get(name) or versions.get(_OPENCV if name == "cv2" else name)
    if name == "cv2" and found is not None and found.count(".") == 2:
        whole = [versions.get(_OPENCV), library_versions(["cv2"]).get("cv2")]
        return next((v for v in whole if v is not None and v.startswith(f"{found}.")), found)
    return found or library_versions([name]).get(name)


def new_name(method: Mapping[str, Any]) -> str:
    """What the method of an old manifest is called now; as before where that cannot be told."""
    from .resolve import resolve

    old, spec = str(method["name"]), method.get("spec")
    if spec is None or "?" not in spec or "written_as" in method:
        return old
    config: Mapping[str, Any] = method["config"]
    transforms: list[str] = []
    while "base" in config:
        transforms.insert(0, config["transform"])
        config = config["base"]
    try:
        made = resolve(spec.removesuffix("".join(f"+{t}" for t in transforms)), family=method["family"])
    except TiepointError:
        return old
    return "+".join([made.name, *(str(_shown(t)) for t in transforms)])


def old_keys(config: Mapping[str, Any], of_item: Sequence[Any]) -> list[str]:
    """What the key of a method on an item may have been; nothing for users' methods and later revisions.

    >>> old_keys({"class": "Mine"}, [])
    []
    >>> old_keys({"revision": 1, "base": {"revision": 1, "method": "sift"}, "matcher": "mnn"}, [])
    []
    """
    version = library_versions(["cv2"]).get("cv2", "")
    try:
        olds = [_old_config(config, v) for v in (version, ".".join(version.split(".")[:3]))]
    except KeyError:
        return []
    return list(dict.fromkeys(_old_key(old, of_item) for old in olds))


def _old_config(config: Mapping[str, Any], opencv: str) -> dict[str, Any]:
    """The config of old, with OpenCV called by a version; a KeyError where there was none."""
    if config["revision"] != 1:
        raise KeyError("revision")
    if "base" in config:
        source = _known().normalise if "fitted" in config else _known().transforms
        if "transform" not in config:  # a keypoint method with a matcher, which there was not
            raise KeyError("transform")
        kept = {k: config[k] for k in ("transform", "fitted") if k in config}
        return {"base": _old_config(config["base"], opencv), "source": source, **kept}
    was = _known().classes[config["method"]]
    kept = {k: v for k, v in config.items() if k not in ("method", "revision", "libraries", "parts")}
    made = {"class": was.name, "source": was.source, **kept}
    if "parts" in config:
        return {**made, "parts": {k: _old_config(part, opencv) for k, part in config["parts"].items()}}
    versions = library_versions(was.libraries)
    return {**made, "libraries": versions | ({"cv2": opencv} if "cv2" in versions else {})}


def _old_key(old: Mapping[str, Any], of_item: Sequence[Any]) -> str:
    if "base" in old:
        own = [old["transform"], old["source"], old.get("fitted")]
        return hash_json([_old_key(old["base"], of_item), *own])
    return hash_json([dict(old), *of_item]) if of_item else hash_json(dict(old))


def old_fit_keys(transform: str, trained_on: Sequence[tuple[Sequence[str], str]]) -> list[str]:
    """Names of files that a fitted transform may have been kept in.

    `trained_on` has the `old_keys` of the method on every training image, and the image's content.
    """
    count = min((len(keys) for keys, _ in trained_on), default=0)
    fits = [[[keys[i], content] for keys, content in trained_on] for i in range(count)]
    return [hash_json([transform, _known().normalise, fit]) for fit in fits]
