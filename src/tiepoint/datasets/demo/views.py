# SPDX-License-Identifier: BSD-3-Clause
"""Views of a flat photograph: cameras as homographies from view pixels to photograph pixels, light, noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...geometry.corners import corners
from ...geometry.covisibility import Size, centre, in_view
from ...geometry.homography import denominator, project

Image = NDArray[np.float32]
_TRIES_PER_STEP = 40


@dataclass(frozen=True)
class Camera:
    """Where a camera stands: it looks at point (x, y) of the photograph.

    `zoom` is the number of photograph pixels in a view pixel there, `tilt_rad` leans the plane away in the
    direction `towards_rad`, `roll_rad` turns the camera.
    """

    x: float
    y: float
    zoom: float
    tilt_rad: float = 0.0
    towards_rad: float = 0.0
    roll_rad: float = 0.0

    def to_photo(self, size: Size) -> NDArray[np.float64]:
        """Homography from pixels of a view of (width, height) to photograph pixels.

        A pinhole with a focal length of 1.2 image widths; at the looked-at point one view pixel is `zoom`
        photograph pixels across the tilt axis.
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
        """Whether the whole view shows the photograph, nothing beyond its edge."""
        m = self.to_photo(size)
        around = corners((size[0] + 1, size[1] + 1)) - 0.5
        w = denominator(m, around)
        if not (np.all(w > 0) or np.all(w < 0)):
            return False
        return bool(in_view(project(m, around, reference=centre(size)), photo, border_px=1.0).all())


def front_view(photo: Size, size: Size, *, share: float) -> Camera:
    """The reference camera: straight on the middle, over at most `share` of either side of the photograph."""
    zoom = share * min(photo[0] / size[0], photo[1] / size[1])
    return Camera(*centre(photo), zoom=min(zoom, 1.5))


def moved_view(base: Camera, photo: Size, size: Size, strength: float, rng: np.random.Generator) -> Camera:
    """A camera moved by `strength` (0..1): tilt to 55 degrees, roll to 35, zoom by up to 1.6, a shift.

    Drawn until the view shows the photograph only; after 40 failures the strength is lowered by a tenth.
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
    """The same camera in an unsteady hand: shifted by up to 1.5 view pixels, rolled by up to 0.3 degrees."""
    shift = rng.uniform(-1.5, 1.5, 2) * base.zoom
    roll = np.deg2rad(rng.uniform(-0.3, 0.3))
    return replace(base, x=base.x + shift[0], y=base.y + shift[1], roll_rad=roll)


def relight(image: Image, strength: float, rng: np.random.Generator) -> Image:
    """Other light on the same view: exposure, colour, a slope of brightness, a soft shadow.

    `strength` (0..1) scales all of them: exposure by up to 2.3 stops (mostly darker, as a brighter one would
    clip), red against blue by up to 40 %, brightness along a random direction by a factor of up to 4, and a
    soft-edged half plane in shadow of up to 60 %.
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
    """Sensor noise on linear light: variance = noise^2 (0.05 v + 0.0005), a shot and a read part.

    At noise 0.1 a mid grey (v = 0.2) deviates by 0.01, about 3 of 255 levels once encoded.
    """
    v = np.clip(image, 0, None)
    deviation = noise * np.sqrt(0.05 * v + 0.0005)
    return (image + deviation * rng.standard_normal(image.shape)).astype(np.float32)
