# SPDX-License-Identifier: BSD-3-Clause
"""Print a seeded random sample of docstrings and messages, for a reader who has not seen the code.

    python bench/sample_prose.py --seed 21 --count 60

Half of the texts are docstrings, each below the line that it documents. The others are errors, warnings and
help, with the expressions that fill them.
"""

from __future__ import annotations

import argparse
import ast
import random
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "tiepoint"
MESSAGE_CALLS = {"notice", "print_status", "error", "warn", "append", "Option", "Argument"}
SHORTEST = 25
"""Characters below which a text is a name rather than a message."""


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of every docstring, below the line that it documents."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), head(node) + text.partition("\n\n>>>")[0]


def head(node: ast.AST) -> str:
    """Return the line that starts a class or function; empty for a module."""
    if isinstance(node, ast.ClassDef):
        return f"class {node.name}({', '.join(map(ast.unparse, node.bases))}):\n"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return f"def {node.name}({ast.unparse(node.args)}){result}:\n"
    return ""


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of raised errors, warnings and help, with the expressions that fill them."""
    for node in ast.walk(tree):
        call = node.exc if isinstance(node, ast.Raise) else node
        if not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        if not isinstance(node, ast.Raise) and name not in MESSAGE_CALLS:
            continue
        for value in [*call.args, *(k.value for k in call.keywords if k.arg == "help")]:
            text = literal(value)
            if " " in text and len(text) >= SHORTEST:
                yield value.lineno, text


def literal(node: ast.AST) -> str:
    """Return the text of a string or f-string; empty for other expressions."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            literal(part) or "{" + ast.unparse(getattr(part, "value", part)) + "}" for part in node.values
        )
    return ""


def main() -> None:
    """Parse the arguments and print the sample."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--count", type=int, default=60)
    given = parser.parse_args()
    trees = {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}
    draw = random.Random(given.seed)
    for title, texts_of in (("docstring", docstrings), ("message", messages)):
        texts = [(path, *found) for path, tree in trees.items() for found in texts_of(tree)]
        for path, line, text in draw.sample(texts, given.count // 2):
            print(f"--- {title}, {path.relative_to(SOURCE)}:{line}\n{text}")


if __name__ == "__main__":
    main()
