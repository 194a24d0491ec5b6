"""Readers of images, masks and strips of patches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fuzz.reader import Reader
from fuzz.shells import PNG
from tiepoint.formats.flow.reader import write_png_rgb16
from tiepoint.formats.hpatches.patch_strip import read_strip, read_strip_header, write_strip
from tiepoint.formats.image.mask import read_mask, read_mask_size, write_mask
from tiepoint.formats.image.png import GREY8, decode_plain
from tiepoint.formats.image.reader import read_image, read_orientation, read_size

_RNG = np.random.default_rng(6)
_COLOUR = _RNG.integers(0, 255, (7, 9, 3)).astype(np.uint8)
_GREY = _COLOUR[..., 0]


def _kinds(root: Path) -> list[Path]:
    """PNG files of many kinds."""
    image = Image.fromarray(_COLOUR)
    modes = {"rgb": image, "rgba": image.convert("RGBA"), "p": image.convert("P"), "la": image.convert("LA")}
    modes |= {"l": image.convert("L"), "one": image.convert("1")}
    modes["i16"] = Image.fromarray(_GREY.astype(np.uint16) * 200)
    for name, picture in modes.items():
        picture.save(root / f"{name}.png")
    write_png_rgb16(root / "rgb16.png", _COLOUR.astype(np.uint16) * 250)
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(root / "exif.png", exif=exif, dpi=(72, 72))
    return sorted(root.glob("*.png"))


def _pictures(*endings: str) -> Any:
    def seeds(root: Path) -> list[Path]:
        exif = Image.Exif()
        exif[0x0112] = 6
        image = Image.fromarray(_COLOUR)
        for ending in endings:
            for mode in ("RGB", "L"):
                more: dict[str, Any] = {"exif": exif} if ending in ("jpg", "webp") else {}
                image.convert(mode).save(root / f"{mode}.{ending}", **more)
        if "tif" in endings:
            for way in ("tiff_lzw", "tiff_adobe_deflate", "packbits"):
                image.save(root / f"{way}.tif", compression=way)
        return sorted(root.iterdir())

    return seeds


def _read_any(path: Path) -> object:
    return [read_size(path), read_orientation(path), read_image(path)]


def _masks(root: Path) -> list[Path]:
    write_mask(root / "mask.png", _GREY > 99)
    return _kinds(root)


def _strips(root: Path) -> list[Path]:
    write_strip(root / "ref.png", _RNG.integers(0, 255, (4, 5, 5)).astype(np.uint8))
    return [root / "ref.png"]


_PNG = ((".png", PNG),)
READERS = [
    Reader("png", _kinds, _read_any, _PNG),
    Reader("png strict", _strips, lambda p: decode_plain(p, p.read_bytes(), GREY8), _PNG),
    Reader("jpg", _pictures("jpg"), _read_any),
    Reader("ppm", _pictures("ppm"), _read_any),
    Reader("tif", _pictures("tif"), _read_any),
    Reader("bmp and webp", _pictures("bmp", "webp"), _read_any),
    Reader("mask", _masks, lambda p: [read_mask_size(p), read_mask(p)], _PNG),
    Reader("patch strip", _strips, lambda p: [read_strip_header(p), read_strip(p)], _PNG),
]
