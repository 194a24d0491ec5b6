# SPDX-License-Identifier: BSD-3-Clause
"""Pairs with exact flow and masks in the layout of the TSS kit, made from photographs.

Each pair shows one object, a blob cut from a photograph, from two cameras on two unrelated backgrounds; the
homography between the cameras is the exact flow on the object. Off the object the flow is unknown (1e10).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.hashing import seeded_generator
from ...formats.flow.flo import write_flo
from ...formats.image.reader import write_image
from ...geometry.covisibility import Size, centre
from ...geometry.homography import compose, inverse, project
from ...geometry.render import render_view
from .photos import linear_photo, to_srgb
from .views import Camera, expose, front_view, moved_view, relight

PAIRS = {
    "astronaut_01": ("astronaut", "brick", "gravel", False),
    "camera_01": ("camera", "coffee", "brick", False),
    "chelsea_01": ("chelsea", "gravel", "rocket", True),
    "coffee_01": ("coffee", "coins", "camera", False),
    "coins_01": ("coins", "astronaut", "motorcycle", False),
    "motorcycle_01": ("motorcycle", "chelsea", "gravel", False),
}
"""Pair -> object, background of image 1, background of image 2, whether image 2 is mirrored."""

UNKNOWN_FLOW = 1e10
_SUBSET = "DEMO"


def make_dense(out: str | Path, *, size: Size = (240, 180), seed: int = 0) -> Path:
    """Write the pairs under ``out/DEMO/PAIR`` (images, masks, flows both ways, flip_gt.txt, pair.txt).

    The flow of the mirrored pair is in unflipped pixel coordinates, as in the kit. Masks hold 0 and 255; the
    flow is known exactly where the mask is set. Returns `out`.
    """
    root = Path(out)
    for name, (subject, first, second, flip) in PAIRS.items():
        folder = root / _SUBSET / name
        folder.mkdir(parents=True, exist_ok=True)
        rng = seeded_generator(seed, "dense", name)
        to_photo = _cameras(subject, size, rng, flip=flip)
        blob = _blob(linear_photo(subject), to_photo, size, rng)
        for k, backdrop in ((1, first), (2, second)):
            here, there = to_photo[k - 1], to_photo[2 - k]
            picture, mask = _picture(blob, here, linear_photo(backdrop), size, rng)
            write_image(folder / f"image{k}.png", picture)
            write_image(folder / f"mask{k}.png", mask)
            write_flo(folder / f"flow{k}.flo", exact_flow(compose(inverse(there), here), mask > 0))
        (folder / "flip_gt.txt").write_text(f"{int(flip)}\n", encoding="utf-8", newline="\n")
        (folder / "pair.txt").write_text(
            f"Image1,Image2\n{subject}_on_{first}.png,{subject}_on_{second}.png\n",
            encoding="utf-8",
            newline="\n",
        )
    return root


def exact_flow(h: NDArray[np.float64], known: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Flow of a homography on the pixels of a mask, 1e10 elsewhere, float32 (h, w, 2).

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
    """Homographies from the pixels of both views to the photograph; the second is mirrored on request."""
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
    """The photograph with a fourth channel, 1 on a wavy disc that lies inside both views, colours masked."""
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
    """The object over a background, with its own light and noise, and the mask of the object."""
    layer = render_view(blob, to_photo, size)
    photo = (backdrop.shape[1], backdrop.shape[0])
    behind: Camera = moved_view(front_view(photo, size, share=0.9), photo, size, 0.2, rng)
    ground = render_view(backdrop, behind.to_photo(size), size)
    picture = layer[:, :, :3] + (1 - layer[:, :, 3:]) * ground
    picture = expose(relight(picture, 0.15, rng), 0.06, rng)
    return to_srgb(picture), np.where(layer[:, :, 3] > 0.5, 255, 0).astype(np.uint8)
