"""Packs of patch datasets: the same patches and the same keys, never a stale or damaged one in silence."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

import tiepoint
from tiepoint.cli.main import run as command
from tiepoint.core.array_cache import CACHE
from tiepoint.core.errors import FormatError, InputError, ProblemsError
from tiepoint.datasets.hpatches.dataset import HPatchesDataset
from tiepoint.datasets.hpatches.pack import PACK, pack_dataset
from tiepoint.datasets.validation.dataset import check_dataset
from tiepoint.formats.hpatches.patch_pack import open_pack
from tiepoint.formats.hpatches.patch_strip import read_strip, write_strip
from tiepoint.run.context import ContextRecipe


@pytest.fixture
def data(patches: Path, tmp_path: Path) -> Path:
    """A copy, to be packed and spoilt."""
    return Path(shutil.copytree(patches, tmp_path / "data"))


def test_a_packed_dataset_is_the_same(data: Path) -> None:
    plain = HPatchesDataset(data)
    assert tiepoint.pack(data) == data / PACK
    packed = HPatchesDataset(data)
    assert plain.pack is None
    assert packed.pack is not None
    assert (packed.sequences, packed.lengths, packed.side) == (plain.sequences, plain.lengths, plain.side)
    for sequence in plain.sequences:
        assert packed.images(sequence) == plain.images(sequence)
        for image in plain.images(sequence):
            assert packed.item(sequence, image) == plain.item(sequence, image)
            content = hashlib.sha256((data / sequence / f"{image}.png").read_bytes()).hexdigest()
            assert packed.item(sequence, image).content == content
            found = packed.patches(sequence, image)
            assert np.array_equal(found, read_strip(data / sequence / f"{image}.png"))
            assert found.dtype == np.uint8
            found[:] = 0  # a method may; nobody else sees it
            assert packed.patches(sequence, image).any()
    assert packed.warnings == ()
    assert not list(data.glob(".*"))


@pytest.mark.parametrize("alone", ["file", "folder"])
def test_a_pack_without_strips(data: Path, tmp_path: Path, alone: str) -> None:
    place = tmp_path / "own.tiepack" if alone == "file" else tmp_path / "moved" / PACK
    made = pack_dataset(data, place)
    assert "pass it as `data`" in str(made)
    assert HPatchesDataset(data).pack is None
    given = place if alone == "file" else place.parent
    keys = {
        root: ContextRecipe("hpatches/matching", str(root), {}, "meanstd", {}, str(tmp_path / "s"), 1).build()
        for root in (data, given)
    }
    assert keys[data].feature_keys == keys[given].feature_keys
    assert keys[data].opened.data_hash == keys[given].opened.data_hash
    report = check_dataset(given)
    assert report.ok, report
    if alone == "file":
        with pytest.raises(InputError, match="without strip files"):
            HPatchesDataset(given).path("v_bb", "ref")


def test_scores_and_keys_do_not_depend_on_it(data: Path, tmp_path: Path) -> None:
    plain = tiepoint.evaluate("meanstd", task="hpatches/matching", data=data, store=tmp_path / "a")
    pack_dataset(data)
    packed = tiepoint.evaluate("meanstd", task="hpatches/matching", data=data, store=tmp_path / "b")
    assert plain.id == packed.id
    assert plain.rows() == packed.rows()
    kept = [sorted(p.name for p in (tmp_path / s / "features").glob("*/*")) for s in "ab"]
    assert kept[0] == kept[1]


def test_a_changed_strip_makes_it_stale(data: Path) -> None:
    pack_dataset(data)
    strip = data / "v_bb" / "e2.png"
    os.utime(strip, ns=(1, 1))
    assert HPatchesDataset(data).pack is not None  # only the time: the content is what was packed
    write_strip(strip, 255 - read_strip(strip))
    opened = HPatchesDataset(data)
    assert opened.pack is None
    assert "v_bb/e2.png changed" in opened.warnings[0]
    assert "`data pack`" in opened.warnings[0]
    assert np.array_equal(opened.patches("v_bb", "e2"), read_strip(strip))
    assert any("not used" in w for w in check_dataset(data).warnings)
    pack_dataset(data)
    assert HPatchesDataset(data).pack is not None
    (data / "v_bb" / "e9.png").write_bytes(strip.read_bytes())
    with pytest.raises(ProblemsError, match="e9"):  # the others have no such image
        HPatchesDataset(data)
    (data / "v_bb" / "e9.png").unlink()
    shutil.rmtree(data / "v_cc")
    assert "v_cc/e1.png was removed" in HPatchesDataset(data).warnings[0]


def test_a_notice_of_a_stale_pack_reaches_the_run(data: Path, tmp_path: Path) -> None:
    pack_dataset(data)
    write_strip(data / "v_bb" / "e2.png", 255 - read_strip(data / "v_bb" / "e2.png"))
    with pytest.warns(UserWarning, match="not used because v_bb/e2.png changed"):
        tiepoint.evaluate("meanstd", task="hpatches/matching", data=data, store=tmp_path / "s")


@pytest.mark.parametrize("folder", [True, False])
def test_damaged_packs_are_refused(data: Path, tmp_path: Path, folder: bool) -> None:
    place = pack_dataset(data, None if folder else tmp_path / "p.tiepack").path
    given = data if folder else place
    good = place.read_bytes()
    spoilt = {
        "is not a pack": b"something else",
        "truncated pack": good[:-1],
        "is a truncated pack": good[:5000],
        "corrupt table": good[:-200] + bytes([good[-200] ^ 1]) + good[-199:],
        "is a pack with a corrupt table": good[:-64] + bytes(8) + good[-56:],
    }
    for words, content in spoilt.items():
        place.write_bytes(content)
        with pytest.raises(FormatError, match=words) as e:
            HPatchesDataset(given)
        assert place.name in str(e.value)
        assert not check_dataset(given).ok
    place.write_bytes(b"")
    with pytest.raises(FormatError, match="not a pack"):
        HPatchesDataset(given)


@pytest.mark.parametrize(
    ("was", "now"),
    [(b'"sums": {', b'"sums": 5, "_": {'), (b'"side": 9,', b'"side": 9.5e400,'), (b", 20, ", b", 20.0, ")],
)
def test_a_table_of_other_types_is_refused(data: Path, was: bytes, now: bytes) -> None:
    """The hash of the table fits, as if a program had written it."""
    pack = pack_dataset(data).path
    content = pack.read_bytes()
    end = struct.Struct("<QQ32s16s")
    at, length, _, last = end.unpack(content[-end.size :])
    table = content[at : at + length]
    assert was in table
    rows = table.replace(was, now, 1)
    pack.write_bytes(content[:at] + rows + end.pack(at, len(rows), hashlib.sha256(rows).digest(), last))
    with pytest.raises(FormatError, match="corrupt table"):
        open_pack(pack)


def test_check_verifies_the_hashes(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = pack_dataset(data).path
    assert check_dataset(data).ok
    strip = HPatchesDataset(data).pack.strips["v_bb/h3"]  # type: ignore[union-attr]
    content = bytearray(place.read_bytes())
    content[strip.offset + 7] ^= 1
    place.write_bytes(content)
    report = check_dataset(data)
    (problem,) = report.problems
    assert problem == f"{PACK}, v_bb/h3: the pixels do not match their hash; pack the dataset again"
    assert check_dataset(data, deep=False).ok
    shutil.rmtree(data / "v_bb")
    pack_dataset(data)
    png = data / "v_cc" / "ref.png"
    stat = png.stat()
    swapped = bytearray(png.read_bytes())
    swapped[-14] ^= 1
    png.write_bytes(swapped)
    os.utime(png, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert any("v_cc/ref.png changed later" in w for w in check_dataset(data).warnings)
    monkeypatch.setattr(
        "tiepoint.datasets.hpatches.pack.hash_file",
        lambda path: open_pack(data / PACK).strips[f"{path.parent.name}/{path.stem}"].content,
    )  # a decayed disk
    assert any("not the file that was packed" in p for p in check_dataset(data).problems)


def test_a_folder_that_cannot_be_written_to(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    place = pack_dataset(data).path
    assert place.parent == tmp_path / "cache"
    found = HPatchesDataset(data).pack
    assert found is not None
    assert found.path == place
    moved = Path(shutil.copytree(data, tmp_path / "moved"))  # found by what the strips are, not where
    assert HPatchesDataset(moved).pack is not None
    write_strip(moved / "v_bb" / "e2.png", read_strip(moved / "v_bb" / "e2.png")[:, ::-1])
    assert HPatchesDataset(moved).pack is None


def test_wrong_input(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["data", "pack", str(data)]) == 0
    assert f"{PACK}: 960 patches of 48 strips" in capsys.readouterr().out
    for arguments, words in {
        (str(tmp_path / "nowhere"),): "not a folder of patch strips",
        (str(data), "--to", str(tmp_path / "x.png")): "ends in .tiepack",
        (str(data), "--to", str(data / "i_aa" / "ref.png" / "x.tiepack")): "cannot write",
        (str(tmp_path),): "one level deeper",
    }.items():
        assert command(["data", "pack", *arguments]) == 2
        assert words in capsys.readouterr().err
    lengths = tmp_path / "only"
    lengths.mkdir()
    (lengths / "lengths.json").write_text('{"v_a": 3}')
    with pytest.raises(InputError, match="but no strips to pack"):
        pack_dataset(lengths)
    strip = data / "v_bb" / "e2.png"
    whole = strip.read_bytes()
    strip.write_bytes(whole[:80] + bytes([whole[80] ^ 255]) + whole[81:])
    with pytest.raises(FormatError, match=r"e2\.png"):
        pack_dataset(data)
    assert not list(data.glob(".*"))  # the old pack is still there, and nothing half-written
    assert (data / PACK).exists()
