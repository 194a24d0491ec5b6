# SPDX-License-Identifier: BSD-3-Clause
"""A client of the pages that needs no network."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

ADDRESS = "http://127.0.0.1:8765"


def visitor(app: Any, address: str = ADDRESS) -> Any:
    """A client that does not follow redirects and lets no exception of a page pass as an answer."""
    pytest.importorskip("httpx", reason="httpx is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Starlette tells which HTTP client it would rather have
        from starlette.testclient import TestClient
    return TestClient(app, base_url=address, follow_redirects=False)
