# SPDX-License-Identifier: BSD-3-Clause
"""Read image files of any format as RGB uint8; convert RGB to grey."""

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
"""File name suffixes of images."""
MAX_IMAGE_BYTES = 2 << 30
_PILLOW_FORMATS = ("PNG", "JPEG", "PPM", "BMP", "TIFF", "WEBP")
"""Formats that Pillow may decode.

Other decoders are disabled, because some of them start external programs.
"""
_ORIENTATION = 0x0112


def read_image(path: str | Path) -> NDArray[np.uint8]:
    """Read an image as RGB uint8 (h, w, 3).

    Grey images get three equal channels. Palette indices are converted to colours, and transparency is
    dropped. 16-bit grey is scaled by 1/257 and rounded. Only the first of several frames is read. TIFF files
    of 32-bit or signed numbers are refused, because their range is unknown. EXIF rotations are not applied,
    because homographies refer to the pixels as stored.

    Raises:
        FormatError: The file is missing, truncated or unreadable, or exceeds the limits of `check_pixels`.
    """
    with _open_image(path) as image:
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
    """Return (width, height) of an image from its header. Raise a `FormatError` if it is unreadable."""
    with _open_image(path, load=False) as image:
        return image.size


def read_orientation(path: str | Path) -> int:
    """Return the EXIF orientation of an image, 1 to 8. It is 1 (upright) if EXIF data is missing or corrupt.

    `read_image` never applies the orientation. In a PNG, only metadata before the pixels is read.
    """
    with _open_image(path, load=False) as image:
        if image.format == "PNG" and "exif" not in image.info:
            return 1
        try:
            orientation = image.getexif().get(_ORIENTATION, 1)
        except Exception:  # Pillow's parsers raise many types; the pixels are still readable
            return 1
        return int(orientation) if orientation in range(1, 9) else 1


def to_grey(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Convert an RGB image (h, w, 3) to grey: (299 R + 587 G + 114 B + 500) // 1000.

    Grey pixels R = G = B = v become exactly v. A grey image (h, w) is returned unchanged. Trap: image
    libraries that read grey directly round differently for each file format. Load RGB and call this function
    instead.

    >>> to_grey(np.array([[[255, 0, 0], [7, 7, 7]]], dtype=np.uint8)).tolist()
    [[76, 7]]
    """
    if image.dtype != np.uint8:
        raise InputError(f"images must be uint8, found {image.dtype}")
    if image.ndim == 2:
        return image
    if image.ndim != 3 or image.shape[2] != 3:
        raise InputError(f"images must have shape (h, w, 3) or (h, w), found {image.shape}")
    wide = image.astype(np.uint32)
    return ((299 * wide[:, :, 0] + 587 * wide[:, :, 1] + 114 * wide[:, :, 2] + 500) // 1000).astype(np.uint8)


def read_jpeg_again(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Encode an RGB image as JPEG in Pillow's default quality, and decode it."""
    content = BytesIO()
    Image.fromarray(np.ascontiguousarray(image)).save(content, format="JPEG")
    return np.array(Image.open(content, formats=("JPEG",)).convert("RGB"), dtype=np.uint8)


def write_image(path: str | Path, image: NDArray[np.uint8]) -> None:
    """Write a uint8 image, RGB (h, w, 3) or grey (h, w). The file suffix selects the format."""
    try:
        with atomic_path(path) as temporary:
            Image.fromarray(np.ascontiguousarray(image)).save(temporary)
    except ValueError as e:
        raise InputError(f"cannot write {path}: {e}") from e


def _open_image(path: str | Path, *, load: bool = True) -> Image.Image:
    if not os.path.exists(path):
        raise FormatError(path, "the image is missing")
    size = regular_file_size(path, most=MAX_IMAGE_BYTES)
    try:
        allow_large_images()
        if not load:
            return Image.open(path, formats=_PILLOW_FORMATS)
        # Decode from memory: given a path, Pillow allocates the size that a corrupt chunk announces.
        data = read_regular_file(path, most=MAX_IMAGE_BYTES)
        image = Image.open(BytesIO(data), formats=_PILLOW_FORMATS)
        if image.format == "PNG":
            png_header(path, data, len(data))
        check_pixels(path, image.size, len(data))
        if image.format == "TIFF" and image.mode in ("F", "I"):
            raise FormatError(path, "has 32-bit or signed pixels; convert the image to 8 or 16 bits")
        image.load()
        return image
    except FormatError:
        raise
    except UnidentifiedImageError:
        reason = explain_wrong_type(path, "is not an image") if size else "the file is empty"
        raise FormatError(path, reason) from None
    except PermissionError as e:
        raise FormatError(path, f"cannot be read: {e.strerror}") from e
    except Exception as e:  # Pillow's decoders raise many types; all mean an unreadable file
        raise FormatError(
            path, f"the image cannot be decoded and may be truncated ({e}); copy it again"
        ) from e
