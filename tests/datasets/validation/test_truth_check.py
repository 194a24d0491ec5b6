"""Every lie on every dataset that has the quantity gives a warning, and no true dataset does."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiepoint.datasets.image_pairs.reader import read_pairs
from tiepoint.datasets.validation import match_votes
from tiepoint.datasets.validation.dataset import check_dataset
from tiepoint.datasets.validation.truth_check import NO_OPENCV

pytest.importorskip("cv2", reason="OpenCV is not installed")
DATA = Path(os.environ.get("TIEPOINT_TEST_DATA", "../shared/data"))
needs_data = pytest.mark.skipif(not (DATA / "truth").is_dir(), reason="needs real data (TIEPOINT_TEST_DATA)")
Lie = Callable[[Path], None]

HALVED = "fits an image of half the size"
SWAPPED = "if cx and cy are exchanged"
POSE = "the inverse of the given pose"
HOMOGRAPHY = "the inverse of the given homography"
COPY = "is a copy"
IDENTICAL = "1 pair has two identical images"
TOO_FEW = "too few matches to tell"


def halved(K: Any) -> list[list[float]]:
    return [[v / 2 for v in row] if i < 2 else list(row) for i, row in enumerate(K)]


def exchanged(K: Any) -> list[list[float]]:
    return [[K[0][0], K[0][1], K[1][2]], [K[1][0], K[1][1], K[0][2]], list(K[2])]


# Lies in a pair list (JSON)


def edit_json(root: Path, edit: Callable[[list[dict[str, Any]]], None]) -> None:
    entries = json.loads((root / "pairs.json").read_text())
    edit(entries)
    (root / "pairs.json").write_text(json.dumps(entries))


def json_cameras(change: Callable[[Any], Any]) -> Lie:
    def edit(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            entry.update(K0=change(entry["K0"]), K1=change(entry["K1"]))

    return lambda root: edit_json(root, edit)


def json_inverted(key: str) -> Lie:
    def edit(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            full = (
                np.vstack([entry[key], [0, 0, 0, 1]])
                if len(entry[key]) == 3 != len(entry[key][0])
                else entry[key]
            )
            entry[key] = np.linalg.inv(full).tolist()

    return lambda root: edit_json(root, edit)


def json_image(root: Path, name: str) -> Path:
    return next(path for path in (root / name, root / "images" / name) if path.is_file())


def json_copied(root: Path) -> None:
    def edit(entries: list[dict[str, Any]]) -> None:
        first = entries[0]
        for name in (first["image0"], first["image1"]):
            shutil.copy(json_image(root, name), root / f"other_{Path(name).name}")
        files = {side: f"other_{Path(first[side]).name}" for side in ("image0", "image1")}
        own = {k: v for k, v in first.items() if k not in ("key", "name")}
        entries[:] = [
            *({**e, "scene": e.get("scene", "one")} for e in entries[:1]),
            {**own, **files, "scene": "two"},
        ]

    edit_json(root, edit)


def json_identical(root: Path) -> None:
    first = json.loads((root / "pairs.json").read_text())[0]
    shutil.copy(json_image(root, first["image0"]), json_image(root, first["image1"]))
    if "size0" in first:
        edit_json(root, lambda entries: entries[0].update(size1=first["size0"]))


# Lies in the list of ScanNet: names, turns, K0, K1, T


def edit_lines(root: Path, edit: Callable[[list[str]], list[str]]) -> None:
    file = root / "pairs_with_gt.txt"
    lines = [edit(line.split()) for line in file.read_text().splitlines()]
    file.write_text("".join(f"{' '.join(fields)}\n" for fields in lines))


def text_cameras(change: Callable[[Any], Any]) -> Lie:
    def edit(fields: list[str]) -> list[str]:
        K = [np.array(fields[i : i + 9], float).reshape(3, 3) for i in (4, 13)]
        return [*fields[:4], *(str(v) for k in K for row in change(k.tolist()) for v in row), *fields[22:]]

    return lambda root: edit_lines(root, edit)


def text_inverted(root: Path) -> None:
    def edit(fields: list[str]) -> list[str]:
        T = np.linalg.inv(np.array(fields[22:], float).reshape(4, 4))
        T[3] = [0, 0, 0, 1]
        return [*fields[:22], *(f"{v:.9f}" for v in T[:3].ravel()), "0", "0", "0", "1"]

    edit_lines(root, edit)


def text_copied(root: Path) -> None:
    file = root / "pairs_with_gt.txt"
    fields = file.read_text().splitlines()[0].split()
    names = [f"scene0999_00_frame-00000{i}.jpg" for i in (0, 1)]
    for old, new in zip(fields[:2], names, strict=True):
        shutil.copy(root / "images" / old, root / "images" / new)
    file.write_text(f"{file.read_text().rstrip()}\n{' '.join([*names, *fields[2:]])}\n")


def text_identical(root: Path) -> None:
    fields = (root / "pairs_with_gt.txt").read_text().split()
    shutil.copy(root / "images" / fields[0], root / "images" / fields[1])


# Lies in a COLMAP model


def colmap_cameras(change: Callable[[Any], Any]) -> Lie:
    def lie(root: Path) -> None:
        file = root / "sparse" / "cameras.txt"
        lines = file.read_text().splitlines()
        for i, line in enumerate(lines):
            fields = line.split()
            if fields and not line.startswith("#"):
                fx, fy, cx, cy = map(float, fields[4:8])
                K = change([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
                lines[i] = " ".join([*fields[:4], *(str(v) for v in (K[0][0], K[1][1], K[0][2], K[1][2]))])
        file.write_text("\n".join(lines) + "\n")

    return lie


def colmap_inverted(root: Path) -> None:
    """Write camera-to-world poses, which the format does not have."""
    file = root / "sparse" / "images.txt"
    lines = file.read_text().splitlines()
    for i, line in enumerate(lines):
        fields = line.split()
        if len(fields) == 10 and not line.startswith("#"):
            w, x, y, z, *t = map(float, fields[1:8])
            u, v = np.array([-x, -y, -z]), -np.array(t)
            moved = v + 2 * np.cross(u, np.cross(u, v) + w * v)
            lines[i] = " ".join([fields[0], *(str(n) for n in (w, -x, -y, -z, *moved)), *fields[8:]])
    file.write_text("\n".join(lines) + "\n")
    for name in ("rigs.txt", "frames.txt"):  # they have the true poses
        (root / "sparse" / name).unlink(missing_ok=True)


def colmap_identical(root: Path) -> None:
    shutil.copy(root / "images" / "view_00.jpg", root / "images" / "view_01.jpg")


# Lies in image sequences, EVD, WxBS and dense pairs


def sequences_inverted(root: Path) -> None:
    for file in [*root.glob("*/H_1_*"), *root.glob("*/H1to*p")]:
        np.savetxt(file, np.linalg.inv(np.loadtxt(file)))


def sequence_copied(root: Path) -> None:
    first = sorted(p for p in root.iterdir() if p.is_dir())[0]
    shutil.copytree(first, root / "v_other")


def sequence_identical(root: Path) -> None:
    folder = sorted(p for p in root.iterdir() if p.is_dir())[0]
    images = sorted(p for p in folder.iterdir() if p.suffix in (".png", ".ppm", ".jpg"))
    shutil.copy(images[0], images[1])


def evd_inverted(root: Path) -> None:
    for file in (root / "h").glob("*.txt"):
        np.savetxt(file, np.linalg.inv(np.loadtxt(file)))


def evd_copied(root: Path) -> None:
    for file in [*root.glob("[12]/adam.*"), *root.glob("h/adam.*")]:
        shutil.copy(file, file.with_stem("other"))


def evd_identical(root: Path) -> None:
    shutil.copy(root / "1" / "adam.png", root / "2" / "adam.png")


def wxbs_copied(root: Path) -> None:
    folder = sorted(p.parent for p in root.rglob("corrs.txt"))[0]
    shutil.copytree(folder, folder.with_name("other"))


def wxbs_identical(root: Path) -> None:
    folder = sorted(p.parent for p in root.rglob("corrs.txt"))[0]
    first, second = sorted(folder.glob("0[12].*"))
    shutil.copy(first, second.with_suffix(first.suffix))
    if second.suffix != first.suffix:
        second.unlink()


def dense_copied(root: Path) -> None:
    folder = sorted(p.parent for p in root.rglob("flow1.flo"))[0]
    shutil.copytree(folder, folder.with_name("other_01"))


def dense_identical(root: Path) -> None:
    folder = sorted(p.parent for p in root.rglob("flow1.flo"))[0]
    shutil.copy(folder / "image1.png", folder / "image2.png")


JSON_LIES = {
    "K halved": (json_cameras(halved), HALVED),
    "cx and cy exchanged": (json_cameras(exchanged), SWAPPED),
    "pose inverted": (json_inverted("T_0to1"), POSE),
    "scene copied": (json_copied, COPY),
    "identical images": (json_identical, IDENTICAL),
}
SEQUENCE_LIES = {
    "H inverted": (sequences_inverted, HOMOGRAPHY),
    "scene copied": (sequence_copied, COPY),
    "identical images": (sequence_identical, IDENTICAL),
}
DENSE_LIES = {"scene copied": (dense_copied, COPY), "identical images": (dense_identical, IDENTICAL)}
REAL_LIES: dict[str, dict[str, tuple[Lie, str]]] = {
    "megadepth_sample": JSON_LIES,
    "scannet_sample": {
        "K halved": (text_cameras(halved), HALVED),
        "cx and cy exchanged": (text_cameras(exchanged), SWAPPED),
        "pose inverted": (text_inverted, TOO_FEW),
        "scene copied": (text_copied, COPY),
        "identical images": (text_identical, IDENTICAL),
    },
    "sfm_sample": {
        "K halved": (colmap_cameras(halved), HALVED),
        "cx and cy exchanged": (colmap_cameras(exchanged), SWAPPED),
        "pose inverted": (colmap_inverted, "of them fit the given pose"),
        "identical images": (colmap_identical, IDENTICAL),
    },
    "sequences": SEQUENCE_LIES,
    "evd": {
        "H inverted": (evd_inverted, HOMOGRAPHY),
        "scene copied": (evd_copied, COPY),
        "identical images": (evd_identical, IDENTICAL),
    },
    "wxbs": {
        "scene copied": (wxbs_copied, "share an image file and count as one scene"),
        "identical images": (wxbs_identical, IDENTICAL),
    },
    "tss": DENSE_LIES,
}
DEMO_LIES: dict[str, dict[str, tuple[Lie, str]]] = {
    "sequences": SEQUENCE_LIES,
    "dense": DENSE_LIES,
    "pose": {**JSON_LIES, "K halved": (json_cameras(halved), "is K given for resized images?")},
    "homographies": {k: v for k, v in JSON_LIES.items() if k in ("scene copied", "identical images")}
    | {"H inverted": (json_inverted("H"), HOMOGRAPHY)},
}


def matrix(lies: dict[str, dict[str, tuple[Lie, str]]]) -> list[Any]:
    return [
        pytest.param(name, lie, expected, id=f"{name}-{what}")
        for name, own in lies.items()
        for what, (lie, expected) in own.items()
    ]


def real_copy(name: str, target: Path) -> Path:
    """Copy a sample, writable. The views of `sfm_sample` get a pair list."""
    root = Path(shutil.copytree(DATA / name, target / name, copy_function=shutil.copyfile))
    if name == "sfm_sample":
        (root / "sparse_gt").rename(root / "sparse")
        views = sorted(p.name for p in (root / "images").iterdir())
        (root / "pairs.txt").write_text("".join(f"{a} {b}\n" for a, b in combinations(views, 2)))
    return root


@pytest.fixture(scope="module", autouse=True)
def matched_once() -> Iterator[None]:
    """Match two images once: most lies change the truth and leave the images."""
    matched: dict[Any, Any] = {}
    match = match_votes._sift_matches

    def remembered(truth: Any, image0: Any, image1: Any, features: int) -> Any:
        key = (image0.shape, image0.tobytes(), image1.shape, image1.tobytes(), features)
        if key not in matched:
            matched[key] = match(truth, image0, image1, features)
        return matched[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(match_votes, "_sift_matches", remembered)
        yield


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small demo set, and its homographies as a pair list."""
    pytest.importorskip("skimage", reason="scikit-image is not installed")
    from tiepoint.datasets.demo.dataset import make_demo

    root = tmp_path_factory.mktemp("demo")
    made = make_demo(root, scenes=("i_coffee", "v_astronaut", "v_camera"))
    listed = root / "homographies"
    shutil.copytree(made.sequences, listed)
    entries = [
        {
            "image0": f"{scene}/1.png",
            "image1": f"{scene}/{k}.png",
            "H": np.loadtxt(listed / scene / f"H_1_{k}").tolist(),
        }
        for scene in ("i_coffee", "v_astronaut", "v_camera")
        for k in (2, 3)
    ]
    for file in listed.glob("*/H_1_*"):
        file.unlink()
    (listed / "pairs.json").write_text(json.dumps(entries))
    return root


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize(("name", "lie", "expected"), matrix(REAL_LIES))
def test_check_lie_in_real_data_warns(name: str, lie: Lie, expected: str, tmp_path: Path) -> None:
    root = real_copy(name, tmp_path)
    lie(root)
    report = check_dataset(root)
    assert report.ok, str(report)
    if expected == TOO_FEW:
        assert any(TOO_FEW in note for note in report.notes) or any(POSE in w for w in report.warnings)
    else:
        assert sum(expected in warning for warning in report.warnings) == 1, str(report)


@pytest.mark.parametrize(("name", "lie", "expected"), matrix(DEMO_LIES))
def test_check_lie_in_demo_warns(name: str, lie: Lie, expected: str, demo: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(demo / name, tmp_path / name))
    lie(root)
    report = check_dataset(root)
    assert report.ok, str(report)
    assert sum(expected in warning for warning in report.warnings) == 1, str(report)


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("name", [*REAL_LIES, "pf_willow", "spair_sample"])
def test_check_true_data_has_no_warning(name: str, tmp_path: Path) -> None:
    root = real_copy(name, tmp_path) if name == "sfm_sample" else DATA / name
    assert check_dataset(root).warnings == ()


@pytest.mark.parametrize("name", DEMO_LIES)
def test_check_true_demo_has_no_warning(name: str, demo: Path) -> None:
    assert check_dataset(demo / name).warnings == ()


@needs_data
@pytest.mark.parametrize(
    "name", ["scannet_test_pairs_with_gt.txt", "scannet_test.npz", "megadepth_1500.json"]
)
def test_read_published_cameras_doubts_none(name: str) -> None:
    assert not [w for w in read_pairs(DATA / "truth" / name).warnings if "principal point" in w]


def test_check_one_wrong_scene_names_it(demo: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(demo / "sequences", tmp_path / "sequences"))
    for file in (root / "v_camera").glob("H_1_*"):
        np.savetxt(file, np.linalg.inv(np.loadtxt(file)))
    (warning,) = check_dataset(root).warnings
    assert warning.startswith("in 1 scene (v_camera), ")


def test_check_homography_of_resized_images_warns(demo: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(demo / "sequences", tmp_path / "sequences"))
    for file in root.glob("v_*/H_1_*"):
        half = np.diag([0.5, 0.5, 1])
        np.savetxt(file, half @ np.loadtxt(file) @ np.linalg.inv(half))
    (warning,) = check_dataset(root).warnings
    assert warning.startswith("in 2 scenes (v_astronaut, v_camera), ")
    assert "is H given for images of another size" in warning


def test_check_fast_matches_nothing(demo: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(demo / "sequences", tmp_path / "sequences"))
    sequences_inverted(root)
    report = check_dataset(root, deep=False)
    assert (report.warnings, report.notes) == ((), ())


def test_check_without_opencv_notes_it(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    assert check_dataset(demo / "sequences").notes == (NO_OPENCV,)
    assert check_dataset(demo / "dense").notes == ()


def test_check_noise_images_cannot_tell(tmp_path: Path) -> None:
    from PIL import Image

    for k in (1, 2):
        pixels = np.random.default_rng(k).integers(0, 255, (60, 80, 3), dtype=np.uint8)
        (tmp_path / "v_noise").mkdir(exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "v_noise" / f"{k}.png")
    np.savetxt(tmp_path / "v_noise" / "H_1_2", np.diag([2.0, 2, 1]))
    report = check_dataset(tmp_path)
    assert report.warnings == ()
    assert report.notes == ("too few matches to tell whether the ground truth is right (sift, 1 pair)",)


@pytest.mark.parametrize(("factor", "noted"), [(1.0, False), (1e3, True), (1e-3, True)])
def test_check_baseline_unit_is_noted(factor: float, noted: bool, demo: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(demo / "pose", tmp_path / "pose"))

    def scale(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            for row in entry["T_0to1"][:3]:
                row[3] *= factor

    edit_json(root, scale)
    report = check_dataset(root)
    assert report.warnings == ()
    assert any("angular scores do not depend on it" in fact for fact in report.facts) is noted


def test_check_unrelated_pose_warns(demo: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(demo / "pose", tmp_path / "pose"))

    def turn(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            entry["T_0to1"] = [[0, 0, 1, 0.1], [0, 1, 0, 0.3], [-1, 0, 0, 0.2], [0, 0, 0, 1]]

    edit_json(root, turn)
    (warning,) = check_dataset(root).warnings
    assert "of them fit the given pose; are poses camera-to-world" in warning


def test_check_several_lies_gives_one_warning_each(demo: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(demo / "pose", tmp_path / "pose"))
    json_cameras(halved)(root)
    json_inverted("T_0to1")(root)
    json_identical(root)
    report = check_dataset(root)
    assert len(report.warnings) == 2, str(report)  # a pose with a wrong K cannot be compared
    assert "(13 more of these)" in report.warnings[0]
