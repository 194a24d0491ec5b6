# SPDX-License-Identifier: BSD-3-Clause
"""Poses as JSON: one scene, or several below the key `scenes`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import FormatError
from ...formats.colmap.tables import PARAMETERS, ModelCamera, check_camera
from ...formats.json_yaml import read_json
from .poses import PoseBuilder, Poses

_KEYS = (
    "scene",
    "images",
    "models",
    "components",
    "outliers",
    "position_accuracy",
    "unit",
    "truth",
    "cameras",
    "centre",
)


@dataclass(frozen=True)
class JsonScene:
    """Models of one scene in a JSON file, with further properties of the scene.

    `components` maps image names to component numbers. `cameras` has the intrinsics by image name, with the
    centre of the first pixel at (0.5, 0.5).
    """

    models: tuple[Poses, ...]
    components: Mapping[str, int]
    outliers: tuple[str, ...]
    position_accuracy: float | None
    unit: str
    truth: str
    cameras: Mapping[str, ModelCamera] = field(default_factory=dict)


def read_json_scenes(path: Path) -> dict[str, JsonScene]:
    """Read the scenes of a JSON file.

    A scene has `images`, a mapping of image names to `qvec` (w first) and `tvec`, or `models`, a list of such
    mappings. A pose of null is an image that is not registered. Optional keys are `components`, `outliers`,
    `position_accuracy`, `unit`, `truth`, and `cameras`: a mapping of image names to `model`, `size` and
    `params` as in COLMAP. `centre` (0.5 or 0) is the position of the first pixel's centre in `cameras`.
    """
    value = read_json(path)
    if not isinstance(value, dict):
        raise FormatError(path, "not a set of poses; expected an object with images, models or scenes")
    scenes = value.get("scenes")
    if scenes is None:
        name = value.get("scene", path.stem)
        return {str(name): _scene(path, value, str(name))}
    if not isinstance(scenes, dict) or not scenes:
        raise FormatError(path, "scenes: expected an object with one entry per scene")
    return {str(name): _scene(path, scene, str(name)) for name, scene in scenes.items()}


def _scene(path: Path, value: Any, scene: str) -> JsonScene:
    if not isinstance(value, dict) or ("images" in value) == ("models" in value):
        raise FormatError(path, f"{scene}: expected an object with either images or models")
    unknown = sorted(set(value) - set(_KEYS))
    if unknown:
        raise FormatError(path, f"{scene}: unknown key {unknown[0]!r}; use {', '.join(_KEYS)}")
    listed = value["models"] if "models" in value else [value["images"]]
    if not isinstance(listed, list):
        raise FormatError(path, f"{scene}: models: expected a list")
    models = tuple(_model(path, m, f"{scene}, model {i}") for i, m in enumerate(listed))
    accuracy = value.get("position_accuracy")
    if accuracy is not None and not (_is_number(accuracy) and 0 <= accuracy < np.inf):
        raise FormatError(path, f"{scene}: position_accuracy is {accuracy!r}; expected a number from 0")
    components = _components(path, value.get("components"), scene)
    outliers = value.get("outliers", [])
    if not isinstance(outliers, list) or not all(isinstance(o, str) for o in outliers):
        raise FormatError(path, f"{scene}: outliers: expected a list of image names")
    apart = [name for name, number in components.items() if number < 0]
    return JsonScene(
        models,
        {name: number for name, number in components.items() if number >= 0},
        tuple(dict.fromkeys([*outliers, *apart])),
        None if accuracy is None else float(accuracy),
        str(value.get("unit", "")),
        str(value.get("truth", "")),
        _cameras(path, value.get("cameras", {}), value.get("centre", 0.5), scene),
    )


def _cameras(path: Path, value: Any, centre: Any, scene: str) -> dict[str, ModelCamera]:
    """Return the camera of each image. The centre of the first pixel is converted to (0.5, 0.5)."""
    if centre not in (0, 0.5):
        raise FormatError(path, f"{scene}: centre is {centre!r}; expected 0 or 0.5")
    if not isinstance(value, dict):
        raise FormatError(path, f"{scene}: cameras: expected an object of image names")
    found = {}
    for name, given in value.items():
        known = isinstance(given, dict) and set(given) == {"model", "size", "params"}
        size = _vector(given, "size", 2) if known else None
        params = given["params"] if known else None
        if size is None or not isinstance(params, list) or not all(_is_number(p) for p in params):
            raise FormatError(
                path, f"{scene}: camera of {name}: expected model, size (width, height) and params"
            )
        check_camera(path, None, str(given["model"]), len(params))
        places = [i for i, p in enumerate(PARAMETERS[given["model"]]) if p in ("cx", "cy")]
        moved = [float(p) + (0.5 - centre if i in places else 0.0) for i, p in enumerate(params)]
        found[str(name)] = ModelCamera(given["model"], (int(size[0]), int(size[1])), tuple(moved), str(path))
    return found


def _components(path: Path, value: Any, scene: str) -> dict[str, int]:
    """Return the component number of each image. A negative number marks an outlier."""
    if value is None:
        return {}
    if isinstance(value, list) and all(isinstance(part, list) for part in value):
        value = {name: i for i, part in enumerate(value) for name in part if isinstance(name, str)}
    if not isinstance(value, dict) or not all(
        isinstance(v, int) and not isinstance(v, bool) for v in value.values()
    ):
        raise FormatError(path, f"{scene}: components: expected image names with integers, or lists of names")
    return {str(name): int(number) for name, number in value.items()}


def _model(path: Path, value: Any, where: str) -> Poses:
    if isinstance(value, dict) and isinstance(value.get("images"), dict) and "qvec" not in value["images"]:
        value = value["images"]
    if not isinstance(value, dict):
        raise FormatError(path, f"{where}: expected an object of image names with qvec and tvec")
    found = PoseBuilder(path)
    for name, pose in value.items():
        if pose is None:
            found.add_missing(name)
            continue
        q, t = (_vector(pose, key, n) for key, n in (("qvec", 4), ("tvec", 3)))
        if q is None or t is None:
            found.errors.errors.append(
                FormatError(path, f"{where}, {name}: expected qvec with 4 and tvec with 3 numbers")
            )
            continue
        found.add_quaternion(name, q, t)
    return found.build()


def _vector(pose: Any, key: str, count: int) -> list[float] | None:
    values = pose.get(key) if isinstance(pose, dict) else None
    if not isinstance(values, list) or len(values) != count or not all(_is_number(v) for v in values):
        return None
    return [float(v) for v in values]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
