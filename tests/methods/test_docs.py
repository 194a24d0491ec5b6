# SPDX-License-Identifier: BSD-3-Clause
"""The documentation names every method and transform, and its example runs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.records import Item
from tiepoint.methods.registry import METHODS
from tiepoint.methods.resolve import resolve
from tiepoint.methods.transforms import TRANSFORMS

DOCS = Path(__file__).parents[2] / "docs"


def test_every_patch_method_and_transform_is_documented():
    page = (DOCS / "methods.md").read_text()
    named = set(re.findall(r"`([a-z0-9-]+)[`:?]", page)) | set(re.findall(r"`\+([a-z0-9-]+)", page))
    assert {e.name for e in METHODS if e.family == "patches"} - named == set()
    assert set(TRANSFORMS) - named == set()


def test_the_example_runs(tmp_path, patches):
    block = re.search(
        r"```python\n(# my_file\.py.*?)```", (DOCS / "adding-a-method.md").read_text(), re.DOTALL
    )
    if block is None:
        pytest.fail("the page has no example")
    (tmp_path / "my_file.py").write_text(block[1])
    method = resolve(f"{tmp_path}/my_file.py:MyDescriptor", family="patches")
    assert method.name == "mine"
    found = method.extract(Item("v_x/ref", "c", len(patches)), patches)["values"]
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)


def test_the_example_of_a_torch_module_runs(tmp_path, patches):
    torch = pytest.importorskip("torch")
    block = re.search(r"```python\n(# net\.py.*?)```", (DOCS / "adding-a-method.md").read_text(), re.DOTALL)
    if block is None:
        pytest.fail("the page has no example of a module")
    (tmp_path / "net.py").write_text(block[1])
    layer = torch.nn.Linear(1024, 128).state_dict()
    torch.save({"state_dict": {f"module.layers.1.{k}": v for k, v in layer.items()}}, tmp_path / "w.pth")
    text = f"torch:{tmp_path}/net.py:Net?weights={tmp_path}/w.pth&size=32&input=zscore&batch=1024"
    found = resolve(text, family="patches").extract(Item("v_x/ref", "c", len(patches)), patches)["values"]
    assert found.shape == (len(patches), 128)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
