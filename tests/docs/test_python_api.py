# SPDX-License-Identifier: BSD-3-Clause
"""The Python code of the page runs from top to bottom and prints what the page shows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "python-api.md"


@pytest.mark.filterwarnings("ignore:a ROC area")
def test_python_api_page_prints_what_it_shows() -> None:
    # tests/report/test_run_list.py covers the last section, which needs the demo dataset.
    text = PAGE.read_text(encoding="utf-8").partition("\n## Several methods")[0]
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.M | re.S)
    names: dict[str, Any] = {}
    assert len(blocks) >= 10
    for (language, code), (plain, shown) in zip(blocks[::2], blocks[1::2], strict=True):
        assert (language, plain) == ("python", "")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        assert printed.getvalue() == shown
