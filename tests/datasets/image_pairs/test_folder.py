# SPDX-License-Identifier: BSD-3-Clause
"""Pairs of a folder of photographs: order of names, drawing, lists, equal images."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.errors import InputError, TiepointError
from tiepoint.datasets.image_pairs.folder import (
    draw_more,
    draw_pairs,
    image_names,
    listed_pairs,
    named_pairs,
    natural_order,
    without_equal,
)
from tiepoint.formats.image.reader import write_image


def names_of(count: int) -> list[str]:
    return [f"img{k}.png" for k in range(1, count + 1)]


def write(folder: Path, name: str, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 255, (12, 16, 3))
    write_image(folder / name, pixels.astype(np.uint8))


def test_natural_order_counts() -> None:
    assert natural_order(["b2", "a10", "a9", "B1", "10", "9", "a²"]) == [
        "9",
        "10",
        "a9",
        "a10",
        "a²",
        "B1",
        "b2",
    ]
    assert natural_order(reversed(names_of(12))) == names_of(12)


@pytest.mark.parametrize("count", [2, 5, 8])
def test_small_folder_draws_all_pairs(count: int) -> None:
    assert draw_pairs(names_of(count)) == list(combinations(names_of(count), 2))


def test_large_folder_draws_ten_of_each_offset() -> None:
    names = names_of(50)
    found = draw_pairs(names)
    offsets = [names.index(b) - names.index(a) for a, b in found]
    assert [offsets.count(k) for k in (1, 2, 4)] == [10, 10, 10]
    assert found == draw_pairs(names)
    assert len(set(found)) == 30
    assert len(draw_pairs(names, 7)) == 7
    assert set(draw_pairs(names, 12)) <= set(found)
    assert len(draw_pairs(names_of(9))) == 8 + 7 + 5


def test_more_pairs_are_others() -> None:
    names = names_of(40)
    drawn = draw_pairs(names)
    more = draw_more(names, drawn)
    assert len(more) == 30
    assert not set(more) & set(drawn)
    assert draw_more(names_of(4), draw_pairs(names_of(4))) == []


def test_image_names_skips_other_files(tmp_path: Path) -> None:
    for name in ("b10.png", "b9.png"):
        write(tmp_path, name, 0)
    (tmp_path / ".hidden.png").write_bytes(b"x")
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "sub.png").mkdir()
    assert image_names(tmp_path) == ["b9.png", "b10.png"]
    with pytest.raises(InputError, match="is not a folder"):
        image_names(tmp_path / "b9.png")
    (tmp_path / "deep" / "scene").mkdir(parents=True)
    write(tmp_path / "deep" / "scene", "a.png", 0)
    with pytest.raises(
        InputError,
        match="found 0 images, but pairs need at least 2; choose one of its folders, such as scene",
    ):
        image_names(tmp_path / "deep")


def test_same_stem_gets_distinct_names(tmp_path: Path) -> None:
    for name in ("a.png", "a.bmp", "b.png"):
        write(tmp_path, name, 1)
    found = named_pairs(tmp_path, draw_pairs(image_names(tmp_path)))
    assert [named.key for named in found] == ["a.bmp|a.png", "a.bmp|b.png", "a.png|b.png"]
    assert len({named.pair.name for named in found}) == 3


def test_listed_pairs_read_names_turns_and_truth(tmp_path: Path) -> None:
    for k in range(3):
        write(tmp_path, f"{k}.png", k)
    text = tmp_path / "list.txt"
    text.write_text("# two names\n0.png 1.png\n2.png 0.png\n0.png 1.png\n")
    with pytest.raises(TiepointError, match="0--1"):
        listed_pairs(text, tmp_path)
    text.write_text("0.png 1.png\n2.png 0.png\n1.png 2.png\n")
    found, has_poses = listed_pairs(text, tmp_path)
    assert [named.key for named in found] == ["0.png|1.png", "2.png|0.png", "1.png|2.png"]
    assert not has_poses
    assert len(listed_pairs(text, tmp_path, 2)[0]) == 2
    text.write_text("0.png 1.png 1 0\n")
    ((turned,), _) = listed_pairs(text, tmp_path)
    assert turned.pair.sizes() == ((12, 16), (16, 12))
    K, T = np.diag([9.0, 9, 1]).tolist(), np.hstack([np.eye(3), [[1], [0], [0]]]).tolist()
    entry = {"image0": "0.png", "image1": "1.png", "K0": K, "K1": K, "T_0to1": T}
    (tmp_path / "list.json").write_text(json.dumps([entry]))
    assert listed_pairs(tmp_path / "list.json", tmp_path)[1]
    text.write_text("0.png nowhere.png\n")
    with pytest.raises(TiepointError, match="nowhere"):
        listed_pairs(text, tmp_path)


def test_without_equal_compares_pixels(tmp_path: Path) -> None:
    for name, seed in (("a.png", 1), ("b.bmp", 1), ("c.png", 2), ("d.png", 2)):
        write(tmp_path, name, seed)
    kept, equal = without_equal(named_pairs(tmp_path, draw_pairs(image_names(tmp_path))))
    assert [named.key for named in equal] == ["a.png|b.bmp", "c.png|d.png"]
    assert len(kept) == 4
    (tmp_path / "c.png").write_bytes((tmp_path / "c.png").read_bytes()[:60])
    with pytest.raises(InputError, match=r"c\.png"):
        without_equal(named_pairs(tmp_path, draw_pairs(image_names(tmp_path))))
