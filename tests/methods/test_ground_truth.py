# SPDX-License-Identifier: BSD-3-Clause
"""No object that a user's method receives leads to ground truth."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import tiepoint as tp
from object_walk import reachable, truth_in
from tiepoint.core.records import Item, ItemView
from tiepoint.datasets.dense_pairs import DensePair
from tiepoint.datasets.image_pairs.ground_truth import PairSet, PairTruth
from tiepoint.datasets.image_sequences import ImageSequences
from tiepoint.datasets.tss import TssDataset, TssPair
from tiepoint.formats.flow.flo import read_flo, write_flo
from tiepoint.formats.hpatches.patch_strip import write_strip
from tiepoint.formats.image.mask import read_mask, write_mask
from tiepoint.run.context import ContextRecipe
from tiepoint.tasks.base import BaseTask, BaseTaskData

SOURCE = Path(tp.__file__).parent
TYPES = (PairTruth, PairSet, DensePair, TssPair, TssDataset, ImageSequences, Item, BaseTaskData, BaseTask)
KEYPOINTS = np.array([[10.0, 12.0], [20.0, 15.0], [30.0, 30.0], [12.0, 33.0], [25.0, 22.0]])
SIZE = (64, 48)
K = np.array([[60.0, 0, 31], [0, 61, 23], [0, 0, 1]])
T = np.array([[0.0, -1, 0, 0.5], [1, 0, 0, 0.25], [0, 0, 1, -0.125], [0, 0, 0, 1]])
H = np.array([[1.01, 0.02, 3.5], [-0.01, 0.99, -2.5], [1e-5, 2e-5, 1]])
CORRS = np.random.default_rng(1).uniform(2, 45, (9, 4))
POINTS = CORRS + 1.5

MAX_CALLS = 5
"""Calls of a hook that are walked."""
Received = list[tuple[str, tuple[Any, ...]]]


def _features() -> tuple[Any, Any]:
    return KEYPOINTS, np.eye(5, dtype=np.float32)


def _flow(image: Any) -> Any:
    return np.zeros((*image.shape[:2], 2), np.float32)


def _both_flows(first: Any, second: Any) -> dict[str, Any]:
    return {"flow1": _flow(first), "flow2": _flow(second)}


def _pair_files() -> dict[str, Any]:
    flow = np.zeros((SIZE[1], SIZE[0], 2), np.float32)
    return {"points0": KEYPOINTS, "points1": KEYPOINTS, "flow1": flow, "flow2": flow}


COMMON = {"item_key": lambda item: "same", "check_items": lambda items: None, "has_item": lambda item: True}
HOOKS: dict[str, dict[str, Any]] = {
    "patches": {
        "describe": lambda patches: patches.reshape(len(patches), -1).astype(np.float32),
        "describe_stream": lambda patches: iter(()),
        "lookup": lambda sequence, image: np.random.default_rng(0).random((20, 8), np.float32),
        "lookup_item": lambda item, rows: np.random.default_rng(0).random((rows, 8), np.float32),
    },
    "keypoints": {
        "detect": lambda image: KEYPOINTS,
        "detect_item": lambda item, image: KEYPOINTS,
        "describe": lambda image, keypoints: _features()[1],
        "describe_item": lambda item, image, keypoints: _features()[1],
        "extract": lambda image: _features(),
        "extract_item": lambda item, image: _features(),
        "lookup": lambda scene, image: _features(),
        "lookup_item": lambda item: _features(),
    },
    "dense": {
        "match": lambda first, second: _flow(first),
        "match_both": _both_flows,
        "extract": lambda image: _features(),
        "lookup_item": lambda item: _both_flows(np.zeros(SIZE[::-1]), np.zeros(SIZE[::-1])),
    },
    "pairs": {
        "match": lambda first, second: (KEYPOINTS, KEYPOINTS),
        "match_both": _both_flows,
        "match_stream": lambda pairs: iter(()),
        "match_points": lambda first, second, points: points,
        "match_truth": lambda item, truth, queries: {"points0": KEYPOINTS, "points1": KEYPOINTS},
        "extract": lambda image: _features(),
        "lookup_item": lambda item: {"points0": KEYPOINTS, "points1": KEYPOINTS},
    },
}
"""By family, every hook that a method may have, and a valid answer."""

CALLS: dict[str, list[tuple[str, ...]]] = {
    "patches": [("describe",), ("describe", "describe_stream"), ("lookup",), ("lookup_item",)],
    "keypoints": [
        ("detect", "describe"), ("detect_item", "detect", "describe_item", "describe"), ("extract",),
        ("extract_item",), ("lookup",), ("lookup_item",),
    ],
    "dense": [("match",), ("match_both",), ("extract",), ("lookup_item",)],
    "pairs": [
        ("match", "match_truth"), ("match", "match_stream"), ("match_both",), ("match_points", "match"),
        ("extract",), ("lookup_item",),
    ],
}  # fmt: skip
"""By family, hooks that are called together; all hooks at once would hide most of them."""


def spy(family: str, names: Sequence[str], received: Received) -> Any:
    """Return an object with these hooks and those on items; each keeps its arguments."""

    def hook(name: str) -> Any:
        answer = {**COMMON, **HOOKS[family]}[name]

        def call(self: Any, *args: Any) -> Any:
            if sum(known == name for known, _ in received) < MAX_CALLS:
                received.append((name, (self, *args)))
            return answer(*args)

        return call

    return type("Spy", (), {name: hook(name) for name in (*COMMON, *names)})()


@dataclass(frozen=True)
class World:
    """A small dataset of a task, and its ground truth as arrays."""

    task: str
    data: Path
    truth: list[np.ndarray]


def images(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(2)
    for name in names:
        pixels = draw.integers(0, 256, (SIZE[1], SIZE[0], 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{name}.png")


@pytest.fixture(scope="module")
def strips(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("patches")
    draw = np.random.default_rng(5)
    for scene in ("i_one", "v_two"):
        for name in ("ref", *(f"{noise}{k}" for noise in "eht" for k in range(1, 6))):
            write_strip(root / scene / f"{name}.png", draw.integers(0, 256, (20, 9, 9), dtype=np.uint8))
    return World("hpatches/matching", root, [])


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pairs")
    images(root, "a", "b")
    entry = {
        "name": "a--b", "image0": "a.png", "image1": "b.png", "K0": K.tolist(), "K1": (K + 0.5).tolist(),
        "T_0to1": T.tolist(), "H": H.tolist(), "corrs": CORRS.tolist(), "box1": [1, 2, 40, 41],
        "points0": POINTS[:, :2].tolist(), "points1": POINTS[:, 2:].tolist(), "scene": "s",
    }  # fmt: skip
    (root / "pairs.json").write_text(json.dumps([{**entry, "K1": [[65, 0, 30], [0, 66, 22], [0, 0, 1]]}]))
    return root


def pair_world(task: str, root: Path) -> World:
    truth = [K, np.array([[65.0, 0, 30], [0, 66, 22], [0, 0, 1]]), T, np.linalg.inv(T), H, np.linalg.inv(H)]
    truth += [CORRS, POINTS, T[:3, :3], T[:3, 3]]
    if task != "wxbs/points":  # which also asks for the points of image 1
        truth += [CORRS[:, 2:], POINTS[:, 2:]]
    return World(task, root, truth)


@pytest.fixture(scope="module")
def sequences(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("sequences")
    shifts = {"i_one": 2.5, "v_two": -1.5}
    truth = []
    for scene, shift in shifts.items():
        images(root / scene, "1", "2", "3")
        for k in (2, 3):
            h = H + np.array([[0, 0, shift * k], [0, 0, 0], [0, 0, 0]])
            np.savetxt(root / scene / f"H_1_{k}", h, fmt="%.17g")
            truth += [h, np.linalg.inv(h)]
    return World("keypoints/geometry", root, truth)


@pytest.fixture(scope="module")
def flows(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("flows")
    folder = root / "SUBSET" / "pair"
    images(folder, "image1", "image2")
    draw = np.random.default_rng(4)
    for side in (1, 2):
        write_flo(folder / f"flow{side}.flo", draw.normal(0, 3, (*SIZE[::-1], 2)).astype(np.float32))
        write_mask(folder / f"mask{side}.png", draw.integers(0, 2, SIZE[::-1]).astype(bool))
    (folder / "flip_gt.txt").write_text("0\n")
    truth = [read_flo(folder / f"flow{side}.flo") for side in (1, 2)]
    truth += [read_mask(folder / f"mask{side}.png") for side in (1, 2)]
    return World("tss", root, [*truth, *(t > 0 for t in truth[2:])])


def check(received: Received, world: World, *expected: str) -> None:
    """Assert that hooks were called, and that nothing they received leads to the truth."""
    called = {name for name, _ in received}
    assert set(expected) <= called
    assert "match_truth" not in called
    for name, args in received:
        assert truth_in(reachable(*args), world.truth, TYPES) == [], name


def evaluate(world: World, method: Any, store: Path, **options: Any) -> None:
    with warnings.catch_warnings(action="ignore"):
        tp.evaluate(method, task=world.task, data=world.data, store=store, **options)


def cases(family: str) -> Any:
    return pytest.mark.parametrize("names", CALLS[family], ids="+".join)


@cases("patches")
def test_patch_hooks_receive_no_item(strips: World, tmp_path: Path, names: tuple[str, ...]) -> None:
    received: Received = []
    world = strips
    evaluate(world, spy("patches", names, received), tmp_path, split="full")
    check(received, world, names[0], "check_items")
    items = [arg for name, args in received if name in ("item_key", "lookup_item") for arg in args[1:2]]
    assert all(type(item) is ItemView for item in items)


@cases("keypoints")
@pytest.mark.parametrize("task", ["keypoints/ranking", "keypoints/geometry"])
def test_keypoint_hooks_receive_no_truth(
    sequences: World, tmp_path: Path, task: str, names: tuple[str, ...]
) -> None:
    received: Received = []
    evaluate(World(task, sequences.data, []), spy("keypoints", names, received), tmp_path)
    check(received, sequences, *({"detect_item", "describe_item"} & set(names) or names))


@pytest.mark.parametrize("names", [("match", "match_truth"), ("match_both",)], ids="+".join)
def test_pair_hooks_on_sequences_receive_no_truth(
    sequences: World, tmp_path: Path, names: tuple[str, ...]
) -> None:
    received: Received = []
    evaluate(sequences, spy("pairs", names, received), tmp_path)
    check(received, sequences, names[0])


@cases("dense")
@pytest.mark.parametrize("task", ["tss", "dense/flow"])
def test_dense_hooks_receive_no_truth(
    flows: World, tmp_path: Path, task: str, names: tuple[str, ...]
) -> None:
    received: Received = []
    evaluate(World(task, flows.data, []), spy("dense", names, received), tmp_path)
    check(received, flows, *names)


@cases("pairs")
@pytest.mark.parametrize(
    "task",
    [
        "pose/relative",
        "wxbs/fundamental",
        "wxbs/points",
        "evd/homography",
        "homography/pairs",
        "satast/points",
        "semantic/pck",
    ],
)
def test_pair_hooks_receive_no_truth(pairs: Path, tmp_path: Path, task: str, names: tuple[str, ...]) -> None:
    received: Received = []
    world = pair_world(task, pairs)
    evaluate(world, spy("pairs", names, received), tmp_path)
    check(received, world, *set(names) - {"match_truth", "match_stream"})  # these are for built-in methods


MATCHER = """
import sys
class Spy:
    def match(self, first, second):
        sys.modules["object_walk"].received.append(("match", (self, first, second)))
        return [[0, 0], [1, 1]] if hasattr(first, "xy") else ([[1.0, 2.0]], [[3.0, 4.0]])
"""


@pytest.fixture
def spy_file(tmp_path: Path) -> Iterator[tuple[str, Received]]:
    """A matcher in a file, as ``FILE.py:CLASS``, and what it received."""
    import object_walk

    object_walk.received = []  # type: ignore[attr-defined]
    (tmp_path / "spy.py").write_text(MATCHER)
    yield f"{tmp_path / 'spy.py'}:Spy", object_walk.received  # type: ignore[attr-defined]
    del object_walk.received  # type: ignore[attr-defined]


def test_matchers_of_keypoints_receive_no_truth(
    sequences: World, pairs: Path, spy_file: tuple[str, Received], tmp_path: Path
) -> None:
    file, received = spy_file
    evaluate(sequences, spy("keypoints", ("extract",), []), tmp_path / "a", matcher=file)
    check(received, sequences, "match")
    received.clear()
    evaluate(pair_world("pose/relative", pairs), f"sift?matcher={file}", tmp_path / "b")
    check(received, pair_world("pose/relative", pairs), "match")


def test_context_of_a_worker_receives_no_truth(
    pairs: Path, spy_file: tuple[str, Received], tmp_path: Path
) -> None:
    file, received = spy_file
    recipe = ContextRecipe("pose/relative", str(pairs), {}, file, {}, str(tmp_path), 1)
    context = recipe.build()
    for key, feature_key in context.feature_keys.items():
        context.extract(key, feature_key)
    check(received, pair_world("pose/relative", pairs), "match")


class Holder:
    """Truth that a property computes."""

    __slots__ = ("hidden",)

    def __init__(self, hidden: Any) -> None:
        self.hidden = hidden

    @property
    def computed(self) -> Any:
        return self.hidden()


@pytest.mark.parametrize(
    "planted",
    [
        lambda truth: {"a": [truth]},
        lambda truth: SimpleNamespace(inner=(truth.tolist(),)),
        lambda truth: lambda: truth,
        lambda truth: partial(print, truth),
        lambda truth: np.concatenate([truth, truth])[:3].base[:3],
        lambda truth: np.vstack([truth.ravel()])[:, :2],
        lambda truth: Holder(lambda: truth.astype(np.float32)),
        lambda truth: Holder(truth).__init__,
        lambda truth: (x for x in [truth]),
        lambda truth: PairTruth(None, K0=truth + 1),  # type: ignore[arg-type]
    ],
)
def test_walk_finds_planted_truth(planted: Any) -> None:
    truth = np.array([[1.0, 2, 3], [4, 5, 6], [7, 8, 10]])
    assert truth_in(reachable(planted(truth)), [truth], TYPES)
    assert not truth_in(reachable(planted(truth + 0.5)), [truth], (DensePair,))


def test_hooks_are_complete() -> None:
    """Every name that adapters look for in an object under test is a hook above or a plain attribute."""
    attributes = {"warnings", "weight_hashes", "pt"}
    known = {name for hooks in (*HOOKS.values(), COMMON) for name in hooks} | attributes
    files = [*SOURCE.glob("methods/*/adapter.py"), *(SOURCE / "methods").glob("*.py")]
    used = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "hasattr":
                name = node.args[1]
                if isinstance(name, ast.Constant) and re.search(
                    r"thing|detector|descriptor", ast.unparse(node)
                ):
                    used.add(name.value)
    assert {"match", "lookup_item", "describe"} <= used <= known
