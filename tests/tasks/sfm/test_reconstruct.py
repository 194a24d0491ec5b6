"""`sfm/reconstruct`: data, pairs, merged keypoints, scores over seeds, pictures."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from sfm_world import poses, world

from tiepoint.core.errors import InputError, ProblemsError
from tiepoint.core.records import Records
from tiepoint.datasets.reconstructions.image_scenes import ImageScene, read_image_scenes, scene_cameras
from tiepoint.datasets.reconstructions.poses import PoseBuilder
from tiepoint.datasets.reconstructions.scenes import true_scene
from tiepoint.geometry.quaternions import quaternions_of
from tiepoint.methods.registry import MATCHED
from tiepoint.methods.resolve import resolve
from tiepoint.tasks.sfm.pipeline.mapping import MapperSettings, Reconstruction
from tiepoint.tasks.sfm.pipeline.merging import merge_points, merged_matches
from tiepoint.tasks.sfm.pipeline.pairs import listed_pairs, mean_descriptor, similar_pairs
from tiepoint.tasks.sfm.pipeline.views import scene_views, worst_images
from tiepoint.tasks.sfm.reconstruct.compare import compare_reconstruction
from tiepoint.tasks.sfm.reconstruct.task import TASK

pytest.importorskip("pycolmap")


def photos(folder, names, size=(64, 48), **save):
    folder.mkdir(parents=True, exist_ok=True)
    for k, name in enumerate(names):
        Image.new("RGB", size, (k, 0, 0)).save(folder / name, **save)
    return folder


# data


def test_two_images_are_refused_and_name_the_task_of_pairs(tmp_path):
    with pytest.raises(InputError, match=r"at least 3 images, found 2.*pose/relative"):
        read_image_scenes(photos(tmp_path / "s", ["a.png", "b.png"]))


def test_folder_without_images_is_refused(tmp_path):
    with pytest.raises(InputError, match="has no images"):
        read_image_scenes(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        read_image_scenes(tmp_path / "gone")


def test_folder_of_photos_is_one_scene_without_truth(tmp_path):
    (scene,) = read_image_scenes(photos(tmp_path / "s", ["img_10.png", "img_2.png", "img_1.png"]))
    assert list(scene.images) == ["img_1.png", "img_10.png", "img_2.png"]
    assert scene.truth is None
    cameras = scene_cameras(scene, "auto")
    assert {c.source for c in cameras.values()} == {"assumed"}
    assert cameras["img_1.png"].params == (1.2 * 64, 32.0, 24.0, 0.0)
    with pytest.raises(InputError, match="states no camera"):
        scene_cameras(scene, "given")


def test_focal_length_comes_from_exif(tmp_path):
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0xA405] = 36  # focal length in 35 mm film
    (scene,) = read_image_scenes(photos(tmp_path / "s", ["a.jpg", "b.jpg", "c.jpg"], (640, 480), exif=exif))
    (camera,) = set(scene_cameras(scene, "auto").values())
    assert camera.source == "EXIF"
    # 36 mm on the diagonal of 43.27 mm of film
    assert camera.params[0] == pytest.approx(36 / 43.2666 * 800, rel=1e-3)


def json_truth(names, **more):
    pose = {"qvec": [1, 0, 0, 0], "tvec": [0, 0, 0]}
    return json.dumps({"images": {n: {**pose, "tvec": [i, 0, 0]} for i, n in enumerate(names)}, **more})


@pytest.mark.parametrize(("centre", "cx"), [(0, 32.0), (0.5, 31.5)])
def test_intrinsics_of_json_are_moved_to_the_centre_of_colmap(tmp_path, centre, cx):
    names = ["a.png", "b.png", "c.png"]
    camera = {"model": "PINHOLE", "size": [64, 48], "params": [50, 50, 31.5, 23.5]}
    photos(tmp_path / "s", names)
    (tmp_path / "s" / "poses.json").write_text(
        json_truth(names, cameras=dict.fromkeys(names, camera), centre=centre)
    )
    (scene,) = read_image_scenes(tmp_path)
    assert scene.given["a.png"].params == (50.0, 50.0, cx, cx - 8)
    assert scene.truth is not None
    assert scene.truth.name == "s"


def test_camera_of_another_size_and_truth_of_other_images_are_refused(tmp_path):
    names = ["a.png", "b.png", "c.png"]
    camera = {"model": "PINHOLE", "size": [640, 480], "params": [50, 50, 32, 24]}
    photos(tmp_path / "s", names)
    path = tmp_path / "s" / "poses.json"
    path.write_text(json_truth(names, cameras=dict.fromkeys(names, camera)))
    with pytest.raises(InputError, match=r"is 64 x 48 px, but its camera is for 640 x 480 px"):
        read_image_scenes(tmp_path)
    path.write_text(json_truth(["x.png", "y.png"]))
    with pytest.raises(InputError, match="no image has a true pose"):
        read_image_scenes(tmp_path)


def test_open_reports_options(tmp_path):
    photos(tmp_path / "s", ["a.png", "b.png", "c.png"])
    opened = TASK.open(tmp_path, {"seeds": 2})
    assert [u.key for u in opened.units] == ["s/seed0", "s/seed1"]
    assert [i.key for i in opened.items] == ["s/a", "s/b", "s/c"]
    assert any("1.2 times the longer side" in w for w in opened.warnings)
    assert any("no true poses" in w for w in opened.warnings)
    two = TASK.for_family(opened, "pairs")
    assert [i.key for i in two.items] == ["s/a--b", "s/a--c", "s/b--c"]
    with pytest.raises(ProblemsError, match=r"mapper(.|\n)*seeds"):
        TASK.open(tmp_path, {"seeds": 0, "mapper": "locl"})
    with pytest.raises(InputError, match="write NAME=VALUE"):
        TASK.open(tmp_path, {"mapper_options": "min_num_matches"})


# pairs


def scene(count: int) -> ImageScene:
    return ImageScene("big", {f"{i:03d}.png": None for i in range(count)})  # type: ignore[misc]


def test_many_images_are_refused_with_the_number_of_pairs():
    assert len(listed_pairs(scene(60), None)) == 60 * 59 // 2
    with pytest.raises(InputError, match=r"61 images, which are 1830 pairs.*similar:20"):
        listed_pairs(scene(61), None)
    assert len(listed_pairs(scene(61), "all")) == 1830
    assert listed_pairs(scene(61), "similar:5") is None


def test_pairs_of_a_file(tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_text("# names\n002.png 000.png\nbig/000.png big/001.png\n\n000.png 002.png\n")
    assert listed_pairs(scene(3), str(path)).tolist() == [[0, 1], [0, 2]]
    path.write_text("000.png 001.png 002.png\n")
    with pytest.raises(InputError, match=r"pairs.txt, line 1.*found 3 fields"):
        listed_pairs(scene(3), str(path))
    path.write_text("000.png x.png\n")
    with pytest.raises(InputError, match=r"x\.png"):
        listed_pairs(scene(3), str(path))
    with pytest.raises(InputError, match="does not exist"):
        listed_pairs(scene(3), str(tmp_path / "gone"))


def test_similar_pairs_equal_plain_loops():
    rng = np.random.default_rng(3)
    means = [rng.standard_normal(8) for _ in range(9)]
    expected = set()
    for i in range(9):
        cosines = []
        for j in range(9):
            if j != i:
                norms = float(np.sqrt((means[i] ** 2).sum() * (means[j] ** 2).sum()))
                cosines.append((-float((means[i] * means[j]).sum()) / norms, j))
        for _, j in sorted(cosines)[:3]:
            expected.add((min(i, j), max(i, j)))
    assert {tuple(p) for p in similar_pairs(means, 3).tolist()} == expected
    bits = np.array([[0b10000000], [0b11000000]], np.uint8)
    assert mean_descriptor(bits, "hamming").tolist() == [0.5, 0.0, *[-0.5] * 6]


# merged keypoints


def test_merged_points_equal_plain_loops():
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 30, (300, 2))
    common, row = merge_points(points, 2.0)
    chosen, owner = [], [-1] * 300
    for i in range(300):
        if owner[i] >= 0:
            continue
        for j in range(300):
            if owner[j] < 0 and ((points[i] - points[j]) ** 2).sum() <= 4.0:
                owner[j] = len(chosen)
        chosen.append(i)
    np.testing.assert_array_equal(common, points[chosen])
    assert row.tolist() == owner


def test_merging_gives_tracks_longer_than_two():
    rng = np.random.default_rng(0)
    places = rng.uniform(0, 600, (40, 2))
    pairs = np.array([(0, 1), (0, 2), (1, 2)])
    matched = {
        (i, j): tuple(places + rng.uniform(-0.4, 0.4, (40, 2)) for _ in range(2)) for i, j in pairs.tolist()
    }
    apart = merged_matches(3, pairs, matched, 0.0)
    assert [len(k) for k in apart.keypoints] == [80, 80, 80]
    merged = merged_matches(3, pairs, matched, 2.0)
    assert [len(k) for k in merged.keypoints] == [40, 40, 40]
    merged.check("here")
    assert [len(r) for r in merged.rows] == [40, 40, 40]


# methods


def test_matcher_is_not_part_of_the_keys_of_features():
    pytest.importorskip("cv2")
    from tiepoint.core.records import Item

    item = Item("s/a", "content")
    plain = resolve("orb", family="keypoints")
    for text, label in (("orb", "orb?matcher=mnn"), ("orb?ratio=0.8", "orb?matcher=mnn&ratio=0.8")):
        found = resolve(text, family=MATCHED)
        assert (found.family, found.name, found.spec) == ("keypoints", label, text)
        assert found.key(item) == plain.key(item)
        assert found.config != plain.config


def test_matcher_of_colmap_needs_its_descriptors():
    found = resolve("colmap-sift", family=MATCHED)
    assert (found.name, found.meta["matcher"]) == ("colmap-sift", {"matcher": "colmap"})
    assert resolve("colmap-sift?ratio=0.8", family=MATCHED).name == "colmap-sift?matcher=mnn&ratio=0.8"
    with pytest.raises(InputError, match="has a fixed ratio"):
        resolve("colmap-sift?matcher=colmap&ratio=0.8", family=MATCHED)
    with pytest.raises(InputError, match="works only on the descriptors of colmap-sift"):
        resolve("random@grid?matcher=colmap", family=MATCHED)


def test_families():
    assert TASK.family_for("sift?matcher=nn&ratio=0.8") == MATCHED
    assert TASK.family_for("colmap-sift") == MATCHED
    assert [TASK.family_for(m) for m in ("klt", "dis")] == ["pairs", "pairs"]


# scores


def estimate(count: int, degrees: float, without: int = 0):
    """True poses with the last camera turned, and some missing."""
    found = PoseBuilder(None)  # type: ignore[arg-type]
    for k, (R, t) in enumerate(poses(count)[: count - without]):
        turn = np.deg2rad(degrees if k == 0 else 0.0)
        S = np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
        found.add_quaternion(f"view_{k:03d}.png", quaternions_of(S @ R).tolist(), (S @ t).tolist())
    return found.build()


def records(seeds: list[float], truth: bool = True, without: int = 0) -> list[Records]:
    cameras, matches = world(5, 20)
    known = true_scene("s", (estimate(5, 0.0),)) if truth else None
    images = ImageScene("s", dict.fromkeys(cameras), truth=known)  # type: ignore[arg-type]
    inliers = [0 if 4 in pair else 20 for pair in matches.pairs.tolist()]
    found = {
        "inliers": inliers,
        "seconds": {"mapping": [2.0, 1.0]},
        "peak_mib": 50.0,
        "points": [[[0, 0, 0]] * 4],
    }
    return [
        compare_reconstruction(
            images, cameras, matches, MapperSettings("incremental", k),
            Reconstruction((estimate(5, e, without),), found, keys={}),
            cluster="scene", absolute="none", merge_px=None,
        )
        for k, e in enumerate(seeds)
    ]  # fmt: skip


def test_score_is_the_mean_over_seeds_with_its_spread():
    made = TASK.score(records([1.0, 3.0]), "exact")
    found = {(s.metric, s.group): s for s in made}
    # 8 of 20 ordered pairs have the error: (12 + 8 (1 - e / 5)) / 20
    each = [(12 + 8 * (1 - e / 5)) / 20 for e in (1.0, 3.0)]
    score = found["auc", "all"]
    assert score.value == pytest.approx(np.mean(each), abs=1e-9)
    assert found["auc_seed_sd", "all"].value == pytest.approx(np.std(each, ddof=1), abs=1e-9)
    assert found["auc_seed_min", "all"].value == pytest.approx(min(each), abs=1e-9)
    assert found["auc_seed_max", "all"].value == pytest.approx(max(each), abs=1e-9)
    assert found["mapping_s", "all"].value == 2.0
    assert found["mapping_s", "clock=cpu"].value == 1.0
    assert found["registered_images", "all"].value == 5
    assert "matching_s" not in {m for m, _ in found}


def test_one_scene_has_no_interval():
    score = TASK.score(records([1.0, 3.0]), "exact")[0]
    assert (score.low, score.high) == (None, None)
    assert score.scenes is not None
    assert score.scenes.cells.shape == (1, 1)


def test_missing_images_lower_the_score():
    full, less = (TASK.score(records([1.0], without=n), "exact")[0].value for n in (0, 1))
    assert less < full


def test_failed_seed_counts_as_zero():
    good, bad = records([0.0])[0], records([0.0])[0]
    cameras, matches = world(5, 20)
    images = ImageScene("s", dict.fromkeys(cameras), truth=true_scene("s", (estimate(5, 0.0),)))  # type: ignore[arg-type]
    bad = compare_reconstruction(
        images, cameras, matches, MapperSettings("incremental", 1),
        Reconstruction((), {"peak_mib": 9.0}, "the process ended by signal SIGKILL"),
        cluster="scene", absolute="none", merge_px=None,
    )  # fmt: skip
    found = {(s.metric, s.group): s.value for s in TASK.score([good, bad], "exact")}
    assert found["auc", "all"] == pytest.approx(0.5)
    assert found["failed_seeds", "all"] == 0.5
    (words,) = [w for w in TASK.record_warnings([good, bad]) if "SIGKILL" in w]
    assert "seed 1" in words


def test_without_truth_there_are_counts_and_no_score():
    made = TASK.score(records([0.0], truth=False), "exact")
    metrics = {s.metric for s in made}
    assert {"registered_images", "models", "matches", "inliers", "mapping_s"} <= metrics
    assert not metrics & {"auc", "registered", "largest", "failures", "rotation_error_deg"}
    assert TASK.convention_steps(records([0.0], truth=False)) == []


def test_worst_image_names_the_pairs_that_failed():
    (worst,) = worst_images(records([0.0], without=1))
    assert (worst.name, worst.area, worst.pairs) == ("view_004.png", 0.0, 4)
    assert worst.failed == tuple((f"view_{k:03d}.png", 20, 0) for k in range(4))
    assert "4 of its 4 pairs failed: view_000.png (20 matches, 0 verified)" in str(worst)
    (worst,) = worst_images(records([0.0], truth=False))
    assert (worst.name, worst.area) == ("view_004.png", None)


def test_views_are_aligned_to_the_truth():
    record = records([0.0])[0]
    moved = {k: np.array(v) for k, v in record.columns.items()}
    own = moved["model"] >= 0
    moved["tvec"][own] *= 7.0  # the unit of a model is arbitrary
    (view,) = scene_views([replace(record, columns=moved)])
    true = {c.name: c.centre for c in view.truth}
    for camera in view.models[0].cameras:
        np.testing.assert_allclose(camera.centre, true[camera.name], atol=1e-9)
    assert view.models[0].aligned
    assert abs(float(np.mean([c.R[1, 2] for c in view.truth]))) > 0.9  # the z axis is vertical
    (alone,) = scene_views(records([0.0], truth=False))
    assert alone.truth == ()
    assert not alone.models[0].aligned


@pytest.mark.parametrize(("tag", "turn_deg"), [(1, 0), (3, 180), (6, 90), (8, -90)])
def test_views_are_upright_for_photos_stored_turned(tag, turn_deg):
    """The z axis of pictures is vertical for a phone held upright, whose photos are stored turned."""
    cameras, matches = world(5, 20)
    c, s = np.cos(np.deg2rad(turn_deg)), np.sin(np.deg2rad(turn_deg))
    roll = np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
    found = PoseBuilder(None)  # type: ignore[arg-type]
    for name, (R, t) in zip(cameras, poses(5), strict=True):
        found.add_quaternion(name, quaternions_of(roll @ R).tolist(), (roll @ t).tolist())
    made = Reconstruction((found.build(),), {"points": [[[0, -1, 0]]]})
    images = ImageScene("s", dict.fromkeys(cameras))  # type: ignore[arg-type]
    record = compare_reconstruction(
        images, cameras, matches, MapperSettings("incremental", 0), made,
        cluster="scene", absolute="none", merge_px=None, orientations=dict.fromkeys(cameras, tag),
    )  # fmt: skip
    (view,) = scene_views([record])
    np.testing.assert_allclose(view.models[0].cloud, [[0, 0, 1]], atol=1e-9)  # y points down in the world
    heights = view.centres[:, 2]
    np.testing.assert_allclose(heights, [-t[1] for _, t in map(centre, poses(5))], atol=1e-9)


def centre(pose):
    R, t = pose
    return R, -R.T @ t


def test_photos_of_phones_that_are_not_read_are_named(tmp_path):
    photos(tmp_path / "s", ["IMG_1.JPG", "IMG_2.JPG", "IMG_3.JPG"])
    for name in ("._IMG_1.JPG", "IMG_4.HEIC", "IMG_5.HEIC"):
        (tmp_path / "s" / name).write_bytes(b"no image")
    opened = TASK.open(tmp_path / "s", {})
    assert len(opened.items) == 3
    assert "s: 2 photos cannot be read (IMG_4.HEIC, IMG_5.HEIC); convert to JPEG" in opened.warnings
    for path in (tmp_path / "s").glob("*.JPG"):
        path.unlink()
    with pytest.raises(InputError, match=r"s: 2 photos cannot be read \(IMG_4.HEIC, IMG_5.HEIC\)"):
        TASK.open(tmp_path / "s", {})


def test_orientation_of_photos_is_read(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    photos(tmp_path / "s", ["IMG_1.JPG", "IMG_2.JPG"])
    photos(tmp_path / "s", ["IMG_3.JPG"], exif=exif)
    (scene,) = read_image_scenes(tmp_path / "s")
    assert list(scene.images) == ["IMG_1.JPG", "IMG_2.JPG", "IMG_3.JPG"]
    assert scene.orientations == {"IMG_3.JPG": 6}
    assert scene.sizes["IMG_3.JPG"] == (64, 48)
