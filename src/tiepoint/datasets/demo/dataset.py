# SPDX-License-Identifier: BSD-3-Clause
"""The demo set: image sequences and dense pairs made on the spot from photographs, with exact truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core.errors import InputError, UnknownNameError
from ...core.hashing import seeded_generator
from ...core.scores import scene_kind
from ...formats.image.reader import write_image
from ...formats.text.matrices import write_homography
from ...geometry.covisibility import Size
from ...geometry.homography import compose, inverse
from ...geometry.render import render_view
from .dense import make_dense
from .photos import linear_photo, to_srgb
from .stereo import make_stereo
from .views import expose, front_view, moved_view, relight, shaken_view

SCENES = (
    "i_brick",
    "i_chelsea",
    "i_coffee",
    "i_coins",
    "v_astronaut",
    "v_camera",
    "v_gravel",
    "v_motorcycle",
)
"""Default scenes: kind and photograph. No photograph is in two of them, so the scenes are independent."""

IMAGES = 6


@dataclass(frozen=True)
class DemoSet:
    """A demo set: image sequences (HPatches layout), dense pairs (TSS kit layout), a list of posed pairs."""

    sequences: Path
    dense: Path
    pose: Path


def make_demo(
    out: str | Path, *, scenes: Sequence[str] = SCENES, size: Size = (320, 240), seed: int = 0
) -> DemoSet:
    """Make the demo set in a folder; the same arguments give the same bytes.

    ``out/sequences/SCENE/{1..6.png, H_1_2..H_1_6}``: a photograph seen by six cameras. In ``v_`` scenes the
    camera tilts, rolls, zooms and shifts more from image to image, the light barely changes; in ``i_`` scenes
    the light changes (exposure, colour, slope, shadow) and the camera shakes by a pixel or so. Every image,
    the first included, is rendered from the photograph by averaging over pixel cells in linear light, then
    gets sensor noise and the sRGB curve. The homographies are those of the cameras: exact, with all digits.
    ``out/dense``: pairs with exact flow and masks, see `tiepoint.datasets.demo.dense`.
    ``out/pose``: a stereo pair with exact cameras, see `tiepoint.datasets.demo.stereo`; size and seed do not
    change it.

    Args:
        out: folder to write to; files of the same names are replaced.
        scenes: ``i_PHOTO`` or ``v_PHOTO`` for the photographs of `tiepoint.datasets.demo.photos`.
        size: (width, height) of the images, at least 64 x 64.
        seed: another seed gives other cameras, light and noise.

    Raises:
        InputError: if scikit-image is not installed, or a scene name is not of that form.
    """
    if min(size) < 64:
        raise InputError(f"demo images need at least 64 x 64 pixels, found {size[0]} x {size[1]}")
    root = Path(out)
    for scene in scenes:
        if scene_kind(scene) == "other":
            raise UnknownNameError("demo scene", scene, SCENES)
        _make_scene(root / "sequences" / scene, scene, size, seed)
    return DemoSet(root / "sequences", make_dense(root / "dense", seed=seed), make_stereo(root / "pose"))


def _make_scene(folder: Path, scene: str, size: Size, seed: int) -> None:
    kind, name = scene.split("_", 1)
    photo = linear_photo(name)
    whole = (photo.shape[1], photo.shape[0])
    base = front_view(whole, size, share=0.65 if kind == "v" else 0.95)
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(1, IMAGES + 1):
        rng = seeded_generator(seed, "demo", scene, str(k))
        strength = (k - 1) / (IMAGES - 1)
        if k == 1:
            camera, light, noise = base, 0.0, 0.05
        elif kind == "v":
            camera, light, noise = moved_view(base, whole, size, strength, rng), 0.1, 0.06
        else:
            camera, light, noise = shaken_view(base, rng), strength, 0.06 + 0.12 * strength
        view = render_view(photo, camera.to_photo(size), size)
        write_image(folder / f"{k}.png", to_srgb(expose(relight(view, light, rng), noise, rng)))
        if k > 1:
            h = compose(inverse(camera.to_photo(size)), base.to_photo(size))
            write_homography(folder / f"H_1_{k}", h / h[2, 2])
