# SPDX-License-Identifier: BSD-3-Clause
"""Reconstruct a scene with one seed: verification and mapping by COLMAP, cached by their keys."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ....core.array_cache import cached_arrays
from ....core.processes import scratch_folder
from ....core.records import Arrays
from ....datasets.reconstructions.image_scenes import GIVEN, SceneCamera
from ....datasets.reconstructions.layouts import read_models
from ....datasets.reconstructions.poses import Poses
from ....formats.colmap.model import find_models
from ....geometry.similarity import load_pycolmap
from .database import write_database
from .launch import ChildResult, run_child
from .matches import SceneMatches

REVISION = 1
"""Version of verified databases and models in the cache."""
DATABASE, MODEL = "sfm-verified", "sfm-model"
"""Names of the cached stages: verified database and models."""
_RESULT, _FILE = "result.json", "database.db"


@dataclass(frozen=True)
class MapperSettings:
    """Settings of the mapper: its kind, changed options, seed, and time limit in seconds."""

    mapper: str
    seed: int
    options: Mapping[str, Any] = field(default_factory=dict)
    limit_s: float = 3600.0


@dataclass(frozen=True)
class Reconstruction:
    """Models of a scene for one seed, and what COLMAP reported.

    `found` has `seconds` (wall, CPU) by stage, `inliers` of each pair, `points` of each model for pictures,
    `options` of the mapper and `peak_mib`. `failure` states why there is no model. `keys` are the cache keys
    of both stages.
    """

    models: tuple[Poses, ...]
    found: Mapping[str, Any]
    failure: str = ""
    keys: Mapping[str, Any] = field(default_factory=dict)


class _ChildError(Exception):
    """Raised inside a cached computation to return the result of a failed child without caching it."""

    def __init__(self, result: ChildResult) -> None:
        super().__init__(result.failure)
        self.result = result


def colmap_build() -> list[str]:
    """Return the version and build of pycolmap, on which the exact result depends."""
    pycolmap = load_pycolmap()
    return [str(pycolmap.__version__), str(getattr(pycolmap, "COLMAP_build", ""))]


def reconstruct(
    cameras: Mapping[str, SceneCamera], matches: SceneMatches, settings: MapperSettings
) -> Reconstruction:
    """Verify the matches and map the scene in a child process. A crashed process is started once more.

    The verified matches are cached separately, so that runs with other mapper options reuse them.
    """
    shown = [[name, c.model, c.size, c.params, c.source] for name, c in cameras.items()]
    verified = [REVISION, matches.key(), shown, settings.seed, colmap_build()]
    model = [*verified, settings.mapper, dict(settings.options)]
    keys = {DATABASE: verified, MODEL: model}

    def make() -> Arrays:
        result = _run(cameras, matches, settings, verified)
        if isinstance(result, ChildResult):
            if result.crashed:
                result = _run(cameras, matches, settings, verified)
            if isinstance(result, ChildResult):
                raise _ChildError(result)
        return result

    try:
        arrays = cached_arrays(MODEL, model, make)
    except _ChildError as e:
        return Reconstruction((), {"peak_mib": e.result.peak_mib}, e.result.failure, keys)
    found = json.loads(bytes(np.asarray(arrays[_RESULT])))
    with scratch_folder() as folder:
        write_files(arrays, Path(folder))
        models = Path(folder) / "models"
        known = read_models(models) if find_models(models) else ()
    return Reconstruction(known, found, keys=keys)


def _run(
    cameras: Mapping[str, SceneCamera],
    matches: SceneMatches,
    settings: MapperSettings,
    verified: list[Any],
) -> Arrays | ChildResult:
    """Verify and map once. Return the model files and the child's report, or the result of a failed child."""
    known = cached_stage(DATABASE, verified)
    with scratch_folder() as name:
        folder = Path(name)
        path, copy = folder / _FILE, folder / "verified.db"
        if known is None:
            write_database(path, cameras, matches)
        else:
            path.write_bytes(bytes(np.asarray(known[_FILE])))
        job = {
            "database": str(path),
            "verify": known is None,
            "verified": str(copy),
            "pairs": (matches.pairs + 1).tolist(),
            "mapper": settings.mapper,
            "mapper_options": dict(settings.options),
            "seed": settings.seed,
            "fixed_intrinsics": all(c.source == GIVEN for c in cameras.values()),
        }
        result = run_child("reconstruct", job, folder, settings.limit_s)
        if result.failure:
            return result
        found = {**result.found, "peak_mib": result.peak_mib}
        if known is None:
            found_s = {"verification": found["seconds"]["verification"]}
            content = {_FILE: _bytes(copy.read_bytes()), _RESULT: _bytes(json.dumps(found_s).encode())}
            cached_arrays(DATABASE, verified, lambda: content)
        else:
            found["seconds"] |= json.loads(bytes(np.asarray(known[_RESULT])))
        files = [p for p in sorted((folder / "models").rglob("*")) if p.is_file()]
        arrays = {p.relative_to(folder).as_posix(): _bytes(p.read_bytes()) for p in files}
    return {**arrays, _RESULT: _bytes(json.dumps(found).encode())}


def _bytes(content: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(content, np.uint8)


def cached_stage(name: str, key: Any) -> Arrays | None:
    """Return the files of a cached stage as arrays of bytes. None if it is not cached."""

    def missing() -> NoReturn:
        raise LookupError(name)

    make: Callable[[], Arrays] = missing
    try:
        return cached_arrays(name, key, make)
    except LookupError:
        return None


def write_files(arrays: Arrays, folder: Path) -> list[Path]:
    """Write the files of a cached stage below a folder, without the child's report. Return their paths."""
    written = []
    for name, content in arrays.items():
        if name == _RESULT:
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(np.asarray(content)))
        written.append(path)
    return written
