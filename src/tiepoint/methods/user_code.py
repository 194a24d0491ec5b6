# SPDX-License-Identifier: BSD-3-Clause
"""A user's own method: a class in a file, or an object from a session."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ..model.errors import InputError, UnknownNameError
from ..model.hashing import hash_array, hash_bytes


def load_from_file(file: str, name: str) -> Any:
    """The object `name` of a Python file, imported as a module of its own.

    The file's folder is importable meanwhile, so that it may use files beside it. Whatever goes wrong is
    an `InputError` of one sentence.
    """
    path = Path(file)
    if not path.is_file():
        raise InputError(f"{file}: no such Python file")
    module_name = f"tiepoint_user_{path.stem}_{hash_bytes(str(path.resolve()).encode())[:8]}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{file}: cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as e:
        del sys.modules[module_name]
        if not isinstance(e, Exception):
            raise
        raise InputError(f"{file} cannot be imported: {type(e).__name__}: {e}") from e
    finally:
        sys.path.remove(folder)
    if not hasattr(module, name):
        offered = [k for k, v in vars(module).items() if inspect.isclass(v) and v.__module__ == module_name]
        raise UnknownNameError(f"class in {file}", name, offered)
    return getattr(module, name)


def source_file(thing: object) -> Path | None:
    """The file an object's class was written in, None in a notebook, a session or a main script."""
    cls = thing if inspect.isclass(thing) else type(thing)
    if cls.__module__ in ("__main__", "builtins"):
        return None
    try:
        found = inspect.getsourcefile(cls)
    except (TypeError, OSError):
        return None
    return Path(found) if found and Path(found).is_file() else None


def plain_state(thing: object) -> dict[str, Any] | None:
    """What an object was set to, as plain values; None if it cannot be known.

    An object may state it itself as ``config`` (a mapping). Otherwise its attributes count: numbers,
    strings, lists and arrays (by their content). Anything else could change the output unseen.
    """
    stated = getattr(thing, "config", None)
    if isinstance(stated, dict):
        return dict(stated)
    if not hasattr(thing, "__dict__"):
        return None
    state: dict[str, Any] = {}
    for key, value in vars(thing).items():
        ok, plain = _plain(value)
        if not ok:
            return None
        state[key] = plain
    return state


def _plain(value: Any) -> tuple[bool, Any]:
    if value is None or isinstance(value, bool | int | float | str):
        return True, value
    if isinstance(value, Path):
        return True, str(value)
    if isinstance(value, np.generic):
        return True, value.item()
    if isinstance(value, np.ndarray) and value.dtype != object:
        return True, hash_array(value)
    if isinstance(value, list | tuple):
        parts = [_plain(v) for v in value]
        return all(ok for ok, _ in parts), [v for _, v in parts]
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        pairs = {k: _plain(v) for k, v in value.items()}
        return all(ok for ok, _ in pairs.values()), {k: v for k, (_, v) in pairs.items()}
    return False, None
