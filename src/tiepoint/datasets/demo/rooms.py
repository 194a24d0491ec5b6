# SPDX-License-Identifier: BSD-3-Clause
"""Render rooms of textured rectangles by ray casting, with exact cameras, as scenes for reconstruction."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import InputError, UnknownNameError
from ...core.hashing import seeded_generator
from ...formats.image.reader import write_image
from ...geometry.correspondence import Size
from ...geometry.quaternions import quaternions_of
from ..reconstructions.image_scenes import IMAGES
from ..reconstructions.layouts import SCENE_JSON
from .views import Image, expose, linear_photo, to_srgb

Vector = NDArray[np.float64]
FOCAL_SHARE = 0.875
"""Focal length as a share of the image width."""
MIN_SIDE = 160
_HALVED = 16
"""Largest factor by which photographs are downsized."""
_SAMPLES = 3
"""Rays per pixel along each axis."""
_BEHIND = 0.02
"""Brightness of pixels whose ray hits no rectangle."""
_NOISE = 0.03
TARGET = np.array([0.0, 0.0, 3.2])


@dataclass(frozen=True)
class Panel:
    """A rectangle covered by a photograph, repeated `tiles` times along both sides.

    `corner` (3,) is a corner, and `across` and `down` (3,) are the edges from it, in metres. y points down.
    """

    photo: str
    corner: tuple[float, float, float]
    across: tuple[float, float, float]
    down: tuple[float, float, float]
    tiles: tuple[float, float] = (1.0, 1.0)


@dataclass(frozen=True)
class RoomCamera:
    """Pose of a view: x_camera = R x_world + t, in metres."""

    R: NDArray[np.float64]
    t: Vector


@dataclass(frozen=True)
class Room:
    """A room to render: its rectangles, and the cameras by image name."""

    panels: tuple[Panel, ...]
    cameras: Mapping[str, RoomCamera]


@dataclass(frozen=True)
class RoomScene:
    """A scene for reconstruction: each of `rooms` is a component, and images of `others` are outliers."""

    rooms: tuple[Room, ...]
    others: tuple[Room, ...] = field(default=())


def look_at(centre: ArrayLike, target: ArrayLike, roll_deg: float = 0.0) -> RoomCamera:
    """Return a camera at `centre` that looks at `target`, with the y axis of the image pointing down.

    >>> camera = look_at((0, 0, 0), (0, 0, 2))
    >>> bool(np.allclose(camera.R, np.eye(3))), (camera.t + 0.0).tolist()
    (True, [0.0, 0.0, 0.0])
    """
    place = np.asarray(centre, np.float64)
    ahead = np.asarray(target, np.float64) - place
    ahead = ahead / np.linalg.norm(ahead)
    right = np.cross([0.0, 1.0, 0.0], ahead)
    right = right / np.linalg.norm(right)
    c, s = np.cos(np.deg2rad(roll_deg)), np.sin(np.deg2rad(roll_deg))
    roll = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
    R = roll @ np.array([right, np.cross(ahead, right), ahead])
    return RoomCamera(R, -R @ place)


def intrinsics(size: Size) -> tuple[float, float, float]:
    """Return focal length and principal point in pixels. The first pixel's centre is at (0.5, 0.5)."""
    return FOCAL_SHARE * size[0], size[0] / 2, size[1] / 2


def render(panels: Sequence[Panel], camera: RoomCamera, size: Size) -> Image:
    """Render a view in linear light, with nine rays per pixel. A ray ends at the nearest rectangle."""
    focal, cx, cy = intrinsics(size)
    total = np.zeros((size[1], size[0], 3), np.float64)
    textures = [_texture(p, focal, camera) for p in panels]
    for step_y in range(_SAMPLES):
        for step_x in range(_SAMPLES):
            x = np.arange(size[0]) + (step_x + 0.5) / _SAMPLES
            y = np.arange(size[1]) + (step_y + 0.5) / _SAMPLES
            rays = np.stack(np.broadcast_arrays((x - cx)[None] / focal, (y - cy)[:, None] / focal, 1.0), -1)
            total += _trace(panels, textures, camera, rays @ camera.R)
    return (total / _SAMPLES**2).astype(np.float32)


def _trace(
    panels: Sequence[Panel], textures: Sequence[Image], camera: RoomCamera, rays: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the colours (h, w, 3) of the rectangles that rays with world directions (h, w, 3) hit."""
    origin = -camera.R.T @ camera.t
    nearest = np.full(rays.shape[:2], np.inf)
    colour = np.full(rays.shape, _BEHIND)
    for panel, texture in zip(panels, textures, strict=True):
        across, down = np.array(panel.across), np.array(panel.down)
        normal, offset = np.cross(across, down), np.array(panel.corner) - origin
        slope = rays @ normal
        with np.errstate(divide="ignore", invalid="ignore"):
            depth = (offset @ normal) / slope
            hit = rays * depth[..., None] - offset
        u, v = hit @ across / (across @ across), hit @ down / (down @ down)
        seen = (depth > 1e-6) & (depth < nearest) & (u >= 0) & (u < 1) & (v >= 0) & (v < 1)
        nearest[seen] = depth[seen]
        colour[seen] = _bilinear(texture, u[seen] * panel.tiles[0], v[seen] * panel.tiles[1])
    return colour


def _bilinear(texture: Image, u: Vector, v: Vector) -> NDArray[np.float32]:
    """Sample a texture at (u, v) in pixels.

    The texture repeats, and its first pixel's centre is (0.5, 0.5).
    """
    height, width = texture.shape[:2]
    x, y = u * width - 0.5, v * height - 0.5
    x0, y0 = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
    fx, fy = (x - x0)[:, None], (y - y0)[:, None]
    left, right = x0 % width, (x0 + 1) % width
    top, below = y0 % height, (y0 + 1) % height
    upper = texture[top, left] * (1 - fx) + texture[top, right] * fx
    lower = texture[below, left] * (1 - fx) + texture[below, right] * fx
    return np.asarray(upper * (1 - fy) + lower * fy, np.float32)


@cache
def _photo(name: str) -> Image:
    """Read a photograph and crop its sides to a multiple of the largest downsizing factor.

    Otherwise downsized textures would be stretched, and views from different distances would not agree.
    """
    photo = linear_photo(name)
    height, width = (side // _HALVED * _HALVED for side in photo.shape[:2])
    return photo[:height, :width]


def _texture(panel: Panel, focal: float, camera: RoomCamera) -> Image:
    """Return a panel's photograph, halved until neighbouring rays are at most two of its pixels apart."""
    texture = _photo(panel.photo)
    middle = np.array(panel.corner) + (np.array(panel.across) + np.array(panel.down)) / 2
    distance = max(0.3, float((camera.R @ middle + camera.t)[2]))
    for_metre = texture.shape[1] * panel.tiles[0] / float(np.linalg.norm(panel.across))
    step = for_metre * distance / (focal * _SAMPLES)
    halved = 1
    while step > 2 and halved < _HALVED:
        h, w = texture.shape[:2]
        texture = texture.reshape(h // 2, 2, w // 2, 2, 3).mean(axis=(1, 3)).astype(np.float32)
        step, halved = step / 2, 2 * halved
    return texture


# rooms


def _board(photo: str, x: float, y: float, z: float, width: float, height: float, yaw_deg: float) -> Panel:
    c, s = np.cos(np.deg2rad(yaw_deg)), np.sin(np.deg2rad(yaw_deg))
    across = (width * c, 0.0, width * s)
    corner = (x - across[0] / 2, y - height / 2, z - across[2] / 2)
    return Panel(photo, corner, across, (0.0, height, 0.0))


def _walls(wall: str, floor: str | None) -> list[Panel]:
    found = [Panel(wall, (-3.5, -1.6, 5.0), (7.0, 0.0, 0.0), (0.0, 3.0, 0.0), (3.0, 1.5))]
    if floor is not None:
        found.append(Panel(floor, (-3.5, 1.4, 1.0), (7.0, 0.0, 0.0), (0.0, 0.0, 4.0), (3.0, 2.0)))
    return found


def _studio() -> tuple[Panel, ...]:
    boards = [
        _board("astronaut", -1.3, -0.1, 4.2, 1.3, 1.3, 15),
        _board("chelsea", 0.2, 0.5, 3.4, 1.3, 0.9, -10),
        _board("coffee", 1.6, -0.1, 4.4, 1.5, 1.0, -25),
        _board("rocket", 0.1, -0.8, 4.6, 1.4, 0.95, 5),
    ]
    return (*_walls("brick", "gravel"), *boards)


def _other_studio() -> tuple[Panel, ...]:
    """Return the rectangles of a room that shares no photograph with the first room."""
    boards = [
        _board("camera", -0.9, 0.0, 3.8, 1.5, 1.5, 20),
        _board("motorcycle", 0.9, 0.1, 3.9, 1.7, 1.2, -15),
    ]
    return (*_walls("coins", None), *boards)


def _facade() -> tuple[Panel, ...]:
    """Return a wall of 12 equal windows, and one board that makes left and right differ."""
    windows = [
        _board("coffee", -2.4 + 1.2 * i, -0.9 + 0.9 * j, 4.6, 0.9, 0.6, 0.0)
        for j in range(3)
        for i in range(4)
    ]
    return (*_walls("brick", "gravel"), *windows, _board("astronaut", 1.8, 0.5, 4.0, 1.0, 1.0, -20))


def _arc(
    count: int, angle_deg: float, rng: np.random.Generator, prefix: str = "view"
) -> dict[str, RoomCamera]:
    """Return cameras on an arc around the middle of a room."""
    found = {}
    for k, angle in enumerate(np.deg2rad(np.linspace(-angle_deg / 2, angle_deg / 2, count))):
        radius = 3.0 * rng.uniform(0.95, 1.05)
        place = TARGET + radius * np.array([np.sin(angle), 0.0, -np.cos(angle)])
        place[1] += rng.uniform(-0.35, 0.15)
        aim = TARGET + rng.uniform(-0.12, 0.12, 3) + [0, 0, 0.6]
        found[f"{prefix}_{k:02d}.png"] = look_at(place, aim)
    return found


def _arc_scene(rng: np.random.Generator) -> RoomScene:
    cameras = _arc(8, 64.0, rng)
    cameras["near.png"] = look_at((-0.4, -0.1, 1.9), (-0.2, 0.1, 4.0))
    cameras["turned.png"] = look_at((0.6, -0.2, 0.4), TARGET, roll_deg=90.0)
    return RoomScene((Room(_studio(), cameras),))


def _two_rooms(rng: np.random.Generator) -> RoomScene:
    first = Room(_studio(), _arc(6, 50.0, rng, "a"))
    return RoomScene((first, Room(_other_studio(), _arc(5, 40.0, rng, "b"))))


def _outliers(rng: np.random.Generator) -> RoomScene:
    others = Room(_other_studio(), _arc(2, 60.0, rng, "other"))
    return RoomScene((Room(_studio(), _arc(8, 60.0, rng)),), (others,))


def _repeated(rng: np.random.Generator) -> RoomScene:
    return RoomScene((Room(_facade(), _arc(8, 60.0, rng)),))


def _small(rng: np.random.Generator) -> RoomScene:
    return RoomScene((Room(_studio(), _arc(5, 36.0, rng)),))


SMALL = "small"
SCENES: Mapping[str, Callable[[np.random.Generator], RoomScene]] = {
    "arc": _arc_scene,
    "two-rooms": _two_rooms,
    "outliers": _outliers,
    "repeated": _repeated,
}
"""Functions that create scenes: an arc, two rooms, outliers, repeated structure. ``arc`` has a near view."""
_KNOWN = {**SCENES, SMALL: _small}


def make_rooms(
    out: str | Path, *, scenes: Sequence[str] = tuple(SCENES), size: Size = (640, 480), seed: int = 0
) -> Path:
    """Write rendered scenes for reconstruction, and return the folder.

    The same arguments give bit-identical files. ``out/SCENE/images`` has the views, ``out/SCENE/poses.json``
    the exact poses in metres and the cameras.

    Args:
        out: Target folder. Files of the same names are replaced.
        scenes: Names in `SCENES`, or ``small`` for five views.
        size: (width, height) of the images, at least 160 x 160.
        seed: Random seed of cameras, exposure and noise.

    Raises:
        InputError: scikit-image is not installed, a scene is unknown, or the images are too small.
    """
    if min(size) < MIN_SIDE:
        raise InputError(f"size is {size}; rendered scenes need at least {MIN_SIDE} x {MIN_SIDE} pixels")
    for name in scenes:
        if name not in _KNOWN:
            raise UnknownNameError("rendered scene", name, _KNOWN)
    root = Path(out)
    for name in scenes:
        scene = _KNOWN[name](seeded_generator(seed, "rooms", name))
        folder = root / name / IMAGES
        folder.mkdir(parents=True, exist_ok=True)
        for room in (*scene.rooms, *scene.others):
            for image, camera in room.cameras.items():
                rng = seeded_generator(seed, "rooms", name, image)
                view = render(room.panels, camera, size) * rng.uniform(0.8, 1.1)
                write_image(folder / image, to_srgb(expose(view.astype(np.float32), _NOISE, rng)))
        text = json.dumps(_truth(scene, size), indent=1)
        (root / name / SCENE_JSON).write_text(text + "\n", encoding="utf-8", newline="\n")
    return root


def _truth(scene: RoomScene, size: Size) -> dict[str, object]:
    """Return the content of a scene's ``poses.json``."""
    focal, cx, cy = intrinsics(size)
    camera = {"model": "PINHOLE", "size": list(size), "params": [focal, focal, cx, cy]}
    poses = {
        name: {"qvec": quaternions_of(c.R).tolist(), "tvec": c.t.tolist()}
        for room in scene.rooms
        for name, c in room.cameras.items()
    }
    outliers = [name for room in scene.others for name in room.cameras]
    return {
        "images": poses,
        "components": {name: k for k, room in enumerate(scene.rooms) for name in room.cameras},
        "outliers": outliers,
        "position_accuracy": 0.0,
        "unit": "m",
        "truth": "rendered",
        "cameras": dict.fromkeys((*poses, *outliers), camera),
    }
