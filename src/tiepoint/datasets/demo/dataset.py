# SPDX-License-Identifier: BSD-3-Clause
"""Create the demo dataset: image sequences and dense pairs with exact ground truth."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, UnknownNameError
from ...core.hashing import seeded_generator
from ...core.scores import scene_kind
from ...formats.flow.flo import write_flo
from ...formats.image.reader import write_image
from ...formats.text.numbers import write_homography
from ...geometry.correspondence import Size, centre
from ...geometry.homography import compose, inverse, project
from ...geometry.patch_sampling import render_view
from .views import (
    Camera,
    expose,
    front_view,
    linear_photo,
    make_stereo,
    moved_view,
    relight,
    shaken_view,
    to_srgb,
)

PAIRS = {
    "astronaut_01": ("astronaut", "brick", "gravel", False),
    "camera_01": ("camera", "coffee", "brick", False),
    "chelsea_01": ("chelsea", "gravel", "rocket", True),
    "coffee_01": ("coffee", "coins", "camera", False),
    "coins_01": ("coins", "astronaut", "motorcycle", False),
    "motorcycle_01": ("motorcycle", "chelsea", "gravel", False),
}
"""For each pair: the object, the backgrounds of image 1 and image 2, and whether image 2 is mirrored."""
UNKNOWN_FLOW = 1e10
_SUBSET = "DEMO"


def make_dense(out: str | Path, *, size: Size = (240, 180), seed: int = 0) -> Path:
    """Write the dense pairs of the demo dataset in the TSS layout. Return `out`.

    The folder ``out/DEMO/PAIR`` has images, masks, flows, flip_gt.txt and pair.txt. The flow of the mirrored
    pair is in unflipped pixel coordinates, as in the TSS kit. Masks have the values 0 and 255. The flow is
    known inside the mask and unknown outside.
    """
    root = Path(out)
    for name, (subject, first, second, flip) in PAIRS.items():
        folder = root / _SUBSET / name
        folder.mkdir(parents=True, exist_ok=True)
        rng = seeded_generator(seed, "dense", name)
        to_photo = _cameras(subject, size, rng, flip=flip)
        blob = _blob(linear_photo(subject), to_photo, size, rng)
        for k, backdrop in ((1, first), (2, second)):
            source, target = to_photo[k - 1], to_photo[2 - k]
            picture, mask = _picture(blob, source, linear_photo(backdrop), size, rng)
            write_image(folder / f"image{k}.png", picture)
            write_image(folder / f"mask{k}.png", mask)
            write_flo(folder / f"flow{k}.flo", exact_flow(compose(inverse(target), source), mask > 0))
        (folder / "flip_gt.txt").write_text(f"{int(flip)}\n", encoding="utf-8", newline="\n")
        (folder / "pair.txt").write_text(
            f"Image1,Image2\n{subject}_on_{first}.png,{subject}_on_{second}.png\n",
            encoding="utf-8",
            newline="\n",
        )
    return root


def exact_flow(h: NDArray[np.float64], known: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return the flow of a homography, float32 (h, w, 2). Pixels outside the mask are 1e10 (unknown).

    >>> exact_flow(np.array([[1, 0, 2.5], [0, 1, 0], [0, 0, 1]]), np.array([[True, False]]))[0].tolist()
    [[2.5, 0.0], [10000000000.0, 10000000000.0]]
    """
    height, width = known.shape
    y, x = np.nonzero(known)
    points = np.stack([x, y], axis=1).astype(np.float64)
    flow = np.full((height, width, 2), UNKNOWN_FLOW, dtype=np.float32)
    flow[y, x] = project(h, points, reference=centre((width, height))) - points
    return flow


def _cameras(
    subject: str, size: Size, rng: np.random.Generator, *, flip: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sample two views of a photograph. Return the homographies from the views to the photograph.

    `flip` mirrors the second view.
    """
    height, width = linear_photo(subject).shape[:2]
    base = front_view((width, height), size, share=0.8)
    moved = moved_view(base, (width, height), size, 0.6, rng).to_photo(size)
    mirror = np.array([[-1.0, 0, size[0] - 1], [0, 1, 0], [0, 0, 1]])
    return base.to_photo(size), compose(moved, mirror) if flip else moved


def _blob(
    photo: NDArray[np.float32],
    to_photo: tuple[NDArray[np.float64], NDArray[np.float64]],
    size: Size,
    rng: np.random.Generator,
) -> NDArray[np.float32]:
    """Cut an object out of a photograph: return its colours, premultiplied by alpha, and alpha (h, w, 4).

    The object is a disc with a wavy edge that both views of `to_photo` contain.
    """
    height, width = photo.shape[:2]
    y, x = np.mgrid[:height, :width].astype(np.float64)
    middle = project(to_photo[0], [centre(size)], reference=centre(size))[0]
    angle = np.arctan2(y - middle[1], x - middle[0])
    wave = 1 + sum(rng.uniform(0, 0.1) * np.cos(k * angle + rng.uniform(0, 6.28)) for k in (2, 3, 5))
    distance = np.hypot(x - middle[0], y - middle[1]) / wave
    grid = np.stack([x.ravel(), y.ravel()], axis=1)
    inside = np.ones(len(grid), dtype=bool)
    for m in to_photo:
        seen = project(
            inverse(m), grid, reference=tuple(project(m, [centre(size)], reference=centre(size))[0])
        )
        with np.errstate(invalid="ignore"):
            inside &= ((seen > 4) & (seen < np.array(size) - 5)).all(axis=1)
    radius = distance.ravel()[~inside].min(initial=distance.max()) - 2
    alpha = np.clip(radius - distance, 0, 1)
    return np.dstack([photo * alpha[:, :, None], alpha]).astype(np.float32)


def _picture(
    blob: NDArray[np.float32],
    to_photo: NDArray[np.float64],
    backdrop: NDArray[np.float32],
    size: Size,
    rng: np.random.Generator,
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Render an object over a background with lighting and noise. Return the image and the object mask.

    `blob` is the object with alpha, and `to_photo` the homography from the view to it.
    """
    layer = render_view(blob, to_photo, size)
    photo = (backdrop.shape[1], backdrop.shape[0])
    behind: Camera = moved_view(front_view(photo, size, share=0.9), photo, size, 0.2, rng)
    ground = render_view(backdrop, behind.to_photo(size), size)
    picture = layer[:, :, :3] + (1 - layer[:, :, 3:]) * ground
    picture = expose(relight(picture, 0.15, rng), 0.06, rng)
    return to_srgb(picture), np.where(layer[:, :, 3] > 0.5, 255, 0).astype(np.uint8)


SCENES = (
    "i_brick", "i_chelsea", "i_coffee", "i_coins", "v_astronaut", "v_camera", "v_gravel", "v_motorcycle"
)  # fmt: skip
"""Default scenes, named by kind and photograph. Each photograph is used once, so scenes are independent."""
IMAGES = 6


@dataclass(frozen=True)
class DemoSet:
    """Folders of a demo dataset: image sequences (HPatches layout), dense pairs (TSS layout), pose pairs."""

    sequences: Path
    dense: Path
    pose: Path


def make_demo(
    out: str | Path,
    *,
    scenes: Sequence[str] = SCENES,
    size: Size = (320, 240),
    seed: int = 0,
    jobs: int = 1,
) -> DemoSet:
    """Create the demo dataset in a folder. The same arguments give bit-identical files.

    * ``out/sequences/SCENE/{1..6.png, H_1_2..H_1_6}``: views of one photograph by six cameras. In ``v_``
      scenes, tilt, roll, zoom and shift of the camera increase from image to image, and the lighting barely
      changes. In ``i_`` scenes, the lighting changes (exposure, colour, gradient, shadow) and the camera
      moves by about a pixel. Pixels are area averages of the photograph in linear light, to which sensor
      noise and the sRGB curve are applied. Homographies are computed from the cameras and stored with full
      precision.
    * ``out/dense``: pairs with exact flow and masks, see `make_dense`.
    * ``out/pose``: a stereo pair with exact cameras, see `make_stereo`. It does not depend on `size` and
      `seed`.

    Args:
        out: Target folder. Files of the same names are replaced.
        scenes: ``i_PHOTO`` or ``v_PHOTO`` for the photographs of `tiepoint.datasets.demo.views`.
        size: (width, height) of the images, at least 64 x 64.
        seed: Random seed of cameras, lighting and noise.
        jobs: Number of threads. Files do not depend on it.

    Raises:
        InputError: scikit-image is not installed, or a scene name is invalid.
    """
    if min(size) < 64:
        raise InputError(f"size is {size[0]} x {size[1]}; demo images need at least 64 x 64 pixels")
    root = Path(out)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise InputError(f"cannot write {root}: {e.strerror or e}; choose another folder") from e
    for scene in scenes:
        if scene_kind(scene) == "other":
            raise UnknownNameError("demo scene", scene, SCENES)
    with ThreadPoolExecutor(jobs) as pool:
        views = [pool.submit(_make_scene, root / "sequences" / s, s, size, seed) for s in scenes]
        dense = pool.submit(make_dense, root / "dense", seed=seed)
        stereo = pool.submit(make_stereo, root / "pose")
    for view in views:
        view.result()
    return DemoSet(root / "sequences", dense.result(), stereo.result())


def _make_scene(folder: Path, scene: str, size: Size, seed: int) -> None:
    kind, name = scene.split("_", 1)
    photo = linear_photo(name)
    photo_size = (photo.shape[1], photo.shape[0])
    base = front_view(photo_size, size, share=0.65 if kind == "v" else 0.95)
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(1, IMAGES + 1):
        rng = seeded_generator(seed, "demo", scene, str(k))
        strength = (k - 1) / (IMAGES - 1)
        if k == 1:
            camera, light, noise = base, 0.0, 0.05
        elif kind == "v":
            camera, light, noise = moved_view(base, photo_size, size, strength, rng), 0.1, 0.06
        else:
            camera, light, noise = shaken_view(base, rng), strength, 0.06 + 0.12 * strength
        view = render_view(photo, camera.to_photo(size), size)
        write_image(folder / f"{k}.png", to_srgb(expose(relight(view, light, rng), noise, rng)))
        if k > 1:
            h = compose(inverse(camera.to_photo(size)), base.to_photo(size))
            write_homography(folder / f"H_1_{k}", h / h[2, 2])
