"""The pipeline of `sfm/reconstruct` on projected points: database, child process, cache, failures."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from sfm_world import CAMERA, poses, world

from tiepoint.core.array_cache import use_array_cache_folder
from tiepoint.core.errors import InputError
from tiepoint.geometry.quaternions import rotations_of
from tiepoint.store.atomic_files import atomic_file
from tiepoint.tasks.sfm.pipeline import launch, mapping
from tiepoint.tasks.sfm.pipeline.database import write_database
from tiepoint.tasks.sfm.pipeline.launch import run_child
from tiepoint.tasks.sfm.pipeline.mapping import DATABASE, MapperSettings, cached_stage, reconstruct
from tiepoint.tasks.sfm.pipeline.matches import SceneMatches
from tiepoint.tasks.sfm.pipeline.matching import check_pycolmap_options

pytest.importorskip("pycolmap")
NAMES = ("img_10.png", "img_2.png", "img_1.png")


@pytest.fixture
def cache(tmp_path):
    use_array_cache_folder(tmp_path / "lists", atomic_file)
    yield tmp_path / "lists"
    use_array_cache_folder(None)


def matches_of(count: int = 3, rows: object = ((0, 0), (1, 1))) -> SceneMatches:
    keypoints = tuple(np.array([[0.0, 0.0], [10.25, 20.5]]) for _ in range(count))
    return SceneMatches(keypoints, np.array([(0, 1)]), (np.array(rows),))


# database


def test_keypoints_are_written_with_half_a_pixel_once(tmp_path):
    path = tmp_path / "d.db"
    write_database(path, dict.fromkeys(sorted(NAMES), CAMERA), matches_of())
    with sqlite3.connect(path) as db:
        data, rows, columns = db.execute(
            "SELECT data, rows, cols FROM keypoints WHERE image_id = 1"
        ).fetchone()
        cameras = db.execute("SELECT params, prior_focal_length FROM cameras").fetchall()
    found = np.frombuffer(data, np.float32).reshape(rows, columns)[:, :2]
    np.testing.assert_array_equal(found, [[0.5, 0.5], [10.75, 21.0]])
    assert [np.frombuffer(p, np.float64).tolist() for p, _ in cameras] == [[500.0, 500.0, 320.0, 240.0]]
    assert cameras[0][1] == 1


def test_image_ids_follow_the_sorted_names(tmp_path):
    path = tmp_path / "d.db"
    write_database(path, dict.fromkeys(sorted(NAMES), CAMERA), matches_of())
    with sqlite3.connect(path) as db:
        found = dict(db.execute("SELECT image_id, name FROM images").fetchall())
    assert found == {1: "img_1.png", 2: "img_10.png", 3: "img_2.png"}
    with pytest.raises(ValueError, match="sorted by name"):
        write_database(tmp_path / "e.db", dict.fromkeys(NAMES, CAMERA), matches_of())


def test_match_of_a_missing_keypoint_is_refused(tmp_path):
    wrong = matches_of(rows=((0, 0), (1, 2)))
    with pytest.raises(InputError, match=r"match 1 of images 0 and 1 has rows \[1, 2\].*\[2, 2\] keypoints"):
        write_database(tmp_path / "d.db", dict.fromkeys(sorted(NAMES), CAMERA), wrong)


def test_existing_database_is_refused(tmp_path):
    path = tmp_path / "d.db"
    path.write_bytes(b"half a database")
    with pytest.raises(InputError, match="would add to it"):
        write_database(path, dict.fromkeys(sorted(NAMES), CAMERA), matches_of())


# reconstruction


def worst_rotation_deg(model, names) -> float:
    """Largest angle between true and estimated relative rotations, by plain loops."""
    true = dict(zip(names, poses(len(names)), strict=True))
    R = dict(zip(model.names, rotations_of(model.q), strict=True))
    worst = 0.0
    for a in R:
        for b in R:
            turn = R[b] @ R[a].T @ (true[b][0] @ true[a][0].T).T
            worst = max(worst, np.degrees(np.arccos(np.clip((np.trace(turn) - 1) / 2, -1, 1))))
    return worst


def test_equal_seeds_give_equal_bits_and_other_options_do_not_verify_again(cache):
    cameras, matches = world()
    first = reconstruct(cameras, matches, MapperSettings("incremental", 0))
    assert len(first.models) == 1
    assert len(first.models[0]) == 5
    assert worst_rotation_deg(first.models[0], list(cameras)) < 0.1
    assert first.found["peak_mib"] > 20
    assert set(first.found["seconds"]) == {"verification", "mapping"}
    assert len(first.found["inliers"]) == 10
    assert min(first.found["inliers"]) > 200
    again = reconstruct(cameras, matches, MapperSettings("incremental", 0, {"min_num_matches": 16}))
    np.testing.assert_array_equal(first.models[0].q, again.models[0].q)
    np.testing.assert_array_equal(first.models[0].t, again.models[0].t)
    assert again.found["seconds"]["verification"] == first.found["seconds"]["verification"]
    assert again.found["seconds"]["mapping"] != first.found["seconds"]["mapping"]
    assert again.keys[DATABASE] == first.keys[DATABASE]
    assert cached_stage(DATABASE, first.keys[DATABASE]) is not None


def test_without_matches_there_is_no_model_and_no_exception(cache):
    cameras, matches = world(3, 20)
    none = SceneMatches(matches.keypoints, matches.pairs, tuple(r[:0] for r in matches.rows))
    found = reconstruct(cameras, none, MapperSettings("incremental", 0))
    assert (found.models, found.failure) == ((), "")


def test_matches_that_nobody_verified_give_no_model_and_no_exception(tmp_path):
    """The mapper of COLMAP ignores them silently, which is why every database is verified."""
    cameras, matches = world()
    job = {
        "database": str(tmp_path / "database.db"), "verify": False, "verified": "", "mapper": "incremental",
        "mapper_options": {}, "seed": 0, "fixed_intrinsics": True, "pairs": (matches.pairs + 1).tolist(),
    }  # fmt: skip
    write_database(tmp_path / "database.db", cameras, matches)
    found = run_child("reconstruct", job, tmp_path, 60)
    assert (found.failure, found.found["models"]) == ("", [])
    assert reconstruct(cameras, matches, MapperSettings("incremental", 0)).models


@pytest.mark.parametrize("mapper", ["incremental", "global"])
def test_two_runs_without_a_cache_have_the_same_bits(mapper):
    cameras, matches = world()
    first, again = (reconstruct(cameras, matches, MapperSettings(mapper, 0)) for _ in range(2))
    assert len(first.models) == 1
    np.testing.assert_array_equal(first.models[0].q, again.models[0].q)
    np.testing.assert_array_equal(first.models[0].t, again.models[0].t)
    assert first.found["seconds"] != again.found["seconds"]


# child process


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Return a function that replaces the program of the child, and the file in which it counts starts."""
    count = tmp_path / "starts"

    def replace(body: str) -> Path:
        path = tmp_path / "program.py"
        path.write_text(f"open({str(count)!r}, 'a').write('x')\n" + textwrap.dedent(body))
        monkeypatch.setattr(launch, "PROGRAM", path)
        return count

    return replace


def test_crash_is_tried_again_once_and_is_a_failure_of_the_seed(program, cache):
    count = program("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    cameras, matches = world(3, 20)
    found = reconstruct(cameras, matches, MapperSettings("incremental", 4))
    assert (found.models, found.failure) == ((), "the process ended by signal SIGSEGV")
    assert count.read_text() == "xx"
    assert not list(cache.glob("*.bin")) if cache.exists() else True


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_peak_memory_is_that_of_the_child_alone(program, tmp_path):
    program("""
        import pathlib, sys, time
        own = b"x" * (60 << 20)
        time.sleep(0.5)
        pathlib.Path(sys.argv[1]).with_name("result.json").write_text("{}")
    """)
    large = b"x" * (400 << 20)
    found = run_child("reconstruct", {}, tmp_path, 60)
    assert found.failure == ""
    assert 60 < found.peak_mib < 200
    assert len(large) == 400 << 20


def test_time_limit_kills_the_child(program, tmp_path):
    program("import time; time.sleep(60)")
    started = time.monotonic()
    found = run_child("reconstruct", {}, tmp_path, 0.3)
    assert time.monotonic() - started < 20
    assert found.failure == "exceeded the time limit of 0.3 s"
    assert not found.crashed


def test_error_of_colmap_is_reported_with_its_last_line(program, tmp_path):
    program("raise ValueError('no such camera')")
    found = run_child("reconstruct", {}, tmp_path, 60)
    assert found.failure == "COLMAP failed: ValueError: no such camera"


def test_interrupt_ends_the_child_and_leaves_no_zombie(program, tmp_path):
    place = str(tmp_path / "pid")
    program(f"import os, time; open({place!r}, 'w').write(str(os.getpid())); time.sleep(60)")

    def interrupt() -> None:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    watcher = threading.Thread(target=interrupt, daemon=True)
    watcher.start()
    with pytest.raises(KeyboardInterrupt):
        run_child("reconstruct", {}, tmp_path, 60)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs prctl")
def test_child_ends_if_its_parent_is_another_process(tmp_path):
    path = tmp_path / "job.json"
    path.write_text(json.dumps({"stage": "match", "parent": 1}))
    status = os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-P", str(launch.PROGRAM), str(path)])
    assert status == 1
    assert not (tmp_path / "result.json").exists()


# options


def test_mapper_options_are_checked():
    known = check_pycolmap_options(
        "incremental", {"mapper.init_min_num_inliers": "50", "multiple_models": "false"}
    )
    assert known == {"mapper.init_min_num_inliers": 50, "multiple_models": False}
    with pytest.raises(InputError, match="no numeric option 'init_min'"):
        check_pycolmap_options("incremental", {"init_min": "50"})
    with pytest.raises(InputError, match="min_num_matches is 'many'"):
        check_pycolmap_options("global", {"min_num_matches": "many"})


def test_corrupt_cached_database_is_not_used(cache):
    key = ["a"]
    mapping.cached_arrays(DATABASE, key, lambda: {"database.db": np.arange(200, dtype=np.uint8)})
    file = next(cache.glob("*.bin"))
    file.write_bytes(file.read_bytes()[:-64])
    assert cached_stage(DATABASE, key) is None
