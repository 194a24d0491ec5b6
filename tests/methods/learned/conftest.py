from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import numpy as np
import pytest

SHARED = Path(os.environ.get("TIEPOINT_TEST_DATA", Path(__file__).parents[4] / "shared" / "data")).parent


@pytest.fixture
def no_network(monkeypatch):
    """Fail every connection."""

    def refused(*_args, **_kwargs):
        raise AssertionError("a connection was opened")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refused)
    monkeypatch.setattr(socket, "create_connection", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)


@pytest.fixture(scope="session")
def golden():
    file = SHARED / "golden" / "learned.json"
    if not file.is_file():
        pytest.skip(f"{file} is not here")
    return json.loads(file.read_text())


@pytest.fixture(scope="session")
def photo():
    """A textured colour image, 120 x 160."""
    draw = np.random.Generator(np.random.PCG64(11))
    whole = np.zeros((120, 160, 3), np.int64)
    for cell, weight in ((20, 3), (10, 3), (5, 2), (2, 1)):
        coarse = draw.integers(0, 256, (-(-120 // cell), -(-160 // cell), 3))
        whole += weight * coarse.repeat(cell, 0).repeat(cell, 1)[:120, :160]
    return np.ascontiguousarray((whole // 9).clip(0, 255), np.uint8)


@pytest.fixture(scope="session")
def data():
    """The folder of shared data."""
    if not (SHARED / "data" / "sequences").is_dir():
        pytest.skip(f"{SHARED / 'data'} is not here")
    return SHARED / "data"
