# SPDX-License-Identifier: BSD-3-Clause
"""Parameters after the question mark reach a constructor as the type that it declares."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tiepoint.cli.main import run
from tiepoint.core.errors import InputError
from tiepoint.core.records import Item
from tiepoint.methods.resolve import resolve

ITEM = Item("v_b/ref", "content", 1)
PATCHES = np.zeros((1, 4, 4), np.uint8)

MINE = """
from __future__ import annotations
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional, Sequence
import numpy as np
if TYPE_CHECKING:
    from nowhere import Absent

class Mine:
    def __init__(self, x: {kind} = {default}):
        Path(__file__).with_name("seen.json").write_text(json.dumps([type(x).__name__, repr(x)]))
        self.x = x
    def describe(self, p):
        return p.reshape(len(p), -1) + 1.0
"""


@pytest.fixture
def seen(tmp_path, monkeypatch):
    """The type and value of the parameter that a class receives, and the name that tables show."""
    monkeypatch.chdir(tmp_path)

    def given(text, kind, default="...", family="patches"):
        Path("my.py").write_text(MINE.replace("{kind}", kind).replace("{default}", default))
        method = resolve(f"my.py:Mine?x={text}", family=family)
        return (*json.loads(Path("seen.json").read_text()), method.name)

    return given


@pytest.mark.parametrize(
    ("kind", "text", "received", "value", "shown"),
    [
        ("str", "none", "str", "'none'", "none"),
        ("str", "TRUE", "str", "'TRUE'", "TRUE"),
        ("str", "1.50", "str", "'1.50'", "1.50"),
        ("'str'", "007", "str", "'007'", "007"),
        ("str | None", "none", "NoneType", "None", "None"),
        ("Optional[str]", "6", "str", "'6'", "6"),
        ("int | str", "6", "int", "6", "6"),
        ("int | str", "none", "str", "'none'", "none"),
        ("int", "6", "int", "6", "6"),
        ("float", "0.5", "float", "0.5", "0.5"),
        ("float", "inf", "float", "inf", "inf"),
        ("float", "1", "int", "1", "1"),
        ("bool", "no", "bool", "False", "false"),
        ("bool", "1", "bool", "True", "true"),
        ("Literal['none', 'all']", "none", "str", "'none'", "none"),
        ("Literal['none', 2] | None", "none", "str", "'none'", "none"),
        ("Literal[1, 2]", "2", "int", "2", "2"),
        ("Path", "w/a.npy", "PosixPath", "PosixPath('w/a.npy')", "a.npy"),
        ("Path | None", "none", "NoneType", "None", "None"),
        ("list[int]", "1,2", "list", "[1, 2]", "1,2"),
        ("list[str]", "none", "list", "['none']", "none"),
        ("tuple[float, ...]", "1,0.5", "tuple", "(1, 0.5)", "1,0.5"),
        ("Sequence[str] | None", "1,b", "list", "['1', 'b']", "1,b"),
        ("Annotated[str, 'a mode']", "none", "str", "'none'", "none"),
        ("Absent", "none", "NoneType", "None", "None"),
        ("object", "6", "int", "6", "6"),
    ],
)
def test_parameter_declared_type_decides(seen, kind, text, received, value, shown):
    assert seen(text, kind) == (received, value, f"Mine?x={shown}")


def test_parameter_without_annotation_is_guessed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = MINE.replace("x: {kind} = {default}", "x=0")
    Path("my.py").write_text(code)
    found = []
    for text in ("none", "true", "6", "0.5", "fast", "1,2"):
        resolve(f"my.py:Mine?x={text}", family="patches")
        found.append(json.loads(Path("seen.json").read_text())[1])
    assert found == ["None", "True", "6", "0.5", "'fast'", "'1,2'"]


def test_parameter_equal_to_its_default_is_not_shown(seen):
    assert seen("none", "str", "'none'")[2] == "Mine"


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("int", "big", r"Mine: parameter x is 'big'; write a whole number"),
        ("int | None", "0.5", "write a whole number or none"),
        ("bool", "maybe", "write true or false"),
        ("Literal['a', 'b']", "c", "write one of a, b"),
        ("tuple[int, int]", "1", "write 2 values separated by commas"),
    ],
)
def test_parameter_of_another_type_raises(seen, kind, text, message):
    with pytest.raises(InputError, match=message):
        seen(text, kind)


def test_parameters_survive_keypoint_specifications_and_workers(seen, tmp_path):
    """A specification is written out and parsed again on its way to a detector and to other processes."""
    (tmp_path / "kp.py").write_text(
        "class Kp:\n    def __init__(self, mode: str = 'a'):\n        self.mode = mode\n"
        "    def detect(self, image): return []\n    def describe(self, image, keypoints): return []\n"
    )
    for spec in ("kp.py:Kp?mode=none", "kp.py:Kp?mode=none@grid", "honc@kp.py:Kp?mode=none"):
        method = resolve(spec, family="keypoints")
        assert "mode=none" in method.name
        assert method.spec == spec
        assert "'mode': 'none'" in str(method.config)


def test_parameters_of_a_torch_module_follow_its_constructor(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(
        "import torch\nclass Net(torch.nn.Module):\n    def __init__(self, mode: str = 'a', flag=False):\n"
        "        super().__init__()\n        self.mode, self.flag = mode, flag\n"
        "    def forward(self, x):\n        assert self.mode == 'none' and self.flag is True\n"
        "        return x.flatten(1) + 1\n"
    )
    for family in ("patches", "keypoints", "pairs", "dense"):
        method = resolve("torch:net.py:Net?mode=none&flag=true", family=family)
        assert method.name.startswith("torch:Net?mode=none&flag=true")
    method = resolve("torch:net.py:Net?mode=none&flag=true", family="patches")
    method.extract(ITEM, PATCHES)


def test_built_in_modes_named_none_are_shown_as_written():
    cv2 = pytest.importorskip("cv2")
    assert cv2
    assert resolve("dspsift?normalize=none", family="keypoints").name == "dspsift?normalize=none"
    assert resolve("dspsift?root=none", family="keypoints").name == "dspsift"
    assert resolve("surf?upright=no", family="keypoints").config != resolve(
        "surf?upright=yes", family="keypoints"
    ).config  # fmt: skip


def test_run_shows_a_text_parameter_as_written(seen, tmp_path, capsys):
    from tiepoint.formats.hpatches.patch_strip import write_strip

    rng = np.random.default_rng(0)
    for scene in ("i_a", "v_b"):
        for image in ("ref", *(f"{z}{k}" for z in "eht" for k in range(1, 6))):
            write_strip(
                tmp_path / "data" / scene / f"{image}.png", rng.integers(0, 255, (6, 9, 9)).astype(np.uint8)
            )
    seen("none", "str")
    given = ["run", "my.py:Mine?x=none", "--task", "hpatches/matching", "--data", "data", "--store", "s"]
    assert run(given) == 0
    assert "Mine?x=none" in capsys.readouterr().out
