# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import subprocess
import sys

import pytest

from tiepoint.core.errors import InputError, UnknownNameError
from tiepoint.methods.registry import METHODS, MethodRegistry
from tiepoint.methods.resolve import resolve


@pytest.fixture
def registry():
    r = MethodRegistry("method")
    r.add("sift", "math:pi", "patches", family="patches")
    r.add("sift", "math:tau", "keypoints", family="keypoints")
    r.add("only", "math:e", "dense", family="dense")
    return r


def test_one_name_in_two_families(registry):
    assert registry.load("sift", family="patches") < registry.load("sift", family="keypoints")
    assert registry.load("sift") == registry.load("sift", family="patches")
    assert registry.load("keypoints/sift") == registry.load("sift", family="keypoints")
    assert "sift" in registry
    assert registry.names("dense") == ["only"]


def test_name_of_another_family_is_explained(registry):
    with pytest.raises(InputError, match="'only' is for dense, but this task is for patches"):
        registry.entry("only", family="patches")


def test_unknown_name_suggests_names_of_the_family(registry):
    with pytest.raises(UnknownNameError, match="did you mean 'sift'"):
        registry.entry("sfit", family="patches")


def test_a_name_can_be_taken_once_in_each_family(registry):
    with pytest.raises(InputError, match="already registered"):
        registry.add("sift", "math:e", "again", family="patches")


def test_plug_ins_belong_to_every_family(monkeypatch):
    class Point:
        name, value, dist = "theirs", "math:pi", None

    monkeypatch.setattr("tiepoint.core.plugins.entry_points", lambda group: [Point])
    registry = MethodRegistry("method", group="tiepoint.methods")
    assert registry.entry("theirs", family="dense").target == "math:pi"
    assert registry.names("patches") == ["theirs"]


def test_missing_extra_is_named():
    registry = MethodRegistry("method")
    registry.add("far", "no_such_module_anywhere:X", "", family="patches", needs="opencv")
    with pytest.raises(InputError, match=r"pip install 'tiepoint\[opencv\]'"):
        registry.load("far")


def test_every_registered_patch_method_can_be_loaded():
    for entry in METHODS:
        if entry.family == "patches":
            assert METHODS.load(entry.name, family="patches") is not None


def test_names_are_known_without_heavy_imports():
    code = (
        "import sys, tiepoint.methods.resolve;"
        "print([m for m in ('cv2', 'torch', 'numba', 'pandas', 'scipy') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "family", "message"),
    [
        ("hardnet", "patches", r"write kornia:HardNet\?weights=FILE \(weights: github.com/DagnyT/hardnet"),
        ("SOSNet", "keypoints", r"write kornia:SOSNet\?weights=FILE@sift \("),
        ("hynet", "pairs", r"kornia:HyNet\?weights=FILE@sift"),
        ("l2-net", "patches", r"write torch:FILE.py:CLASS\?weights=FILE around its code"),
        ("superpoint", "keypoints", "or files:DIR with its features.*Magic Leap.*non-commercial use only"),
        ("superpoint", "patches", "it finds keypoints"),
        ("superpoint", "pairs", "write vismatch:superpoint-lightglue"),
        ("sift@r2d2", "keypoints", "github.com/naver/r2d2"),
        ("superpoint", "pairs", "or files:DIR with its matches, or hf:DIR, or torch:"),
        ("LoFTR", "pairs", r"write vismatch:loftr, .* or kornia:LoFTR\?weights=FILE, or torch:"),
        ("dedode", "keypoints", "write kornia:DeDoDe"),
        ("roma", "dense", "on tasks of pairs write vismatch:roma"),
        ("superglue", "keypoints", "on tasks of pairs write vismatch:superglue.*non-commercial"),
    ],
)
def test_networks_that_are_not_here_say_how_they_are_had(name, family, message):
    with pytest.raises(InputError, match=message):
        resolve(name, family=family)


def test_files_that_are_programs_are_named_as_such():
    for family in ("patches", "keypoints"):
        assert "a program: trust" in METHODS.entry("torchscript", family=family).summary
