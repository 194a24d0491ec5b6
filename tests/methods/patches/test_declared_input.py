# SPDX-License-Identifier: BSD-3-Clause
"""Classes declare the form in which they receive patches; the declaration is in the cache key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiepoint as tp
from patch_sets import make_patches
from tiepoint.core.errors import InputError
from tiepoint.core.records import Item
from tiepoint.methods.resolve import resolve

PATCHES = np.arange(4 * 65 * 65, dtype=np.uint32).reshape(4, 65, 65).astype(np.uint8)
PATCHES.flags.writeable = False


class Plain:
    """Keeps what it receives."""

    def __init__(self) -> None:
        self._seen: list[Any] = []

    def describe(self, patches: Any) -> Any:
        self._seen.append(patches)
        return patches.reshape(len(patches), -1)[:, :8] + 1.0


class AsFloat(Plain):
    input = "float32"


class WithChannels(Plain):
    channels = True


class AsTensor(Plain):
    input, channels, framework = "float32", True, "torch"


class ByteTensor(Plain):
    framework = "torch"


class OwnWords(Plain):
    """Uses the names for something else."""

    channels = 64
    input = None
    framework = ("numpy",)


def received(made: Any) -> Any:
    resolve(made, family="patches").extract(Item("s/ref", "x", 4), PATCHES)
    return made._seen[0]


def test_describe_default_uint8_without_channels() -> None:
    seen = received(Plain())
    assert (seen.dtype, seen.shape) == (np.uint8, (4, 65, 65))
    assert seen.flags.writeable


def test_describe_float32_in_unit_range() -> None:
    seen = received(AsFloat())
    assert (seen.dtype, seen.shape) == (np.float32, (4, 65, 65))
    assert np.array_equal(seen, PATCHES.astype(np.float32) / np.float32(255))
    assert (seen.min(), seen.max()) == (0.0, 1.0)


def test_describe_channels_adds_axis() -> None:
    seen = received(WithChannels())
    assert (seen.dtype, seen.shape) == (np.uint8, (4, 1, 65, 65))
    assert np.array_equal(seen[:, 0], PATCHES)


def test_describe_torch_receives_tensor() -> None:
    torch = pytest.importorskip("torch")
    seen = received(AsTensor())
    assert isinstance(seen, torch.Tensor)
    assert (seen.dtype, tuple(seen.shape)) == (torch.float32, (4, 1, 65, 65))
    assert np.array_equal(seen[:, 0].numpy(), PATCHES / np.float32(255))
    assert received(ByteTensor()).dtype == torch.uint8


def test_describe_other_use_of_names_changes_nothing() -> None:
    assert received(OwnWords()).shape == (4, 65, 65)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("input", "float", "unknown input of method 'Wrong' 'float'; did you mean 'float32'"),
        ("framework", "pytorch", "unknown framework of method 'Wrong' 'pytorch'; did you mean 'torch'"),
    ],
)
def test_declaration_unknown_text_refused(name: str, value: str, message: str) -> None:
    wrong = type("Wrong", (Plain,), {name: value})
    with pytest.raises(InputError, match=message):
        resolve(wrong(), family="patches")


FILE = """
class Mine:
    def __init__(self, form="uint8", layers=False):
        self.input = form
        self.channels = layers

    def describe(self, patches):
        return patches.reshape(len(patches), -1)[:, :8] + 1.0
"""


def test_declaration_in_cache_key(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(FILE)
    specs = [f"{file}:Mine", f"{file}:Mine?form=float32", f"{file}:Mine?layers=true"]
    configs = [resolve(spec, family="patches").config for spec in specs]
    assert "patches" not in configs[0]  # the key of a class without a declaration stays as it is
    assert configs[1]["patches"] == {"input": "float32", "channels": False, "framework": "numpy"}
    assert configs[2]["patches"] == {"input": "uint8", "channels": True, "framework": "numpy"}


@pytest.mark.filterwarnings("ignore:the dataset has 2 images")
def test_declaration_evaluate_tensor_output_same_scores(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Tensors(AsTensor):
        def describe(self, patches: Any) -> Any:
            weight = torch.ones(1, requires_grad=True)
            return patches.flatten(1) * weight + 1

    class Arrays:
        def describe(self, patches: Any) -> Any:
            return patches.reshape(len(patches), -1).astype(np.float32) / np.float32(255) + 1

    data = make_patches(tmp_path / "data", ["i_a", "v_b"])
    values = []
    for made in (Tensors(), Arrays()):
        run = tp.evaluate(made, task="hpatches/matching", data=data, store=tmp_path / "store", split="full")
        values.append([(s.metric, s.group, s.value) for s in run.score_rows])
    assert values[0] == values[1]


def test_torch_module_with_describe_receives_declared_form() -> None:
    torch = pytest.importorskip("torch")
    seen = []

    class Net(torch.nn.Module):
        input, channels, framework = "float32", True, "torch"

        def describe(self, patches: Any) -> Any:
            seen.append(patches)
            return patches.flatten(1)[:, :8] + 1

    method = resolve(Net(), family="patches")
    method.extract(Item("s/ref", "x", 4), PATCHES)
    assert (seen[0].dtype, tuple(seen[0].shape)) == (torch.float32, (4, 1, 65, 65))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.zeros((4, 8, 1, 1), np.float32), r"shape \(n, d\), found float32 \(4, 8, 1, 1\)"),
        (np.zeros((2, 8)), r"2 descriptors for 4 patches, found float64 \(2, 8\)"),
        (
            np.array([[-2.0, np.nan]] * 4),
            r"4 descriptors have NaN .* finite values are from -2 to -2",
        ),
    ],
)
def test_output_wrong_shape_or_range_shows_what_was_seen(returned: Any, message: str) -> None:
    class Returns:
        def describe(self, patches: Any) -> Any:
            return returned

    with pytest.raises(InputError, match=message):
        resolve(Returns(), family="patches").extract(Item("s/ref", "x", 4), PATCHES)


def test_output_wrong_hamming_range_shown() -> None:
    class Bits:
        distance = "hamming"

        def describe(self, patches: Any) -> Any:
            return np.linspace(-0.5, 1.5, 4 * 8).reshape(4, 8)

    with pytest.raises(InputError, match=r"found float64; finite values are from -0\.5 to 1\.5"):
        resolve(Bits(), family="patches").extract(Item("s/ref", "x", 4), PATCHES)
