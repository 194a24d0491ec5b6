"""A command that does not stop by itself is ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

REGARDLESS = """
import time

def regardless(*_):
    while True:
        try:
            print("begun", flush=True)
            time.sleep(60)
        except BaseException:
            pass
"""

CODE = """
import signal, sys, threading
from tiepoint.cli.main import force_exit_after

def stop(number, frame):
    raise KeyboardInterrupt

force_exit_after(after_s=0.3)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, stop)

if sys.argv[1] == "thread":  # which the interpreter waits for at its end
    threading.Thread(target=regardless).start()
    threading.Event().wait()
regardless()
"""

COMMAND = """
import types
from tiepoint.cli import main

main.time = types.SimpleNamespace(sleep=lambda seconds: time.sleep(seconds / 40))

main._code = regardless
main.main(["list"])
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_the_command_line_is_ended_by_one_signal() -> None:
    """A method that went on after the exception of the signal ran until it was killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", REGARDLESS + COMMAND],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    os.kill(process.pid, signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143
    assert said == "tiepoint: Ended: the work did not stop within 12 s.\n"


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("where", ["main", "thread"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_work_that_goes_on_regardless_is_ended(where: str, number: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", REGARDLESS + CODE, where],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(process.pid, number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "the work did not stop within 0.3 s" in said


def test_main_at_exit_joins_threads_and_calls_handlers(tmp_path):
    script = """
import atexit, sys, threading, time
from tiepoint.cli.main import main
done = sys.argv.pop(1)
atexit.register(lambda: open(done, "a").write("handler"))
threading.Thread(target=lambda: (time.sleep(0.2), open(done, "a").write("thread "))).start()
main()
"""
    marks = tmp_path / "marks"
    command = [sys.executable, "-c", script, str(marks), "list", "tasks", "--json"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert marks.read_text() == "thread handler"
    assert json.loads(found.stdout)
    assert found.stderr == ""
