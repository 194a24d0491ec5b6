# SPDX-License-Identifier: BSD-3-Clause
"""User code in a run: exceptions are told once with their lines, what it is given may be written into."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tiepoint.cli.main import run as command
from tiepoint.core.records import Item
from tiepoint.methods.resolve import resolve
from tiepoint.run.engine import evaluate
from tiepoint.run.request import RunRequest
from tiepoint.store.store import Store

MINE = """
import numpy as np

def helper(image):
    raise ValueError(f"no good: {image.sum()}")

class Broken:
    def describe(self, patches):
        return helper(patches)

    def extract(self, image):
        return helper(image)

class Matcher:
    def match(self, image1, image2):
        return helper(image1)

class Writes:
    def describe(self, patches):
        patches[:] //= 2
        return patches.reshape(len(patches), -1)[:, :8] + 1.0

    def match(self, image1, image2):
        image1[:] = image1.max() - image1  # what the second call is given must not be this
        return np.full((*image1.shape[:2], 2), float(image1[0, 0, 0]))
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path / "mine.py"


def test_an_exception_is_told_once_with_its_lines(
    mine: Path, patches: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = str(mine.parent / "s")
    asked = ["run", f"{mine}:Broken", "--task", "hpatches/matching", "--data", str(patches)]
    assert command([*asked, "--store", store]) == 1
    told = capsys.readouterr().err
    assert "Broken: features: 48 of 48 failed: i_aa/ref, i_aa/e1" in told
    assert "and 43 more: ValueError: no good: " in told
    places = [line.strip() for line in told.splitlines() if "mine.py" in line or "helper" in line]
    assert places == [
        f'File "{mine}", line 9, in describe',
        "return helper(patches)",
        f'File "{mine}", line 5, in helper',
    ]
    assert told.count("no good: {image.sum()}") == 1
    assert "UnitError" not in told


@pytest.mark.parametrize(
    ("family", "name", "line"),
    [("keypoints", "Broken", 12), ("pairs", "Matcher", 16), ("dense", "Matcher", 16)],
)
def test_every_family_shows_the_lines(mine: Path, family: str, name: str, line: int) -> None:
    from tiepoint.core.errors import UserCodeError

    image = np.zeros((9, 9, 3), np.uint8)
    method = resolve(f"{mine}:{name}", family=family)
    with pytest.raises(UserCodeError, match=f"{name} failed on a/b: ValueError: no good: 0\n") as caught:
        method.extract(Item("a/b", "c"), image if family == "keypoints" else (image, image))
    assert f'File "{mine}", line {line}' in caught.value.lines
    assert caught.value.reason == "ValueError: no good: 0"


def test_what_user_code_is_given_may_be_written_into(mine: Path) -> None:
    given = np.full((3, 9, 9), 100, np.uint8)
    given.flags.writeable = False
    found = resolve(f"{mine}:Writes", family="patches").extract(Item("a/b", "c", 3), given)["values"]
    assert np.unique(found).tolist() == [51]
    assert given.min() == 100
    image = np.zeros((4, 5, 3), np.uint8)
    image[1] = 7
    flows = resolve(f"{mine}:Writes", family="dense").extract(Item("a", "c"), (image, image.copy()))
    assert flows["flow1"][0, 0, 0] == flows["flow2"][0, 0, 0] == 7


def test_short_memory_is_among_the_warnings_of_a_run(mine: Path, patches: Path) -> None:
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        size = 8

        def forward(self, x: object) -> object:
            if len(x) > 10:  # type: ignore[arg-type]
                raise torch.OutOfMemoryError("CUDA out of memory")
            return x.flatten(1)[:, :4] + 1  # type: ignore[attr-defined]

    with Store.open(mine.parent / "s") as store:
        run = evaluate(RunRequest(Net(), "hpatches/matching", patches), store)
    short = [w for w in run.warnings if "out of memory" in w]
    assert len(short) == 1
    assert "batches have 8 patches instead of 256" in short[0]


def test_a_device_that_a_method_does_not_use_is_not_in_its_key(mine: Path) -> None:
    item = Item("a/b", "c", 1)
    for family, spec in (("patches", "sift"), ("keypoints", "sift"), ("pairs", "klt"), ("dense", "dis")):
        pytest.importorskip("cv2")
        keys = {resolve(spec, family=family, device=d).key(item) for d in ("cpu", "cuda", "cuda:1")}
        assert len(keys) == 1
    mine.write_text(MINE + "\nclass Takes(Writes):\n    def __init__(self, device='cpu'):\n        pass\n")
    for name, count in (("Writes", 1), ("Takes", 2)):
        found = [resolve(f"{mine}:{name}", family="patches", device=d).key(item) for d in ("cpu", "cuda")]
        assert len(set(found)) == count
