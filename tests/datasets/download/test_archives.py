# SPDX-License-Identifier: BSD-3-Clause
"""Archives that want to write elsewhere, grow without end, or are damaged."""

import contextlib
import gzip
import io
import os
import random
import stat
import tarfile
import warnings
import zipfile

import pytest

from tiepoint.core.errors import FormatError, InputError
from tiepoint.datasets.download import archives as module
from tiepoint.datasets.download.archives import unpack

FILES = {"set/a/1.png": b"one", "set/a/2.png": b"two" * 1000, "set/list.txt": b""}
KINDS = ("zip", "tar", "tar.gz")


def archive(path, kind, members):
    """An archive of names and bytes, or of ready entries."""
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
            for name, data in members:
                out.writestr(name, data)
    else:
        with tarfile.open(path, "w:gz" if kind == "tar.gz" else "w") as out:
            for name, data in members:
                info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
                info.size = len(data) if info.isreg() else 0
                out.addfile(info, io.BytesIO(data))
    return path


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "outer" / "new"
    folder.mkdir(parents=True)
    return folder


def tree(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_in_an_archive_comes_out(tmp_path, place, kind):
    seen = []
    path = archive(tmp_path / "a.bin", kind, FILES.items())  # told by its content, not by its name
    assert unpack(path, place, progress=lambda done, total: seen.append((done, total))) == 3
    assert tree(place) == FILES
    assert seen[-1][0] <= seen[-1][1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../evil", "leads out of the folder"),
        ("set/../../evil", "leads out of the folder"),
        ("/tmp/evil", "absolute"),
        ("set\\..\\evil", "has a slash"),
        ("C:/evil", "drive|ends in|slash"),
        ("set/a\x1b[31m", "non-printable"),
        ("set/" + "x" * 250, "more than 200 bytes"),
        ("/".join("x" * 20), "levels"),
        ("set/a.", "dot or blank"),
    ],
)
def test_names_that_lead_elsewhere_are_refused(tmp_path, place, kind, name, words):
    path = archive(tmp_path / "a", kind, [("set/ok", b"1"), (name, b"2")])
    with pytest.raises(InputError, match=words):
        unpack(path, place)
    assert set(tree(tmp_path / "outer")) <= {"new/set/ok"}
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "names",
    [
        ("a/b", "a/b"),
        ("a/b", "A/b"),
        ("a/b", "a/B"),
        ("a", "a/b"),
        ("a/b", "a"),
        ("é", "e\u0301"),
        ("a", "./a"),
    ],
)
def test_a_place_is_taken_once_on_every_file_system(tmp_path, place, kind, names):
    with warnings.catch_warnings():  # zipfile finds it odd, too
        warnings.simplefilter("ignore")
        path = archive(tmp_path / "a", kind, [(names[0], b"1"), (names[1], b"2")])
    with pytest.raises(InputError, match="another member has the path"):
        unpack(path, place)


def test_links_and_devices_are_refused(tmp_path, place):
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE):
        info = tarfile.TarInfo("set/link")
        info.type, info.linkname = kind, "/etc/passwd"
        path = archive(tmp_path / "a.tar", "tar", [(info, b"")])
        with pytest.raises(InputError, match=r"a link, a device or sparse|damaged"):
            unpack(path, place)
    info = zipfile.ZipInfo("set/link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(InputError, match="a link, a device or sparse"):
        unpack(archive(tmp_path / "a.zip", "zip", [(info, b"/etc/passwd")]), place)
    assert tree(place) == {}


def test_modes_and_leavings_are_not_taken_over(tmp_path, place):
    info = tarfile.TarInfo("set/run.sh")
    info.mode = 0o4777
    junk = [("__MACOSX/set/._run.sh", b"x"), ("set/.DS_Store", b"x"), ("set/._a", b"x")]
    unpack(archive(tmp_path / "a.tar", "tar", [(info, b"1"), *junk]), place)
    assert list(tree(place)) == ["set/run.sh"]
    assert (place / "set/run.sh").stat().st_mode & 0o7111 == 0


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_a_bomb_is_stopped_while_it_grows(tmp_path, place, kind, monkeypatch):
    monkeypatch.setattr(module, "_SLACK", 1 << 20)
    path = archive(tmp_path / "a", kind, [(f"{i}", bytes(8 << 20)) for i in range(4)])
    assert path.stat().st_size < 64_000
    with pytest.raises(InputError, match="far more than expected"):
        unpack(path, place)
    os.rename(place, tmp_path / "old")
    place.mkdir()
    with pytest.raises(InputError, match="the content has more than 1,048,676 bytes"):
        unpack(path, place, max_bytes=100)
    assert sum(len(v) for v in tree(place).values()) < 3 << 20


def test_too_many_files_are_not_unpacked(tmp_path, place):
    path = archive(tmp_path / "a", "tar", [(f"{i}", b"") for i in range(30)])
    with pytest.raises(InputError, match="more than 20 files"):
        unpack(path, place, max_files=20)


def test_a_header_that_wants_memory_is_refused(tmp_path, place):
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 1 << 40
    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)))
    with pytest.raises(InputError, match=r"a header of|damaged"):
        unpack(path, place)


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_a_sentence(tmp_path, place, kind):
    members = [(f"set/{i}", random.Random(i).randbytes(3000)) for i in range(5)]
    whole = archive(tmp_path / "a", kind, members).read_bytes()
    for i, cut in enumerate([whole[: len(whole) // 2], whole[:-700], b"", whole[:1]]):
        path = tmp_path / f"cut{i}"
        path.write_bytes(cut)
        folder = place / str(i)
        folder.mkdir()
        if kind == "tar" and i == 1:
            continue  # only the padding behind the end of the archive is gone
        with pytest.raises(FormatError, match=r"corrupt archive|not a zip, tar|is empty"):
            unpack(path, folder)
    chance = random.Random(3)
    for i in range(60):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path = tmp_path / "flipped"
        path.write_bytes(data)
        folder = place / f"f{i}"
        folder.mkdir()
        with contextlib.suppress(InputError):
            unpack(path, folder, max_bytes=1 << 20)
        assert set(tree(tmp_path / "outer")) == {f"new/{n}" for n in tree(place)}


def test_a_damaged_header_in_the_middle_of_a_tar_is_not_its_end(tmp_path, place):
    path = archive(tmp_path / "a.tar", "tar", [("a", b"1"), ("b", b"2"), ("c", b"3")])
    data = bytearray(path.read_bytes())
    data[1024 + 3] ^= 1  # the name of b: its checksum is wrong
    path.write_bytes(data)
    with pytest.raises(FormatError, match="it ends early"):
        unpack(path, place)


def test_what_is_no_archive_is_named(tmp_path, place):
    for data, words in (
        (b"<html><body>Not found</body></html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 7\n", "Git LFS pointer"),
        (b"hello", "not a zip, tar or tar.gz"),
        (b"7z\xbc\xaf\x27\x1c", "not a zip, tar or tar.gz"),
    ):
        (tmp_path / "a.zip").write_bytes(data)
        with pytest.raises(FormatError, match=words):
            unpack(tmp_path / "a.zip", place)


def test_a_member_without_a_name_is_damage(tmp_path, place):
    path = archive(tmp_path / "a.zip", "zip", [("Q", b"1")])
    path.write_bytes(path.read_bytes().replace(b"Q", b"\0"))  # a name ends at a zero byte
    with pytest.raises(FormatError, match=r"corrupt archive|contains no file"):
        unpack(path, place)


def test_an_encrypted_zip_is_refused(tmp_path, place):
    path = archive(tmp_path / "a.zip", "zip", [("a", b"1")])
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match="encrypted"):
        unpack(path, place)
