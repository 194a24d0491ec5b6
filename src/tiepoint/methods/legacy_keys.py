# SPDX-License-Identifier: BSD-3-Clause
"""Keys as they were while built-in methods were known by their source, and what they are now.

Stores made before built-ins had revisions keep features under keys that hold a hash of the source. Whoever
migrates such a store asks, for each manifest and without extracting anything::

    config = new_config(manifest["method"]["config"], manifest["versions"])   # Outdated: must be made again
    name = new_name(manifest["method"])
    for item in items:
        mine = of_item(config, item, lambda: resolve(manifest["method"]["spec"], family=…))
        new = feature_key(config, mine, item.content)
        for old in old_feature_keys(manifest["method"]["config"], manifest["versions"], mine, item.content):
            ...                                                               # rename the folder old to new

An old key may be one of several: the version of OpenCV in it depended on whether it had been imported.
Fitted transforms are kept under `old_fit_key` of (key, content) of the training images, now `FitRequest.key`.
The sources are those of the last commit before; ``legacy_sources.json`` has their hashes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..model.errors import TiepointError
from ..model.hashing import hash_json
from ..model.units import Item
from .base import Method, method_key
from .normalise import FITTERS
from .sources import library_versions
from .spec import parse_stage

_OPENCV = "opencv-contrib-python-headless"
_LOOKED_UP = ("patches/random", "patches/oracle")


class Outdated(ValueError):
    """A config whose features cannot be taken over; says why in words."""


@lru_cache(maxsize=1)
def _known() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((Path(__file__).parent / "legacy_sources.json").read_text())
    return found


def new_config(old: Mapping[str, Any], versions: Mapping[str, str]) -> dict[str, Any]:
    """The config that the method of an old manifest has now; `Outdated` where its features are not the same.

    `versions` are those of the manifest: they tell the versions of libraries that old keys did not name.

    >>> new_config({"class": "Mine", "source": "abc"}, {})
    Traceback (most recent call last):
    tiepoint.methods.legacy_keys.Outdated: Mine is not a built-in method, or was made by an earlier version
    """
    if "base" in old:
        return _new_transform(old, versions)
    try:
        name = _known()["methods"][old["source"]][old["class"]]
    except KeyError:
        what = old.get("class", "the method")
        raise Outdated(f"{what} is not a built-in method, or was made by an earlier version") from None
    made = {"method": name, "revision": 1, "distance": old["distance"], "on_bad": old["on_bad"]}
    made |= {k: old[k] for k in ("device", "weights", "params") if k in old}
    libraries = _known()["libraries"].get(name, ["numpy"])
    stated = {k: _version_of(k, old.get("libraries", {}), versions) for k in libraries}
    made["libraries"] = {k: v for k, v in stated.items() if v is not None}
    if "parts" in old:
        made["parts"] = {k: new_config(part, versions) for k, part in old["parts"].items()}
    return made


def _new_transform(old: Mapping[str, Any], versions: Mapping[str, str]) -> dict[str, Any]:
    stage = parse_stage(old["transform"])
    is_fitted = "fitted" in old
    if old["source"] != _known()["normalise" if is_fitted else "transforms"]:
        raise Outdated(f"+{old['transform']} was made by an earlier version")
    known = stage.without_defaults(FITTERS[stage.name][0]) if is_fitted else stage
    made = {"base": new_config(old["base"], versions), "transform": str(known), "revision": 1}
    return {**made, "fitted": old["fitted"]} if is_fitted else made


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
    base, transforms = _without_transforms(method["config"])
    tail = "".join(f"+{t}" for t in transforms)
    written = "".join(f"+{t}" for t in base)
    try:
        made = resolve(spec.removesuffix(written) if written else spec, family=method["family"])
    except TiepointError:
        return old
    return f"{made.name}{tail}"


def _without_transforms(config: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The transforms of a config as they were written, and as they are called now."""
    written: list[str] = []
    while "base" in config:
        written.insert(0, config["transform"])
        config = config["base"]
    stages = [parse_stage(text) for text in written]
    now = [s.without_defaults(FITTERS[s.name][0]) if s.name in FITTERS else s for s in stages]
    return written, [str(stage) for stage in now]


def of_item(config: Mapping[str, Any], item: Item, method: Callable[[], Method]) -> Sequence[Any]:
    """The part of keys, old and new, that depends on an item; `method` is called where files decide."""
    while "base" in config:
        config = config["base"]
    parts = [config, config.get("parts", {}).get("detector", {})]
    if any(str(part.get("method", "")).endswith("/files") for part in parts):
        return method().of_item(item)
    return [item.key, item.count] if config["method"] in _LOOKED_UP else []


def feature_key(config: Mapping[str, Any], of_item: Sequence[Any], content: str) -> str:
    """Where the features of an item are kept now."""
    return hash_json(["features", method_key(config, of_item), content])


def old_feature_keys(
    old: Mapping[str, Any], versions: Mapping[str, str], of_item: Sequence[Any], content: str
) -> list[str]:
    """Where the features of an item may have been kept, the likeliest first."""
    return [hash_json(["features", old_key(c, of_item), content]) for c in _variants(old, versions)]


def old_key(old: Mapping[str, Any], of_item: Sequence[Any]) -> str:
    """The key of a method on an item, as an old config makes it."""
    if "base" in old:
        own = [old["transform"], old["source"], old.get("fitted")]
        return hash_json([old_key(old["base"], of_item), *own])
    return hash_json([dict(old), *of_item]) if of_item else hash_json(dict(old))


def old_fit_key(transform: str, trained_on: Sequence[Sequence[str | None]]) -> str:
    """Name of the file that a fitted transform was kept in."""
    return hash_json([transform, _known()["normalise"], trained_on])


def _variants(old: Mapping[str, Any], versions: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """The config with each version that OpenCV may have been called by."""
    whole = versions.get(_OPENCV)
    if whole is None:
        return [old]
    made = [old, *(_with_opencv(old, v) for v in (whole, ".".join(whole.split(".")[:3])))]
    return list({hash_json(config): config for config in made}.values())


def _with_opencv(value: Any, version: str) -> Any:
    if isinstance(value, Mapping):
        made = {k: _with_opencv(v, version) for k, v in value.items()}
        if "libraries" in value and "cv2" in value["libraries"]:
            made["libraries"] = {**made["libraries"], "cv2": version}
        return made
    return value
