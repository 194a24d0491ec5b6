# SPDX-License-Identifier: BSD-3-Clause
"""Pictures: the colour wheel by hand, the kit's own pictures pixel by pixel."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.datasets.tss import PairTruth, TssDataset
from tiepoint.formats.flow.tss import read_pair_result
from tiepoint.formats.image.reader import read_image
from tiepoint.geometry.flow.color import colour_wheel, flow_color, max_motion
from tiepoint.geometry.flow.reference_resize import resize_u8
from tiepoint.report.pictures.flow import (
    error_map,
    foreground,
    kit_pictures,
    parse_colour,
    save_pictures,
    sheet,
    target_image,
)
from tiepoint.report.pictures.flow_sheet import FlowView, error_key, flow_errors, flow_key, flow_sheet

DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[2].parent / "shared" / "data"))


def loop_colour(u: float, v: float) -> list[int]:
    """The wheel by its definition, for lengths already divided."""
    wheel = []
    for start, rising, channel, steps in (
        ((255, 0, 0), True, 1, 15),
        ((255, 255, 0), False, 0, 6),
        ((0, 255, 0), True, 2, 4),
        ((0, 255, 255), False, 1, 11),
        ((0, 0, 255), True, 0, 13),
        ((255, 0, 255), False, 2, 6),
    ):
        for i in range(steps):
            entry = list(start)
            entry[channel] = 255 * i // steps if rising else 255 - 255 * i // steps
            wheel.append(entry)
    radius = math.hypot(u, v)
    place = (math.atan2(-v, -u) / math.pi + 1) / 2 * 54
    low = int(place)
    part = place - low
    out = []
    for a, b in zip(wheel[low], wheel[(low + 1) % 55], strict=True):
        c = (1 - part) * a / 255 + part * b / 255
        out.append(int(255 * (1 - radius * (1 - c) if radius <= 1 else c * 0.75)))
    return out


def test_colours_by_hand() -> None:
    rng = np.random.default_rng(0)
    flow = rng.normal(0, 0.7, (12, 15, 2))
    picture = flow_color(flow, longest=1.0)
    expected = np.array([[loop_colour(*p) for p in row] for row in flow])
    assert np.abs(picture.astype(int) - expected).max() <= 1
    assert colour_wheel().shape == (55, 3)


def test_scale_and_unknown() -> None:
    flow = np.array([[[3.0, 4.0], [np.nan, 0.0], [1e10, 1e10]]])
    assert max_motion(flow) == 5.0
    assert max_motion(np.zeros((1, 1, 2))) == 1.0
    picture = flow_color(flow, background=(1, 2, 3))
    assert picture[0, 1].tolist() == picture[0, 2].tolist() == [1, 2, 3]
    assert np.array_equal(flow_color(flow * 2, longest=10.0)[0, 0], picture[0, 0])


def test_error_map_and_sheet() -> None:
    truth = np.array([[[0.0, 0.0], [1e10, 1e10], [0.0, 0.0], [0.0, 0.0]]])
    flow = np.array([[[0.0, 0.0], [0.0, 0.0], [1e10, 0.0], [30.0, 0.0]]])
    picture = error_map(flow, truth, longest_px=10.0)
    assert picture[0].tolist() == [[0, 0, 0], [128, 128, 128], [0, 0, 255], [255, 255, 255]]
    page = sheet([[picture] * 3, [picture]], width=20, gap=2)
    assert page.shape[1] == 3 * 22 + 2


@pytest.mark.parametrize(
    "text", ["1", "0002552", "abcdefghi", "300,0,0", "1,2", "²,1,1", "٣٣٣٣٣٣٣٣٣", "-1,0,0"]
)
def test_wrong_colours(text: str) -> None:
    with pytest.raises(InputError, match="is not a colour"):
        parse_colour(text)


def made_truth(h: int, w: int) -> PairTruth:
    flow = np.ones((h, w, 2), np.float32)
    return PairTruth(flow, flow, np.full((h, w), 255, np.uint8), np.full((h, w), 255, np.uint8))


def test_what_is_missing_is_not_drawn() -> None:
    images = np.full((8, 10, 3), 9, np.uint8), np.full((8, 10, 3), 7, np.uint8)
    flow, mask = np.zeros((4, 5, 2), np.float32), np.full((4, 5), 255, np.uint8)
    truth = made_truth(8, 10)
    assert kit_pictures(images, {}, truth) == {}
    assert kit_pictures(images, {"flow1": flow}, truth) == {}
    assert sorted(kit_pictures(images, {"mask1": mask}, truth)) == ["foreground1"]
    only_flows = kit_pictures(images, {"flow1": flow, "flow2": flow}, truth)
    assert sorted(only_flows) == ["flow1", "flow2", "warped1", "warped2"]
    assert only_flows["warped1"].shape == (4, 5, 3)
    assert (only_flows["warped1"] == 7).all()


def test_pictures_where_masks_and_flows_differ_in_size() -> None:
    """Each picture has the size of what it shows, and the warp reads the image at the scale of the flow."""
    rng = np.random.default_rng(0)
    images = [np.repeat(rng.integers(0, 256, (1, 10, 3)), 8, 0).astype(np.uint8) for _ in range(2)]
    flow, mask = np.zeros((4, 5, 2), np.float32), np.full((8, 10), 255, np.uint8)
    mask[:, :4] = 0
    result = {"flow1": flow, "flow2": flow, "mask1": mask, "mask2": mask}
    made = kit_pictures((images[0], images[1]), result, made_truth(8, 10), background=(1, 2, 3))
    assert made["foreground1"].shape == (8, 10, 3)
    assert made["warped1"].shape == made["flow1"].shape == (4, 5, 3)
    assert (made["warped1"][:, :2] == (1, 2, 3)).all()
    assert np.array_equal(made["warped1"][:, 2:], resize_u8(images[1], 4, 5)[:, 2:])


def test_at_which_scale_image_2_is_warped() -> None:
    large, flow = np.zeros((6, 8, 3), np.uint8), np.zeros((3, 4, 2))
    assert target_image(large, flow, (3, 4)) is large  # the flow is native: it counts image 2's pixels
    assert target_image(large, flow, (6, 8)).shape == (3, 4, 3)  # both images were made smaller
    assert target_image(large[:3, :4], flow, None).shape == (3, 4, 3)
    with pytest.raises(
        InputError,
        match=r"the flow is 4 x 3 and image 2 is 8 x 6, so the scale of the flow is unknown; pass image 1",
    ):
        target_image(large, flow, None)
    with pytest.raises(InputError, match=r"image 1 is 14 x 6, so the scale of the flow is unknown"):
        target_image(large, flow, (6, 14))


def holds(page: np.ndarray, picture: np.ndarray) -> bool:
    """Whether a picture is on the page, at its left."""
    h, w = picture.shape[:2]
    return any(np.array_equal(page[y : y + h, 6 : 6 + w], picture) for y in range(len(page) - h))


def test_captions_and_keys_are_on_the_sheet() -> None:
    """Letters below the picture, the wheel and the bar of errors below those."""
    view = FlowView(np.full((40, 60, 2), 3.0), truth=np.zeros((40, 60, 2)))
    bare = flow_sheet([FlowView(view.flow)])
    page = flow_sheet([view], title=["a pair"])
    height = round(320 * 40 / 60)
    assert (bare[6 + height :, :320] != 255).any()  # its caption and the wheel
    assert holds(bare, flow_key(1.0, (128, 128, 128)).picture)
    assert not holds(bare, error_key(6.0).picture)
    assert (page[:24, :200] != 255).any()  # the title
    assert holds(page, flow_key(1.0, (128, 128, 128)).picture)
    assert holds(page, error_key(6.0).picture)
    assert flow_errors(view).text() == "mean 4.24 px, 0.0 % within 3 px (5 % of the larger side)"
    blank = FlowView(np.full((4, 6, 2), 1e10), truth=np.zeros((4, 6, 2)))
    assert flow_errors(blank).text().startswith("no flow where the truth is known, 0.0 %")
    assert (
        flow_errors(FlowView(view.flow, truth=np.full((40, 60, 2), 1e10))).text().startswith("the true flow")
    )


def test_background_options_have_an_effect(tmp_path: Path) -> None:
    images = np.full((4, 5, 3), 9, np.uint8), np.full((4, 5, 3), 7, np.uint8)
    result = {
        **{f"flow{i}": np.zeros((4, 5, 2), np.float32) for i in (1, 2)},
        **{f"mask{i}": np.zeros((4, 5), np.uint8) for i in (1, 2)},
    }
    made = kit_pictures(images, result, made_truth(4, 5), background=(1, 1, 1), flow_background=(2, 2, 2))
    assert {n: int(p.max()) for n, p in made.items()} == {
        "foreground1": 1,
        "foreground2": 1,
        "warped1": 1,
        "warped2": 1,
        "flow1": 2,
        "flow2": 2,
    }
    written = save_pictures(tmp_path / "vis", made)
    assert np.array_equal(read_image(written[0]), made[written[0].stem])


def test_foreground_needs_255() -> None:
    image = np.zeros((1, 3, 3), np.uint8)
    out = foreground(image, np.array([[255, 254, 1]], np.uint8), background=(5, 5, 5))
    assert out[0, :, 0].tolist() == [0, 5, 5]


@pytest.mark.skipif(not (DATA / "tss").is_dir(), reason=f"no TSS sample in {DATA}")
def test_kit_pictures_of_sample_equal_shipped_ones() -> None:
    """The 24 pictures of the four sample pairs, bit by bit."""
    differing = []
    for pair in TssDataset(DATA / "tss").pairs:
        folder = DATA / "tss" / "Results" / pair.key
        made = kit_pictures(pair.images(), read_pair_result(folder).arrays, pair.truth())
        assert len(made) == 6
        for name, picture in made.items():
            if not np.array_equal(read_image(folder / "vis" / f"{name}.png"), picture):
                differing.append((pair.key, name))
    assert differing == []
