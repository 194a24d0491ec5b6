# SPDX-License-Identifier: BSD-3-Clause
"""Which release a dataset is: whole, a subset with its missing parts, cut anew, or none that is known."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.hashing import hash_file
from tiepoint.datasets.hpatches.dataset import HPatchesDataset
from tiepoint.datasets.hpatches.splits import official_lengths, official_splits, open_lengths
from tiepoint.datasets.image_pairs.pair import ImagePair
from tiepoint.datasets.tss import TssPair
from tiepoint.datasets.validation.dataset import check_dataset
from tiepoint.datasets.validation.releases import (
    pairs_release,
    patches_release,
    releases,
    sequences_release,
    tss_release,
)
from tiepoint.formats.flow.flo import write_flo
from tiepoint.formats.hpatches.patch_strip import write_strip
from tiepoint.formats.image.reader import write_image
from tiepoint.tasks import TASKS

REAL = Path(os.environ.get("TIEPOINT_TEST_DATA", "../shared/data"))
real = pytest.mark.skipif(not REAL.is_dir(), reason="needs real data (TIEPOINT_TEST_DATA)")
RELEASE = official_lengths() | {s: low for s, (low, _) in open_lengths().items()}
OLD = releases()["hpatches-2016-train"]["lengths"]


def test_lengths_tell_the_releases_apart():
    new = patches_release(HPatchesDataset.from_lengths(RELEASE))
    assert (new.key, new.complete, new.missing) == ("hpatches-2017", True, ())
    old = patches_release(HPatchesDataset.from_lengths(OLD))
    assert (old.key, old.complete, old.total) == ("hpatches-2016-train", True, 76)
    half = dict(list(RELEASE.items())[:60])
    found = patches_release(HPatchesDataset.from_lengths(half))
    assert (found.have, found.total, found.complete) == (60, 116, False)
    assert set(found.missing) == set(RELEASE) - set(half)
    assert patches_release(HPatchesDataset.from_lengths({"mine": 3})) is None


def test_patches_that_were_cut_anew_are_not_the_release():
    found = patches_release(HPatchesDataset.from_lengths(RELEASE | {"v_wall": 7, "own": 3}))
    assert (found.differs, found.complete) == (True, False)
    assert "v_wall differ" in found.notes[0]
    assert "the release does not contain own" in found.notes[1]
    assert "not HPatches 2017" in found.lines()[0]


def test_strips_that_lack_images_are_no_whole_release(tmp_path):
    write_strip(tmp_path / "v_x" / "ref.png", np.zeros((3, 65, 65), np.uint8))
    write_strip(tmp_path / "v_graffiti" / "ref.png", np.zeros((3, 65, 65), np.uint8))
    report = check_dataset(tmp_path)
    assert report.release.differs
    assert "images are missing in 1 of 1 sequence: v_graffiti (first: e1, e2" in str(report)
    assert "usable for: no task" in str(report)
    assert report.uses == ()


def test_missing_names_are_cut_unless_all_are_asked_for():
    found = patches_release(HPatchesDataset.from_lengths({"v_graffiti": 1123}))
    assert "and 95 more" in found.lines()[1]
    assert found.lines(shown=999)[1].count(",") == 114


def test_image_sequences_by_name():
    names = official_splits()["full"].test
    whole = sequences_release(names, dict.fromkeys(names, 6))
    assert (whole.complete, whole.total) == (True, 116)
    short = sequences_release(names, {**dict.fromkeys(names, 6), "v_wall": 5})
    assert (short.differs, short.notes[1]) == (True, "not 6 images: v_wall")
    assert sequences_release(["a"], {"a": 6}) is None


def test_tss_by_groups():
    groups = releases()["tss"]["groups"]
    pairs = [TssPair(g, str(i), Path()) for g, n in groups.items() for i in range(n)]
    assert tss_release(pairs).complete
    assert tss_release(pairs[:-4]).lines()[0].endswith("a subset, 396 of 400 pairs")
    assert tss_release([TssPair("DEMO", "a", Path())]) is None


def pair(name, dataset, **more):
    return ImagePair(name, "s", dataset, **more)


def test_sets_of_pairs_by_name_and_number():
    names = releases()["wxbs-1.1"]["names"]
    assert len(names) == 34
    usable = [pair(n, "wxbs") for n in names if n != "WLABS/ministry"]
    assert pairs_release(usable).complete
    assert pairs_release(usable[1:]).missing == (names[0],)
    assert pairs_release([pair(n, "evd") for n in releases()["evd"]["names"]]).complete
    classes = releases()["pf-willow"]["names"]
    willow = [pair(f"{c}{i}", "pf-willow", facts={"category": c}) for c in classes for i in range(90)]
    assert pairs_release(willow).complete
    assert pairs_release(willow[1:]).differs
    assert pairs_release(willow[90:]).missing == ("car(G)",)
    spair = [pair(str(i), "spair", facts={"split": "val"}) for i in range(5384)]
    assert pairs_release(spair).complete
    assert not pairs_release(spair[1:]).complete
    assert pairs_release([pair(str(i), "pf-pascal") for i in range(299)]).complete
    assert pairs_release([pair("a", "zeb")]) is None
    known = ("205993922_4ad25ed386_o.jpg", "2912685234_7c4c21ee78_o.jpg")
    assert (
        pairs_release([pair("a", "", image0=Path(known[0]), image1=Path(known[1]))]).key == "megadepth-1500"
    )
    assert pairs_release([pair("a", "megadepth", image0=Path("a.jpg"), image1=Path("b.jpg"))]) is None


@real
@pytest.mark.parametrize(
    ("place", "key", "have", "of"),
    [
        ("sequences", "hpatches-sequences", 5, 116),
        ("patches", "hpatches-2017", 1, 116),
        ("tss", "tss", 4, 400),
        ("pf_willow", "pf-willow", 2, 10),
        ("scannet_sample", "scannet-1500", 8, 1500),
        ("truth/scannet_test_pairs_with_gt.txt", "scannet-1500", 1500, 1500),
        ("truth/scannet_test.npz", "scannet-1500", 1500, 1500),
        ("truth/megadepth_1500.json", "megadepth-1500", 1500, 1500),
        ("truth/megadepth_0015_0.1_0.3.npz", "megadepth-1500", 300, 1500),
        ("wxbs", "wxbs-1.1", 16, 33),
        ("evd", "evd", 8, 15),
        ("spair_sample", "spair-71k", 3, 12234),
    ],
)
def test_real_data(place, key, have, of):
    found = check_dataset(REAL / place, deep=False)
    assert found.ok
    assert (found.release.key, found.release.have, found.release.total) == (key, have, of)
    known = {entry.name for entry in TASKS} | {"custom patches"}
    assert {task for use in found.uses for task in use.tasks} <= known
    assert found.uses or place == "patches"


@real
def test_a_pair_that_is_not_of_a_release_is_ones_own():
    assert "release: no known release" in str(check_dataset(REAL / "megadepth_sample", deep=False))


@real
def test_content_that_is_known_is_compared(tmp_path):
    copied = shutil.copytree(REAL / "evd", tmp_path / "sets" / "EVD", copy_function=shutil.copyfile)
    for folder in (tmp_path / "sets" / "EVD", tmp_path / "sets"):
        assert "the content of 24 files is known, and 24 match it" in str(check_dataset(folder))
    (copied / "h").chmod(0o755)
    (copied / "h" / "cat.txt").write_text("1 0 2\n0 1 3\n0 0 1\n")
    assert "and 23 match it; not h/cat.txt" in str(check_dataset(copied))
    assert "is known, and" not in str(check_dataset(copied, deep=False))


def test_folders_of_flow_pairs_are_known(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for i in (1, 2):
            write_image(tmp_path / name / f"image{i}.png", rng.integers(0, 255, (6, 8, 3)).astype(np.uint8))
        write_flo(tmp_path / name / "flow.flo", np.zeros((6, 8, 2)))
    report = check_dataset(tmp_path)
    assert (report.ok, report.facts, report.uses[0].tasks) == (True, ("2 pairs",), ("dense/flow",))
    (tmp_path / "b" / "flow.flo").write_bytes(b"version https://git-lfs.github.com/spec/v1\nsize 3\n")
    assert "is a Git LFS pointer" in str(check_dataset(tmp_path).problems)


def test_a_check_reads_images_and_trusts_no_memory(tmp_path):
    """An image whose size and time are those of before is read again."""
    for i in range(2):
        write_image(tmp_path / f"{i}.bmp", np.full((4, 5, 3), i, np.uint8))
    K = [[5, 0, 2], [0, 5, 2], [0, 0, 1]]
    T = [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]]
    entry = {"image0": "0.bmp", "image1": "1.bmp", "K0": K, "K1": K, "T_0to1": T}
    (tmp_path / "pairs.json").write_text(json.dumps([entry]))
    hash_file(tmp_path / "1.bmp")  # as a run in the same process does
    assert not check_dataset(tmp_path).warnings
    stamp = (tmp_path / "1.bmp").stat()
    (tmp_path / "1.bmp").write_bytes((tmp_path / "0.bmp").read_bytes())
    os.utime(tmp_path / "1.bmp", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert "1 pair has two identical images" in str(check_dataset(tmp_path).warnings)


def test_flow_pairs_are_decoded_unless_in_a_hurry(tmp_path):
    folder = tmp_path / "JODS" / "a"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for i in (1, 2):
        write_flo(folder / f"flow{i}.flo", np.zeros((6, 8, 2)))
        write_image(folder / f"mask{i}.png", np.full((6, 8), 255, np.uint8))
        write_image(folder / f"image{i}.png", rng.integers(0, 255, (6, 8, 3)).astype(np.uint8))
    (folder / "flip_gt.txt").write_text("0\n")
    (folder / "pair.txt").write_text("Image1,Image2\na.png,b.png\n")
    assert check_dataset(tmp_path).ok
    image = bytearray((folder / "image1.png").read_bytes())
    image[60] ^= 0xFF
    (folder / "image1.png").write_bytes(image)
    assert check_dataset(tmp_path, deep=False).ok
    assert "image1.png" in str(check_dataset(tmp_path).problems)
