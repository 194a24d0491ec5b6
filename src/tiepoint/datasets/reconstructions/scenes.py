# SPDX-License-Identifier: BSD-3-Clause
"""True and estimated poses of scenes, read from files and folders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import ErrorCollector, InputError, ProblemsError
from ...core.formatting import count_text, first_few
from ...core.hashing import hash_json
from ...core.regular_files import exists, is_file, is_folder
from .imc_table import read_imc_table
from .layouts import KNOWN, SCENE_JSON, has_models, read_models
from .own_json import JsonScene, read_json_scenes
from .poses import Poses

_GENERIC = frozenset(
    (
        "",
        "sparse",
        "sparse_gt",
        "colmap",
        "dense",
        "sfm",
        "cams",
        "calibration",
        "cameras",
        "0",
        "model",
        "models",
    )
)
_TABLES = ("submission.csv", "train_labels.csv", "labels.csv")


@dataclass(frozen=True)
class TrueScene:
    """True poses of the images of a scene.

    `component` (n,) has the component number of each image; between components, the relative pose is unknown.
    `outliers` are images that belong to no component. `position_accuracy` is the accuracy of the true camera
    centres in units of the truth, None if unknown. `truth` states how the poses were measured (`sfm`: by a
    reconstruction). `kind` is a category.
    """

    name: str
    poses: Poses
    component: NDArray[np.int64]
    outliers: tuple[str, ...] = ()
    position_accuracy: float | None = None
    unit: str = ""
    truth: str = ""
    kind: str = "other"

    def definition(self) -> str:
        """Hash of all ground truth that scores depend on."""
        p = self.poses
        return hash_json(
            [
                [self.name, list(p.names), p.q.tolist(), p.t.tolist(), self.component.tolist()],
                [list(self.outliers), self.position_accuracy, self.unit, self.truth, self.kind],
            ]
        )


@dataclass(frozen=True)
class EstimatedScene:
    """Models of one scene that a method reconstructed. `found` is False if the results lack the scene."""

    models: tuple[Poses, ...]
    found: bool = True


def read_truth(path: str | Path) -> tuple[TrueScene, ...]:
    """Read the true poses of one or several scenes.

    A scene is a folder or file in a layout of `layouts.KNOWN`. A folder of such folders or files has several
    scenes. Tables and JSON can have several scenes as well. Several models of one scene are its components.

    Raises:
        InputError: The path does not exist, has no known layout, or a true pose is missing or invalid.
    """
    root = Path(path).expanduser()
    if not exists(root):
        raise InputError(f"{root} does not exist; pass the true poses, for example a COLMAP model")
    file = scene_file(root)
    if file is not None:
        scenes = truth_of_file(file)
    elif has_models(root):
        scenes = [true_scene(_scene_name(root), read_models(root))]
    else:
        places = _scene_places(root)
        errors = ErrorCollector()
        found = [errors.call(_truth_of_place, name, place) for name, place in places.items()]
        errors.raise_all()
        scenes = [scene for part in found for scene in part]
    if not scenes:
        raise InputError(f"{root} has no poses in a known layout; expected one of: {'; '.join(KNOWN)}")
    check_truth(root, scenes)
    return tuple(scenes)


def true_scene(
    name: str,
    models: Sequence[Poses],
    *,
    kind: str = "other",
    outliers: tuple[str, ...] = (),
    components: Mapping[str, int] | None = None,
) -> TrueScene:
    """Join the models of a scene. Each model is a component, unless `components` numbers all images.

    Raises:
        InputError: An image is not in `components`.
    """
    names = tuple(n for m in models for n in m.names)
    joined = Poses(
        names,
        np.concatenate([np.empty((0, 4)), *(m.q for m in models)]),
        np.concatenate([np.empty((0, 3)), *(m.t for m in models)]),
        np.concatenate([np.empty(0, bool), *(m.registered for m in models)]),
        models[0].place if models else name,
        all(m.ordered for m in models),
        warnings=tuple(w for m in models for w in m.warnings),
    )
    component = np.repeat(np.arange(len(models)), [len(m) for m in models])
    if components:
        missing = [n for n in names if n not in components]
        if missing:
            raise InputError(
                f"{joined.place}, {name}: components lack {first_few(missing)}; number all images"
            )
        component = np.array([components[n] for n in names], np.int64)
    return TrueScene(name, joined, component.astype(np.int64), outliers, kind=kind)


def read_estimates(path: str | Path, scenes: Sequence[str]) -> dict[str, EstimatedScene]:
    """Read the models that one method reconstructed of the given scenes.

    A scene without results has no model.

    Raises:
        InputError: The path does not exist, no scene has results, or a file violates its format.
    """
    root = Path(path).expanduser()
    if not exists(root):
        raise InputError(f"the results {root} do not exist; pass a folder or file of estimated poses")
    file = scene_file(root)
    errors = ErrorCollector()
    found: dict[str, EstimatedScene] = {}
    if file is not None:
        found = _estimates_of_file(file, scenes)
    elif len(scenes) == 1 and has_models(root):
        found = {scenes[0]: EstimatedScene(read_models(root))}
    else:
        for scene, place in _places_of(root, scenes).items():
            with errors.collect():
                found[scene] = _estimate_of_place(place, scene)
    errors.raise_all()
    if not found:
        raise InputError(
            f"{root}: no results of {first_few(list(scenes), 3)}; expected a folder or file for each scene, "
            f"in a known layout: {'; '.join(KNOWN)}"
        )
    return {scene: found.get(scene, EstimatedScene((), found=False)) for scene in scenes}


def result_methods(path: str | Path, scenes: Sequence[str]) -> dict[str, Path]:
    """Return the results of each method by name: `path` itself, or its sub-folders with results.

    A folder such as ``sparse`` or ``0`` has the name of the folder above it.

    Raises:
        InputError: The path does not exist.
    """
    root = Path(path).expanduser()
    if not exists(root):
        raise InputError(f"the results {root} do not exist; pass a folder or file of estimated poses")
    alone = _scene_name(root)
    if _has_results(root, scenes) or not is_folder(root):
        return {alone: root}
    inside = {p.name: p for p in sorted(root.iterdir()) if p.is_dir() and _has_results(p, scenes)}
    return inside or {alone: root}


def _has_results(path: Path, scenes: Sequence[str]) -> bool:
    if scene_file(path) is not None or _places_of(path, scenes):
        return True
    return len(scenes) == 1 and has_models(path)


def scene_file(path: Path) -> Path | None:
    """Return the table or JSON file at or in a path, which can have several scenes. None if there is none."""
    if is_file(path):
        return path if path.suffix in (".csv", ".json") else None
    inside = [path / name for name in (SCENE_JSON, *_TABLES)]
    return next((p for p in inside if is_file(p)), None)


def _places_of(root: Path, scenes: Sequence[str]) -> dict[str, Path]:
    """Return the folder or file of each scene inside a folder of results."""
    if not is_folder(root):
        return {}
    found = {}
    for scene in scenes:
        candidates = [root / scene, *(root / f"{scene}{ending}" for ending in (".txt", ".json", ".csv"))]
        place = next((p for p in candidates if exists(p)), None)
        if place is not None:
            found[scene] = place
    return found


def _estimate_of_place(place: Path, scene: str) -> EstimatedScene:
    file = scene_file(place)
    if file is not None:
        return _estimates_of_file(file, [scene])[scene]
    if is_folder(place) and not has_models(place):
        return EstimatedScene(())
    return EstimatedScene(read_models(place))


def _estimates_of_file(file: Path, scenes: Sequence[str]) -> dict[str, EstimatedScene]:
    """Return the models of scenes in a table or JSON file. If it has one scene, that matches any name."""
    if file.suffix == ".csv":
        tables = read_imc_table(file)
        known = {name: tuple(scene.clusters.values()) for name, scene in tables.items()}
    else:
        known = {name: scene.models for name, scene in read_json_scenes(file).items()}
    if len(scenes) == 1 and len(known) == 1:
        return {scenes[0]: EstimatedScene(next(iter(known.values())))}
    return {scene: EstimatedScene(known[scene]) for scene in scenes if scene in known}


def _scene_places(root: Path) -> dict[str, Path]:
    if not is_folder(root):
        return {}
    return {
        p.stem if is_file(p) else p.name: p
        for p in sorted(root.iterdir())
        if not p.name.startswith(".") and (scene_file(p) is not None or has_models(p))
    }


def _scene_name(root: Path) -> str:
    place = root.resolve()
    if is_file(place):
        return place.stem
    while place.name in _GENERIC or place.name.endswith("_calibration_undistorted"):
        if place.parent == place:
            return "scene"
        place = place.parent
    return place.name


def _truth_of_place(name: str, place: Path) -> list[TrueScene]:
    file = scene_file(place)
    if file is None:
        return [true_scene(name, read_models(place))]
    scenes = truth_of_file(file)
    return [replace(scenes[0], name=name)] if len(scenes) == 1 else scenes


def truth_of_file(file: Path) -> list[TrueScene]:
    """Return the true scenes of a table or JSON file."""
    if file.suffix == ".csv":
        return [
            true_scene(name, tuple(scene.clusters.values()), kind=scene.kind, outliers=scene.outliers)
            for name, scene in read_imc_table(file).items()
        ]
    return [_json_scene(name, scene) for name, scene in read_json_scenes(file).items()]


def _json_scene(name: str, scene: JsonScene) -> TrueScene:
    made = true_scene(name, scene.models, outliers=scene.outliers, components=scene.components)
    return replace(
        made,
        position_accuracy=scene.position_accuracy,
        unit=scene.unit,
        truth=scene.truth,
    )


def check_truth(root: str | Path, scenes: Sequence[TrueScene]) -> None:
    """Raise one error with all problems of true scenes: missing poses, duplicates, or too few images."""
    problems = []
    seen: set[str] = set()
    for scene in scenes:
        if scene.name in seen:
            problems.append(f"{scene.name}: the scene occurs twice; rename or remove one")
        seen.add(scene.name)
        missing = [n for n, q in zip(scene.poses.names, scene.poses.q, strict=True) if np.isnan(q).any()]
        if missing:
            have = count_text(len(missing), "image has", "images have")
            problems.append(
                f"{scene.name}: {have} no valid pose in the ground truth ({first_few(missing)}); remove "
                "them, or name them as outliers"
            )
        twice = [n for n, count in Counter(scene.poses.names).items() if count > 1]
        if twice:
            problems.append(
                f"{scene.name}: {sorted(twice)[0]} is in two models of the ground truth; remove it from one"
            )
        both = sorted(set(scene.outliers) & set(scene.poses.names))
        if both:
            problems.append(
                f"{scene.name}: the outlier {both[0]} has a true pose; remove the pose or the outlier"
            )
        pairs = sum(c * (c - 1) for c in np.bincount(scene.component).tolist())
        if not pairs:
            problems.append(
                f"{scene.name}: a scene needs 2 images with true poses, found {len(scene.poses)}; add "
                "poses or remove the scene"
            )
    if problems:
        raise ProblemsError(str(root), problems)
