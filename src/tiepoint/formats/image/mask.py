# SPDX-License-Identifier: BSD-3-Clause
"""Foreground masks: PNG of any kind, read as 8-bit grey by the rules OpenCV's `imread` follows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.buffers import Workspace
from ...core.errors import FormatError, InputError
from ..file_io import reading
from ..whole_file import atomic_path
from .limits import BAND
from .luma import luma8, luma16
from .png import decode_plain
from .png_header import GREY8, RGB16, RGBA16, is_plain, png_gamma, png_header


def read_mask(path: str | Path, *, space: Workspace | None = None, name: str = "mask") -> NDArray[np.uint8]:
    """A mask as uint8 (height, width), raw values.

    Grey is taken as it is (1, 2, 4 bits spread to 0..255), 16 bits keep their high byte, palettes are looked
    up, alpha is dropped, and colour becomes luma in the fixed point of libpng (see `luma8`), untouched where
    R = G = B. This is what ``cv2.imread(path, IMREAD_GRAYSCALE)`` of OpenCV 5.0.0 gives, to the bit; only of
    interlaced 16-bit colour we mix the high bytes alone. Trap: a mask file that holds 0 and 1 is nearly
    black, not 0 and 255; `tiepoint` warns about it where it scores masks. With a `space` the mask of a plain
    grey file is its array `name`.

    Raises:
        FormatError: for anything that is not a readable PNG, and for sizes its bytes cannot fill.

    >>> import tempfile
    >>> name = Path(tempfile.mkdtemp()) / "m.png"
    >>> write_mask(name, np.array([[True, False]]))
    >>> read_mask(name).tolist()
    [[255, 0]]
    """
    with reading(path), open(path, "rb", buffering=0) as f:
        data = f.readall()
    header = png_header(path, data, len(data))
    size, gamma = (header.height, header.width), png_gamma(data)
    if is_plain(header, GREY8):
        out = None if space is None else space.take(name, size, np.uint8)
        with suppress(FormatError):  # Pillow forgives more, and says what it does not
            return decode_plain(path, data, GREY8, out)
    for kind in (RGB16, RGBA16):
        if is_plain(header, kind):  # Pillow would drop the low bytes before they are mixed
            with suppress(FormatError):
                samples = decode_plain(path, data, kind).view(">u2").reshape(*size, kind.channels)
                return _by_rows(lambda rows: luma16(rows.astype(np.uint16), gamma), samples)
    values = _decode(path, data)
    return _by_rows(lambda rows: luma8(rows, gamma), values) if values.ndim == 3 else values


def _by_rows(mix: Callable[[NDArray[Any]], NDArray[np.uint8]], values: NDArray[Any]) -> NDArray[np.uint8]:
    """Grey of colours, some rows at a time: mixing takes many times the memory of what is mixed."""
    step = max(1, BAND // values.shape[1])
    if len(values) <= step:
        return mix(values[..., :3])
    out = np.empty(values.shape[:2], np.uint8)
    for top in range(0, len(values), step):
        out[top : top + step] = mix(values[top : top + step, :, :3])
    return out


def read_mask_size(path: str | Path) -> tuple[int, int]:
    """(height, width) of a mask from its header alone; errors as in `read_mask`, as far as a header tells."""
    with reading(path), open(path, "rb") as f:
        header = png_header(path, f.read(64), f.seek(0, 2))
    return header.height, header.width


def _decode(path: str | Path, data: bytes) -> NDArray[np.uint8]:
    from PIL import Image, UnidentifiedImageError

    try:
        image: Any
        with Image.open(BytesIO(data), formats=["PNG"]) as image:
            image.load()
            if image.mode.startswith("I"):
                return (np.asarray(image) >> 8).astype(np.uint8)
            if image.mode in ("1", "LA"):
                image = image.convert("L")
            elif image.mode not in ("L", "RGB", "RGBA"):
                image = image.convert("RGB")
            return np.array(image, np.uint8)
    except UnidentifiedImageError as e:
        raise FormatError(path, "not a readable PNG: its chunks are damaged") from e
    except Exception as e:  # Pillow's decoders raise many types; all mean an unreadable file
        raise FormatError(path, f"not a readable PNG: {e}") from e


def write_mask(path: str | Path, mask: NDArray[Any]) -> None:
    """Write a mask (height, width) as 8-bit grey PNG: booleans as 0 and 255, uint8 as it is."""
    from PIL import Image

    values = np.asarray(mask)
    if values.ndim != 2 or values.dtype not in (np.bool_, np.uint8):
        raise InputError(f"a mask is boolean or uint8 (height, width), found {values.dtype} {values.shape}")
    if values.dtype == np.bool_:
        values = values.astype(np.uint8) * np.uint8(255)
    with atomic_path(path) as temporary:
        Image.fromarray(values).save(temporary, format="PNG")
