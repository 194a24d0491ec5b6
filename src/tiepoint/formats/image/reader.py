# SPDX-License-Identifier: BSD-3-Clause
"""Images: colour as RGB uint8 whatever the file format, and one grey conversion for all of them."""

from __future__ import annotations

import os.path
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from ...core.errors import FormatError, InputError
from ...core.regular_files import read_regular_file, regular_file_size
from ..file_io import atomic_path
from ..sniff import explain_wrong_type
from .png import BAND, allow_large_images, check_pixels, png_header

SUFFIXES = (".ppm", ".png", ".jpg", ".jpeg", ".pgm", ".bmp", ".tif", ".tiff", ".webp")
"""File name endings that count as images."""
MAX_IMAGE_BYTES = 2 << 30
_KINDS = ("PNG", "JPEG", "PPM", "BMP", "TIFF", "WEBP")
"""What Pillow may take a file for. It knows forty kinds; decoders of some start other programs."""
_ORIENTATION = 0x0112


def read_image(path: str | Path) -> NDArray[np.uint8]:
    """Read an image as RGB uint8 (h, w, 3).

    Grey images get three equal channels, palettes are looked up, transparency is dropped, 16-bit grey is
    scaled by 1/257 and rounded; of several pictures in a file the first is taken. A TIFF of 32-bit or signed
    numbers is refused: nothing says which of them are black and white. Stored pixels are returned as they lie
    in the file: an EXIF rotation is not applied, because homographies refer to stored pixels. A missing,
    truncated or unreadable file is a `FormatError`; so is one that announces more pixels than `check_pixels`
    allows, before any is decoded.
    """
    with _opened(path) as image:
        width, height = image.size
        step = max(1, BAND // width)
        if height <= step:
            return _colours(image)
        out = np.empty((height, width, 3), np.uint8)
        for top in range(0, height, step):
            end = min(height, top + step)
            out[top:end] = _colours(image.crop((0, top, width, end)))
        return out


def _colours(image: Image.Image) -> NDArray[np.uint8]:
    if image.mode.startswith("I"):
        wide = np.asarray(image).astype(np.float64)
        grey = np.clip(np.rint(wide / 257), 0, 255).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    return np.array(image if image.mode == "RGB" else image.convert("RGB"), dtype=np.uint8)


def read_size(path: str | Path) -> tuple[int, int]:
    """(width, height) from the header alone; an unreadable header is a `FormatError`."""
    with _opened(path, load=False) as image:
        return image.size


def read_orientation(path: str | Path) -> int:
    """The EXIF orientation of an image, 1 to 8; 1 where none is stated or the EXIF data is damaged.

    1 is upright. `read_image` never applies it. Of a PNG only what stands before its pixels is read.
    """
    with _opened(path, load=False) as image:
        if image.format == "PNG" and "exif" not in image.info:
            return 1
        try:
            stated = image.getexif().get(_ORIENTATION, 1)
        except Exception:  # Pillow's parsers raise many types; the pixels are none the worse
            return 1
        return int(stated) if stated in range(1, 9) else 1


def to_grey(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Grey values of an RGB image: y = round(0.299 R + 0.587 G + 0.114 B), halves up, in integers.

    y = (299 R + 587 G + 114 B + 500) // 1000, so R = G = B = v gives v exactly. Trap: image libraries round
    this formula differently from one file format to the next when asked to read grey directly, so colour is
    always loaded first. A grey image (h, w) is returned as it is.

    >>> to_grey(np.array([[[255, 0, 0], [7, 7, 7]]], dtype=np.uint8)).tolist()
    [[76, 7]]
    """
    if image.dtype != np.uint8:
        raise InputError(f"images are uint8, found {image.dtype}")
    if image.ndim == 2:
        return image
    if image.ndim != 3 or image.shape[2] != 3:
        raise InputError(f"images have shape (h, w, 3) or (h, w), found {image.shape}")
    wide = image.astype(np.uint32)
    return ((299 * wide[:, :, 0] + 587 * wide[:, :, 1] + 114 * wide[:, :, 2] + 500) // 1000).astype(np.uint8)


def write_image(path: str | Path, image: NDArray[np.uint8]) -> None:
    """Write RGB (h, w, 3) or grey (h, w) uint8; the format follows from the file name."""
    try:
        with atomic_path(path) as temporary:
            Image.fromarray(np.ascontiguousarray(image)).save(temporary)
    except ValueError as e:
        raise InputError(f"cannot write {path}: {e}") from e


def _opened(path: str | Path, *, load: bool = True) -> Image.Image:
    if not os.path.exists(path):
        raise FormatError(path, "the image is missing")
    size = regular_file_size(path, most=MAX_IMAGE_BYTES)
    try:
        allow_large_images()
        if not load:
            return Image.open(path, formats=_KINDS)
        # From memory: of a file Pillow would reserve what a damaged chunk announces.
        data = read_regular_file(path, most=MAX_IMAGE_BYTES)
        image = Image.open(BytesIO(data), formats=_KINDS)
        if image.format == "PNG":
            png_header(path, data, len(data))
        check_pixels(path, image.size, len(data))
        if image.format == "TIFF" and image.mode in ("F", "I"):
            raise FormatError(path, "has pixels of 32 bits or with signs; write it with 8 or 16 bits")
        image.load()
        return image
    except FormatError:
        raise
    except UnidentifiedImageError:
        empty = size == 0
        raise FormatError(
            path, "the file is empty" if empty else explain_wrong_type(path, "this is not an image")
        ) from None
    except PermissionError as e:
        raise FormatError(path, f"cannot be read: {e.strerror}") from e
    except Exception as e:  # Pillow's decoders raise many types; all mean an unreadable file
        raise FormatError(path, f"the image cannot be decoded, it may be truncated ({e})") from e
