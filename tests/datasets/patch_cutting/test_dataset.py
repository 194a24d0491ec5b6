# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.errors import FormatError, InputError
from tiepoint.datasets.demo.dataset import make_demo
from tiepoint.datasets.hpatches.dataset import HPatchesDataset
from tiepoint.datasets.image_sequences import ImageSequences
from tiepoint.datasets.patch_cutting import dataset as module
from tiepoint.datasets.patch_cutting.dataset import contact_sheet, cut_patches
from tiepoint.datasets.patch_cutting.sequence import CutOptions
from tiepoint.datasets.validation.dataset import check_dataset
from tiepoint.formats.hpatches.patch_strip import read_strip
from tiepoint.formats.image.reader import read_image, read_size, to_grey, write_image
from tiepoint.formats.text.numbers import read_homography, write_homography
from tiepoint.geometry.patch_sampling import magnify, render_view, sample_patches, square_in_view

REAL = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[4] / "shared" / "data")) / "sequences"
NAMES = ["ref", *(f"{n}{k}" for n in "eht" for k in (1, 2))]


def read_frames(path: Path) -> np.ndarray:
    """Frames (n, 2, 3) of a file: centre, then A by columns, a line."""
    values = np.loadtxt(path, delimiter=",", ndmin=2)
    return np.stack([values[:, 2:4], values[:, 4:6], values[:, 0:2]], axis=2)


def texture(seed):
    """A picture with structure at many scales."""
    from scipy.ndimage import gaussian_filter

    rng = np.random.default_rng(seed)
    layers = [gaussian_filter(rng.normal(size=(180, 220)), s) for s in (1.5, 3, 6, 12)]
    picture = sum(layer / layer.std() for layer in layers)
    return np.clip(128 + 30 * picture, 0, 255)[:, :, None]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Two sequences of three images of a textured plane; images of different sizes."""
    root = tmp_path_factory.mktemp("sequences")
    views = [
        np.eye(3),
        np.array([[0.9, -0.15, 24], [0.12, 0.95, 5], [2e-4, -1e-4, 1]]),
        np.diag([1.2, 1.2, 1]),
    ]
    for seed, scene in enumerate(("v_one", "v_two")):
        folder = root / scene
        folder.mkdir()
        for k, to_photo in enumerate(views, start=1):
            size = (160, 130) if k < 3 else (150, 125)
            grey = np.rint(render_view(texture(seed), to_photo, size))[:, :, 0].astype(np.uint8)
            write_image(folder / f"{k}.png", grey)
            if k > 1:
                write_homography(folder / f"H_1_{k}", np.linalg.inv(to_photo))
    return root


@pytest.fixture(scope="module")
def cut(root, tmp_path_factory):
    out = tmp_path_factory.mktemp("cut") / "patches"
    return out, cut_patches(root, out)


def test_layout(cut, root):
    out, result = cut
    for scene, counts in result.counts.items():
        expected = {f"{n}{end}" for n in NAMES for end in (".png", ".frames")} | {"H_ref_1", "H_ref_2"}
        assert {p.name for p in (out / scene).iterdir()} == expected
        for name in NAMES:
            assert read_strip(out / scene / f"{name}.png").shape == (counts["patches"], 65, 65)
        assert "," in (out / scene / "H_ref_2").read_text()
        assert np.array_equal(
            read_homography(out / scene / "H_ref_2"), read_homography(root / scene / "H_1_3")
        )
    assert sorted(p.name for p in out.iterdir()) == ["v_one", "v_two"]
    assert min(c["patches"] for c in result.counts.values()) > 40


def test_counts_fall_and_overlaps_are_measured(cut):
    _, result = cut
    for counts in result.counts.values():
        assert list(counts.values()) == sorted(counts.values(), reverse=True)
    assert result.pooled_overlap["easy"] == pytest.approx(0.85, abs=0.02)
    assert result.pooled_overlap["hard"] == pytest.approx(0.72, abs=0.025)
    assert result.pooled_overlap["tough"] < 0.65
    assert "easy" in str(result)
    assert "v_two" in str(result)


def test_frames_say_where_the_patches_are(cut, root):
    out, _ = cut
    for name in NAMES:
        image = root / "v_one" / f"{1 if name == 'ref' else int(name[1]) + 1}.png"
        support = magnify(read_frames(out / "v_one" / f"{name}.frames"), 5)
        assert square_in_view(support, read_size(image)).all()
        again = sample_patches(to_grey(read_image(image)), support)
        assert np.abs(again - read_strip(out / "v_one" / f"{name}.png")).max() < 0.6


def correlation(a, b):
    a, b = (p.reshape(len(p), -1) - p.mean(axis=(1, 2))[:, None] for p in (a.astype(float), b.astype(float)))
    return (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def test_corresponding_patches_look_alike_less_so_with_more_jitter(cut):
    out, _ = cut
    for scene in ("v_one", "v_two"):
        strips = {name: read_strip(out / scene / f"{name}.png") for name in NAMES}
        for k in "12":
            easy, hard, tough = (np.median(correlation(strips["ref"], strips[n + k])) for n in "eht")
            assert easy > hard > tough > 0.2
            assert easy > 0.8
            shuffled = np.median(correlation(strips["ref"], np.roll(strips["e" + k], 7, axis=0)))
            assert shuffled < tough


def test_contrast_and_order(cut):
    out, _ = cut
    for name in NAMES:
        assert read_strip(out / "v_one" / f"{name}.png").std(axis=(1, 2)).min() >= 5
    centres = read_frames(out / "v_one" / "ref.frames")[:, :, 2]
    assert np.array_equal(np.lexsort((centres[:, 0], centres[:, 1])), np.arange(len(centres)))


def files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.slow
def test_bytes_depend_on_the_seed_only(cut, root, tmp_path):
    out, _ = cut
    cut_patches(root, tmp_path / "jobs", jobs=2, sheets=False)
    assert files(tmp_path / "jobs") == files(out)
    cut_patches(ImageSequences(root, ["v_two"]), tmp_path / "alone", sheets=False)
    assert files(tmp_path / "alone" / "v_two") == files(out / "v_two")
    cut_patches(ImageSequences(root, ["v_two"]), tmp_path / "seed", options=CutOptions(seed=1), sheets=False)
    assert files(tmp_path / "seed" / "v_two") != files(out / "v_two")
    assert not (tmp_path / "jobs-contact-sheets").exists()


@pytest.mark.slow
def test_options_have_effect(root, tmp_path):
    data = ImageSequences(root, ["v_one"])
    few = cut_patches(data, tmp_path / "few", options=CutOptions(max_patches=20, side=33))
    assert few.counts["v_one"]["patches"] == 20
    assert read_strip(tmp_path / "few" / "v_one" / "h2.png").shape == (20, 33, 33)
    strict = cut_patches(data, tmp_path / "strict", options=CutOptions(min_deviation=30))
    assert strict.counts["v_one"]["patches"] < strict.counts["v_one"]["inside every image, jittered"]
    dense = cut_patches(data, tmp_path / "dense", options=CutOptions(cluster_overlap=0.9))
    assert dense.counts["v_one"]["not overlapping"] > strict.counts["v_one"]["not overlapping"]
    small = cut_patches(data, tmp_path / "small", options=CutOptions(magnification=2))
    assert small.counts["v_one"]["inside every image"] > strict.counts["v_one"]["inside every image"]


def test_an_earlier_cut_is_replaced_and_progress_is_told(root, tmp_path):
    folder = tmp_path / "p" / "v_one"
    folder.mkdir(parents=True)
    for name in ("t5.png", "t5.frames", "H_ref_5", "notes.txt"):
        (folder / name).write_text("x")
    told = []
    cut_patches(
        ImageSequences(root, ["v_one"]), tmp_path / "p", progress=lambda done, of: told.append((done, of))
    )
    assert told == [(1, 1)]
    assert (folder / "notes.txt").exists()
    assert not any((folder / name).exists() for name in ("t5.png", "t5.frames", "H_ref_5"))


def test_contact_sheet_is_written_and_shows_the_patches(cut):
    out, result = cut
    sheet = to_grey(read_image(result.sheets["v_one"]))
    assert result.sheets["v_one"].parent.name == "patches-contact-sheets"
    first = read_strip(out / "v_one" / "ref.png")[0]
    assert np.array_equal(sheet[17 : 17 + 65, 3 : 3 + 65], first)


def test_contact_sheet_of_few_patches():
    one = np.zeros((1, 9, 9), dtype=np.uint8)
    assert contact_sheet({"ref": one}).shape == (14 + 3 + 12, 15)


def test_sequences_without_texture(root, tmp_path):
    flat = tmp_path / "data" / "v_flat"
    flat.mkdir(parents=True)
    for k in (1, 2):
        write_image(flat / f"{k}.png", np.full((90, 90), 99, dtype=np.uint8))
    write_homography(flat / "H_1_2", np.eye(3))
    with pytest.raises(InputError, match="no patch could be cut"):
        cut_patches(tmp_path / "data", tmp_path / "out")
    os.symlink(root / "v_one", tmp_path / "data" / "v_one")
    result = cut_patches(tmp_path / "data", tmp_path / "out")
    assert result.empty == ("v_flat",)
    assert "v_flat" in str(result)
    assert not (tmp_path / "out" / "v_flat").exists()


def test_bad_requests(root, tmp_path):
    with pytest.raises(InputError, match="at least 1"):
        cut_patches(root, tmp_path, options=CutOptions(max_patches=0))
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot write"):
        cut_patches(ImageSequences(root, ["v_one"]), tmp_path / "file")


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason=f"real sequences are not in {REAL}")
def test_real_sequence(tmp_path):
    result = cut_patches(
        ImageSequences(REAL, ["v_dogman"]), tmp_path / "p", options=CutOptions(max_patches=200, side=33)
    )
    assert result.counts["v_dogman"]["patches"] == 200
    strips = {n: read_strip(tmp_path / "p" / "v_dogman" / f"{n}.png") for n in ("ref", "e1", "h1", "t1")}
    easy, hard, tough = (np.median(correlation(strips["ref"], strips[n])) for n in ("e1", "h1", "t1"))
    assert easy > hard > tough > 0
    assert easy > 0.8


@pytest.mark.slow
def test_a_cut_that_was_stopped_is_not_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was called whole by the check, and runs scored what was there."""
    made = make_demo(tmp_path, scenes=("v_camera", "i_coins"), size=(160, 120))
    out, real = tmp_path / "patches", module.cut_sequence

    def stop(sequences: object, scene: str, options: object) -> object:
        if scene == "v_camera":
            raise KeyboardInterrupt
        return real(sequences, scene, options)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "cut_sequence", stop)
    with pytest.raises(KeyboardInterrupt):
        module.cut_patches(made.sequences, out)
    assert (out / "i_coins" / "ref.png").is_file()
    report = check_dataset(out)
    assert not report.ok
    assert "did not finish; run it again" in str(report)
    with pytest.raises(FormatError, match="did not finish; run it again"):
        HPatchesDataset(out)
    monkeypatch.undo()
    module.cut_patches(made.sequences, out)
    assert check_dataset(out).ok
    assert HPatchesDataset(out).sequences == ("i_coins", "v_camera")
