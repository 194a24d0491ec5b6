# SPDX-License-Identifier: BSD-3-Clause
"""The first image of every scene, from folders and datasets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.errors import InputError, ProblemsError
from tiepoint.datasets.single_images import first_images
from tiepoint.formats.image.reader import write_image


def save(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_image(path, np.zeros((40, 50, 3), np.uint8))
    return path


def names(root: Path) -> dict[str, str]:
    return {scene: path.relative_to(root).as_posix() for scene, path in first_images(root).items()}


def test_folder_of_images_every_image_is_scene(tmp_path: Path) -> None:
    for name in ("b.png", "a.jpg", "a.png", "10.png", "9.png", ".hidden.png"):
        save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("x")
    assert names(tmp_path) == {
        "10": "10.png",
        "9": "9.png",
        "a.jpg": "a.jpg",
        "a.png": "a.png",
        "b": "b.png",
    }


def test_sequences_first_image_of_each(tmp_path: Path) -> None:
    for scene in ("v_one", "i_two"):
        for k in (10, 2, 1):
            save(tmp_path / scene / f"{k}.png")
        (tmp_path / scene / "H_1_2").write_text("1 0 0\n0 1 0\n0 0 1\n")
    assert names(tmp_path) == {"i_two": "i_two/1.png", "v_one": "v_one/1.png"}
    assert first_images(tmp_path / "v_one") == {"v_one": tmp_path / "v_one" / "1.png"}


def test_folders_of_folders_have_path_as_name(tmp_path: Path) -> None:
    save(tmp_path / "JODS" / "car" / "image1.png")
    save(tmp_path / "JODS" / "car" / "image2.png")
    save(tmp_path / "x" / "1.png")
    assert names(tmp_path) == {"JODS/car": "JODS/car/image1.png", "x": "x/1.png"}


def test_pair_list_image_0_of_each_scene(tmp_path: Path) -> None:
    for name in "abcd":
        save(tmp_path / "images" / f"{name}.png")
    pairs = [
        {"image0": f"images/{a}.png", "image1": f"images/{b}.png", "scene": s, "H": np.eye(3).tolist()}
        for a, b, s in (("b", "a", "s"), ("c", "a", "s"), ("d", "a", "t"))
    ]
    (tmp_path / "pairs.json").write_text(json.dumps(pairs))
    expected = {"s": tmp_path / "images" / "b.png", "t": tmp_path / "images" / "d.png"}
    assert first_images(tmp_path / "pairs.json") == expected
    assert first_images(tmp_path) == expected


def test_single_file_is_scene(tmp_path: Path) -> None:
    assert first_images(save(tmp_path / "x.png")) == {"x": tmp_path / "x.png"}


def test_wrong_folders_raise(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist; pass a folder of images"):
        first_images(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no image"):
        first_images(tmp_path / "empty")
    save(tmp_path / "strips" / "v_x" / "ref.png")
    with pytest.raises(InputError, match="patch strips"):
        first_images(tmp_path / "strips")
    (tmp_path / "odd.txt").write_text("hello\n")
    with pytest.raises((InputError, ProblemsError)):
        first_images(tmp_path / "odd.txt")
