# SPDX-License-Identifier: BSD-3-Clause
"""Choices on small photographs: caches shared with runs, failures, turned, equal and unrelated images."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import pytest

import tiepoint as tp
from choose_golden import texture, view, write_photos
from tiepoint.core.errors import InputError
from tiepoint.formats.image.reader import read_image, write_image
from tiepoint.geometry.two_view.estimator import import_library
from tiepoint.report.choice_text import warnings
from tiepoint.run.choose.candidates import is_classical, is_grid
from tiepoint.run.choose.engine import ChoiceRequest, choose_method, rotation_deg
from tiepoint.run.choose.result import Choice
from tiepoint.store.store import Store

pytest.importorskip("cv2")
pytest.importorskip("poselib")

SIFT, ORB, UPRIGHT = "sift?ratio=0.8", "orb?ratio=0.8", "brief@fast?ratio=0.8"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four views of one scene."""
    made: Path = write_photos(tmp_path_factory.mktemp("choose") / "photos")
    return made


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that the tests share."""
    return tmp_path_factory.mktemp("choose-store")


def choose(methods: list[Any], images: Path, store: Path, **how: Any) -> Choice:
    with Store.open(store, later=True) as opened:
        return choose_method(ChoiceRequest(tuple(methods), images, **how), opened)


def written(store: Path) -> dict[Path, int]:
    """Arrays of features, with the time of writing. A run adds to their headers."""
    return {
        p: p.stat().st_mtime_ns
        for p in (store / "features").rglob("*")
        if p.suffix != ".json" and p.is_file()
    }


class Dark:
    """One motion for every pair, which fails where the first image is bright."""

    def __init__(self, limit: float = 1e9) -> None:
        self.limit = limit

    def match(self, image1: Any, image2: Any) -> Any:
        if image1.mean() > self.limit:
            raise RuntimeError("too bright")
        points = np.random.default_rng(1).uniform(10, 100, (130, 2))
        return points, points * 1.1 + np.random.default_rng(0).normal(0, 0.2, points.shape)


def test_order_methods_and_further_method(photos: Path, store: Path) -> None:
    found = choose([SIFT, ORB], photos, store)
    assert found.leader == "sift?matcher=mnn&ratio=0.8"
    assert len(found.order.pairs) == 6
    assert found.order.scores[found.leader] > 0.8
    more = choose([UPRIGHT, ORB, SIFT], photos, store)
    for name in found.candidates:
        assert {k: o.steady for k, o in more.outcomes[name].items()} == {
            k: o.steady for k, o in found.outcomes[name].items()
        }
    assert [m for m in more.order.methods if m in found.candidates] == list(found.order.methods)
    assert found.all_classical
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [m["method"] for m in plain["methods"]] == list(found.order.methods)


def test_matches_are_those_of_run_and_no_run_is_stored(photos: Path, tmp_path: Path) -> None:
    K = [[200, 0, 80], [0, 200, 64], [0, 0, 1]]
    T = [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]]
    names = [f"photo{k}.png" for k in (1, 2, 3)]
    entries = [
        {
            "image0": str(photos / a),
            "image1": str(photos / b),
            "K0": K,
            "K1": K,
            "T_0to1": T,
            "size0": [160, 128],
        }
        for a, b in ((names[0], names[1]), (names[1], names[2]))
    ]
    listed = tmp_path / "pairs.json"
    listed.write_text(json.dumps(entries))
    own = tmp_path / "store"
    choose([SIFT, ORB], photos, own, pairs=listed)
    features = written(own)
    assert len(features) >= 4
    assert not list((own / "uses").glob("*"))
    with Store.open(own, mode="read") as opened:
        from tiepoint.store.run_queries import load_runs

        assert load_runs(opened) == []
    with catch_warnings():
        simplefilter("ignore")  # the poses are made up
        tp.evaluate(SIFT, task="pose/relative", data=listed, store=own, progress=False)
    after = written(own)
    assert after == features


def test_stored_matches_are_not_computed_again(photos: Path, tmp_path: Path) -> None:
    spec = tmp_path / "mine.py"
    spec.write_text(
        "import numpy as np\n\n\nclass Mine:\n    def match(self, image1, image2):\n"
        "        p = np.random.default_rng(0).uniform(0, 150, (60, 2))\n        return p, p + 1.0\n"
    )
    first = choose([f"{spec}:Mine", SIFT], photos, tmp_path / "store")
    files = written(tmp_path / "store")
    assert choose([SIFT, f"{spec}:Mine"], photos, tmp_path / "store").order == first.order
    again = written(tmp_path / "store")
    assert again == files
    with pytest.raises(InputError, match=r"equal by content"):
        choose([SIFT, "sift?matcher=mnn&ratio=0.80"], photos, tmp_path / "store")


def test_failing_method_counts_as_0(photos: Path, store: Path) -> None:
    brightness = sorted(read_image(p).mean() for p in photos.iterdir())
    limit = (brightness[1] + brightness[2]) / 2
    found = choose([SIFT, Dark(limit)], photos, store)
    failed = found.failures("Dark")
    assert 0 < len(failed) < 6
    assert all("too bright" in text for text in failed.values())
    assert all(found.outcomes["Dark"][key].steady == 0 for key in failed)
    assert f"Dark failed on {len(failed)} of 6 pairs, which count as 0" in " ".join(warnings(found))
    assert not found.all_classical
    always = choose([SIFT, Dark(-1)], photos, store)
    assert len(always.failures("Dark")) == 6
    assert always.to_dict()["methods"][-1]["seconds_per_pair"] is None


def test_unrelated_and_flat_images_no_choice(tmp_path: Path, store: Path) -> None:
    for k in range(3):
        write_image(tmp_path / f"{k}.png", view(texture(10 + k), 0))
    write_image(tmp_path / "flat.png", np.full((128, 160, 3), 90, np.uint8))
    ramp = np.repeat(np.arange(160, dtype=np.uint8)[None, :, None], 128, axis=0).repeat(3, axis=2)
    write_image(tmp_path / "ramp.png", ramp)
    found = choose([SIFT, ORB, UPRIGHT], tmp_path, store)
    assert found.leader is None
    assert found.order.pairs == ()
    assert {found.state(name) for name in found.candidates} == {"unknown"}


def test_equal_images_are_left_out(photos: Path, tmp_path: Path, store: Path) -> None:
    write_photos(tmp_path, 3)
    write_image(tmp_path / "photo1.bmp", read_image(tmp_path / "photo1.png"))
    found = choose([SIFT, ORB], tmp_path, store)
    assert list(found.equal) == ["photo1.bmp|photo1.png"]
    assert len(found.pairs) == 5
    assert "1 pair of equal images excluded" in " ".join(warnings(found))
    for path in tmp_path.glob("photo[23].png"):
        path.unlink()
    with pytest.raises(InputError, match="all images have equal pixels"):
        choose([SIFT, ORB], tmp_path, store)


def test_turned_images_are_reported(photos: Path, tmp_path: Path, store: Path) -> None:
    for k, path in enumerate(sorted(photos.iterdir())):
        write_image(tmp_path / path.name, np.ascontiguousarray(np.rot90(read_image(path), k % 2)))
    found = choose([UPRIGHT, SIFT], tmp_path, store)
    sift, upright = found.order.methods
    assert sift.startswith("sift")
    assert found.state(upright) == "behind"
    lost = found.turned()[upright]
    assert set(lost) == {key for key in found.pairs if sum(int(name[5]) for name in key.split("|")) % 2}
    assert "try rotating the images" in " ".join(warnings(found))


def test_still_camera_is_reported(photos: Path, tmp_path: Path, store: Path) -> None:
    image = read_image(photos / "photo1.png")
    for k in range(3):
        noise = np.random.default_rng(k).normal(0, 4, image.shape)
        write_image(tmp_path / f"{k}.png", np.clip(image + noise, 0, 255).astype(np.uint8))
    found = choose([SIFT, ORB], tmp_path, store)
    assert len(found.still()) == 3
    text = " ".join(warnings(found))
    assert "the camera did not move, or a caption was matched" in text
    assert "only 3 pairs are confirmed" in text


def test_poster_is_reported_by_its_cover(tmp_path: Path, store: Path) -> None:
    for k in range(2):
        image = view(texture(20 + k), 0)
        poster = texture(30)[40:110, 60:130]
        x, y = ((5, 8), (80, 50))[k]
        image[y : y + 70, x : x + 70] = poster
        write_image(tmp_path / f"{k}.png", image)
    found = choose([SIFT, "kaze?ratio=0.8"], tmp_path, store)
    assert found.leader is not None
    assert found.order.scores[found.leader] > 0.7
    assert found.cover(found.leader) < 0.25
    assert "only one pair is confirmed: about 4 points are lost on average" in " ".join(warnings(found))


def test_dense_beside_sparse_is_refused(photos: Path, tmp_path: Path, store: Path) -> None:
    with pytest.raises(InputError, match=r"dis has dense matches .* and sift.* has sparse"):
        choose([SIFT, "dis"], photos, store)

    class Flow:
        def match(self, image1: Any, image2: Any) -> Any:
            return np.ones((*image1.shape[:2], 2), np.float32)

    with pytest.raises(InputError, match=r"Flow has dense matches .* and sift.* has sparse"):
        choose([SIFT, Flow()], photos, store)
    big = tmp_path / "big"
    big.mkdir()
    for k in range(2):
        write_image(big / f"{k}.png", np.ascontiguousarray(texture(40)[8 * k : 184 + 8 * k, :240]))
    with pytest.raises(InputError, match=r"grid.*a flow or a grid\) and"):
        choose([SIFT, "sift@grid?step_px=8"], big, store)
    found = choose(["dis", "farneback"], photos, store, limit=1)
    assert all(c.dense for c in found.candidates.values())
    assert choose(["dis", Dark(-1)], photos, store, limit=1).leader == "dis"


def test_few_confirmed_pairs_add_more_once(tmp_path: Path, store: Path) -> None:
    for k in range(9):
        image = view(texture(50), k // 8) if k in (0, 8) else view(texture(60 + k), 0)
        write_image(tmp_path / f"{k}.png", image)
    found = choose([SIFT, ORB], tmp_path, store)
    assert found.added == 16
    assert len(found.pairs) == 36
    assert found.order.pairs == ("0.png|8.png",)
    assert "fewer than 5 of the first pairs were confirmed, so 16 random pairs were added" in " ".join(
        warnings(found)
    )


def test_exif_rotation_is_reported(tmp_path: Path, store: Path) -> None:
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = 6
    for k in range(2):
        Image.fromarray(view(texture(1), k)).save(tmp_path / f"{k}.jpg", exif=exif)
    assert "2 of 2 images have an EXIF rotation" in " ".join(warnings(choose([SIFT, ORB], tmp_path, store)))


@pytest.mark.parametrize(
    ("methods", "how", "message"),
    [
        ([SIFT], {}, "at least two methods, found 1"),
        ([SIFT, SIFT], {}, "is given twice"),
        ([SIFT, "sift?matcher=mnn&ratio=0.8"], {}, "is given twice|equal by content"),
        ([SIFT, "oracle"], {}, "oracle needs ground truth"),
        ([SIFT, ORB], {"limit": 0}, "`limit` is 0"),
        ([SIFT, "sfit"], {}, "unknown method"),
    ],
)
def test_wrong_requests_are_refused(
    photos: Path, store: Path, methods: list[str], how: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        choose(methods, photos, store, **how)


def test_list_of_unknown_layout_names_the_simplest_one(photos: Path, tmp_path: Path, store: Path) -> None:
    listed = tmp_path / "listed.list"
    listed.write_text("photo1.png photo2.png\n")
    with pytest.raises(InputError, match=r"two names a line \(\.txt\)"):
        choose([SIFT, ORB], photos, store, pairs=listed)
    found = choose([SIFT, ORB], photos, store, pairs=listed.rename(tmp_path / "listed.txt"))
    assert list(found.pairs) == ["photo1.png|photo2.png"]


def test_missing_poselib_is_refused(photos: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import_library.cache_clear()
    monkeypatch.setitem(sys.modules, "poselib", None)
    with pytest.raises(InputError, match=r"PoseLib"):
        choose([SIFT, ORB], photos, store)
    import_library.cache_clear()


def test_classical_methods_are_recognised() -> None:
    from tiepoint.methods.resolve import resolve

    for name in ("sift", "dspsift", "brief@fast", "patch:vgg@sift", "klt", "dis", "sift+rootsift"):
        assert is_classical(resolve(name, family="pairs").config), name
    assert not is_classical(resolve(Dark(), family="pairs").config)
    for learned in ("detectors/keynet", "keypoints/xfeat", "pairs/files", "keypoints/torch"):
        assert not is_classical({"base": {"parts": {"detector": {"method": learned}}}, "matcher": "mnn"})


def test_rotation_of_matches() -> None:
    a = np.random.default_rng(0).uniform(0, 100, (30, 2))
    for turn, expected in (([[0, -1], [1, 0]], 90), ([[-1, 0], [0, -1]], 180), ([[1, 0], [0, 1]], 0)):
        assert rotation_deg(a, 2 * a @ np.array(turn).T + 5) == pytest.approx(expected, abs=1e-6)
    assert np.isnan(rotation_deg(a, np.random.default_rng(1).uniform(0, 100, (30, 2))))
    assert np.isnan(rotation_deg(a[:1], a[:1]))


def test_stress_scores_are_read_nowhere() -> None:
    root = Path(tp.__file__).parent
    files = [*(root / "run" / "choose").glob("*.py"), root / "stats" / "steady_choice.py"]
    files += [root / "metrics" / "steadiness.py", root / "tools" / "choosing.py"]
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            assert not any("stress" in text for text in [*names, module]), path


def test_grids_of_several_zooms_are_grids_and_detectors_are_not() -> None:
    rng = np.random.default_rng(0)
    two = np.vstack([rng.integers(0, int(512 / step), (500, 2)) * step for step in (13.3, 6.15)])
    assert is_grid(two)
    assert not is_grid(rng.uniform(0, 500, (2000, 2)))
    assert not is_grid((rng.integers(0, 100, (300, 2)) + 200).astype(np.float64))  # corners on one object
    assert not is_grid(
        (4 * rng.integers(0, 1024, (2000, 2))).astype(np.float64)
    )  # whole pixels of a reduced image
    assert not is_grid(two[:99])
