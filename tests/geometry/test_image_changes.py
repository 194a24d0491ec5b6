# SPDX-License-Identifier: BSD-3-Clause
"""Changed images: recorded pixels, and plain loops written from the rules."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from less_golden import golden, needs_golden
from tiepoint.geometry import image_changes as changes

WARPS: dict[str, Callable[..., changes.Warp]] = {
    "rotation": changes.rotation,
    "scale": changes.reduction,
    "tilt": changes.tilt,
}
MASK = (1 << 64) - 1


def photo(height: int, width: int, channels: int = 3) -> Any:
    shape = (height, width, channels) if channels > 1 else (height, width)
    return np.random.default_rng(height * width).integers(0, 256, shape).astype(np.uint8)


@needs_golden
def test_warps_equal_recorded_pixels() -> None:
    found = golden()["stress"]
    image = np.array(found["image"], np.uint8)
    for name, expected in found["warps"].items():
        kind, level = name.split()
        warp = WARPS[kind]((12, 9), float(level))
        assert np.allclose(warp.H, expected["H"], atol=1e-9, rtol=0), name
        assert (list(warp.size), warp.samples) == (expected["size"], expected["samples"]), name
        assert np.array_equal(changes.warped(image, warp), expected["pixels"]), name
    for name, expected in found["warps_large_canvas_only"].items():
        kind, level, size = name.split()
        width, height = map(int, size.split("x"))
        warp = WARPS[kind]((width, height), float(level))
        assert np.allclose(warp.H, expected["H"], atol=1e-9, rtol=0), name
        assert (list(warp.size), warp.samples) == (expected["size"], expected["samples"]), name


@needs_golden
def test_photometric_changes_equal_recorded_pixels() -> None:
    found = golden()["stress"]
    image = np.array(found["image"], np.uint8)
    for name, expected in found["photometric"].items():
        kind, level, *more = name.split()
        if kind == "noise":
            scene, seed = (part.partition("=")[2] for part in more)
            made = changes.noisy(image, float(level), scene, int(seed))
        else:
            change = {"blur": changes.blurred, "gamma": changes.darkened, "jpeg": changes.jpeg_compressed}
            made = change[kind](image, float(level))
        assert np.array_equal(made, expected), name


@pytest.mark.parametrize("channels", [1, 3])
def test_quarter_turns_are_rot90(channels: int) -> None:
    image = photo(9, 12, channels)
    for quarters in range(5):
        warp = changes.rotation((12, 9), 90.0 * quarters)
        assert warp.samples == 1
        assert np.array_equal(changes.warped(image, warp), np.rot90(image, -quarters))


def test_first_levels_return_same_bytes() -> None:
    image = photo(7, 10)
    for warp in (changes.rotation((10, 7), 0), changes.reduction((10, 7), 1), changes.tilt((10, 7), 0)):
        assert np.array_equal(changes.warped(image, warp), image)
    unchanged = (
        changes.blurred(image, 0),
        changes.darkened(image, 1),
        changes.jpeg_compressed(image, 100),
        changes.noisy(image, 0, "x"),
        changes.resized(image, (10, 7)),
    )
    assert all(np.array_equal(made, image) for made in unchanged)


def bilinear(image: Any, u: float, v: float, fill: float) -> float:
    height, width = image.shape
    u = round(u) if abs(u - round(u)) <= 1e-9 else u
    v = round(v) if abs(v - round(v)) <= 1e-9 else v
    if not (-0.5 <= u < width - 0.5 and -0.5 <= v < height - 0.5):
        return fill
    u, v = min(max(u, 0), width - 1), min(max(v, 0), height - 1)
    x, y = math.floor(u), math.floor(v)
    total = 0.0
    for dy, wy in ((0, 1 - (v - y)), (1, v - y)):
        for dx, wx in ((0, 1 - (u - x)), (1, u - x)):
            if wx * wy > 0:
                total += wx * wy * float(image[y + dy, x + dx])
    return total


def restated_warp(image: Any, H: Any, size: tuple[int, int], k: int) -> Any:
    """The pixel rule of the specification for one channel, in plain loops."""
    back = np.linalg.inv(H)
    fill = math.floor(float(image.mean()) + 0.5)
    out = np.empty(size[::-1], np.uint8)
    for i in range(size[1]):
        for j in range(size[0]):
            total = 0.0
            for q in range(k):
                for p in range(k):
                    x = back @ [j + (p + 0.5) / k - 0.5, i + (q + 0.5) / k - 0.5, 1.0]
                    total += bilinear(image, x[0] / x[2], x[1] / x[2], fill)
            out[i, j] = min(max(math.floor(total / k**2 + 0.5 + 1e-9), 0), 255)
    return out


@pytest.mark.parametrize(("kind", "level"), [("rotation", 37), ("scale", 2.5), ("tilt", 50)])
def test_warps_equal_restated_loops_by_channel(kind: str, level: float) -> None:
    image = photo(11, 14)
    warp = WARPS[kind]((14, 11), level)
    made = changes.warped(image, warp)
    for c in range(3):
        expected = restated_warp(image[:, :, c], warp.H, warp.size, warp.samples)
        assert np.array_equal(made[:, :, c], expected)


@pytest.mark.parametrize(("kind", "level"), [("rotation", 37), ("scale", 3.3), ("tilt", 70)])
@pytest.mark.parametrize("size", [(33, 20), (20, 33)])
def test_canvas_contains_whole_image(kind: str, level: float, size: tuple[int, int]) -> None:
    warp = WARPS[kind](size, level)
    w, h = size
    outer = np.array([[-0.5, -0.5, 1], [w - 0.5, -0.5, 1], [w - 0.5, h - 0.5, 1], [-0.5, h - 0.5, 1]])
    there = outer @ warp.H.T
    there = there[:, :2] / there[:, 2:]
    assert (there >= -0.5 - 1e-6).all()
    assert (there <= np.array(warp.size) - 0.5 + 1e-6).all()
    assert (np.array(warp.size) - (there.max(axis=0) - there.min(axis=0)) < 1).all()


def test_blur_equals_restated_loops() -> None:
    image, sigma = photo(6, 9), 1.3
    radius = math.ceil(4 * sigma)
    weights = [math.exp(-0.5 * (t / sigma) ** 2) for t in range(-radius, radius + 1)]
    total = sum(weights)
    made = changes.blurred(image, sigma)
    for c in range(3):
        for y in range(6):
            for x in range(9):
                value = 0.0
                for t in range(-radius, radius + 1):
                    for s in range(-radius, radius + 1):
                        pixel = image[min(max(y + t, 0), 5), min(max(x + s, 0), 8), c]
                        value += weights[t + radius] * weights[s + radius] * float(pixel)
                assert made[y, x, c] == math.floor(value / total**2 + 0.5 + 1e-9)


def test_noise_equals_restated_loops_and_is_same_at_all_levels() -> None:
    image = np.full((4, 5, 3), 128, np.uint8)
    seed = int.from_bytes(hashlib.sha256(b"tiepoint-stress|7|a/b").digest()[:8], "big")

    def uniform(p: int) -> float:
        x = (seed + p + 0x9E3779B97F4A7C15) & MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        return (((x ^ (x >> 31)) >> 11) + 0.5) / 2**53

    z = [
        math.sqrt(-2 * math.log(uniform(2 * p))) * math.cos(2 * math.pi * uniform(2 * p + 1))
        for p in range(60)
    ]
    for sigma in (5.0, 20.0):
        expected = [min(max(math.floor(128 + sigma * v + 0.5 + 1e-9), 0), 255) for v in z]
        assert changes.noisy(image, sigma, "a/b", 7).ravel().tolist() == expected


def test_jpeg_error_grows_and_size_need_not_be_multiple_of_8() -> None:
    image = changes.blurred(photo(21, 30), 2)
    errors = [
        float(np.abs(changes.jpeg_compressed(image, q).astype(int) - image).mean()) for q in (90, 50, 10, 1)
    ]
    assert errors == sorted(errors)
    assert 0 < errors[0] < 1
    assert errors[-1] > 3


def test_grey_image_equals_one_channel() -> None:
    image = photo(12, 15)
    for change in (
        lambda i: changes.warped(i, changes.tilt((15, 12), 40)),
        lambda i: changes.blurred(i, 2),
        lambda i: changes.darkened(i, 3),
        lambda i: changes.jpeg_compressed(i, 20),
        lambda i: changes.resized(i, (7, 5)),
    ):
        assert np.array_equal(change(image)[:, :, 1], change(np.ascontiguousarray(image[:, :, 1])))
