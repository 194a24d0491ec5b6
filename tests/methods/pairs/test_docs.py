# SPDX-License-Identifier: BSD-3-Clause
"""The examples of the documentation run, and what they write is read again."""

from __future__ import annotations

import re
from pathlib import Path

import match_world as w
import numpy as np
import pytest

from tiepoint.core.records import ImageFacts, Item
from tiepoint.methods.resolve import resolve

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "match-files.md").read_text()
BLOCKS = dict(re.findall(r"```python\n# ([\w-]+)\n(.*?)```", PAGE, re.DOTALL))
WRITERS = {
    "hloc": w.write_hloc,
    "glue-factory": w.write_glue_factory,
    "superglue": w.write_superglue,
    "loftr": w.write_loftr,
}


def matches():
    return {"--".join(two): w.matched(pair) for two, pair in w.world().items()}


@pytest.mark.parametrize("name", ["own", "table", *WRITERS])
def test_converters_write_the_same_matches(name, tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    out.mkdir()
    if name in WRITERS:
        WRITERS[name](folder, w.world())
    given = {"folder": folder, "out": out, "names": w.NAMES, "matches": matches()}
    exec(BLOCKS[name], {**given, "width": w.SIZE[0], "height": w.SIZE[1]})
    method = resolve(f"files:{out}", family="pairs")
    for item, (points0, points1, confidence) in zip(w.items(), matches().values(), strict=True):
        found = method.extract(item, None)
        np.testing.assert_allclose(found["points0"], points0, atol=1e-9)
        np.testing.assert_allclose(found["points1"], points1, atol=1e-9)
        np.testing.assert_allclose(found["confidence"], confidence)


def test_converter_of_colmap_writes_same_points(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    database = w.write_colmap(folder / "database.db", w.world())
    exec(BLOCKS["colmap"], {"folder": folder, "out": out})
    own, read = (resolve(f"files:{place}", family="pairs") for place in (out, database))
    for item in w.items():
        for name in ("points0", "points1"):
            np.testing.assert_array_equal(own.extract(item, None)[name], read.extract(item, None)[name])


def test_predicted_points_and_features(tmp_path):
    exec(BLOCKS["answers"], {"out": tmp_path, "matches": matches()})
    found = resolve(f"files:{tmp_path}", family="pairs").extract(w.items()[0], None)
    np.testing.assert_array_equal(found["answers"], next(iter(matches().values()))[1])
    rng = np.random.default_rng(0)
    made = {f"s/{n}": (rng.random((9, 2)) * 20, rng.random((9, 4)), rng.random(9)) for n in "ab"}
    exec(BLOCKS["features"], {"out": tmp_path / "f", "features": made})
    pair = Item("a--b", "", images=(ImageFacts("s/a.png"), ImageFacts("s/b.png")))
    assert resolve(f"files:{tmp_path / 'f'}", family="pairs").extract(pair, None)["keypoints0"] == 9


def test_every_converter_is_run():
    assert sorted(BLOCKS) == sorted(["own", "table", *WRITERS, "colmap", "answers", "features"])


def test_the_example_of_a_matcher_runs(tmp_path):
    block = re.search(r"```python\n(# my_matcher\.py.*?)```", (DOCS / "adding-a-method.md").read_text(), re.S)
    assert block is not None
    (tmp_path / "my_matcher.py").write_text(block[1])
    method = resolve(f"{tmp_path}/my_matcher.py:MyMatcher", family="pairs")
    assert method.name == "my-matcher"
    image = np.zeros((20, 30, 3), np.uint8)
    found = method.extract(Item("a--b", ""), (image, image))
    assert found["points1"].tolist() == [[5, 0], [29, 19]]
