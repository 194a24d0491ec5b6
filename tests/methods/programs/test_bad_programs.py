# SPDX-License-Identifier: BSD-3-Clause
"""Programs that break the protocol fail their item with their last messages, and leave nothing behind."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiepoint.core.errors import InputError, UserCodeError
from tiepoint.core.processes import is_alive
from tiepoint.core.records import Item
from tiepoint.methods.base import Method
from tiepoint.methods.programs import process, program
from tiepoint.methods.resolve import resolve

PROGRAM = Path(__file__).parent / "misbehaving.py"
PATCHES = np.arange(2 * 25, dtype=np.uint8).reshape(2, 5, 5)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="programs need POSIX")


@pytest.fixture
def odd() -> Iterator[Callable[..., Method]]:
    """Resolve the misbehaving program; end it after the test."""

    def make(how: str, at: str = "b", *words: str, **options: Any) -> Method:
        command = " ".join([sys.executable, "-I", "-S", str(PROGRAM), how, at, *words])
        return resolve(f"exec:{command}", family="patches", program=options)

    yield make
    for known in program._PROGRAMS.values():
        known.stop()
    program._PROGRAMS.clear()


def run(method: Method, items: str = "abc") -> dict[str, Any]:
    """Run the stream of a method; return the first descriptor of each item, or the error."""
    assert method.stream is not None
    found: dict[str, Any] = {}
    for item, finish in method.stream((Item(i, i, 2), PATCHES) for i in items):
        try:
            found[item.key] = finish()["values"][0].tolist()
        except UserCodeError as e:
            found[item.key] = str(e)
    return found


def running(method: Method) -> program.Program:
    return next(p for p in program._PROGRAMS.values() if p.known == method.config["params"]["program"])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("crash", "the program exited with code 3"),
        ("hang", "the program did not answer within 0.4 s"),
        ("order", "the program answered request"),
        ("garbage", "the program wrote 'Loading model … 100 %' to standard output, expected a JSON object"),
        ("half", 'the program exited with code 0 in the middle of the line \'{"id": 1, "descr\''),
        ("long", "a line of more than 1 MiB to standard output"),
    ],
)
def test_broken_protocol_restarts_and_fails_the_item(odd: Any, how: str, message: str) -> None:
    method = odd(how, timeout_s=0.4 if how == "hang" else 60)
    found = run(method)
    assert message in found["b"]
    assert "odd failed on b" in found["b"]
    assert found["b"].splitlines()[1] == "started"
    assert isinstance(found["a"], list)
    assert isinstance(found["c"], list)
    assert running(method)._failures == 2


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("shape", "3 descriptors"),
        ("nan", "2 descriptors have NaN"),
        ("outside", "which is outside the exchange folder"),
        ("link", "which is outside the exchange folder"),
        ("pickle", "missing.npy the file does not exist"),
        ("names", "unknown array 'descriptor' of patches; use descriptors or valid"),
        ("error", "the program reports: no patches today"),
    ],
)
def test_bad_answer_fails_the_item_without_restart(odd: Any, tmp_path: Path, how: str, message: str) -> None:
    np.save(tmp_path / "other.npy", np.ones((2, 2), np.float32))
    method = odd(how, "b", str(tmp_path / "other.npy"))
    found = run(method)
    assert message in found["b"]
    assert "started" in found["b"] or "line 39" in found["b"]
    assert isinstance(found["a"], list)
    assert isinstance(found["c"], list)
    assert running(method)._failures == 0
    assert (tmp_path / "other.npy").exists()


def test_error_shows_last_20_lines(odd: Any) -> None:
    shown = run(odd("error"))["b"].splitlines()[1:]
    assert shown == [f"line {i}" for i in range(20, 40)]


def test_item_that_kills_once_is_computed(odd: Any, tmp_path: Path) -> None:
    method = odd("crash-once", "b", str(tmp_path / "died"))
    assert all(isinstance(values, list) for values in run(method).values())
    assert running(method)._failures == 1


def test_program_restarts_three_times_at_most(odd: Any) -> None:
    found = run(odd("crash", "any"), "abcd")
    assert "exited with code 3" in found["a"]
    assert "restarted" not in found["a"]
    for item in "bcd":
        assert "It was restarted 3 times and is not started again." in found[item]
        assert "about to die" in found[item]


def test_batch_failure_hits_one_item_alone(odd: Any) -> None:
    method = odd("crash", "d", **{"env.BATCH": 3})
    found = run(method, "abcdefgh")
    assert [item for item, values in found.items() if isinstance(values, str)] == ["d"]


def test_messages_do_not_block_the_program(odd: Any) -> None:
    assert all(isinstance(values, list) for values in run(odd("flood")).values())


@pytest.mark.parametrize("how", ["children", "hang"])
def test_nothing_is_left_running(odd: Any, tmp_path: Path, how: str) -> None:
    method = odd(how, "b", str(tmp_path / "child"), timeout_s=0.4 if how == "hang" else 60)
    found = run(method, "b")
    if how == "children":
        assert "exited with code 0 and left 2 running processes, which were killed" in found["b"]
        pids = [int((tmp_path / f"child-{i}").read_text()) for i in (0, 1)]
        assert not any(map(is_alive, pids))
    one = running(method)
    assert one._process is None
    method.extract(Item("a", "a", 2), PATCHES)
    now = one._process
    assert now is not None
    one.close()
    assert not is_alive(now.pid)
    assert not Path(now.folder).exists()


def test_closed_stream_leaves_no_answers_behind(odd: Any) -> None:
    method = odd("good")
    assert method.stream is not None
    stream = method.stream((Item(i, i, 2), PATCHES) for i in "abcdef")
    next(stream)
    stream.close()
    assert isinstance(run(method, "x")["x"], list)


def test_wrong_protocol_is_refused(odd: Any) -> None:
    with pytest.raises(InputError, match="declares protocol 7; this version of tiepoint uses protocol 1"):
        odd("greeting")


def test_greeting_that_changes_is_refused(odd: Any, tmp_path: Path) -> None:
    method = odd("differs", str(tmp_path / "flag"))
    with pytest.raises(UserCodeError, match="greeting differs from that of its first start"):
        method.extract(Item("a", "a", 2), PATCHES)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("./nope", "no program './nope'; check the command"),
        ("'a", "no closing quotation; quote words as in a shell"),
        ("", "the command is missing"),
        ("false", "no greeting: the program exited with code 1"),
        (str(PROGRAM), "is not executable; run chmod"),
    ],
)
def test_program_that_cannot_start_is_one_error(command: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        resolve(f"exec:{command}", family="patches")


def test_guardian_killed_is_a_failure_of_the_program(odd: Any) -> None:
    method = odd("good")
    one = running(method)
    assert one._process is not None
    pid, folder = one._process.pid, one._process.folder
    one._process._guardian.kill()
    until = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < until:  # it could still answer
        time.sleep(0.01)
    assert not is_alive(pid)
    assert isinstance(run(method, "a")["a"], list)
    assert not Path(folder).exists()
    assert one._failures == 1


def test_interrupt_ends_the_program(odd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    method = odd("hang", "b")
    one = running(method)
    pump = process.ProgramProcess._pump

    def interrupted(self: process.ProgramProcess, timeout_s: float) -> None:
        if timeout_s > 5:
            monkeypatch.setattr(process.ProgramProcess, "_pump", pump)
            raise KeyboardInterrupt
        pump(self, timeout_s)

    assert one._process is not None
    pid = one._process.pid
    monkeypatch.setattr(process.ProgramProcess, "_pump", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(method, "b")
    assert not is_alive(pid)


def test_fork_does_not_end_the_program_of_its_parent(odd: Any) -> None:
    method = odd("good")
    one = running(method)._process
    assert one is not None
    child = os.fork()
    if not child:
        one.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert is_alive(one.pid)
    assert isinstance(run(method, "a")["a"], list)
    assert running(method)._failures == 0
