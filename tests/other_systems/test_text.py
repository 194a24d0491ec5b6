# SPDX-License-Identifier: BSD-3-Clause
"""Text is UTF-8 with line feeds on every system: no file of ours is opened in the system's own encoding."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "tiepoint"


def unstated(tree: ast.AST) -> list[str]:
    """Calls that read or write text without saying how."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        given = {k.arg for k in node.keywords}
        if None in given:
            continue
        of_path = isinstance(node.func, ast.Attribute)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if of_path and name == "read_text" and not node.args and "encoding" not in given:
            found.append(f"line {node.lineno}: read_text without an encoding")
        elif of_path and name == "write_text" and not {"encoding", "newline"} <= given:
            found.append(f"line {node.lineno}: write_text without encoding and newline")
        elif name in ("open", "fdopen"):
            found += _opened(node, given)
    return found


def _opened(node: ast.Call, given: set[str | None]) -> list[str]:
    modes = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    modes += [k.value.value for k in node.keywords if k.arg == "mode" and isinstance(k.value, ast.Constant)]
    mode = next(
        (m for m in modes if isinstance(m, str) and 0 < len(m) <= 3 and set(m) <= set("rwxabt+")), None
    )
    if isinstance(node.func, ast.Name) and mode is None:
        mode = "r"
    if mode is None or "b" in mode or "encoding" in given:
        return []
    return [f"line {node.lineno}: open without an encoding"]


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("p.read_text()", 1),
        ("p.read_text(encoding='utf-8'); q.read_text('utf-8')", 0),
        ("p.write_text('a', encoding='utf-8')", 1),
        ("write_text(p, 'a')", 0),
        ("p.write_text('a', encoding='utf-8', newline='\\n')", 0),
        ("open(p); open(p, 'w'); p.open('a'); os.fdopen(1, 'w')", 4),
        ("open(p, 'rb'); p.open('wb'); open(p, encoding='utf-8'); task.open(data, options)", 0),
    ],
)
def test_what_counts_as_unstated(code: str, count: int) -> None:
    assert len(unstated(ast.parse(code))) == count


def test_every_text_file_has_a_stated_encoding() -> None:
    found = [
        f"{path.relative_to(SOURCE)}, {words}"
        for path in sorted(SOURCE.rglob("*.py"))
        for words in unstated(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []
