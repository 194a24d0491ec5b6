"""Small datasets in the layouts of MMIM and SatAst, and lists of pairs with homographies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import savemat

from tiepoint.formats.image.reader import write_image

SIZE0, SIZE1 = (64, 48), (60, 50)
H = np.array([[0.9, 0.05, 3.0], [0.02, 1.0, 2.0], [1e-4, 0, 1]])
SLICES = ("10", "101")
NAMES = {
    "Medical/PD_T1": [f"pd_t1_{n}" for n in SLICES],
    "Medical/PD_T2": [f"pd_t2_{n}" for n in SLICES],
    "Medical/T1_T2": [f"t1_t2_{n}" for n in SLICES],
    "Medical/Retina": ["Retina_1", "Retina_2"],
    "RemoteSensing/CrossSeason": ["CS1", "CS2"],
    "ComputerVision/CrossSeason": ["CS_1", "CS_2"],
    "ComputerVision/DayNight/nonrigid": ["DN_3"],
    "ComputerVision/DayNight": ["DN_1"],
}
"""Names of pairs by folder: ten slices in three sets become two."""
S = np.array([[1.0, 0, -1], [0, 1, -1], [0, 0, 1]])


def images(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return tuple(rng.integers(0, 256, (h, w, 3)).astype(np.uint8) for w, h in (SIZE0, SIZE1))  # type: ignore[return-value]


def mapped(points: np.ndarray, matrix: np.ndarray = H) -> np.ndarray:
    y = np.column_stack([points, np.ones(len(points))]) @ matrix.T
    return y[:, :2] / y[:, 2:]


def landmarks(seed: int, off: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Points of image 0 and their places in image 1, all `off` pixels to the right of the true ones."""
    points = np.random.default_rng(seed).uniform(5, 40, (6, 2))
    return points, mapped(points) + np.array([off, 0.0])


def mat_content(seed: int, off: float = 0.0) -> dict[str, Any]:
    """What a file of MMIM contains: matrix for rows from 1, moving to fixed."""
    moving, fixed = images(seed)
    points, there = landmarks(seed, off)
    T = (np.linalg.inv(S) @ H @ S).T
    marks = {"LMfix": there + 1, "LMmov": points + 1}
    return {"I_fix": fixed, "I_move": moving, "T": T, "Landmarks": marks}


def write_mmim(root: Path, off: Mapping[str, float] | None = None) -> Path:
    """Write a copy of MMIM in small. `off` is the error of the landmarks by folder."""
    for i, (folder, names) in enumerate(NAMES.items()):
        place = root / "Multimodal_Image_Matching_Datasets" / folder
        place.mkdir(parents=True, exist_ok=True)
        for k, name in enumerate(names):
            savemat(place / f"{name}.mat", mat_content(10 * i + k, (off or {}).get(folder, 0.0)))
    return root


def write_satast(root: Path, pairs: int = 3) -> Path:
    """Write pairs of SatAst: two queries, paths with backslashes, one pair without points."""
    (root / "images").mkdir(parents=True)
    for k in range(pairs):
        _, satellite = images(k)
        write_image(root / "images" / f"q{k % 2}.png", images(k % 2)[0])
        write_image(root / "images" / f"s{k}.png", satellite)
        points, there = landmarks(k)
        write_entry(root / f"p{k}.json", k, points.tolist(), there.tolist())
    write_entry(root / "without.json", 0, [], [])
    return root


def write_entry(path: Path, k: int, points: Sequence[Any], there: Sequence[Any]) -> None:
    """Write one pair. The first round of clicks is old and wrong."""
    rounds = [{"pts_src": [[0, 0]], "pts_dst": [[1, 1]]}, {"pts_src": points, "pts_dst": there}]
    names = {"query_path": f"images\\q{k % 2}.png", "pred_path": f"data\\images\\s{k}.png"}
    path.write_text(json.dumps({**names, "correspondences": rounds}))


def write_planes(root: Path, entries: int = 4, **more: Any) -> Path:
    """Write a list of pairs with H_0to1 in two folders; `more` overrides keys of the first."""
    made = []
    for k in range(entries):
        folder = f"f{k % 2}"
        (root / folder).mkdir(parents=True, exist_ok=True)
        for side, image in enumerate(images(k)):
            write_image(root / folder / f"{k}_{side}.png", image)
        made.append(
            {
                "name": f"p{k}", "image0": f"{folder}/{k}_0.png", "image1": f"{folder}/{k}_1.png",
                "H_0to1": (-3 * H).tolist(),
            }
        )  # fmt: skip
    made[0] |= more
    (root / "pairs.json").write_text(json.dumps(made))
    return root / "pairs.json"


def matches(matrix: np.ndarray = H, count: int = 60, noise: float = 0.2, seed: int = 0) -> dict[str, Any]:
    """Matches under a homography, a sixth of them far off."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(1, 45, (count, 2))
    there = mapped(points, matrix) + rng.normal(0, noise, points.shape)
    there[: count // 6] += rng.normal(0, 15, (count // 6, 2))
    return {"points0": points, "points1": there}
