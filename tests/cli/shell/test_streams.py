"""What is printed fits the encoding, moves no cursor, and ends quietly where nobody reads."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tiepoint.cli.common import as_text, confirm
from tiepoint.cli.main import run as command
from tiepoint.cli.shell.streams import OutputError, TolerantStream, clean
from tiepoint.core.errors import InputError
from tiepoint.store.run_queries import load_heads
from tiepoint.store.store import Store

TIEPOINT = [sys.executable, "-m", "tiepoint"]
HOSTILE = "a\x1b]0;owned\x07\x1b[2Jb\rc\u202ed"


def in_ascii(*arguments: str, **more: str) -> subprocess.CompletedProcess[bytes]:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", **more}
    return subprocess.run([*TIEPOINT, *arguments], capture_output=True, env=os.environ | plain, timeout=120)


def ascii_stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="ascii")


def written(stream: io.TextIOWrapper, text: str) -> bytes:
    out = TolerantStream(stream)
    out.write(text)
    out.flush()
    return stream.buffer.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_signs_have_a_plain_form_and_the_rest_is_spelled_out() -> None:
    assert written(ascii_stream(), "3–5, ±2 × …") == b"3-5, +-2 x ..."
    assert written(ascii_stream(), "┏━┳┓┃│") == b"+-++||"
    assert written(ascii_stream(), "描") == b"\\u63cf"
    latin = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    assert written(latin, "é – 描") == "é - \\u63cf".encode("latin-1")


def test_half_a_character_is_no_error() -> None:
    utf8 = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    assert written(utf8, "name \udcff") == b"name \\udcff"


def test_control_characters_are_spelled_out() -> None:
    shown = clean(HOSTILE + "\n\tx\n")
    assert shown == "a\\x1b]0;owned\\x07\\x1b[2Jb\\rc\\u202ed\n\tx\n"


def test_bytes_find_no_way_around() -> None:
    out = TolerantStream(ascii_stream())
    assert not hasattr(out, "buffer")
    with pytest.raises(TypeError):
        out.write(b"x")  # type: ignore[arg-type]


class Full(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


class Gone(io.StringIO):
    def flush(self) -> None:
        raise BrokenPipeError(32, "Broken pipe")


def test_a_full_disk_is_an_error_and_a_reader_that_left_is_none() -> None:
    with pytest.raises(OutputError, match="cannot write to standard output: No space left") as full:
        TolerantStream(Full()).write("x")
    assert (full.value.exit_code, full.value.quiet) == (1, False)
    with pytest.raises(OutputError) as gone:
        TolerantStream(Gone()).flush()
    assert (gone.value.exit_code, gone.value.quiet) == (0, True)


def test_standard_error_is_not_needed() -> None:
    TolerantStream(Full(), needed=False).write("x")
    TolerantStream(Gone(), needed=False).flush()


@contextmanager
def printing_to(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as changed:
        changed.setattr(sys, "stdout", stream)
        yield


def test_exit_codes_of_output_that_is_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with printing_to(Full(), monkeypatch):
        assert command(["list", "methods"]) == 1
    assert capsys.readouterr().err == "tiepoint: cannot write to standard output: No space left on device\n"
    with printing_to(Gone(), monkeypatch):
        assert command(["list", "methods"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_full_device_a_broken_pipe_a_closed_output() -> None:
    line = " ".join(TIEPOINT) + " --version"
    for ending, code, said in (
        (" > /dev/full", 1, "tiepoint: cannot write to standard output: No space left on device\n"),
        (" | true; exit ${PIPESTATUS[0]}", 0, ""),
        (" >&-", 0, ""),
        (" 2>/dev/full", 0, ""),
        (" 2>&-", 0, ""),
    ):
        done = subprocess.run(["bash", "-c", line + ending], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (code, said), ending


def test_no_command_ends_in_a_traceback_where_there_is_only_ascii(small_store: Path, tmp_path: Path) -> None:
    store = str(small_store)
    for arguments in (
        ("compare", "--task", "hpatches/matching", "--store", store),
        ("show", "resize", "--task", "hpatches/matching", "--store", store),
        ("list", "--store", store),
        ("report", "--store", store, "--out", str(tmp_path / "r.md"), "--format", "md"),
    ):
        done = in_ascii(*arguments)
        assert b"Traceback" not in done.stderr, arguments
        assert done.returncode in (0, 2), (arguments, done.stderr)
        assert done.stdout.isascii()


def test_a_name_outside_ascii_is_kept_where_there_is_only_ascii(tmp_path: Path, patches: Path) -> None:
    asked = ("run", "resize", "--task", "hpatches/matching", "--data", str(patches), "--name", "naïve")
    done = in_ascii(*asked, "--store", str(tmp_path / "s"), "--jobs", "1")
    assert done.returncode == 0, done.stderr
    assert b"na\\xefve" in done.stdout
    with Store.open(tmp_path / "s", mode="read") as store:
        assert [h.method for h in load_heads(store)] == ["naïve"]


def test_bytes_that_are_no_text_are_no_name() -> None:
    assert as_text(None) is None
    assert as_text("naïve") == "naïve"
    with pytest.raises(InputError, match=r"the name 'x\\udcff' is not valid UTF-8"):
        as_text("x\udcff")


@pytest.mark.parametrize("how", ["none", "closed"])
def test_a_closed_standard_input_is_nobody_to_ask(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdin", None if how == "none" else closed)
    with pytest.raises(InputError, match="no terminal to confirm"):
        confirm("Delete 1 run?", yes=False)


def test_ctrl_c_while_commands_are_loaded_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tiepoint.cli.main._mount", interrupted)
    assert command(["list"]) == 130
    assert capsys.readouterr().err == "tiepoint: Interrupted.\n"
