# SPDX-License-Identifier: BSD-3-Clause
"""Exported keypoint sets stay in their folder, whatever their scenes are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiepoint.core.errors import InputError
from tiepoint.core.keypoints import Keypoints
from tiepoint.datasets.keypoint_sets.create import export_keypoints
from tiepoint.formats.keypoints.set_folder import KeypointSet

POINT = Keypoints.at([[1.0, 2.0]])


@pytest.mark.parametrize(
    "key", ["../../../x/1", "a/../1", "/abs/1", "a\\b/1", "s/..", "s\x00/1", "s" * 300 + "/1"]
)
def test_a_name_that_leads_out_is_refused_before_anything_is_written(key: str, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    made = KeypointSet("mine", {"v_good/1": POINT, key: POINT})
    with pytest.raises(InputError, match="cannot be part of a path"):
        export_keypoints(made, out)
    assert list(tmp_path.rglob("*")) == []


def test_a_link_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    out.mkdir()
    other.mkdir()
    (out / "v_a").symlink_to(other)
    with pytest.raises(InputError, match="is a link to a place outside"):
        export_keypoints(KeypointSet("mine", {"v_a/1": POINT}), out)
    assert list(other.iterdir()) == []
    (out / "v_b").mkdir()
    (out / "v_c").symlink_to(out / "v_b")
    assert export_keypoints(KeypointSet("mine", {"v_c/1": POINT}), out) == 1
