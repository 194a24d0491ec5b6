"""COLMAP text models and lists of posed images: pairs, poses, and cameras that are refused."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.transform import Rotation

from tiepoint.core.errors import FormatError, InputError, ProblemsError
from tiepoint.datasets.image_pairs.reader import read_pairs

ANGLES = {"a.jpg": (0, 0, 0), "sub/b.jpg": (5, 20, -7), "c.jpg": (40, 1, 2)}
CENTRES = {"a.jpg": (0.0, 0, 0), "sub/b.jpg": (1.0, 0.2, 0), "c.jpg": (0.0, 2, 1)}


def world_to_camera(name: str) -> np.ndarray:
    T = np.eye(4)
    T[:3, :3] = Rotation.from_euler("xyz", ANGLES[name], degrees=True).as_matrix()
    T[:3, 3] = -T[:3, :3] @ CENTRES[name]
    return T


def pictures(folder: Path) -> None:
    for name in ANGLES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.zeros((480, 640, 3), np.uint8)).save(folder / name)


def model(root: Path, camera: str = "PINHOLE 640 480 500 510 320 240", shared: int = 40) -> Path:
    """Images a and b see `shared` points in common, a and c five, b and c none."""
    sparse = root / "sparse" / "0"
    sparse.mkdir(parents=True)
    pictures(root / "images")
    (sparse / "cameras.txt").write_text(f"# Camera list\n1 {camera}\n")
    seen = {
        "a.jpg": range(100),
        "sub/b.jpg": [*range(shared), *range(500, 520)],
        "c.jpg": [*range(95, 100), *range(1000, 1030)],
    }
    lines = ["# Image list", "# two lines each"]
    for i, (name, ids) in enumerate(seen.items(), start=1):
        T = world_to_camera(name)
        x, y, z, w = Rotation.from_matrix(T[:3, :3]).as_quat()
        t = " ".join(repr(float(v)) for v in T[:3, 3])
        lines.append(f"{i} {float(w)!r} {float(x)!r} {float(y)!r} {float(z)!r} {t} 1 {name}")
        lines.append(" ".join(f"1.5 2.5 {j}" for j in ids) + " 3.5 4.5 -1")
    (sparse / "images.txt").write_text("\n".join(lines) + "\n")
    (sparse / "points3D.txt").write_text("# Points\n")
    return root


def test_pairs_by_shared_points(tmp_path: Path) -> None:
    pairs = read_pairs(model(tmp_path))
    (truth,) = pairs.truths
    assert (truth.pair.image0, truth.pair.image1) == (
        tmp_path / "images" / "a.jpg",
        tmp_path / "images" / "sub" / "b.jpg",
    )
    assert (truth.pair.scene, truth.centre, truth.pair.name) == (tmp_path.name, 0.5, "a--b")
    assert truth.pair.facts == {"shared_points": 40, "overlap": 40 / 60}
    expected = world_to_camera("sub/b.jpg") @ np.linalg.inv(world_to_camera("a.jpg"))
    np.testing.assert_allclose(truth.T_0to1, expected, atol=1e-12)
    assert truth.K0 is not None
    assert truth.K0.tolist() == [[500, 0, 320], [0, 510, 240], [0, 0, 1]]
    # A point in space that both cameras see obeys the pose.
    X = np.array([0.3, 0.4, 5.0, 1.0])
    np.testing.assert_allclose(truth.T_0to1 @ world_to_camera("a.jpg") @ X, world_to_camera("sub/b.jpg") @ X)


def test_pairs_by_a_list(tmp_path: Path) -> None:
    model(tmp_path)
    (tmp_path / "pairs.txt").write_text("c.jpg a.jpg\nsub\\b.jpg c.jpg\n")
    pairs = read_pairs(tmp_path).pairs
    assert [p.name for p in pairs] == ["c--a", "b--c"]
    (tmp_path / "pairs.txt").write_text("c.jpg d.jpg\nc.jpg\n")
    with pytest.raises(ProblemsError) as caught:
        read_pairs(tmp_path)
    assert "pairs.txt, line 1: no pose is given for d.jpg" in str(caught.value)
    assert "pairs.txt, line 2 has one image name; expected two" in str(caught.value)


def test_too_few_shared_points_ask_for_a_list(tmp_path: Path) -> None:
    with pytest.raises(
        ProblemsError,
        match=r"no pair of 3 images overlaps enough.*30 shared points.*list the pairs in pairs\.txt",
    ):
        read_pairs(model(tmp_path, shared=29))


@pytest.mark.parametrize(
    "camera", ["SIMPLE_PINHOLE 640 480 500 320 240", "OPENCV 640 480 500 500 320 240 0 0 0 0"]
)
def test_cameras_without_distortion_are_exact(tmp_path: Path, camera: str) -> None:
    (truth,) = read_pairs(model(tmp_path, camera)).truths
    assert truth.K1 is not None
    assert truth.K1.tolist() == [[500, 0, 320], [0, 500, 240], [0, 0, 1]]


@pytest.mark.parametrize(
    ("camera", "said"),
    [
        ("SIMPLE_RADIAL 640 480 500 320 240 0.01", "SIMPLE_RADIAL is distorted (k = 0.01); undistort"),
        ("OPENCV 640 480 500 500 320 240 0 0 0.1 0", "OPENCV is distorted (p1 = 0.1); undistort"),
        ("OPENCV_FISHEYE 640 480 500 500 320 240 0 0 0 0", "is always distorted"),
        ("PINHOLE 640 480 500 320 240", "PINHOLE has 4 parameters (fx, fy, cx, cy), found 3"),
        ("MINE 640 480 500 320 240", "the camera model MINE is unknown"),
        ("PINHOLE 640", "expected number, MODEL, width, height, parameters"),
        ("PINHOLE 640 480 0 510 320 240", "K0 is not invertible"),
        ("PINHOLE 640 481 500 510 320 240", "has 640 x 480 pixels, but 640 x 481 are stated"),
    ],
)
def test_a_camera_is_never_taken_for_another(tmp_path: Path, camera: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_pairs(model(tmp_path, camera))
    assert said in str(caught.value)


def test_broken_models_say_what_is_wrong(tmp_path: Path) -> None:
    root = model(tmp_path / "one")
    file = root / "sparse" / "0" / "images.txt"
    whole = file.read_text()
    file.write_text(whole.replace("1 sub/b.jpg", "7 a.jpg").replace("1 c.jpg", "7 c.jpg"))
    with pytest.raises(ProblemsError) as caught:
        read_pairs(root)
    text = str(caught.value)
    assert "images.txt, line 5: duplicate name a.jpg" in text
    assert "images.txt, line 7: camera 7 of image c.jpg is not in cameras.txt" in text
    file.write_text(whole.replace("1 1.0 0.0", "1 nan 0.0"))
    with pytest.raises(ProblemsError, match=r"images\.txt, line 3: a number is not finite"):
        read_pairs(root)
    (tmp_path / "two" / "sparse").mkdir(parents=True)
    (tmp_path / "two" / "sparse" / "images.bin").write_bytes(b"x")
    with pytest.raises(FormatError, match=r"cameras\.bin: is missing; add it, because images\.bin needs it"):
        read_pairs(tmp_path / "two")


def as_binary(root: Path) -> None:
    """Replace the text files of the model by binary ones."""
    folder = root / "sparse" / "0"
    cameras = [line.split() for line in (folder / "cameras.txt").read_text().splitlines()[1:]]
    assert [c[1] for c in cameras] == ["PINHOLE"]
    (folder / "cameras.bin").write_bytes(
        struct.pack("<QIiQQ4d", 1, 1, 1, 640, 480, *map(float, cameras[0][4:]))
    )
    lines = [line for line in (folder / "images.txt").read_text().splitlines() if not line.startswith("#")]
    data = struct.pack("<Q", len(lines) // 2)
    for head, tail in zip(lines[::2], lines[1::2], strict=True):
        fields, seen = head.split(), tail.split()
        data += struct.pack("<I7dI", int(fields[0]), *map(float, fields[1:8]), int(fields[8]))
        data += fields[9].encode() + b"\0" + struct.pack("<Q", len(seen) // 3)
        for x, y, point in zip(seen[::3], seen[1::3], seen[2::3], strict=True):
            data += struct.pack("<2dQ", float(x), float(y), int(point) % 2**64)
    (folder / "images.bin").write_bytes(data)
    (folder / "points3D.bin").write_bytes(struct.pack("<Q", 0))
    for path in folder.glob("*.txt"):
        path.unlink()


def test_read_pairs_binary_model_equals_text(tmp_path: Path) -> None:
    root = model(tmp_path)
    (text,) = read_pairs(root).truths
    as_binary(root)
    (binary,) = read_pairs(root).truths
    assert binary.pair.facts == text.pair.facts
    assert binary.definition() == text.definition()


def views(root: Path) -> Path:
    pictures(root)
    lines = []
    for name in ANGLES:
        T = world_to_camera(name)
        numbers = [*T[:3, :3].ravel(), *T[:3, 3]]
        lines.append(f"{name} {' '.join(repr(float(v)) for v in numbers)} PINHOLE 640 480 500 510 320 240")
    (root / "views.txt").write_text("\n".join(lines) + "\n")
    (root / "pairs.txt").write_text("a.jpg sub/b.jpg\nsub/b.jpg c.jpg\n")
    return root


def test_posed_images_with_a_list(tmp_path: Path) -> None:
    pairs = read_pairs(views(tmp_path)).truths
    assert [(p.pair.name, p.centre) for p in pairs] == [("a--b", 0.5), ("b--c", 0.5)]
    expected = world_to_camera("c.jpg") @ np.linalg.inv(world_to_camera("sub/b.jpg"))
    np.testing.assert_allclose(pairs[1].T_0to1, expected, atol=1e-12)


def test_posed_images_name_what_is_wrong(tmp_path: Path) -> None:
    views(tmp_path)
    (tmp_path / "pairs.txt").write_text("a.jpg z.jpg\n")
    text = (tmp_path / "views.txt").read_text()
    (tmp_path / "views.txt").write_text(text + text.splitlines()[0] + "\nshort 1 2\n")
    with pytest.raises(ProblemsError) as caught:
        read_pairs(tmp_path)
    assert "line 1: no pose is given for z.jpg" in str(caught.value)
    assert "views.txt, line 4: duplicate name a.jpg" in str(caught.value)
    assert "views.txt, line 5 has 3 fields" in str(caught.value)
    (tmp_path / "pairs.txt").unlink()
    with pytest.raises(InputError, match=r"pairs\.txt: is missing"):
        read_pairs(tmp_path)


def lines_of(form: str, T: np.ndarray) -> str:
    K = "500 0 320 0 510 240 0 0 1"
    R, t = T[:3, :3].ravel(), T[:3, 3]
    numbers = {"Rt": [*R, *t], "T": T.ravel().tolist()}
    if form == "H":
        return "a.jpg c.jpg 1 0 5 0 1 6 0 0 1"
    return f"a.jpg c.jpg {K} {K} {' '.join(repr(float(v)) for v in numbers[form])}"


@pytest.mark.parametrize("form", ["Rt", "T"])
def test_text_without_turns(tmp_path: Path, form: str) -> None:
    pictures(tmp_path)
    T = world_to_camera("c.jpg")
    (tmp_path / "pairs_calibrated.txt").write_text(lines_of(form, T) + "\n")
    (truth,) = read_pairs(tmp_path).truths
    np.testing.assert_allclose(truth.T_0to1, T, atol=1e-15)
    assert (truth.pair.name, truth.centre, truth.pair.turns) == ("a--c", 0.5, (0, 0))


def test_text_with_homographies(tmp_path: Path) -> None:
    pictures(tmp_path)
    (tmp_path / "pairs.txt").write_text(lines_of("H", np.eye(4)) + "\na.jpg c.jpg 1\n")
    with pytest.raises(ProblemsError, match="line 2 has 3 fields; expected 32"):
        read_pairs(tmp_path, needs="homography")
    (tmp_path / "pairs.txt").write_text(lines_of("H", np.eye(4)) + "\n")
    (truth,) = read_pairs(tmp_path, needs="homography").truths
    assert truth.annotations["H"].tolist() == [[1, 0, 5], [0, 1, 6], [0, 0, 1]]


def test_one_line_files_of_several_sets(tmp_path: Path) -> None:
    K = "500 0 320 0 510 240 0 0 1"
    for folder in ("gl3d", "kitti"):
        pictures(tmp_path / folder)
        T = " ".join(repr(float(v)) for v in world_to_camera("c.jpg").ravel())
        (tmp_path / folder / "x-1.txt").write_text(f"a c.jpg 0.4 0.25 {K} {K} {T}\n")
    pairs = read_pairs(tmp_path)
    assert [p.name for p in pairs.pairs] == ["gl3d/x-1", "kitti/x-1"]
    assert pairs.pairs[0].facts == {"overlap": 0.25, "set": "gl3d"}
    assert all(p.has_images() and p.dataset == "zeb" for p in pairs.pairs)
