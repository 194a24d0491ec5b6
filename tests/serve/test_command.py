# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint serve`` from the command line: it starts, answers, ends, and refuses in one sentence."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra [serve] is not installed")
from tiepoint.cli.main import run


def test_it_serves_until_it_is_interrupted(odd_store: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tiepoint", "serve", "--store", str(odd_store), "--port", "0"]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ | {"TIEPOINT_CACHE": str(tmp_path)}
    )
    assert process.stderr is not None
    try:
        found = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline())
        assert found is not None
        with urllib.request.urlopen(found[0]) as answer:
            assert b"finished runs" in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
    assert not (odd_store / "running").exists() or not list((odd_store / "running").iterdir())


def test_it_refuses_in_one_sentence(
    odd_store: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    store = ["serve", "--store", str(odd_store)]
    assert run([*store, "--host", "0.0.0.0"]) == 2
    assert "--token" in capsys.readouterr().err
    assert run([*store, "--data", str(tmp_path / "nothing")]) == 2
    assert "--data" in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run([*store, "--port", str(taken.getsockname()[1])]) == 2
    assert "--port" in capsys.readouterr().err
    assert run(["serve", "--store", str(tmp_path / "nothing")]) == 2
    assert "no store" in capsys.readouterr().err
