"""`sfm/poses` from files: layouts of truth and results, protocols, warnings, steps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sfm_models import DATA, golden, needs_golden
from tiepoint.core.errors import InputError, ProblemsError
from tiepoint.core.records import Records
from tiepoint.core.scores import Score
from tiepoint.tasks.sfm.poses.task import TASK

pytestmark = needs_golden
Poses = dict[str, tuple[np.ndarray, np.ndarray]]
"""Rotation (3, 3) and translation (3,), world to camera, by image name."""


def case(name: str) -> dict[str, Any]:
    return golden()["cases"][name]["input"]


def poses(given: dict[str, Any]) -> Poses:
    found = {}
    for name, pose in given.items():
        w, x, y, z = (float(v) for v in pose["qvec"])
        found[name] = Rotation.from_quat([x, y, z, w]).as_matrix(), np.array(pose["tvec"], np.float64)
    return found


def colmap(folder: Path, given: Poses) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cameras.txt").write_text("1 PINHOLE 640 480 500 500 320 240\n")
    (folder / "points3D.txt").write_text("")
    lines = []
    for i, (name, (R, t)) in enumerate(given.items(), start=1):
        x, y, z, w = Rotation.from_matrix(R).as_quat()
        numbers = " ".join(repr(float(v)) for v in (w, x, y, z, *t))
        lines += [f"{i} {numbers} 1 {name}", ""]
    (folder / "images.txt").write_text("\n".join(lines) + "\n")
    return folder


def tum(folder: Path, given: Poses) -> Path:
    rows = []
    for name, (R, t) in given.items():
        q = Rotation.from_matrix(R.T).as_quat()
        stamp = name.removeprefix("im").removesuffix(".jpg")
        rows.append(" ".join([stamp, *(repr(float(v)) for v in (*(-R.T @ t), *q))]))
    return text(folder / "poses.txt", "# stamp t q\n" + "\n".join(rows) + "\n")


def text(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def numbers(values: Any, sep: str = " ") -> str:
    return sep.join(repr(float(v)) for v in np.ravel(values))


def kitti(folder: Path, given: Poses) -> Path:
    rows = [numbers(np.column_stack([R.T, -R.T @ t])) for _, (R, t) in sorted(given.items())]
    return text(folder / "poses.txt", "\n".join(rows) + "\n")


def blended(folder: Path, given: Poses) -> Path:
    for name, (R, t) in given.items():
        T = np.vstack([np.column_stack([R, t]), [0, 0, 0, 1]])
        rows = "\n".join(numbers(row) for row in T)
        text(folder / "cams" / f"{Path(name).stem}_cam.txt", f"extrinsic\n{rows}\n\nintrinsic\n1 0 0\n")
    return folder


def strecha(folder: Path, given: Poses) -> Path:
    for name, (R, t) in given.items():
        rows = "\n".join(numbers(row) for row in R.T)
        text(folder / f"{name}.camera", f"1 0 0\n0 1 0\n0 0 1\n0 0 0\n{rows}\n{numbers(-R.T @ t)}\n6 4\n")
    return folder


def phototourism(folder: Path, given: Poses) -> Path:
    h5py = pytest.importorskip("h5py")
    (folder / "calibration").mkdir(parents=True)
    for name, (R, t) in given.items():
        with h5py.File(folder / "calibration" / f"calibration_{Path(name).stem}.h5", "w") as file:
            file["K"], file["R"], file["T"] = np.eye(3), R, t
    return folder


def table(header: str, row: str) -> Callable[[Path, Poses], Path]:
    def write(folder: Path, given: Poses) -> Path:
        rows = [row.format(name=name, R=numbers(R, ";"), t=numbers(t, ";")) for name, (R, t) in given.items()]
        return text(folder / "poses.csv", "\n".join([header, *rows]) + "\n")

    return write


def own_json(folder: Path, given: Poses) -> Path:
    images = {}
    for name, (R, t) in given.items():
        x, y, z, w = Rotation.from_matrix(R).as_quat()
        images[name] = {"qvec": [w, x, y, z], "tvec": t.tolist()}
    return text(folder / "poses.json", json.dumps({"images": images}))


def eth3d(folder: Path, given: Poses) -> Path:
    inside = {f"dslr_images_undistorted/{name}": pose for name, pose in given.items()}
    return colmap(folder / "dslr_calibration_undistorted", inside).parent


LAYOUTS: dict[str, Callable[[Path, Poses], Path]] = {
    "colmap": colmap,
    "eth3d": eth3d,
    "tum": tum,
    "kitti": kitti,
    "blended": blended,
    "strecha": strecha,
    "phototourism": phototourism,
    "imc2023": table(
        "dataset,scene,image_path,rotation_matrix,translation_vector", "d,s,d/s/images/{name},{R},{t}"
    ),
    "imc2023 by position": table("a,b,c,d,e", "d/s/images/{name},d,s,{R},{t}"),
    "imc2024": table("image_name,dataset,scene,rotation_matrix,translation_vector", "{name},d,s,{R},{t}"),
    "imc2025": table("dataset,scene,image,rotation_matrix,translation_vector", "d,s,{name},{R},{t}"),
    "json": own_json,
}


def scored(
    truth: Path, results: Path, protocol: str = "exact", **options: Any
) -> tuple[dict[tuple[str, str], Score], list[str], list[Records]]:
    opened = TASK.open(truth, options)
    records = TASK.records_from_results(results, opened)
    made = TASK.score(records, protocol)
    words = [*opened.warnings, *TASK.record_warnings(records)]
    return {(s.metric, s.group): s for s in made}, words, records


def area(scores: dict[tuple[str, str], Score], t: float = 5) -> float:
    return scores["auc", f"threshold_deg={t:g}"].value


@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_each_layout_scores_as_recorded(tmp_path: Path, layout: str) -> None:
    given = case("noise_medium")
    true = poses(given["gt"])
    if layout == "tum":  # names are timestamps
        true = {name.removeprefix("im"): pose for name, pose in true.items()}
    truth = colmap(tmp_path / "truth", true)
    results = LAYOUTS[layout](tmp_path / "mine", poses(given["models"][0]))
    scores, words, _ = scored(truth, results, position_accuracy=0.001)
    expected = golden()["cases"]["noise_medium"]["figures"]["exact_restated"]["auc"]
    for t in (0.5, 1, 5, 10):
        assert 100 * area(scores, t) == pytest.approx(expected[f"{float(t)}"], abs=1e-6)
    renamed = layout not in ("colmap", "imc2024", "imc2025", "json", "strecha")
    assert bool(words) == renamed, words


@pytest.mark.parametrize("layout", LAYOUTS)
def test_truth_each_layout_is_read(tmp_path: Path, layout: str) -> None:
    given = poses(case("perfect")["gt"])
    truth = LAYOUTS[layout](tmp_path / "truth", given)
    results = LAYOUTS[layout](tmp_path / "mine", given)
    scores, words, _ = scored(truth, results)
    assert area(scores, 0.5) > 0.9999
    assert not words


def test_score_one_scene_has_no_interval(tmp_path: Path) -> None:
    truth = colmap(tmp_path / "truth", poses(case("perfect")["gt"]))
    scores, _, _ = scored(truth, truth)
    from tiepoint.stats.intervals import scene_interval

    assert scores["auc", "all"].scenes is not None
    interval = scene_interval(scores["auc", "all"].scenes)
    assert (interval.low, interval.high, interval.kind) == (None, None, "none")
    scores, _, _ = scored(
        truth, colmap(tmp_path / "n", poses(case("noise_medium")["models"][0])), cluster="image"
    )
    one = scores["auc", "all"]
    assert one.low is not None
    assert one.high is not None
    assert one.low < one.value < one.high
    assert one.note == "interval over images of 1 scene, not over scenes"


def test_score_inverted_poses_warn(tmp_path: Path) -> None:
    given = poses(case("perfect")["gt"])
    truth = colmap(tmp_path / "truth", given)
    scores, words, _ = scored(
        truth, colmap(tmp_path / "m", {n: (R.T, -R.T @ t) for n, (R, t) in given.items()})
    )
    assert area(scores) < 0.05
    assert any("the inverse poses fit the truth" in w and "camera to world" in w for w in words)


@pytest.mark.parametrize("change", ["similarity", "order", "models"])
def test_exact_gauge_and_order_leave_the_score_alone(tmp_path: Path, change: str) -> None:
    given = case("split_overlap")
    truth = colmap(tmp_path / "truth", poses(given["gt"]))
    models = [poses(m) for m in given["models"]]
    for k, m in enumerate(models):
        colmap(tmp_path / "a" / str(k), m)
    if change == "similarity":
        turn, shift = (
            Rotation.from_euler("xyz", [40, 10, -70], degrees=True).as_matrix(),
            np.array([3, -2, 9]),
        )
        models = [{n: (R @ turn.T, 100 * t - R @ turn.T @ shift) for n, (R, t) in m.items()} for m in models]
    elif change == "order":
        models = [dict(reversed(m.items())) for m in models]
    else:
        models.reverse()
    for k, m in enumerate(models):
        colmap(tmp_path / "b" / str(k), m)
    before, after = (scored(truth, tmp_path / f)[0] for f in ("a", "b"))
    for t in (0.5, 1, 5, 10):
        assert area(after, t) == pytest.approx(area(before, t), abs=1e-9)


@pytest.mark.parametrize("drop", [1, 3, 7])
def test_exact_missing_images_lower_every_score(tmp_path: Path, drop: int) -> None:
    given = case("noise_medium")
    truth = colmap(tmp_path / "truth", poses(given["gt"]))
    model = poses(given["models"][0])
    whole, _, _ = scored(truth, colmap(tmp_path / "a", model), absolute="umeyama")
    fewer = dict(list(model.items())[:-drop])
    part, _, _ = scored(truth, colmap(tmp_path / "b", fewer), absolute="umeyama")
    names = ("auc", "auc_rotation", "auc_translation", "accuracy", "registered", "largest")
    for key, one in part.items():
        if key[0] in names and "baseline" not in key[1]:
            assert one.value <= whole[key].value, key
    assert part["auc", "all"].value < whole["auc", "all"].value
    assert part["failures", "all"].value > 0


def test_exact_nan_pose_counts_as_missing(tmp_path: Path) -> None:
    given = case("noise_medium")
    truth = colmap(tmp_path / "truth", poses(given["gt"]))
    model = poses(given["models"][0])
    last = list(model)[-1]
    fewer = colmap(tmp_path / "a", {n: p for n, p in model.items() if n != last})
    lost = colmap(tmp_path / "b", model)
    file = lost / "images.txt"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:-2], f"10 nan 0 0 0 1 2 3 1 {last}"]) + "\n")
    (a, _, _), (b, words, _) = (scored(truth, p) for p in (fewer, lost))
    assert area(a) == area(b)
    assert b["invalid_poses", "all"].value == 1
    assert any("1 pose is not finite and counted as missing" in w for w in words)
    with pytest.raises(ProblemsError, match="1 image has no valid pose in the ground truth"):
        TASK.open(lost, {})


def test_colmap_images_without_truth_cost_and_exact_ignores_them(tmp_path: Path) -> None:
    given = case("extra_images")
    truth = colmap(tmp_path / "truth", poses(given["gt"]))
    results = colmap(tmp_path / "m", poses(given["models"][0]))
    exact, words, _ = scored(truth, results)
    assert area(exact) == pytest.approx(1, abs=1e-9)
    assert exact["without_truth", "all"].value == 3
    assert any("3 images have no true pose" in w for w in words)
    other, _, _ = scored(truth, results, "colmap")
    assert 100 * area(other) == pytest.approx(42 / 90 * 100, abs=0.01)


def test_protocols_a_split_costs_pairs_and_not_absolute_centres(tmp_path: Path) -> None:
    pytest.importorskip("pycolmap")
    given = case("split")
    truth = colmap(tmp_path / "truth", poses(given["gt"]))
    for k, m in enumerate(given["models"]):
        colmap(tmp_path / "m" / str(k), poses(m))
    values = {}
    for protocol, metric in (("exact", "auc"), ("colmap", "auc"), ("colmap-absolute", "absolute_auc")):
        scores, _, _ = scored(truth, tmp_path / "m", protocol, position_accuracy=0.001)
        values[protocol] = round(100 * scores[metric, "all"].value, 1)
    assert values == {"exact": 46.7, "colmap": 46.7, "colmap-absolute": 100.0}


def test_protocols_mirrored_is_near_zero_but_for_centres(tmp_path: Path) -> None:
    given = case("mirrored")
    truth = colmap(tmp_path / "truth", poses(given["gt"]))
    results = colmap(tmp_path / "m", poses(given["models"][0]))
    assert area(scored(truth, results)[0]) < 0.03
    assert area(scored(truth, results, "colmap")[0]) < 0.03
    assert scored(truth, results, "imc2024")[0]["maa", "all"].value == pytest.approx(0.643, abs=1e-3)


def test_colmap_absolute_without_accuracy_of_the_truth_raises(tmp_path: Path) -> None:
    pytest.importorskip("pycolmap")
    truth = colmap(tmp_path / "truth", poses(case("perfect")["gt"]))
    with pytest.raises(InputError, match=r"aligns with the accuracy of the truth, which truth does not"):
        scored(truth, truth, "colmap-absolute")


def test_imc2025_table_clusters_and_outliers(tmp_path: Path) -> None:
    given = poses(case("perfect")["gt"])
    rows = ["dataset,scene,image,rotation_matrix,translation_vector"]
    for i, (name, (R, t)) in enumerate(given.items()):
        rows.append(f"d,{'one' if i < 6 else 'two'},{name},{numbers(R, ';')},{numbers(t, ';')}")
    gone = ";".join(["nan"] * 9), ";".join(["nan"] * 3)
    rows.append(f"d,outliers,x.jpg,{gone[0]},{gone[1]}")
    truth = text(tmp_path / "train_labels.csv", "\n".join(rows) + "\n")
    scores, words, records = scored(truth, truth, "imc2025")
    assert not words
    assert scores["maa_clusterness", "all"].value == 1
    assert sorted(set(records[0]["component"][:10].tolist())) == [0, 1]
    merged = [rows[0], *(r.replace("d,two", "d,one") for r in rows[1:])]
    together = text(tmp_path / "sub.csv", "\n".join(merged) + "\n")
    exact, _, _ = scored(truth, together)
    assert exact["merged_pairs", "all"].value == 2 * 6 * 4
    lost = [*rows[:-2], f"d,two,im09.jpg,{gone[0]},{gone[1]}", rows[-1]]
    part, words, _ = scored(truth, text(tmp_path / "lost.csv", "\n".join(lost) + "\n"))
    assert part["invalid_poses", "all"].value == 0
    assert part["registered", "all"].value == pytest.approx(0.9)


def test_scenes_missing_results_are_zero_and_warn(tmp_path: Path) -> None:
    given = poses(case("perfect")["gt"])
    for scene in ("a", "b", "c"):
        colmap(tmp_path / "truth" / scene / "sparse" / "0", given)
    colmap(tmp_path / "mine" / "a" / "0", given)
    (tmp_path / "mine" / "b").mkdir()
    scores, words, _ = scored(tmp_path / "truth", tmp_path / "mine")
    assert scores["auc", "all"].value == pytest.approx(1 / 3)
    assert scores["auc", "scene=b"].value == 0
    assert "b: the results have no registered image; every pair is a miss" in words
    assert "c: no results; every pair is a miss" in words
    with pytest.raises(InputError, match="no results of a, b, c; expected a folder or file for each scene"):
        scored(tmp_path / "truth", colmap(tmp_path / "other" / "x", given).parent)


def test_result_folders_finds_several_methods(tmp_path: Path) -> None:
    given = poses(case("perfect")["gt"])
    truth = colmap(tmp_path / "truth", given)
    for method in ("one", "two"):
        colmap(tmp_path / "all" / method / "0", given)
    found = TASK.result_folders(tmp_path / "all", TASK.open(truth, {}))
    assert list(found) == ["one", "two"]


def test_convention_steps_end_at_the_scores(tmp_path: Path) -> None:
    given = case("merged")
    components = [[n for n, c in given["components"].items() if c == k] for k in (0, 1)]
    truth = {"images": given["gt"], "components": components, "position_accuracy": 0.02, "unit": "m"}
    file = text(tmp_path / "truth.json", json.dumps(truth))
    results = text(tmp_path / "m.json", json.dumps({"models": given["models"]}))
    exact, _, records = scored(file, results)
    tables = {t.subject: dict(t.steps) for t in TASK.convention_steps(records)}
    for t in (0.5, 1, 5, 10):
        steps = list(tables[f"colmap to exact, threshold_deg={t:g}"].values())
        colmap_scores, _, _ = scored(file, results, "colmap")
        assert steps[0] == pytest.approx(area(colmap_scores, t), abs=1e-12)
        assert steps[-1] == pytest.approx(area(exact, t), abs=1e-12)
    for protocol, metric in (("imc2023", "maa"), ("imc2024", "maa"), ("imc2025", "maa_clusterness")):
        first = next(iter(tables[f"{protocol} to exact"].values()))
        value = scored(file, results, protocol)[0][metric, "all"].value
        assert first == pytest.approx(value, abs=1e-12, nan_ok=True)
        assert list(tables[f"{protocol} to exact"].values())[-1] == pytest.approx(area(exact), abs=1e-12)
    assert next(iter(tables["imc2021 to exact"].values())) == pytest.approx(
        scored(file, results, "imc2021")[0]["maa", "max_deg=5"].value, abs=1e-12
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("1 0 0 0 0 0 0 2\n2 0 0 0 0 0 0 1\n", r"line 1: 1: the quaternion has length 2; expected 1"),
        ("1 0 0 0 0 0 0 1\n1 1 0 0 0 0 0 1\n", r"line 2: duplicate timestamp 1"),
        ("1 0 0 0 0 0 0 1\n2 1 0 0 0 0 1\n", r"line 2: expected 8 numbers, found 7 fields"),
        ("1 0 0 0 1 0 0 0 1 0 0 0\n1 0 0 0\n", r"line 2: expected 12 numbers, found 4 fields"),
        ("2 0 0 0 0 1 0 0 0 0 1 0\n", r"line 1: 000000: R is not a rotation \(R\^T R differs"),
        ("1 2 3\n", r"has no poses in a known layout"),
    ],
)
def test_trajectory_wrong_line_raises(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        TASK.open(text(tmp_path / "poses.txt", content), {})


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("d,s,a.jpg,1;0;0;0;1;0;0;0;1", r"line 3: has 4 fields, expected 5"),
        ("d,s,b.jpg,1;0;0;0;1;0;0;0,1;0;0", r"line 3: expected 9 and 3 numbers separated by semicolons"),
        ("d,s,b.jpg,1;0;0;0;1;0;0;0;2,1;0;0", r"line 3: b\.jpg: R is not a rotation"),
        ("d,s,b.jpg,-1;0;0;0;1;0;0;0;1,1;0;0", r"b\.jpg: R is not a rotation \(it reflects\)"),
        ("d,s,a.jpg,1;0;0;0;1;0;0;0;1,1;0;0", r"line 3: duplicate image a\.jpg \(first in line 2\)"),
    ],
)
def test_imc_table_wrong_row_raises(tmp_path: Path, row: str, said: str) -> None:
    head = "dataset,scene,image,rotation_matrix,translation_vector\nd,s,a.jpg,1;0;0;0;1;0;0;0;1,0;0;0\n"
    with pytest.raises(InputError, match=said):
        TASK.open(text(tmp_path / "t.csv", f"{head}{row}\n"), {})


def test_truth_one_image_raises(tmp_path: Path) -> None:
    with pytest.raises(ProblemsError, match="truth: a scene needs 2 images with true poses, found 1"):
        TASK.open(colmap(tmp_path / "truth", poses(case("gt_single")["gt"])), {})


def test_kitti_other_length_than_truth_raises(tmp_path: Path) -> None:
    given = poses(case("perfect")["gt"])
    truth = colmap(tmp_path / "truth", given)
    results = kitti(tmp_path / "m", dict(list(given.items())[:-1]))
    with pytest.raises(InputError, match="9 poses without names, but the ground truth has 10 images"):
        scored(truth, results)


def test_run_method_on_sfm_poses_raises(tmp_path: Path) -> None:
    import tiepoint

    with pytest.raises(InputError, match="sfm/poses scores finished reconstructions; use `tiepoint score"):
        tiepoint.evaluate("sift", task="sfm/poses", data=DATA / "sfm_sample", store=tmp_path / "store")
