# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the conformance tests: the program, called in an empty folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from black_box import Program


@pytest.fixture
def tiepoint(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The command line in a folder of its own, with a store of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIEPOINT_STORE", raising=False)
    return Program(capsys)
