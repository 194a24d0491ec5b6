# SPDX-License-Identifier: BSD-3-Clause
"""Keys of stores made while built-ins were known by their source; the fixture was written by that code."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from tiepoint.core.hashing import hash_json
from tiepoint.core.records import Item
from tiepoint.methods import legacy_keys
from tiepoint.methods.identity import LIBRARIES
from tiepoint.methods.registry import METHODS
from tiepoint.methods.resolve import resolve

OLD = json.loads((Path(__file__).parent / "legacy_methods.json").read_text())
VERSIONS = OLD["versions"]
ITEM = Item("v_x/1", "content", 5)


def without_versions(value):
    if not isinstance(value, dict):
        return value
    kept = {k: without_versions(v) for k, v in value.items() if k != "libraries"}
    return kept | ({"libraries": sorted(value["libraries"])} if "libraries" in value else {})


@pytest.fixture
def versions_of_then(monkeypatch):
    """Libraries have the versions that they had when the fixture was written."""
    known = {**VERSIONS, "cv2": VERSIONS["opencv-contrib-python-headless"]}
    monkeypatch.setattr(legacy_keys, "library_versions", lambda names: {n: known[n] for n in sorted(names)})


@pytest.mark.parametrize("old", OLD["methods"], ids=lambda old: f"{old['family']} {old['spec']}")
def test_every_old_method_is_known_by_its_new_config_and_name(old, versions_of_then):
    pytest.importorskip("cv2")
    now = resolve(old["spec"], family=old["family"])
    made = legacy_keys.migrated(old, VERSIONS)
    assert without_versions(made["config"]) == without_versions(json.loads(json.dumps(dict(now.config))))
    assert made["name"] == now.name
    assert made["distance"] == now.distance
    kept = [
        hash_json(["features", key, ITEM.content])
        for key in legacy_keys.old_keys(now.config, now.of_item(ITEM))
    ]
    assert old["key"] in kept


def test_an_opencv_that_was_imported_or_not_is_one_method_now(versions_of_then):
    old = next(m for m in OLD["methods"] if m["spec"] == "sift" and m["family"] == "patches")["config"]
    other = copy.deepcopy(old)
    assert old["libraries"]["cv2"] == "5.0.0"
    other["libraries"]["cv2"] = VERSIONS["opencv-contrib-python-headless"]
    made = [legacy_keys.new_config(c, VERSIONS) for c in (old, other)]
    assert made[0] == made[1]
    assert legacy_keys.old_keys(made[0], []) == [hash_json(other), hash_json(old)]


def test_later_revisions_and_users_methods_have_no_older_keys():
    config = dict(resolve("constant+l2", family="patches").config)
    assert len(legacy_keys.old_keys(config, [])) == 1
    assert legacy_keys.old_keys({**config, "revision": 2}, []) == []
    assert legacy_keys.old_keys({**config, "base": {**config["base"], "revision": 2}}, []) == []
    pair = resolve("honc@grid", family="keypoints").config
    mine = {"class": "Mine", "params": {}}
    assert legacy_keys.old_keys(pair, []) != []
    assert legacy_keys.old_keys({**pair, "parts": {**pair["parts"], "detector": mine}}, []) == []


def test_other_sources_are_outdated():
    old = copy.deepcopy(next(m for m in OLD["methods"] if m["spec"] == "sift+rootsift+l2")["config"])
    legacy_keys.new_config(old, VERSIONS)
    old["base"]["source"] = "0" * 64
    assert legacy_keys.migrated({"config": old}, VERSIONS) == "+rootsift was made by an older source"
    old = copy.deepcopy(old["base"]["base"])
    old["source"] = "0" * 64
    assert legacy_keys.migrated({"config": old}, VERSIONS).startswith("Sift is not a built-in method, or")
    imported = {"name": "sift", "config": {"results": {"a.results": "hash"}}}
    assert legacy_keys.migrated(imported, VERSIONS) == imported


def test_the_libraries_of_the_table_are_those_of_revision_1():
    """A class that declares others needs a new revision: old features were made without them."""
    table = legacy_keys._known().libraries
    pytest.importorskip("cv2")
    for entry in METHODS:
        if entry.family in ("plug-in", "pairs") or entry.needs in ("learned", "onnx"):
            continue  # of other packages, younger than the table, or not to be loaded here
        cls = METHODS.load(f"{entry.family}/{entry.name}")
        if getattr(cls, "revision", 1) == 1:
            declared = list(getattr(cls, "libraries", LIBRARIES))
            assert table.get(METHODS.identity(cls), list(LIBRARIES)) == declared, entry.name
