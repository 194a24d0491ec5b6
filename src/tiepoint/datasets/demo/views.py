# SPDX-License-Identifier: BSD-3-Clause
"""Render views of a flat photograph with a camera, lighting and noise; create a stereo pair."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, UnknownNameError
from ...formats.image.reader import read_image, write_image
from ...geometry.correspondence import Size, centre, in_view
from ...geometry.homography import corners, denominator, project
from ...geometry.patch_sampling import render_view
from ..image_pairs.ground_truth import PairTruth
from ..image_pairs.native_json import write_pairs
from ..image_pairs.pair import ImagePair

Image = NDArray[np.float32]
_TRIES_PER_STEP = 40


@dataclass(frozen=True)
class Camera:
    """Camera that looks at point (x, y) of a photograph.

    `zoom` is the number of photograph pixels per view pixel at this point. `tilt_rad` tilts the photograph in
    the direction `towards_rad`. `roll_rad` rotates the camera about its optical axis.
    """

    x: float
    y: float
    zoom: float
    tilt_rad: float = 0.0
    towards_rad: float = 0.0
    roll_rad: float = 0.0

    def to_photo(self, size: Size) -> NDArray[np.float64]:
        """Return the homography from view pixels to photograph pixels.

        `size` is (width, height) of the view.

        The camera is a pinhole with a focal length of 1.2 image widths. At (x, y), one view pixel along the
        tilt axis covers `zoom` photograph pixels.
        """
        focal = 1.2 * size[0]
        cx, cy = centre(size)
        c, s = np.cos(self.towards_rad), np.sin(self.towards_rad)
        axis = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
        ct, st = np.cos(self.tilt_rad), np.sin(self.tilt_rad)
        lean = np.array([[ct, 0, st], [0, 1, 0], [-st, 0, ct]])
        cr, sr = np.cos(self.roll_rad), np.sin(self.roll_rad)
        roll = np.array([[cr, -sr, 0], [sr, cr, 0], [0, 0, 1]])
        rotation = roll @ axis @ lean @ axis.T
        distance = focal * self.zoom
        plane = np.array([[1, 0, -self.x], [0, 1, -self.y], [0, 0, 1]])
        pose = np.column_stack([rotation[:, 0], rotation[:, 1], [0, 0, distance]])
        intrinsics = np.array([[focal, 0, cx], [0, focal, cy], [0, 0, 1]])
        return np.asarray(np.linalg.inv(intrinsics @ pose @ plane))

    def sees_only(self, photo: Size, size: Size) -> bool:
        """Return whether the entire view is inside the photograph."""
        m = self.to_photo(size)
        around = corners((size[0] + 1, size[1] + 1)) - 0.5
        w = denominator(m, around)
        if not (np.all(w > 0) or np.all(w < 0)):
            return False
        return bool(in_view(project(m, around, reference=centre(size)), photo, border_px=1.0).all())


def front_view(photo: Size, size: Size, *, share: float) -> Camera:
    """Return the reference camera, centred on the photograph.

    The view covers at most the fraction `share` of the photograph's width and height.
    """
    zoom = share * min(photo[0] / size[0], photo[1] / size[1])
    return Camera(*centre(photo), zoom=min(zoom, 1.5))


def moved_view(base: Camera, photo: Size, size: Size, strength: float, rng: np.random.Generator) -> Camera:
    """Sample a camera that differs from `base` by a random tilt, roll, zoom and shift.

    At `strength` 1, the tilt is at most 55 degrees, the roll at most 35 degrees, and the zoom factor at most
    1.6. A lower strength reduces all changes. Sampling is repeated until the view is inside the photograph,
    and after every 40 failures, `strength` decreases by a tenth.
    """
    while True:
        for _ in range(_TRIES_PER_STEP):
            zoom = base.zoom * 1.6 ** (strength * rng.uniform(-1, 0.5))
            shift = rng.uniform(-0.15, 0.15, 2) * strength * np.array(size) * base.zoom
            camera = replace(
                base,
                x=base.x + shift[0],
                y=base.y + shift[1],
                zoom=zoom,
                tilt_rad=np.deg2rad(55) * strength * rng.uniform(0.7, 1.0),
                towards_rad=rng.uniform(0, 2 * np.pi),
                roll_rad=np.deg2rad(35) * strength * rng.uniform(-1, 1),
            )
            if camera.sees_only(photo, size):
                return camera
        strength *= 0.9


def shaken_view(base: Camera, rng: np.random.Generator) -> Camera:
    """Sample a camera with a small shake: a shift of up to 1.5 view pixels, a roll of up to 0.3 degrees."""
    shift = rng.uniform(-1.5, 1.5, 2) * base.zoom
    roll = np.deg2rad(rng.uniform(-0.3, 0.3))
    return replace(base, x=base.x + shift[0], y=base.y + shift[1], roll_rad=roll)


def relight(image: Image, strength: float, rng: np.random.Generator) -> Image:
    """Change the lighting of a view: exposure, colour, a brightness gradient and a soft shadow.

    `strength` (0..1) scales all changes. The limits are an exposure change of 2.3 stops (mostly darker, to
    avoid clipping), a colour gain of 40 % (red against blue), a brightness factor of 4 along a random
    direction, and a soft-edged half plane with a shadow of 60 %.
    """
    height, width = image.shape[:2]
    y, x = np.mgrid[:height, :width].astype(np.float64)
    x, y = x / width - 0.5, y / height - 0.5

    stops = strength * rng.uniform(0.5, 2.3) * rng.choice([-1.0, -1.0, 0.4])
    warmth = 1 + 0.4 * strength * rng.uniform(-1, 1)
    angle, edge = rng.uniform(0, 2 * np.pi, 2)
    slope = np.exp(np.log(4) * strength * (x * np.cos(angle) + y * np.sin(angle)))
    side = x * np.cos(edge) + y * np.sin(edge) - rng.uniform(-0.2, 0.2)
    shadow = 1 - 0.6 * strength * rng.uniform(0, 1) / (1 + np.exp(-side / 0.05))
    light = 2.0**stops * slope * shadow
    colour = np.array([warmth, 1.0, 1 / warmth])
    return (image * light[:, :, None] * colour).astype(np.float32)


def expose(image: Image, noise: float, rng: np.random.Generator) -> Image:
    """Add shot noise and read noise to an image in linear light.

    The variance is noise^2 (0.05 v + 0.0005). At noise 0.1, mid grey (v = 0.2) has a standard deviation of
    0.01, about 3 of 255 levels after sRGB encoding.
    """
    v = np.clip(image, 0, None)
    deviation = noise * np.sqrt(0.05 * v + 0.0005)
    return (image + deviation * rng.standard_normal(image.shape)).astype(np.float32)


PHOTOS = {
    "astronaut": "astronaut.png",
    "brick": "brick.png",
    "camera": "camera.png",
    "chelsea": "chelsea.png",
    "coffee": "coffee.png",
    "coins": "coins.png",
    "gravel": "gravel.png",
    "motorcycle": "motorcycle_left.png",
    "motorcycle-right": "motorcycle_right.png",
    "rocket": "rocket.jpg",
}
"""File name of each photograph in ``skimage/data``. All files are part of the scikit-image package."""


def photo_path(name: str) -> Path:
    """Return the path of a photograph. Raise an `InputError` if scikit-image or the file is missing."""
    if name not in PHOTOS:
        raise UnknownNameError("photograph", name, PHOTOS)
    spec = importlib.util.find_spec("skimage")
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            "the demo set needs the photographs of scikit-image; run pip install 'tiepoint[demo]'"
        )
    path = Path(next(iter(spec.submodule_search_locations))) / "data" / PHOTOS[name]
    if not path.is_file():
        raise InputError(
            f"{path}: the installed scikit-image lacks this photograph; run pip install --upgrade "
            "scikit-image"
        )
    return path


def linear_photo(name: str) -> NDArray[np.float32]:
    """Read a photograph in linear light, float32 (h, w, 3) in 0..1."""
    return to_linear(read_image(photo_path(name)))


def to_linear(image: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Convert sRGB uint8 to linear light, float32 in 0..1.

    >>> to_linear(np.array([0, 255], dtype=np.uint8)).tolist()
    [0.0, 1.0]
    """
    v = np.arange(256) / 255
    table = np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4).astype(np.float32)
    return np.asarray(table[image])


def to_srgb(linear: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Convert linear light to sRGB uint8, clipped and rounded: the inverse of `to_linear`.

    >>> levels = np.arange(256, dtype=np.uint8)
    >>> bool((to_srgb(to_linear(levels)) == levels).all())
    True
    """
    v = np.clip(np.asarray(linear, dtype=np.float64), 0, 1)
    curve = np.where(v <= 0.0031308, 12.92 * v, 1.055 * v ** (1 / 2.4) - 0.055)
    return np.rint(curve * 255).astype(np.uint8)


Matrix = NDArray[np.float64]
FOCAL_PX = 994.978
LEFT, RIGHT = (311.193, 254.877), (311.193 + 31.086, 254.877)
BASELINE_M = 0.193001
"""Calibration of Middlebury 2014's `Motorcycle` at quarter size: focal length, principal points, baseline."""
VIEW: Size = (400, 300)
ZOOM = 1.04
"""Factor by which rotated views increase the focal length, so that the photograph fills them."""


class CameraRotation(NamedTuple):
    """Rotation of the right camera in degrees: roll about its axis, pan to the right, tilt upwards."""

    roll_deg: float = 0.0
    pan_deg: float = 0.0
    tilt_deg: float = 0.0

    def rotation(self) -> Matrix:
        """Return the rotation matrix from original to rotated camera coordinates.

        >>> CameraRotation(roll_deg=90).rotation().round(12).tolist()
        [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
        """
        (cr, sr), (cp, sp), (ct, st) = ((np.cos(a), np.sin(a)) for a in np.deg2rad(self))
        roll = np.array([[cr, -sr, 0], [sr, cr, 0], [0, 0, 1]])
        pan = np.array([[cp, 0, -sp], [0, 1, 0], [sp, 0, cp]])
        tilt = np.array([[1, 0, 0], [0, ct, st], [0, -st, ct]])
        return np.asarray(roll @ tilt @ pan)


ROTATIONS = {
    "roll020": CameraRotation(20),
    "roll090": CameraRotation(90),
    "roll180": CameraRotation(180),
    "pan": CameraRotation(pan_deg=8),
    "tilt": CameraRotation(tilt_deg=-3.5),
    "roll045pan": CameraRotation(-45, 4),
}


def make_stereo(out: str | Path) -> Path:
    """Write a stereo pair and rotated views to a folder. Return the path of ``pairs.json``.

    Image 0 of every pair is the left photograph. Image 1 is the right photograph, first unchanged, then
    rotated.
    """
    root = Path(out)
    root.mkdir(parents=True, exist_ok=True)
    left, right = linear_photo("motorcycle"), linear_photo("motorcycle-right")
    write_image(root / "left.png", to_srgb(left))
    write_image(root / "right.png", to_srgb(right))
    K0, K1 = camera(FOCAL_PX, LEFT), camera(FOCAL_PX, RIGHT)
    photo = (left.shape[1], left.shape[0])
    pairs = [_pair(root, "right", (K0, K1), (photo, photo), np.eye(3))]
    for name, camera_rotation in ROTATIONS.items():
        K, R = camera(ZOOM * FOCAL_PX, centre(VIEW)), camera_rotation.rotation()
        view = render_view(right, K1 @ R.T @ np.linalg.inv(K), VIEW)
        write_image(root / f"{name}.png", to_srgb(view))
        pairs.append(_pair(root, name, (K0, K), (photo, VIEW), R))
    write_pairs(root / "pairs.json", pairs)
    return root / "pairs.json"


def camera(focal_px: float, middle: tuple[float, float]) -> Matrix:
    """Return the intrinsic matrix K (3, 3) of a camera with square pixels and principal point `middle`.

    >>> camera(2.0, (1.0, 3.0)).tolist()
    [[2.0, 0.0, 1.0], [0.0, 2.0, 3.0], [0.0, 0.0, 1.0]]
    """
    return np.array([[focal_px, 0, middle[0]], [0, focal_px, middle[1]], [0, 0, 1]], np.float64)


def _pair(
    root: Path, name: str, cameras: tuple[Matrix, Matrix], sizes: tuple[Size, Size], R: Matrix
) -> PairTruth:
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = R, R @ [-BASELINE_M, 0.0, 0.0]
    pair = ImagePair(
        f"left--{name}",
        "motorcycle",
        image0=root / "left.png",
        image1=root / f"{name}.png",
        size0=sizes[0],
        size1=sizes[1],
    )
    return PairTruth(pair, K0=cameras[0], K1=cameras[1], T_0to1=T)
