# SPDX-License-Identifier: BSD-3-Clause
"""Pixels of a picture where they must be: images, dots, lines, true lines, legend."""

from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.report.pictures.error_colours import GRADES, UNKNOWN, chosen_rows, count_grades, grades, spread
from tiepoint.report.pictures.matches import CHOSEN, GAP, clip_line, pair_panels, pair_picture
from tiepoint.tasks.cases import MatchedPair

SIDE = 200
ROWS = np.array([[0.0, 0, 0], [0, 0, -1], [0, 1, 0]])
"""F of a camera that moved along its rows."""
POINTS0 = np.array([[20.0, 20], [60, 40], [100, 60], [140, 80]])
ERRORS = np.array([0.2, 2.0, 5.0, np.inf])


def made(errors: np.ndarray | None = ERRORS, **more: object) -> MatchedPair:
    black, grey = np.zeros((100, SIDE, 3), np.uint8), np.full((100, SIDE, 3), 60, np.uint8)
    sizes = ((SIDE, 100), (SIDE, 100))
    shifted = POINTS0 + np.array([5.0, 0.0])
    return MatchedPair("p", (black, grey), sizes, POINTS0, shifted, errors, "words", **more)  # type: ignore[arg-type]


def pixel(picture: np.ndarray, side: int, x: float, y: float) -> tuple[int, ...]:
    return tuple(picture[round(y), round(x) + side * (SIDE + GAP)].tolist())


def test_dots_have_the_colour_of_their_error_in_both_images() -> None:
    picture = pair_panels(made(), side_px=SIDE)
    assert picture.shape == (100, 2 * SIDE + GAP, 3)
    for (x, y), grade in zip(POINTS0, GRADES, strict=True):
        assert pixel(picture, 0, x, y) == grade.colour
        assert pixel(picture, 1, x + 5, y) == grade.colour
    assert pixel(picture, 0, 10, 95) == (0, 0, 0)
    assert pixel(picture, 1, 190, 5) == (60, 60, 60)
    assert tuple(picture[3, SIDE + 2]) == (255, 255, 255)


def test_a_line_joins_a_match_and_chosen_points_leave_only_dots() -> None:
    picture = pair_panels(made(), side_px=SIDE)
    green = picture[20, 60:150].astype(int)
    assert (green[:, 1] > green[:, 0] + 50).all()
    bare = pair_panels(made(F=ROWS), chosen=[2], side_px=SIDE)
    assert (bare[20, 60:150] == 0).all()


def test_true_epipolar_lines_cross_both_images_at_the_row_of_the_point() -> None:
    picture = pair_panels(made(F=ROWS), chosen=[2], side_px=SIDE)
    for side in (0, 1):
        for x in (5, 60, 195):
            assert pixel(picture, side, x, 60) == CHOSEN[0]
            assert pixel(picture, side, x, 30) != CHOSEN[0]
    assert pixel(picture, 0, 100, 60) == GRADES[2].colour


def test_a_homography_leads_to_the_true_place_in_the_second_image() -> None:
    shift = np.array([[1.0, 0, 45], [0, 1, 0], [0, 0, 1]])
    picture = pair_panels(made(H=shift), chosen=[1], side_px=SIDE)
    assert pixel(picture, 1, 90, 40) == CHOSEN[0]
    assert pixel(picture, 1, 115, 40) != CHOSEN[0]
    assert pixel(picture, 0, 90, 40) == (0, 0, 0)


def test_images_of_other_sizes_are_scaled_to_one_long_side() -> None:
    small = np.zeros((50, 25, 3), np.uint8)
    points = np.array([[12.0, 24.5]])
    pair = MatchedPair("p", (small, None), ((25, 50), (400, 200)), points, points * 8, np.zeros(1))
    picture = pair_panels(pair, side_px=200)
    assert picture.shape == (200, 100 + GAP + 200, 3)
    assert tuple(picture[100, 50]) == GRADES[0].colour
    assert tuple(picture[98, 100 + GAP + 48]) == GRADES[0].colour
    assert tuple(picture[5, 100 + GAP + 150]) == (200, 200, 200), "an absent image is plain"


def test_without_truth_every_match_is_unknown() -> None:
    picture = pair_panels(made(None), side_px=SIDE)
    assert pixel(picture, 0, 60, 40) == UNKNOWN.colour
    assert [(g.text, n) for g, n in count_grades(made(None))] == [("error unknown", 4)]


def test_the_whole_picture_has_room_for_caption_and_legend() -> None:
    plain = pair_panels(made(), side_px=SIDE)
    whole = pair_picture(made(), caption=["a", "b"], side_px=SIDE)
    one_more = pair_picture(made(), caption=["a", "b", "c"], side_px=SIDE)
    assert whole.shape[1] == plain.shape[1]
    assert one_more.shape[0] - whole.shape[0] == 22
    colours = {tuple(p) for p in whole[-120:].reshape(-1, 3).tolist()}
    assert {g.colour for g in GRADES} <= colours


def test_a_long_name_is_wrapped_and_cut_but_never_lost() -> None:
    short = pair_picture(made(), caption=["x"], side_px=SIDE)
    long = pair_picture(made(), caption=["word " * 40, "y" * 500], side_px=SIDE)
    assert long.shape[1] == short.shape[1]
    assert long.shape[0] > short.shape[0] + 3 * 22


def test_no_matches_at_all_is_a_picture_too() -> None:
    none = np.empty((0, 2))
    pair = MatchedPair("p", (None, None), ((SIDE, 100), (SIDE, 100)), none, none, np.empty(0))
    assert pair_picture(pair, side_px=SIDE).shape[1] == 2 * SIDE + GAP
    assert sum(n for _, n in count_grades(pair)) == 0


def test_grades_at_their_bounds() -> None:
    errors = np.array([0.0, np.nextafter(1, 0), 1.0, 3.0, 10.0, np.inf, np.nan])
    points = np.zeros((7, 2))
    pair = MatchedPair("p", (None, None), ((1, 1), (1, 1)), points, points, errors)
    assert grades(pair).tolist() == [0, 0, 1, 2, 3, 3, -1]


def test_some_of_many_keep_the_shares_of_colours() -> None:
    errors = np.random.default_rng(0).permutation(np.repeat([0.5, 20.0], [900, 100]))
    points = np.zeros((1000, 2))
    pair = MatchedPair("p", (None, None), ((1, 1), (1, 1)), points, points, errors)
    rows = spread(pair, 50)
    assert len(set(rows.tolist())) == 50
    assert (errors[rows] > 10).sum() == 5


@pytest.mark.parametrize("row", [-1, 4])
def test_a_row_that_is_not_there_is_named(row: int) -> None:
    with pytest.raises(InputError, match=rf"pair p has no match {row}; its matches are numbered from 0 to 3"):
        chosen_rows(made(), 0, (row,))


def test_chosen_rows() -> None:
    assert chosen_rows(made(), 0, (3, 1, 3)).tolist() == [3, 1]
    assert chosen_rows(made(), 2, ()).tolist() == [1, 3]
    assert chosen_rows(made(), 9, ()).tolist() == [0, 1, 2, 3]
    with pytest.raises(InputError, match="pass one of them"):
        chosen_rows(made(), 2, (1,))


def test_lines_are_cut_at_the_image() -> None:
    slanted = clip_line(np.array([1.0, -1.0, 0.0]), (10, 6))
    assert slanted is not None
    assert np.allclose(slanted, [[-0.5, -0.5], [5.5, 5.5]])
    upright = clip_line(np.array([2.0, 0.0, -8.0]), (10, 6))
    assert upright is not None
    assert np.allclose(sorted(upright[:, 1]), [-0.5, 5.5])
    assert np.allclose(upright[:, 0], 4)
    assert clip_line(np.array([1.0, 1.0, 3.0]), (10, 6)) is None
    assert clip_line(np.zeros(3), (10, 6)) is None
