# SPDX-License-Identifier: BSD-3-Clause
"""The `config` of a method: everything that determines its output, as plain JSON.

A built-in method is identified by its registered name, declared revision, parameters and the versions of
its declared libraries. Its source is not part of the config, so files may move. User code is identified by
its source, parameters, attributes, files and libraries.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.hashing import hash_array, hash_json
from ..core.plugins import distance_of
from ..core.records import Item
from .base import no_item_key
from .named_files import hash_literal_files
from .object_state import NotHashable, ObjectState
from .outside_state import OutsideState, replaced_function
from .registry import METHODS
from .source_files import SourceFiles, is_installed, library_versions, sources_of
from .spec import parameters_of
from .torch_settings import torch_settings
from .user_code import UserObject, is_builtin_class, view_for_user

MAX_INLINE_CHARS = 500
"""Longest setting that is stored in full, in characters."""

LIBRARIES = ("numpy",)
"""Default `libraries` of a built-in class."""

_TO_DO = "create it on first use, and keep only the path of its file or its settings as attributes"


def revision_of(thing: Any) -> int:
    """Return the declared revision of a built-in class or object.

    >>> from tiepoint.methods.canaries import ConstantPatches
    >>> revision_of(ConstantPatches)
    1
    """
    return int(getattr(thing, "revision", 1))


def config_of(thing: Any, *, distance: str, device: str, on_bad: str) -> tuple[dict[str, Any], str | None]:
    """Return the config of an object, and why its features cannot be cached (None if they can)."""
    own = thing.user_thing if isinstance(thing, UserObject) else thing
    if is_builtin_class(type(own)):
        return _builtin(own, distance, device, on_bad)
    made: dict[str, Any] = {"class": type(own).__qualname__, "distance": distance, "on_bad": on_bad}
    if not isinstance(thing, UserObject) and "device" in parameters_of(type(own)):
        made["device"] = device
    reason = None
    try:
        made |= _user(thing)
    except NotHashable as e:
        reason = f"of its attribute `{e.what}`: {e.why}; {_TO_DO}" if e.what else e.why
    if reason is None and hasattr(own, "lookup") and not hasattr(own, "item_key"):
        reason = "it looks features up; add item_key(item), which must change with them"
    return made, reason


def _builtin(thing: Any, distance: str, device: str, on_bad: str) -> tuple[dict[str, Any], str | None]:
    cls = type(thing)
    made: dict[str, Any] = {
        "method": METHODS.identity(cls),
        "revision": revision_of(cls),
        "distance": distance,
        "on_bad": on_bad,
    }
    stated = getattr(thing, "config", None)
    parts = getattr(thing, "tiepoint_parts", None)
    libraries = getattr(cls, "libraries", LIBRARIES)
    made["libraries"] = library_versions(libraries)
    replaced = replaced_function(libraries)
    if "torch" in made["libraries"] and (settings := torch_settings(of_networks=True)):
        made["torch"] = settings
    if parts is not None:
        made["params"] = dict(stated or {})
        known = {
            k: config_of(p, distance=distance_of(p), device=device, on_bad=on_bad) for k, p in parts.items()
        }
        made["parts"] = {k: config for k, (config, _) in known.items()}
        return made, replaced or next((why for _, why in known.values() if why), None)
    made["params"] = {k: _plain(v) for k, v in (vars(thing) if stated is None else stated).items()}
    if "device" in parameters_of(cls):
        made["device"] = device
    if hasattr(thing, "weight_hashes"):
        made["weights"] = dict(thing.weight_hashes)
    return made, replaced or getattr(thing, "uncached_reason", None)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return hash_array(value)
    return value.item() if isinstance(value, np.generic) else value


def _user(thing: Any) -> dict[str, Any]:
    """Return the fields of a user object's config that describe its state, files, source and libraries.

    Raise `NotHashable` if part of its state cannot be hashed.
    """
    is_spec = isinstance(thing, UserObject)
    own = thing.user_thing if is_spec else thing
    content = (
        ObjectState(thing.user_modules.modules, thing.user_file.parent)
        if is_spec
        else ObjectState(folder=_folder(type(own)))
    )
    made: dict[str, Any] = {}
    if is_spec:
        content.files |= {thing.user_file, *_loaded(thing.user_modules.modules)}
        made["given"] = {k: _brief(content.hash_value(v, k)) for k, v in thing.user_given.items()}
    content.files |= content.written_in(type(own))
    made["revisions"] = {c.__qualname__: revision_of(c) for c in type(own).__mro__ if is_builtin_class(c)}
    made["params"] = {key: _brief(value) for key, value in content.hash_object(own).items()}
    if isinstance(stated := getattr(own, "config", None), Mapping):
        made["config"] = _brief(content.hash_value(dict(stated), "config"))
    sources = sources_of(*sorted(content.files))
    made |= _outside(type(own), content, sources)
    made["source"] = hash_json([sources.hash, hash_literal_files(sources.texts, content.folder)])
    made["libraries"] = library_versions({*sources.libraries, *content.libraries})
    return made


def _outside(cls: type, content: ObjectState, sources: SourceFiles) -> dict[str, Any]:
    """Return the state outside a user's class that its code reads but its source files do not determine."""
    values = ObjectState(content.modules, content.folder, folders=False)
    values.covered = content.covered
    files = {file for _, file in sources.files}
    outside = OutsideState(values, files)
    outside.follow([cls, *content.reached])
    outside.check_modules({**sys.modules, **content.modules})
    found: dict[str, Any] = (
        {"state": {k: _brief(v) for k, v in outside.found.items()}} if outside.found else {}
    )
    if more := sorted(file.resolve() for file in values.files if file.resolve() not in files):
        found["source"] = sources_of(*more).hash
    content.libraries |= values.libraries if found else set()
    read = {v: values.hash_value(os.environ[v], v) for v in sources.variables if v in os.environ}
    if read:
        found["environment"] = hash_json(read)  # only a hash: a value may be a password
    if "torch" in {*sources.libraries, *content.libraries} and (settings := torch_settings()):
        found["torch"] = settings
    opencv: Any = sys.modules.get("cv2")
    if opencv is not None and "cv2" in {*sources.libraries, *content.libraries} and not opencv.useOptimized():
        found["opencv"] = "not optimized"
    return {"outside": found} if found else {}


def _folder(cls: type) -> Path | None:
    """Return the folder of the file that defines a class. None for classes of installed packages."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return None if file is None or is_installed(file) else Path(file).parent


def _brief(value: Any) -> Any:
    """Return a config value, or its hash if it is long. Configs are stored with every run."""
    return value if len(json.dumps(value)) <= MAX_INLINE_CHARS else {"hash": hash_json(value)}


def _loaded(modules: Mapping[str, Any]) -> list[Path]:
    """Return the source files of the modules that a user's file has already imported."""
    files = [getattr(m, "__file__", None) for m in modules.values()]
    return [Path(f) for f in files if f]


def outside_hash(config: Mapping[str, Any]) -> str:
    """Return a hash of the state that user code reads outside its objects. Workers must have equal state."""
    found: list[Any] = []

    def collect(value: Any) -> None:
        if isinstance(value, Mapping):
            found.extend(value[key] for key in ("outside", "torch") if key in value)
            for part in value.values():
                collect(part)

    collect(config)
    return hash_json(found)


def item_part(thing: Any) -> Callable[[Item], Sequence[Any]]:
    """Return a function that computes the item-dependent part of a method's cache key."""
    if hasattr(thing, "item_key"):
        return lambda item: [thing.item_key(view_for_user(thing, item))]
    return (lambda item: [item.key, item.count]) if hasattr(thing, "lookup_item") else no_item_key
