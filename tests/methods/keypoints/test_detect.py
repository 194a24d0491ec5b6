# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.core.keypoints import Keypoints
from tiepoint.methods.keypoints.detectors import (
    GridKeypoints,
    RandomKeypoints,
    select_keypoints,
    strongest_first,
)
from tiepoint.methods.keypoints.factory import DETECTORS, plan_part
from tiepoint.methods.keypoints.spec import with_params

NAMES = ("sift", "orb", "akaze", "kaze", "brisk", "fast", "agast", "gftt", "mser", "harris", "surf", "random")


@pytest.fixture(scope="module")
def colour():
    data = pytest.importorskip("skimage.data")
    return np.ascontiguousarray(data.astronaut()[60:300, 60:380])


def detect(text, image):
    return plan_part(text, DETECTORS).build("cpu").detect(image)


@pytest.mark.parametrize("name", NAMES)
def test_detections_are_capped_off_the_border_ordered_and_repeatable(name, colour):
    found = detect(f"{name}?max_features=40&border_px=20", colour)
    assert 3 < len(found) <= 40
    low, high = found.xy.min(axis=0), found.xy.max(axis=0)
    assert (low >= 19.5).all()
    assert (high <= np.array([320, 240]) - 20.5).all()
    assert (np.diff(found.response) <= 0).all()
    assert (found.size_px > 0).all()
    again = detect(f"{name}?max_features=40&border_px=20", colour)
    assert np.array_equal(found.to_array(), again.to_array(), equal_nan=True)


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"random", "orb"}))
def test_the_cap_keeps_the_strongest(name, colour):
    few, many = detect(f"{name}?max_features=10", colour), detect(f"{name}?max_features=none", colour)
    assert np.array_equal(few.to_array(), many[:10].to_array(), equal_nan=True)
    assert len(many) > 10


FLIPS = [
    "sift?contrast_threshold=0.08", "sift?edge_threshold=3", "sift?sigma=2", "sift?n_octave_layers=4",
    "orb?scale_factor=1.5", "orb?n_levels=3", "orb?edge_threshold=45", "orb?fast_threshold=40",
    "akaze?threshold=0.005", "akaze?n_octaves=1", "akaze?n_octave_layers=2",
    "kaze?threshold=0.005", "kaze?n_octaves=1", "kaze?n_octave_layers=2",
    "brisk?threshold=60", "brisk?octaves=0", "fast?threshold=40", "fast?suppress=false",
    "agast?threshold=40", "agast?suppress=false", "gftt?quality=0.1", "gftt?min_distance_px=12",
    "gftt?block_px=7", "mser?delta=10", "mser?min_area=200", "mser?max_area=800", "mser?max_variation=0.1",
    "harris?threshold=1e-5", "harris?k=0.15", "harris?sigma=2.5", "harris?n_scales=5",
    "surf?threshold=0.002", "surf?n_octaves=1", "surf?upright=true",
    "random?min_size_px=8", "random?max_size_px=9", "random?seed=1", "random?border_px=9",
    "grid?step_px=9", "grid?size_px=5", "grid?border_px=30", "grid?max_features=5",
]  # fmt: skip


@pytest.mark.parametrize("text", FLIPS)
def test_every_option_has_an_effect(text, colour):
    plain = detect(text.partition("?")[0], colour).to_array()
    assert not np.array_equal(plain, detect(text, colour).to_array(), equal_nan=True)


def test_equal_responses_are_ordered_by_place():
    k = Keypoints.at([[5, 2], [1, 2], [9, 1], [0, 0]], response=[1, 1, 1, 2])
    assert strongest_first(k).tolist() == [3, 2, 1, 0]
    shuffled = k[np.array([2, 0, 3, 1])]
    assert np.array_equal(k[strongest_first(k)].xy, shuffled[strongest_first(shuffled)].xy)


def test_limits_are_checked():
    k, image = Keypoints.at([[5, 2]]), np.zeros((10, 10), np.uint8)
    with pytest.raises(InputError, match="border_px"):
        select_keypoints(k, image, max_features=None, border_px=-1)
    with pytest.raises(InputError, match="max_features"):
        select_keypoints(k, image, max_features=0, border_px=0)


def blob(sigma, at=(80.3, 60.7), size=(120, 160)):
    y, x = np.mgrid[: size[0], : size[1]]
    bump = np.exp(-((x - at[0]) ** 2 + (y - at[1]) ** 2) / (2 * sigma**2))
    grey = np.clip(40 + 180 * bump, 0, 255).astype(np.uint8)
    return np.repeat(grey[:, :, None], 3, axis=2)


@pytest.mark.parametrize("sigma", [3.0, 5.0, 9.0])
def test_surf_finds_a_blob_at_its_place_and_scale(sigma):
    found = detect("surf?upright=true", blob(sigma))[:1]
    assert np.abs(found.xy[0] - (80.3, 60.7)).max() < 0.35
    # box filters normalised by their area prefer somewhat less than the scale of the blob, at every scale
    assert found.size_px[0] * 1.2 / 9 == pytest.approx(0.73 * sigma, rel=0.08)
    assert found.class_id[0] == -1


@pytest.mark.parametrize("zoom", [1, 2, 3])
def test_harris_scale_follows_the_image(zoom):
    y, x = np.mgrid[: 60 * zoom, : 80 * zoom] / zoom
    inside = ((x > 30.2) & (x < 50.2) & (y > 20.2) & (y < 40.2)).astype(float)
    from scipy.ndimage import gaussian_filter

    grey = (60 + 150 * gaussian_filter(inside, 1.5 * zoom)).astype(np.uint8)
    found = detect("harris", np.repeat(grey[:, :, None], 3, axis=2))
    corners = np.array([[30.2, 20.2], [50.2, 20.2], [30.2, 40.2], [50.2, 40.2]]) * zoom
    away = np.linalg.norm(found.xy[:, None] - corners, axis=2)
    assert away.min(axis=0).max() < 4 * zoom
    assert found.size_px[away.argmin(axis=0)] / zoom == pytest.approx(4.7, rel=0.2)


@pytest.mark.parametrize(
    ("spec", "settings"),
    [("sift", {"enable_precise_upscale": True}), ("sift?precise_upscale=false", {})],
)
def test_sift_is_opencvs_own(colour, spec, settings):
    cv2 = pytest.importorskip("cv2")
    from tiepoint.formats.image.reader import to_grey

    own = Keypoints.from_cv(cv2.SIFT_create(**settings).detect(to_grey(colour), None))
    found = detect(with_params(spec, ["max_features=none"]), colour)
    assert sorted(map(tuple, own.to_array().round(4))) == sorted(map(tuple, found.to_array().round(4)))


def test_a_grid_is_regular_and_centred():
    found = GridKeypoints(step_px=10, size_px=4).detect(np.zeros((41, 61), np.uint8))
    assert found.xy[:7, 0].tolist() == [0, 10, 20, 30, 40, 50, 60]
    assert len(found) == 35
    assert np.isnan(found.angle_deg).all()
    assert len(GridKeypoints(border_px=40).detect(np.zeros((41, 61), np.uint8))) == 0


def test_random_places_are_seeded_by_the_pixels(colour):
    one, same = RandomKeypoints(50).detect(colour), RandomKeypoints(50).detect(colour.copy())
    assert np.array_equal(one.xy, same.xy)
    other = colour.copy()
    other[0, 0] ^= 1
    assert not np.array_equal(one.xy, RandomKeypoints(50).detect(other).xy)
    assert one.size_px.min() >= 4
    assert one.size_px.max() <= 32
