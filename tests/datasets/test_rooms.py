"""Rendered scenes: geometry of the renderer, seeds, truth."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("skimage")

from tiepoint.core.errors import InputError, UnknownNameError
from tiepoint.datasets.demo import rooms
from tiepoint.datasets.demo.rooms import Panel, look_at, make_rooms, render
from tiepoint.datasets.reconstructions.image_scenes import read_image_scenes
from tiepoint.geometry.quaternions import rotations_of

SIZE = (200, 160)


def test_edge_of_a_panel_is_where_the_camera_projects_it(monkeypatch):
    """A white panel from x = 0.11 m on, 2 m away: columns left of its edge are dark, the edge is shared."""
    monkeypatch.setattr(rooms, "_photo", lambda name: np.ones((16, 16, 3), np.float32))
    panel = Panel("white", (0.11, -3.0, 2.0), (5.0, 0.0, 0.0), (0.0, 6.0, 0.0))
    view = render([panel], look_at((0, 0, 0), (0, 0, 1)), SIZE)
    focal, cx, _ = rooms.intrinsics(SIZE)
    edge = focal * 0.11 / 2.0 + cx  # the left border of column i is at i
    column = int(edge)
    row = view[80, :, 0]
    assert (row[:column] < 0.05).all()
    assert (row[column + 1 :] > 0.99).all()
    covered = column + 1 - edge
    assert row[column] == pytest.approx(rooms._BEHIND + (1 - rooms._BEHIND) * covered, abs=0.34)


def test_nearer_panel_hides_the_other(monkeypatch):
    levels = {"near": 0.9, "far": 0.4}
    monkeypatch.setattr(rooms, "_photo", lambda name: np.full((16, 16, 3), levels[name], np.float32))
    near = Panel("near", (-0.2, -0.2, 1.0), (0.4, 0.0, 0.0), (0.0, 0.4, 0.0))
    far = Panel("far", (-5.0, -5.0, 3.0), (10.0, 0.0, 0.0), (0.0, 10.0, 0.0))
    for panels in ([near, far], [far, near]):
        view = render(panels, look_at((0, 0, 0), (0, 0, 1)), SIZE)
        assert view[80, 100, 0] == pytest.approx(0.9)
        assert view[5, 5, 0] == pytest.approx(0.4)


def test_texture_points_are_where_the_camera_projects_them(monkeypatch):
    """The centre of a bright spot on a tilted panel, in a view turned by 90 degrees."""
    photo = np.zeros((128, 128, 3), np.float32)
    photo[40:44, 90:94] = 1.0
    monkeypatch.setattr(rooms, "_photo", lambda name: photo)
    panel = Panel("spot", (-1.0, -1.0, 2.0), (1.8, 0.0, 0.6), (0.0, 2.0, 0.0))
    camera = look_at((0.2, -0.1, -0.3), (0.1, 0.0, 2.0), roll_deg=90.0)
    view = render([panel], camera, (400, 320))[:, :, 0]
    u, v = 92 / 128, 42 / 128
    point = np.array(panel.corner) + u * np.array(panel.across) + v * np.array(panel.down)
    seen = camera.R @ point + camera.t
    focal, cx, cy = rooms.intrinsics((400, 320))
    expected = focal * seen[:2] / seen[2] + [cx, cy]
    spot = np.where(view > 0.05, view, 0)
    y, x = np.mgrid[: view.shape[0], : view.shape[1]] + 0.5
    found = np.array([(x * spot).sum(), (y * spot).sum()]) / spot.sum()
    np.testing.assert_allclose(found, expected, atol=0.1)


def test_scene_is_reproducible_and_has_exact_truth(tmp_path):
    for name in "ab":
        make_rooms(tmp_path / name, scenes=["small"], size=(160, 160), seed=3)
    files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*") if p.is_file())
    assert len(files) == 6
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    (scene,) = read_image_scenes(tmp_path / "a")
    assert len(scene.images) == len(scene.truth.poses) == len(scene.given) == 5
    expected = rooms._small(rooms.seeded_generator(3, "rooms", "small")).rooms[0].cameras
    for name, q, t in zip(scene.truth.poses.names, scene.truth.poses.q, scene.truth.poses.t, strict=True):
        np.testing.assert_allclose(rotations_of(q), expected[name].R, atol=1e-12)
        np.testing.assert_allclose(t, expected[name].t, atol=1e-12)


def test_scenes_have_components_and_outliers():
    for name, make in rooms.SCENES.items():
        truth = rooms._truth(make(rooms.seeded_generator(0, "rooms", name)), SIZE)
        json.dumps(truth)
        assert set(truth["components"]) == set(truth["images"])
        assert set(truth["components"].values()) == ({0, 1} if name == "two-rooms" else {0})
        assert len(truth["outliers"]) == (2 if name == "outliers" else 0)
        assert len(truth["cameras"]) == len(truth["images"]) + len(truth["outliers"])


def test_reduced_textures_keep_their_content_in_place():
    """Every view must see the same texture: the mean position of its light does not depend on the level."""
    panel = Panel("chelsea", (-1.0, -1.0, 0.0), (2.0, 0.0, 0.0), (0.0, 2.0, 0.0))
    found = []
    for distance in (2.0, 6.0, 20.0):
        texture = rooms._texture(panel, 300.0, look_at((0, 0, -distance), (0, 0, 0)))[:, :, 1]
        u = (np.arange(texture.shape[1]) + 0.5) / texture.shape[1]
        found.append((texture.shape[1], float((texture * u).sum() / texture.sum())))
    assert len({width for width, _ in found}) > 1
    np.testing.assert_allclose([place for _, place in found], found[0][1], atol=1e-4)


def test_wrong_arguments_are_refused(tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'arc'"):
        make_rooms(tmp_path, scenes=["arcs"])
    with pytest.raises(InputError, match="160 x 160"):
        make_rooms(tmp_path, size=(100, 100))
