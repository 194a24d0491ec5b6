# SPDX-License-Identifier: BSD-3-Clause
"""COLMAP databases as match files: the same points as our own files, shifted by half a pixel."""

from __future__ import annotations

import contextlib
import sqlite3

import match_world as w
import numpy as np
import pytest

from tiepoint.core.errors import InputError, ProblemsError
from tiepoint.core.records import ImageFacts, Item
from tiepoint.methods.resolve import resolve


def method(path, query=""):
    return resolve(f"files:{path}{query}", family="pairs")


def extracted(path, query="", items=None):
    found = method(path, query)
    found.check(items or w.items())
    return [found.extract(item, None) for item in items or w.items()]


def same(given, pairs):
    for (_, pair), found in zip(pairs.items(), given, strict=True):
        first, second, _ = w.matched(pair)
        for points, expected in ((found["points0"], first), (found["points1"], second)):
            stored = (expected + 0.5).astype(np.float32).astype(np.float64) - 0.5
            assert {tuple(p) for p in points} == {tuple(p) for p in stored}
        assert (found["keypoints0"], found["keypoints1"]) == (60, 60)


@pytest.mark.parametrize("columns", [2, 4, 6])
def test_database_gives_points_with_first_centre_at_zero(tmp_path, columns):
    pairs = w.world()
    same(extracted(w.write_colmap(tmp_path / "database.db", pairs, columns)), pairs)
    same(extracted(tmp_path), pairs)


def test_database_pair_of_descending_ids_is_turned(tmp_path):
    pairs = w.world()
    names = sorted({name for pair in pairs for name in pair}, reverse=True)
    same(extracted(w.write_colmap(tmp_path / "database.db", pairs, order=names)), pairs)


def test_database_written_by_pycolmap_reads_equal(tmp_path):
    pycolmap = pytest.importorskip("pycolmap")
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 600, (2, 5, 2)).astype(np.float32)
    rows = np.array([[0, 4], [3, 1]], np.uint32)
    F = rng.normal(size=(3, 3))
    with pycolmap.Database.open(tmp_path / "database.db") as db:
        camera = db.write_camera(
            pycolmap.Camera(model="PINHOLE", width=640, height=480, params=[500, 500, 320, 240])
        )
        ids = [db.write_image(pycolmap.Image(name=n, camera_id=camera)) for n in ("s/b.jpg", "s/a.jpg")]
        for number, table in zip(ids, points, strict=True):
            db.write_keypoints(number, table + np.float32(0.5))
        db.write_matches(ids[0], ids[1], rows)
        geometry = pycolmap.TwoViewGeometry()
        geometry.inlier_matches, geometry.F = rows[:1], F
        geometry.config = pycolmap.TwoViewGeometryConfiguration.UNCALIBRATED
        db.write_two_view_geometry(ids[0], ids[1], geometry)
    item = Item("p", "", images=(ImageFacts("/x/s/b.jpg", (640, 480)), ImageFacts("/x/s/a.jpg", (640, 480))))
    (found,) = extracted(tmp_path / "database.db", items=[item])
    stored = (points + np.float32(0.5)).astype(np.float64) - 0.5
    np.testing.assert_array_equal(found["points0"], stored[0][[0, 3]])
    np.testing.assert_array_equal(found["points1"], stored[1][[4, 1]])
    assert "F" not in found
    (verified,) = extracted(tmp_path / "database.db", "?verified=true", items=[item])
    np.testing.assert_array_equal(verified["points0"], stored[0][[0]])
    # x2' F x1 = 0 in the convention of COLMAP is x2' F' x1 = 0 for the same points in ours
    x, y = np.array([10.0, 20, 1]), np.array([30.0, 40, 1])
    half = np.array([0.5, 0.5, 0])
    assert (y + half) @ F @ (x + half) == pytest.approx(y @ verified["F"] @ x)


def test_verified_matches_have_own_name_and_key(tmp_path):
    path = w.write_colmap(tmp_path / "database.db", w.world())
    plain, verified = method(path), method(path, "?verified=true")
    assert (plain.name, verified.name) == ("files:database.db", "files:database.db?verified=true")
    assert plain.key(w.items()[0]) != verified.key(w.items()[0])
    assert [len(a["points0"]) for a in extracted(path, "?verified=true")] == [3, 3, 3]
    w.write_own(tmp_path / "own", w.world())
    with pytest.raises(InputError, match="remove `verified`"):
        method(tmp_path / "own", "?verified=true")


def test_homography_is_converted_to_first_centre_at_zero(tmp_path):
    path = w.write_colmap(tmp_path / "database.db", w.world())
    H = np.array([[1.1, 0.2, 5], [-0.1, 0.9, 3], [1e-4, 2e-4, 1]])
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("update two_view_geometries set H = ?, F = ?", (H.tobytes(), np.zeros(9).tobytes()))
    found = extracted(path, "?verified=true", items=w.items()[:1])[0]
    assert "F" not in found
    moved = H @ [10.5, 20.5, 1]
    again = found["H"] @ [10, 20, 1]
    np.testing.assert_allclose(again[:2] / again[2] + 0.5, moved[:2] / moved[2])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("drop table matches", "no table matches"),
        ("drop table images", "no table images"),
        ("update matches set data = x'00'", "1 bytes for 30 rows and 2 columns"),
        ("update matches set rows = 'x'", "rows and cols must be integers"),
        ("update matches set pair_id = pair_id + 900 where pair_id = (select max(pair_id) from matches)",
         "unknown image"),
        ("update keypoints set rows = 2, data = substr(data, 1, 16)", "refers to keypoint"),
        ("update keypoints set rows = 40, cols = 3", "3 columns, expected 2, 4 or 6"),
        ("update images set name = 5.5 where image_id = 1", "unknown image|no matches for the pair"),
    ],
)  # fmt: skip
def test_database_wrong_raises(tmp_path, change, reason):
    path = w.write_colmap(tmp_path / "database.db", w.world())
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute(change)
    with pytest.raises(InputError, match=reason):
        extracted(path)


def test_database_absent_pair_truncated_or_unfinished_raises(tmp_path):
    path = w.write_colmap(tmp_path / "database.db", w.world())
    with pytest.raises(ProblemsError, match="no matches for the pair"):
        method(path).check([w.item("x/1.jpg", "x/2.jpg")])
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"not a readable COLMAP database|bytes for"):
        extracted(path)
    path.write_bytes(b"no database")
    with pytest.raises(InputError, match="not an SQLite file"):
        method(path)
    path.write_bytes(content)
    (tmp_path / "database.db-wal").write_bytes(b"x")
    with pytest.raises(InputError, match=r"unfinished changes in database\.db-wal"):
        extracted(path)
    with pytest.raises(InputError, match="the folder does not exist"):
        method(tmp_path / "absent.db")


def test_reading_leaves_nothing_beside_the_database(tmp_path):
    path = w.write_colmap(tmp_path / "database.db", w.world())
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("pragma journal_mode = wal")
    before = sorted(p.name for p in tmp_path.iterdir())
    extracted(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == before
