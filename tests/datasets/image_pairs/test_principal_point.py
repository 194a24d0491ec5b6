"""The principal point against the size of the image."""

from __future__ import annotations

import numpy as np
import pytest

from tiepoint.datasets.image_pairs.principal_point import doubt_principal_point


@pytest.mark.parametrize(
    ("cx", "cy", "size", "kind"),
    [
        (320, 240, (640, 480), None),
        (311.193, 254.877, (741, 497), None),  # the demo camera
        (400, 240, (640, 480), None),  # off the centre
        (0, 240, (640, 480), None),  # the right half of an image
        (640, 240, (640, 480), None),  # the left half
        (640, 480, (640, 480), "resized"),  # K of an image of twice the size, or the corner of a crop
        (320, 240, (1280, 960), "resized"),
        (320, 240, (320, 240), "resized"),
        (1296 / 4, 968 / 4, (1296, 968), "resized"),
        (240, 320, (640, 480), "swapped"),
        (254.877, 311.193, (741, 497), "swapped"),
        (120, 160, (640, 480), None),  # halved and swapped: no single mistake explains it
        (-50, 240, (640, 480), "outside"),
        (320, 1000, (640, 480), "outside"),
        (500, 500, (1000, 1000), None),
    ],
)
def test_doubt_principal_point_names_mistake(
    cx: float, cy: float, size: tuple[int, int], kind: str | None
) -> None:
    found = doubt_principal_point(np.array([[500.0, 0, cx], [0, 500, cy], [0, 0, 1]]), size)
    assert (None if found is None else found.kind) == kind


def test_doubt_principal_point_message_names_cause_and_remedy() -> None:
    found = doubt_principal_point(np.array([[500.0, 0, 320], [0, 500, 240], [0, 0, 1]]), (1280, 960))
    assert found is not None
    assert found.message == (
        "the principal point (320, 240) fits an image of half the size, and the image has 1280 x 960 pixels; "
        "is K given for resized images? Scale it"
    )
