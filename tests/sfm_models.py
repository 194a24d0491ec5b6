"""The golden COLMAP model in four forms and the odd files made from it, by the names of the golden file."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA") or Path(__file__).parents[2] / "shared" / "data")
GOLDEN = DATA.parent / "golden" / "sfm.json"
MODELS = DATA.parent / "golden" / "sfm_model"

needs_golden = pytest.mark.skipif(not GOLDEN.is_file(), reason=f"no recorded figures at {GOLDEN}")
FORMS = ("txt", "bin", "legacy_txt", "legacy_bin")
NAMES = tuple(f"camera00000{camera}_frame00000{frame}.png" for frame in (0, 1) for camera in (1, 2))


@cache
def golden() -> dict[str, Any]:
    return json.loads(GOLDEN.read_text()) if GOLDEN.is_file() else {}


Change = Callable[[Path], None]
POSE = "1 0 0 0 9 9 9"


def _edit(name: str, change: Callable[[list[str]], list[str]]) -> Change:
    def apply(folder: Path) -> None:
        path = folder / name
        path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")

    return apply


def _images(change: Callable[[list[str]], list[str]]) -> Change:
    """Change the lines of images.txt without its comments: header, points, header, points, …"""
    return _edit("images.txt", lambda lines: change([line for line in lines if not line.startswith("#")]))


def _first_pose(pose: str) -> Change:
    def change(lines: list[str]) -> list[str]:
        fields = lines[0].split()
        return [" ".join([fields[0], pose, *fields[8:]]), *lines[1:]]

    return _images(change)


def _without_points(folder: Path) -> None:
    (folder / "points3D.txt").write_text("")


def _both(*changes: Change) -> Change:
    def apply(folder: Path) -> None:
        for change in changes:
            change(folder)

    return apply


def _crlf(folder: Path) -> None:
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def _cut(folder: Path) -> None:
    data = (folder / "images.bin").read_bytes()
    (folder / "images.bin").write_bytes(data[: len(data) // 2])


def _empty(folder: Path) -> None:
    (folder / "images.bin").write_bytes(b"")


def _nan_binary(folder: Path) -> None:
    data = bytearray((folder / "images.bin").read_bytes())
    data[12:20] = struct.pack("<d", float("nan"))
    (folder / "images.bin").write_bytes(bytes(data))


def _and_text(folder: Path) -> None:
    for path in (MODELS / "legacy_txt").iterdir():
        shutil.copy(path, folder / path.name)
    _first_pose(POSE)(folder)


def _remove(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


ODD: dict[str, tuple[str, Change]] = {
    "no_last_points_line": ("legacy_txt", _both(_images(lambda x: [*_emptied(x)[:-1]]), _without_points)),
    "empty_points_lines": ("legacy_txt", _both(_images(lambda x: _emptied(x)), _without_points)),
    "one_line_an_image": ("legacy_txt", _both(_images(lambda x: x[::2]), _without_points)),
    "name_with_blank": (
        "legacy_txt",
        _images(lambda x: [x[0].replace("camera000001_frame000000.png", "my photo.png"), *x[1:]]),
    ),
    "images_edited_frames_kept": ("txt", _first_pose(POSE)),
    "images_edited_legacy": ("legacy_txt", _first_pose(POSE)),
    "quaternion_not_unit": ("legacy_txt", _first_pose("2 0 0 0 9 9 9")),
    "quaternion_zero": ("legacy_txt", _first_pose("0 0 0 0 9 9 9")),
    "nan_text": ("legacy_txt", _first_pose("nan 0 0 0 9 9 9")),
    "duplicate_names": (
        "legacy_txt",
        _images(lambda x: [*x[:2], x[2].replace(NAMES[1], NAMES[0]), *x[3:]]),
    ),
    "duplicate_ids": ("legacy_txt", _images(lambda x: [*x[:2], "1" + x[2][1:], *x[3:]])),
    "unknown_camera_model": (
        "legacy_txt",
        _edit("cameras.txt", lambda x: [line.replace("1 SIMPLE_RADIAL", "1 MINE") for line in x]),
    ),
    "params_too_few": ("legacy_txt", _edit("cameras.txt", lambda x: [*x[:-1], x[-1].rsplit(" ", 1)[0]])),
    "camera_missing": ("legacy_txt", _edit("cameras.txt", lambda x: x[:-1])),
    "track_to_missing_image": ("legacy_txt", _images(lambda x: x[:6])),
    "no_points3D_file": ("legacy_txt", _remove("points3D.txt")),
    "crlf": ("legacy_txt", _crlf),
    "bin_truncated": ("legacy_bin", _cut),
    "bin_empty": ("legacy_bin", _empty),
    "bin_and_txt": ("legacy_bin", _and_text),
    "frames_without_rigs": ("txt", _remove("rigs.txt")),
    "rigs_without_frames": ("txt", _remove("frames.txt")),
    "nan_binary": ("legacy_bin", _nan_binary),
}
"""Form that an odd model starts from, and what is changed in it."""


def _emptied(lines: list[str]) -> list[str]:
    return [line if i % 2 == 0 else "" for i, line in enumerate(lines)]


def odd_model(name: str, folder: Path) -> Path:
    """Write an odd model into a folder."""
    form, change = ODD[name]
    shutil.copytree(MODELS / form, folder)
    folder.chmod(0o755)
    for path in folder.iterdir():
        path.chmod(0o644)
    change(folder)
    return folder


def number(value: Any) -> float:
    return float(value)


def posed_scene(case: dict[str, Any], accuracy: float = 0.0) -> Any:
    """A case of the record as arrays, images in the order of the truth."""
    import numpy as np

    from tiepoint.metrics.reconstruction.scene import PosedModel, PosedScene

    given = case["input"]
    names = list(given["gt"])
    components = given["components"] or {}
    others = list(dict.fromkeys(n for m in given["models"] for n in m if n not in given["gt"]))
    place = {name: i for i, name in enumerate([*names, *others])}

    def arrays(poses: list[dict[str, Any]]) -> tuple[Any, Any]:
        q = np.array([[number(v) for v in p["qvec"]] for p in poses]).reshape(-1, 4)
        t = np.array([[number(v) for v in p["tvec"]] for p in poses]).reshape(-1, 3)
        bad = ~(np.isfinite(q).all(axis=1) & np.isfinite(t).all(axis=1))
        q[bad], t[bad] = np.nan, np.nan
        return q / np.linalg.norm(q, axis=1, keepdims=True), t

    models = tuple(
        PosedModel(
            np.array([place[n] for n in m], np.int64), *arrays(list(m.values())), np.empty(0, np.int64)
        )
        for m in given["models"]
    )
    component = np.array([components.get(n, 0) for n in names], np.int64)
    outlier = np.array([components.get(n, 0) < 0 for n in others], bool)
    return PosedScene(*arrays(list(given["gt"].values())), component, outlier, models, accuracy)
