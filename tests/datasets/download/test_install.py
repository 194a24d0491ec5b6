# SPDX-License-Identifier: BSD-3-Clause
"""Getting a whole dataset: mirrors, licence, room, trust, kills, and what was fetched by hand."""

import hashlib
import io
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiepoint.core.errors import FormatError, InputError, ProblemsError
from tiepoint.datasets.download.fetch import FetchOptions
from tiepoint.datasets.download.install import WORK, get_dataset, read_record, record_path
from tiepoint.datasets.download.partial_file import lock_file
from tiepoint.datasets.download.sources import read_sources

QUICK = FetchOptions(wait=lambda _seconds: None)


def planes(names=("adam", "cat"), top="EVD/"):
    """A zip in the layout of EVD, with noise as images."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for k, name in enumerate(names):
            for side in "12":
                png = io.BytesIO()
                pixels = np.random.default_rng([k, int(side)]).integers(0, 255, (24, 32, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(png, "PNG")
                file.writestr(f"{top}{side}/{name}.png", png.getvalue())
            file.writestr(f"{top}h/{name}.txt", "1 0 2\n0 1 3\n0 0 1\n")
    return out.getvalue()


DATA = planes()


@pytest.fixture
def sources(server, tmp_path):
    """Writes a file of sources with one dataset, `evd`, that comes from the given mirrors."""

    def write(*mirrors, files=None, hosts=("127.0.0.1",), ask=None, **more):
        mirrors = [m if isinstance(m, dict) else {"url": m} for m in mirrors]
        file = {
            "name": "EVD.zip",
            "about_bytes": 100_000,
            "unpacked_bytes": 200_000,
            "mirrors": [{"verified": "no: a test", **m} for m in mirrors],
        }
        licence = {
            "name": "of a test",
            "terms": "none",
            "page": "https://a.org",
            "verified": "no",
            "ask": ask,
        }
        source = {
            "title": "EVD of a test", "about": "planes", "folder": "EVD", "release": "evd",
            "licence": licence, "cite": "nobody", "page": "https://a.org", "hosts": list(hosts),
            "verified": "no", "files": files if files is not None else [file] if mirrors else [], **more,
        }  # fmt: skip
        path = tmp_path / "sources.json"
        path.write_text(json.dumps({"format": 1, "sources": {"evd": source}}))
        return path

    return write


def get(tmp_path, path, **more):
    given = {"accept_licence": True, "options": QUICK, **more}
    return get_dataset("evd", tmp_path / "sets", sources=path, **given)


def test_a_dataset_is_fetched_unpacked_checked_and_recorded(server, thing, sources, tmp_path):
    url = server.put("/EVD.zip", thing(DATA))
    got = get(tmp_path, sources(url))
    assert got.folder == tmp_path / "sets" / "EVD"
    assert sorted(p.name for p in got.folder.iterdir()) == ["1", "2", "h"]
    assert (got.report.ok, got.report.release.key, got.report.release.have) == (True, "evd", 2)
    entry = read_record(got.folder)["files"][0]
    assert entry["sha256"] == hashlib.sha256(DATA).hexdigest()
    assert (entry["url"], entry["bytes"], entry["hash_published"]) == (url, len(DATA), False)
    assert "trusted on first use" in str(got)
    assert sorted(p.name for p in (tmp_path / "sets" / WORK).iterdir()) == ["evd.lock"]
    again = get(tmp_path, sources(url))
    assert "exists; nothing was downloaded" in str(again)
    assert len(server.asked) == 1


def test_mirrors_are_tried_in_order_and_hashes_decide(server, thing, sources, tmp_path):
    told = []
    page = server.put("/page", thing(b"<html>sorry</html>"))
    wrong = server.put("/wrong", thing(planes(("cat", "vin"))))
    short = server.put("/short", thing(DATA, length=2000))
    right = server.put("/right", thing(DATA, drop_after=[700]))
    known = {"sha256": hashlib.sha256(DATA).hexdigest(), "size": len(DATA)}
    md5 = {"md5": hashlib.md5(DATA, usedforsecurity=False).hexdigest()}
    path = sources(
        server.put("/none", thing(codes=[404] * 9)),
        page,
        {"url": wrong, **md5},
        {"url": short, **md5},
        {"url": short, **known},
        {"url": right, **known},
    )
    got = get(tmp_path, path, options=FetchOptions(report=told.append, wait=lambda _: None))
    assert got.files[0][1].url == right
    assert got.files[0][1].published
    text = "\n".join(told)
    assert "returned 404" in text
    assert "is a web page" in text
    assert text.count("the file is corrupt or has changed: MD5") == 2
    assert f"2,000 bytes instead of the published {len(DATA):,}" in text


def test_no_mirror_is_a_list_of_reasons(server, thing, sources, tmp_path):
    path = sources(
        server.put("/a", thing(codes=[403])), server.put("/b", thing(location="http://localhost/b"))
    )
    with pytest.raises(
        ProblemsError,
        match=r"no mirror delivered EVD.zip(?s:.*)returned 403(?s:.*)not an allowed host(?s:.*)manually",
    ):
        get(tmp_path, path)
    assert not (tmp_path / "sets" / "EVD").exists()


def test_an_unguarded_address_is_asked_only_when_allowed(sources, tmp_path):
    path = sources("http://a.invalid/EVD.zip", hosts=["a.invalid"])
    with pytest.raises(ProblemsError, match="not encrypted and no hash is published"):
        get(tmp_path, path)
    with pytest.raises(ProblemsError, match="connection failed"):
        get(tmp_path, path, options=FetchOptions(wait=lambda _: None, allow_http=True))


def test_a_licence_must_be_accepted_or_asked_for(server, thing, sources, tmp_path):
    path = sources(server.put("/a", thing(DATA)))
    with pytest.raises(InputError, match=r"the licence of a test .* `accept_licence`"):
        get(tmp_path, path, accept_licence=False)
    with pytest.raises(InputError, match="cannot be downloaded directly: sign here; then pass"):
        get(tmp_path, sources(ask="sign here"))
    assert server.asked == []


def test_too_little_room_is_told_before_anything_is_fetched(server, thing, sources, tmp_path, monkeypatch):
    path = sources(server.put("/a", thing(DATA)))
    monkeypatch.setattr(
        "tiepoint.datasets.download.sources.shutil.disk_usage", lambda _: type("Usage", (), {"free": 9})()
    )
    with pytest.raises(InputError, match=r"9 B are free, but evd needs about 300 kB"):
        get(tmp_path, path)
    assert server.asked == []


def test_another_file_at_the_same_address_is_noticed(server, thing, sources, tmp_path):
    path = sources(server.put("/a", thing(DATA)))
    got = get(tmp_path, path)
    os.rename(got.folder, tmp_path / "away")
    server.put("/a", thing(planes(("cat", "vin")), etag='"two"'))
    with pytest.raises(InputError, match=r"has changed since the first download(?s:.*)remove .*EVD.source"):
        get(tmp_path, path)
    record_path(got.folder).unlink()
    assert get(tmp_path, path).report.release.have == 2


def test_what_is_inside_must_be_the_dataset(server, thing, sources, tmp_path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("EVD/readme.txt", "nothing here")
    with pytest.raises(FormatError, match="the unpacked files are not EVD of a test"):
        get(tmp_path, sources(server.put("/a", thing(out.getvalue()))))
    assert [p.name for p in (tmp_path / "sets").iterdir()] == [WORK]
    (tmp_path / "sets" / "EVD").mkdir()
    (tmp_path / "sets" / "EVD" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="exists and is not EVD of a test"):
        get(tmp_path, sources(server.put("/a", thing(DATA))))
    assert (tmp_path / "sets" / "EVD" / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("top", ["", "EVD/", "deep/down/"])
def test_the_folder_is_found_however_the_archive_was_packed(server, thing, sources, tmp_path, top):
    got = get(tmp_path, sources(server.put("/a", thing(planes(top=top)))))
    assert sorted(p.name for p in got.folder.iterdir()) == ["1", "2", "h"]


def test_single_files_go_beside_what_was_unpacked_and_may_be_optional(server, thing, sources, tmp_path):
    def mirrors(path, thing_):
        return [{"url": server.put(path, thing_), "verified": "no"}]

    files = [
        {"name": "EVD.zip", "about_bytes": 9000, "mirrors": mirrors("/a", thing(DATA))},
        {"name": "list.csv", "about_bytes": 9, "archive": False, "mirrors": mirrors("/l", thing(b"a,b"))},
        {"name": "more.csv", "about_bytes": 9, "archive": False, "optional": True,
         "mirrors": mirrors("/m", thing(codes=[404]))},
    ]  # fmt: skip
    told = []
    got = get(tmp_path, sources(files=files), options=FetchOptions(report=told.append, wait=lambda _: None))
    assert (got.folder / "list.csv").read_bytes() == b"a,b"
    assert any("continuing without more.csv" in words for words in told)


def test_archives_folders_and_lists_that_were_fetched_by_hand(server, sources, tmp_path):
    path = sources("http://127.0.0.1:1/EVD.zip", ask="sign")
    by_hand = tmp_path / "EVD.zip"
    by_hand.write_bytes(DATA)
    got = get(tmp_path, path, from_file=by_hand)
    assert read_record(got.folder)["files"][0]["url"] is None
    os.rename(got.folder, tmp_path / "copy")
    again = get(tmp_path, path, from_file=tmp_path / "copy")
    assert again.report.release.have == 2
    assert server.asked == []
    os.rename(again.folder, tmp_path / "copy2")
    (tmp_path / "copy" / "1" / "link.png").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match="is a symbolic link"):
        get(tmp_path, path, from_file=tmp_path / "copy")
    with pytest.raises(InputError, match="does not exist"):
        get(tmp_path, path, from_file=tmp_path / "nowhere.zip")
    known = sources({"url": "http://127.0.0.1:1/EVD.zip", "md5": "0" * 32})
    with pytest.raises(InputError, match="is corrupt or has changed"):
        get(tmp_path, known, from_file=by_hand)


def test_a_second_process_is_refused_and_spoils_nothing(server, thing, sources, tmp_path):
    path = sources(server.put("/a", thing(DATA)))
    with (
        lock_file(tmp_path / "sets" / WORK / "evd.lock", "evd"),
        pytest.raises(InputError, match="another process"),
    ):
        get(tmp_path, path)
    assert get(tmp_path, path).report.ok


def child(path, to, *more):
    """A process that gets the dataset."""
    code = textwrap.dedent(
        f"""
        import sys
        from tiepoint.cli.main import run
        sys.exit(run(["data", "get", "evd", "--sources", {str(path)!r}, "--to", {str(to)!r},
            "--accept-licence", *sys.argv[1:]]))
        """
    )
    source = Path(read_sources.__code__.co_filename).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code, *more], env=environment, **pipes)


def waited(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_process_that_is_stopped_leaves_a_part_that_the_next_continues(
    server, thing, sources, tmp_path, number
):
    path = sources(server.put("/a", thing(DATA, pause_s=60.0)))
    sets = tmp_path / "sets"
    process = child(path, sets)
    part = sets / WORK / "evd" / "EVD.zip.0.part"
    waited(lambda: part.exists() and part.stat().st_size > 0)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert not (sets / "EVD").exists()
    if number == signal.SIGINT:
        assert (process.returncode, "The downloaded part is saved" in err) == (130, True)
        assert "Traceback" not in out + err
    have = part.stat().st_size
    assert 0 < have < len(DATA)
    server.put("/a", thing(DATA))
    assert get(tmp_path, path).report.ok
    assert server.ranges()[-1] == f"bytes={have}-"


def test_a_call_that_was_killed_while_unpacking_leaves_nothing_that_looks_whole(
    server, thing, sources, tmp_path
):
    path = sources(server.put("/a", thing(DATA)))
    context = multiprocessing.get_context("fork" if os.name == "posix" else "spawn")
    process = context.Process(target=_killed_while_unpacking, args=(tmp_path, path))
    process.start()
    process.join(60)
    assert process.exitcode != 0
    assert [p.name for p in (tmp_path / "sets").iterdir()] == [WORK]
    assert list((tmp_path / "sets" / WORK / "evd" / "new").rglob("*.png"))
    server.asked.clear()
    assert get(tmp_path, path).report.ok
    assert server.asked == []  # the archive was whole
    assert not (tmp_path / "sets" / WORK / "evd").exists()


def _killed_while_unpacking(tmp_path, path):
    get(tmp_path, path, unpack_progress=lambda done, total: os._exit(9) if done > total / 2 else None)
