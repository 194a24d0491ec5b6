# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of a page, cut from images and written into it."""

from __future__ import annotations

import base64
import io

import numpy as np
from numpy.typing import NDArray

from ..core.hashing import hash_json
from ..run.result import Run
from ..tasks.base import OpenTask
from .runs.lazy_records import reopen_task

SIDE = 65


class EmbeddedImages:
    """Pictures from the datasets of runs; each dataset is opened once, each image read once."""

    def __init__(self) -> None:
        self._opened: dict[str, OpenTask | None] = {}
        self._images: dict[tuple[str, str], NDArray[np.uint8]] = {}

    def opened(self, run: Run) -> OpenTask | None:
        """The task of a run bound to its own dataset, None where that is gone or has changed."""
        key = self._key(run)
        if key not in self._opened:
            self._opened[key] = reopen_task(run)
        return self._opened[key]

    def cutout(self, run: Run, reference: str) -> str:
        """The patch, or the part of an image, that a reference names, as a data URI."""
        item, _, place = reference.replace("@", "#").partition("#")
        key = (self._key(run), item)
        if key not in self._images:
            opened = self.opened(run)
            assert opened is not None, "runs without their dataset are left out before"
            self._images[key] = np.asarray(opened.read(item))
        image = self._images[key]
        if "," in place:
            x, y = (round(float(v)) for v in place.split(","))
            return data_uri(crop(image, x, y))
        return data_uri(image[int(place)])

    def _key(self, run: Run) -> str:
        dataset = run.manifest.dataset
        return hash_json([run.task, dataset.path, dataset.hash, run.manifest.options])


def crop(image: NDArray[np.uint8], x: int, y: int, side: int = SIDE) -> NDArray[np.uint8]:
    """A square around a point, grey where it leaves the image."""
    half = side // 2
    padding = ((half, half), (half, half), *(((0, 0),) * (image.ndim - 2)))
    padded = np.pad(image, padding, constant_values=128)
    x, y = min(max(x, 0), image.shape[1] - 1), min(max(y, 0), image.shape[0] - 1)
    return padded[y : y + side, x : x + side]


def data_uri(image: NDArray[np.uint8], *, photo_side: int | None = None) -> str:
    """An image in a data URI: a PNG, or with `photo_side` a JPEG of at most that many pixels a side."""
    from PIL import Image

    buffer, picture = io.BytesIO(), Image.fromarray(np.ascontiguousarray(image))
    if photo_side is None:
        picture.save(buffer, format="PNG", optimize=False)
    else:
        picture = picture.convert("RGB")
        picture.thumbnail((photo_side, photo_side))
        picture.save(buffer, format="JPEG", quality=80)
    kind = "png" if photo_side is None else "jpeg"
    return f"data:image/{kind};base64," + base64.b64encode(buffer.getvalue()).decode()
