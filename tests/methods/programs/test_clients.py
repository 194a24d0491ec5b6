# SPDX-License-Identifier: BSD-3-Clause
"""Reference clients score as the built-in methods they mimic; programs of all families are methods."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tiepoint as tp
from tiepoint.core.errors import InputError
from tiepoint.core.records import ImageFacts, Item
from tiepoint.formats.hpatches.patch_strip import write_strip
from tiepoint.methods.programs import program
from tiepoint.methods.registry import MATCHED
from tiepoint.methods.resolve import resolve

DOCS = Path(__file__).parents[3] / "docs" / "exec"
FAMILIES = Path(__file__).parent / "families.py"

pytestmark = pytest.mark.skipif(os.name != "posix", reason="programs need POSIX")


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    program.close_programs()
    program._PROGRAMS.clear()


@pytest.fixture(scope="module")
def cpp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C++ client, compiled."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ on this machine")
    binary = tmp_path_factory.mktemp("cpp") / "resize"
    strict = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    subprocess.run([compiler, *strict, str(DOCS / "resize.cpp"), "-o", str(binary)], check=True)
    return binary


@pytest.fixture(scope="module")
def strips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sequences of 6 patches with all images of HPatches."""
    root, rng = tmp_path_factory.mktemp("strips"), np.random.default_rng(3)
    for scene in ("i_aa", "v_bb"):
        base = rng.normal(128, 40, (6, 9, 9))
        for image in ("ref", *(f"{z}{k}" for z in "eht" for k in range(1, 6))):
            noisy = np.clip(base + rng.normal(0, 30, base.shape), 0, 255).astype(np.uint8)
            write_strip(root / scene / f"{image}.png", noisy)
    return root


def command(client: str, request: pytest.FixtureRequest) -> str:
    if client == "resize":
        return f"exec:{request.getfixturevalue('cpp')}"
    return (
        f"exec:{sys.executable} {DOCS / 'pixels.py'}"
        if client == "pixels"
        else f"exec:{DOCS / 'constant.sh'}"
    )


@pytest.mark.parametrize(
    "client", ["pixels", *(pytest.param(c, marks=pytest.mark.slow) for c in ("resize", "constant"))]
)
def test_client_equals_the_builtin(
    client: str, strips: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    theirs, ours = tp.evaluate(
        [command(client, request), client],
        task="hpatches/matching",
        data=strips,
        store=tmp_path / "s",
        split="full",
        progress=False,
    )
    columns = ["metric", "group", "value"]
    assert theirs.scores[columns].equals(ours.scores[columns])
    blank, item = np.full((3, 9, 9), 7, np.uint8), Item("v_x/ref", "c", 3)
    one, other = (
        resolve(m, family="patches", on_bad="miss").extract(item, blank)
        for m in (command(client, request), client)
    )
    assert same(one, other)


class Pair(NamedTuple):
    image0: Any
    image1: Any
    queries: Any = None


IMAGES = np.random.default_rng(0).integers(0, 255, (2, 40, 48, 3)).astype(np.uint8)
ITEM = Item("a-b", "c", images=(ImageFacts("a"), ImageFacts("b")))


def of(declared: str, colour: str = "rgb", batch: int = 1) -> str:
    return f"exec:{sys.executable} {FAMILIES} {declared} {colour} {batch}"


def same(one: Any, other: Any) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in other)


@pytest.mark.parametrize("batch", [1, 3])
def test_pairs_equal_the_builtin(batch: int) -> None:
    theirs, ours = resolve(of("pairs", batch=batch), family="pairs"), resolve("constant", family="pairs")
    asked = Pair(IMAGES[0], IMAGES[1], np.array([[1.0, 2.0], [3.0, 4.0]]))
    expected = ours.extract(ITEM, asked)
    for found in (
        theirs.extract(ITEM, asked),
        *(finish() for _, finish in theirs.stream(iter([(ITEM, asked)] * 5))),  # type: ignore[misc]
    ):
        assert found["keypoints0"].tolist() == [7]
        assert same({k: v for k, v in found.items() if k != "keypoints0"}, expected)


def test_dense_equals_the_builtin_in_both_directions() -> None:
    theirs, ours = resolve(of("pairs,dense"), family="dense"), resolve("zero", family="dense")
    pair = (IMAGES[0], IMAGES[1, :30])
    expected = ours.extract(ITEM, pair)
    assert same(theirs.extract(ITEM, pair), expected)
    assert theirs.stream is not None
    (streamed,) = (finish() for _, finish in theirs.stream(iter([(ITEM, pair)])))
    assert same(streamed, expected)


def test_keypoints_are_matched_on_pairs() -> None:
    single = resolve(of("keypoints", "grey"), family="keypoints")
    features = single.extract(Item("a", "c"), IMAGES[0])
    assert features["keypoints"].shape == (20, 7)
    assert features["values"].shape == (20, 25)
    method = resolve(of("keypoints", "grey"), family="pairs", program={"matcher": "nn"})
    assert method.name.endswith("?matcher=nn")
    found = method.extract(ITEM, (IMAGES[0], IMAGES[0]))
    assert np.array_equal(found["points0"], found["points1"])
    assert len(found["points0"]) == 20


def test_keypoints_have_a_matcher_for_scenes() -> None:
    plain, item = resolve(of("keypoints", "grey"), family="keypoints"), Item("a", "c")
    names, configs = [], []
    for given in ({}, {"matcher": "nn", "ratio": "0.8"}):
        method = resolve(of("keypoints", "grey"), family=MATCHED, program=given)
        assert method.family == "keypoints"
        assert method.meta["matcher"] == given
        assert method.key(item) == plain.key(item)
        values = method.extract(item, IMAGES[0])["values"]
        assert np.array_equal(values, plain.extract(item, IMAGES[0])["values"])
        assert method.stream is not None
        names.append(method.name.removeprefix(plain.name))
        configs.append(method.config)
    assert names == ["?matcher=mnn", "?matcher=nn&ratio=0.8"]
    assert configs[0] != configs[1]
    with pytest.raises(InputError, match="declares patches, but this task needs keypoints"):
        resolve(of("patches"), family=MATCHED)
    with pytest.raises(InputError, match="only on the descriptors of colmap-sift"):
        resolve(of("keypoints", "grey"), family=MATCHED, program={"matcher": "colmap"})


@pytest.mark.parametrize(
    ("declared", "family"), [("keypoints", MATCHED), ("pairs", "pairs"), ("dense", "pairs")]
)
def test_family_for_scenes(declared: str, family: str) -> None:
    pytest.importorskip("pycolmap")
    from tiepoint.run.context import method_family
    from tiepoint.tasks.sfm.reconstruct.task import TASK

    assert method_family(TASK, of(declared), {}) == family


def test_family_must_be_declared() -> None:
    with pytest.raises(InputError, match="declares pairs, but this task needs patches"):
        resolve(of("pairs"), family="patches")
    with pytest.raises(InputError, match="matcher apply to programs that return keypoints"):
        resolve(of("pairs"), family="pairs", program={"matcher": "nn"})


def test_settings_in_yaml(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    shutil.copy(FAMILIES, tmp_path / "work" / "families.py")
    text = f"command: {sys.executable} families.py\narguments: [pairs, grey, 2]\nfolder: work\n"
    file = tmp_path / "mine.yaml"
    file.write_text(f"{text}environment: {{MODE: fast}}\ntimeout_s: 30\nrevision: a\n")
    method = resolve(f"exec:{file}", family="pairs")
    known = method.config["params"]["program"]
    assert known["environment"] == {"MODE": "fast"}
    assert known["revision"] == "a"
    assert list(known["files"]) == ["families.py"]
    assert method.name == "exec:python families.py pairs grey 2"
    file.write_text(f"{text}colour: red\n")
    with pytest.raises(InputError, match="colour"):
        resolve(f"exec:{file}", family="pairs")


def keys(tmp_path: Path, **options: Any) -> tuple[str | None, Any]:
    method = resolve(
        f"exec:{sys.executable} {tmp_path / 'c.py'} pairs rgb 1", family="pairs", program=options
    )
    return method.key(ITEM), method


def test_identity_follows_files_options_and_greeting(tmp_path: Path) -> None:
    text = FAMILIES.read_text().replace("import numpy", "import helper\nimport numpy")
    (tmp_path / "c.py").write_text(text)
    (tmp_path / "helper.py").write_text("A = 1\n")
    first, method = keys(tmp_path)
    assert first == keys(tmp_path)[0]
    assert str(tmp_path / "c.py") in method.files
    found = {first, keys(tmp_path, revision="2")[0], keys(tmp_path, **{"env.SIZE": "3"})[0]}
    (tmp_path / "helper.py").write_text("A = 2\n")
    found.add(keys(tmp_path)[0])
    (tmp_path / "c.py").write_text(text.replace('"queries": True', '"queries": True, "version": 2'))
    found.add(keys(tmp_path)[0])
    assert len(found) == 5
    assert keys(tmp_path, timeout_s=9)[0] == keys(tmp_path)[0]


def test_libraries_of_a_binary_are_known() -> None:
    if shutil.which("ldd") is None:
        pytest.skip("no ldd on this machine")
    known = resolve(of("pairs"), family="pairs").config["params"]["program"]
    assert {"executable", "libraries"} <= known.keys()
