# SPDX-License-Identifier: BSD-3-Clause
"""Walk all objects that can be reached from some objects, and look for ground truth among them."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from functools import partial
from types import BuiltinMethodType, CodeType, FrameType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

import numpy as np

MAX_OBJECTS = 50_000
ATOMS = (str, bytes, bytearray, int, float, complex, bool, type(None), np.generic, np.dtype)


def reachable(*roots: Any) -> Iterator[Any]:
    """Yield objects reachable by attributes, containers, closures and referents.

    Modules, classes and the globals of functions are not entered.
    """
    todo, seen = list(roots), {}
    while todo:
        found = todo.pop()
        if isinstance(found, (ModuleType, type)) or id(found) in seen:
            continue
        seen[id(found)] = found  # keeps it alive, so that its id stays its own
        assert len(seen) < MAX_OBJECTS, "the walk does not end"
        yield found
        if not isinstance(found, ATOMS):
            todo += _neighbours(found)


def _neighbours(found: Any) -> Iterable[Any]:
    if isinstance(found, FunctionType):
        cells = [cell.cell_contents for cell in found.__closure__ or ()]
        return [*cells, found.__defaults__, found.__kwdefaults__, found.__dict__]
    if isinstance(found, (MethodType, BuiltinMethodType)):
        return [found.__self__, getattr(found, "__func__", None)]
    if isinstance(found, FrameType):
        return list(found.f_locals.values())  # not the frames that called it
    if isinstance(found, CodeType):
        return []
    if isinstance(found, np.ndarray):
        return [found.base, *(found.flat if found.dtype == object else ())]
    if isinstance(found, GeneratorType):
        return [found.gi_frame, found.gi_yieldfrom]
    if isinstance(found, partial):
        return [found.func, found.args, found.keywords]
    if isinstance(found, (dict, list, tuple, set, frozenset)):
        return gc.get_referents(found)
    names = [name for name in dir(found) if not name.startswith("__")]
    return [*gc.get_referents(found), *(_attribute(found, name) for name in names)]


def _attribute(found: Any, name: str) -> Any:
    try:
        return getattr(found, name)
    except Exception:  # a property may refuse
        return None


def truth_in(objects: Iterable[Any], arrays: Iterable[np.ndarray], types: tuple[type, ...]) -> list[str]:
    """Describe objects of a ground-truth type and arrays, or nested lists, equal to one of `arrays`."""
    known = [np.asarray(a, np.float64).ravel() for a in arrays]
    sizes = {a.size for a in known}
    found = []
    for thing in objects:
        if isinstance(thing, types):
            found.append(f"an object of type {type(thing).__name__}")
        values = _numbers(thing, sizes)
        if values is not None and any(np.array_equal(values, a, equal_nan=True) for a in known):
            found.append(f"{type(thing).__name__} with {values.size} numbers of the truth")
    return found


def _numbers(thing: Any, sizes: set[int]) -> np.ndarray | None:
    if not isinstance(thing, (np.ndarray, list, tuple)):
        return None
    try:
        values = np.asarray(thing)
        return values.astype(np.float64).ravel() if values.size in sizes else None
    except (TypeError, ValueError):
        return None
