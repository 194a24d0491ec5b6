# SPDX-License-Identifier: BSD-3-Clause
"""Keys of stores made while built-ins were known by their source; the fixture was written by that code."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from tiepoint.methods import legacy_keys
from tiepoint.methods.identity import LIBRARIES
from tiepoint.methods.names import METHODS
from tiepoint.methods.resolve import resolve
from tiepoint.model.units import Item

OLD = json.loads((Path(__file__).parent / "legacy_methods.json").read_text())
VERSIONS = OLD["versions"]
ITEM = Item("v_x/1", "content", 5)


def without_versions(value):
    if not isinstance(value, dict):
        return value
    kept = {k: without_versions(v) for k, v in value.items() if k != "libraries"}
    return kept | ({"libraries": sorted(value["libraries"])} if "libraries" in value else {})


@pytest.mark.parametrize("old", OLD["methods"], ids=lambda old: f"{old['family']} {old['spec']}")
def test_every_old_method_is_known_by_its_new_config_and_name(old):
    pytest.importorskip("cv2")
    config = legacy_keys.new_config(old["config"], VERSIONS)
    now = resolve(old["spec"], family=old["family"])
    assert without_versions(config) == without_versions(json.loads(json.dumps(dict(now.config))))
    assert legacy_keys.new_name(old) == now.name
    mine = legacy_keys.of_item(config, ITEM, lambda: now)
    assert list(mine) == list(now.of_item(ITEM))
    assert old["key"] in legacy_keys.old_feature_keys(old["config"], VERSIONS, mine, ITEM.content)


def test_an_opencv_that_was_imported_or_not_is_one_method_now():
    old = next(m for m in OLD["methods"] if m["spec"] == "sift" and m["family"] == "patches")["config"]
    other = copy.deepcopy(old)
    assert old["libraries"]["cv2"] == "5.0.0"
    other["libraries"]["cv2"] = VERSIONS["opencv-contrib-python-headless"]
    made = [legacy_keys.new_config(c, VERSIONS) for c in (old, other)]
    assert made[0] == made[1]
    keys = [legacy_keys.old_feature_keys(c, VERSIONS, [], "content") for c in (old, other)]
    assert len(keys[0]) == 2
    assert set(keys[0]) == set(keys[1])


def test_other_sources_are_outdated():
    old = copy.deepcopy(next(m for m in OLD["methods"] if m["spec"] == "sift+rootsift+l2")["config"])
    legacy_keys.new_config(old, VERSIONS)
    old["base"]["source"] = "0" * 64
    with pytest.raises(legacy_keys.Outdated, match="rootsift was made by an earlier version"):
        legacy_keys.new_config(old, VERSIONS)
    old = copy.deepcopy(old["base"]["base"])
    old["source"] = "0" * 64
    with pytest.raises(legacy_keys.Outdated, match="Sift is not a built-in method, or"):
        legacy_keys.new_config(old, VERSIONS)


def test_the_libraries_of_the_table_are_those_of_revision_1():
    """A class that declares others needs a new revision: old features were made without them."""
    table = legacy_keys._known()["libraries"]
    pytest.importorskip("cv2")
    for entry in METHODS:
        if entry.family == "plug-in" or entry.needs in ("learned", "onnx"):
            continue
        cls = METHODS.load(f"{entry.family}/{entry.name}")
        if getattr(cls, "revision", 1) == 1:
            declared = list(getattr(cls, "libraries", LIBRARIES))
            assert table.get(METHODS.identity(cls), list(LIBRARIES)) == declared, entry.name
