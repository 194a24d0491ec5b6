# SPDX-License-Identifier: BSD-3-Clause
"""What tables call a method: its class, and what differs from the defaults."""

from __future__ import annotations

import numpy as np
import pytest

from tiepoint.methods.resolve import resolve

MINE = """
class Plain:
    def __init__(self, noise=0.0, weights=None): self.noise = noise
    def describe(self, p): return p
class Named(Plain):
    name = "mine"
class Whole(Plain):
    def __init__(self, noise=0.0): self.name = f"whole?n={noise}"
class Parts:
    name = "parts"
    def detect(self, image): return []
    def describe(self, image, keypoints): return []
class Other:
    def detect(self, image): return []
def make(noise=0.0):
    return Plain(noise)
ready = Plain(3)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.py").write_text(MINE)
    (tmp_path / "d2" / "v_a").mkdir(parents=True)
    np.save(tmp_path / "d2" / "v_a" / "ref.npy", np.ones((2, 3)))
    return tmp_path


@pytest.mark.parametrize(
    ("family", "spec", "name"),
    [
        ("patches", "my.py:Plain", "Plain"),
        ("patches", "my.py:Plain?noise=0.0", "Plain"),
        ("patches", "my.py:Plain?noise=0", "Plain"),
        ("patches", "my.py:Plain?noise=0.5", "Plain?noise=0.5"),
        ("patches", "my.py:Plain?weights=some/where/w.npy&noise=1", "Plain?weights=w.npy&noise=1"),
        ("patches", "my.py:Named", "mine"),
        ("patches", "my.py:Named?noise=1", "mine?noise=1"),
        ("patches", "my.py:Whole?noise=1", "whole?n=1"),
        ("patches", "my.py:make?noise=1", "make?noise=1"),
        ("patches", "my.py:ready", "ready"),
        ("patches", "my.py:Plain?noise=1+l2", "Plain?noise=1+l2"),
        ("patches", "resize?size=4", "resize"),
        ("patches", "resize?size=6", "resize?size=6"),
        ("patches", "files:d2", "files:d2"),
        ("patches", "files:d2?distance=cosine", "files:d2?distance=cosine"),
        ("keypoints", "my.py:Parts", "parts"),
        ("keypoints", "honc@my.py:Parts", "honc@parts"),
        ("keypoints", "honc@my.py:Other", "honc@Other"),
        ("keypoints", "my.py:Parts@grid?step_px=16", "parts@grid"),
        ("keypoints", "honc?magnification=6@grid?step_px=8", "honc@grid?step_px=8"),
        ("keypoints", "files:d2?distance=cosine", "files:d2?distance=cosine"),
        ("keypoints", "surf?max_features=2000&upright=true", "surf?upright=true"),
        ("keypoints", "fuse:honc,surf?aggregation=concatenate@grid", "fuse:honc,surf@grid"),
        ("dense", "dense-sift?side=200&radius=3", "dense-sift?radius=3"),
    ],
)
def test_names(folder, family, spec, name):
    assert resolve(spec, family=family).name == name
    assert resolve(spec, family=family, name="given").name == "given"


def test_a_name_inherited_from_a_built_in_is_not_ones_own(folder):
    (folder / "sub.py").write_text(
        "from tiepoint.methods.canaries import ConstantPatches\nclass Better(ConstantPatches): pass\n"
    )
    method = resolve("sub.py:Better", family="patches")
    assert method.name == "Better"
    assert method.config["revisions"] == {"ConstantPatches": 1}
