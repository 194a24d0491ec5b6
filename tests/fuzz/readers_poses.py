"""Readers of camera poses: COLMAP models in four forms, tables, trajectories and files per image."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

from fuzz.reader import Reader
from tiepoint.datasets.reconstructions.scenes import read_estimates, read_truth

_R = ["1", "0", "0", "0", "1", "0", "0", "0", "1"]
_TEXT = {
    "cameras.txt": "# c\n1 PINHOLE 40 30 50 50 20 15\n2 SIMPLE_RADIAL 40 30 50 20 15 0\n",
    "images.txt": "# Number of images: 2\n1 1 0 0 0 0 0 0 1 a.png\n1 2 1 3 4 -1\n2 1 0 0 0 1 0 0 2 b.png\n\n",
    "points3D.txt": "1 0 0 5 9 9 9 0.5 1 0 2 0\n",
}
_RIGS = {
    "rigs.txt": "1 2 CAMERA 1 CAMERA 2 1 1 0 0 0 1 0 0\n",
    "frames.txt": "1 1 1 0 0 0 0 0 0 2 CAMERA 1 1 CAMERA 2 2\n",
}
_BINARY = {
    "cameras.bin": struct.pack("<QIiQQ4dIiQQ4d", 2, 1, 1, 40, 30, 5, 5, 20, 15, 2, 2, 40, 30, 5, 20, 15, 0),
    "images.bin": struct.pack("<QI7dI", 2, 1, 1, 0, 0, 0, 0, 0, 0, 1) + b"a.png\0"
    + struct.pack("<Q2dQ", 1, 1, 2, 1)
    + struct.pack("<I7dI", 2, 1, 0, 0, 0, 1, 0, 0, 2) + b"b.png\0" + struct.pack("<Q", 0),
    "points3D.bin": struct.pack("<QQ3d3BdQ4I", 1, 1, 0, 0, 5, 9, 9, 9, 0.5, 2, 1, 0, 2, 0),
}  # fmt: skip
_BINARY_RIGS = {
    "rigs.bin": struct.pack("<QIIiIiIB7d", 1, 1, 2, 0, 1, 0, 2, 1, 1, 0, 0, 0, 1, 0, 0),
    "frames.bin": struct.pack("<QII7dIiIQiIQ", 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 2, 0, 1, 1, 0, 2, 2),
}
_HEAD = "dataset,scene,image,rotation_matrix,translation_vector\n"
_SUBMISSION = "image_path,dataset,scene,rotation_matrix,translation_vector\n"
_POSE = {"qvec": [1, 0, 0, 0], "tvec": [0, 0, 1]}
_JSON = {
    "images": {"a.png": _POSE, "b.png": {"qvec": [0, 1, 0, 0], "tvec": [1, 0, 0]}},
    "components": {"a.png": 0, "b.png": 0},
    "outliers": ["c.png"],
    "position_accuracy": 0.01,
    "unit": "m",
}


def _folder(files: dict[str, str] | dict[str, bytes]) -> Callable[[Path], list[Path]]:
    def make(root: Path) -> list[Path]:
        folder = root / "scene"
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return [folder]

    return make


def _rows(scenes: str, form: str) -> str:
    return "".join(
        form.format(image=f"{name}.png", scene=scene, R=";".join(_R), x=i)
        for i, (name, scene) in enumerate(zip("abcd", scenes, strict=True))
    )


def _blended(x: int) -> str:
    return f"extrinsic\n1 0 0 {x}\n0 1 0 0\n0 0 1 0\n0 0 0 1\n\nintrinsic\n1 0 0\n0 1 0\n0 0 1\n"


def _strecha(x: int) -> str:
    return f"1 0 0\n0 1 0\n0 0 1\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n{x} 0 0\n40 30\n"


def _photo_tourism(root: Path) -> list[Path]:
    import h5py
    import numpy as np

    (root / "scene" / "calibration").mkdir(parents=True)
    for i in range(2):
        with h5py.File(root / "scene" / "calibration" / f"calibration_{i}.h5", "w") as file:
            file["K"], file["R"], file["T"] = np.eye(3), np.eye(3), np.array([i, 0.0, 0.0])
    return [root / "scene"]


def _read(path: Path) -> object:
    truth = read_truth(path)
    return truth, read_estimates(path, [scene.name for scene in truth])


READERS = [
    Reader("poses colmap text", _folder(_TEXT), _read),
    Reader("poses colmap text with rigs", _folder({**_TEXT, **_RIGS}), _read),
    Reader("poses colmap binary", _folder(_BINARY), _read),
    Reader("poses colmap binary with rigs", _folder({**_BINARY, **_BINARY_RIGS}), _read),
    Reader("poses colmap sub-models", _folder({f"0/{k}": v for k, v in _TEXT.items()}), _read),
    Reader(
        "poses imc 2025",
        _folder({"train_labels.csv": _HEAD + _rows("sstt", "d,{scene},{image},{R},{x};0;0\n")}),
        _read,
    ),
    Reader(
        "poses imc 2023",
        _folder({"submission.csv": _SUBMISSION + _rows("ssss", "d/{image},d,{scene},{R},{x};0;0\n")}),
        _read,
    ),
    Reader("poses json", _folder({"poses.json": json.dumps(_JSON)}), _read),
    Reader("poses tum", _folder({"groundtruth.txt": "# t\n1 0 0 0 0 0 0 1\n2 1 0 0 0 0 0 1\n"}), _read),
    Reader(
        "poses kitti", _folder({"poses.txt": "1 0 0 0 0 1 0 0 0 0 1 0\n1 0 0 2 0 1 0 0 0 0 1 0\n"}), _read
    ),
    Reader("poses blended", _folder({f"cams/0000000{i}_cam.txt": _blended(i) for i in range(2)}), _read),
    Reader("poses strecha", _folder({f"{i}.png.camera": _strecha(i) for i in range(2)}), _read),
    Reader("poses phototourism", _photo_tourism, _read, needs="h5py"),
]
