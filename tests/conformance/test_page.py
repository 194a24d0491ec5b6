# SPDX-License-Identifier: BSD-3-Clause
"""docs/conformance.md: every row has a command that runs and a test that exists, and no row is open."""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tiepoint.cli.main import run

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "conformance.md"
HEAD = ["no.", "what the document promises", "command", "test", "status"]
TABLES = {"C": "Classification", "M": "Matching", "R": "Retrieval", "W": "DescriptorWorkbench", "T": "TSS"}
TIMEOUT_S = 300
"""For one command on a busy machine; the whole page takes less than a minute on an idle one."""


@dataclass(frozen=True)
class Row:
    """One statement of a document."""

    number: str
    promise: str
    needs: str  # why the command is not run here, or ""
    command: str
    tests: tuple[str, ...]
    status: str


def cells(line: str) -> list[str]:
    """The cells of a table line; a bar behind a backslash belongs to its cell."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def tables() -> dict[str, list[Row]]:
    """The five tables of the page by their letter."""
    found: dict[str, list[Row]] = {}
    for part in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, body = part.partition("\n")
        lines = [line for line in body.splitlines() if line.startswith("|")]
        if not lines or cells(lines[0]) != HEAD:
            continue
        letter = next(k for k, v in TABLES.items() if v == title)
        found[letter] = []
        for line in lines[2:]:
            number, promise, command, tests, status = cells(line)
            needs, _, rest = command.partition("`")
            names = tuple(re.findall(r"`([^`]+)`", tests))
            found[letter].append(
                Row(number, promise, needs.rstrip(": "), rest.removesuffix("`"), names, status)
            )
    return found


ROWS = [row for rows in tables().values() for row in rows]
COMMANDS: dict[str, Row] = {}
"""Each different command, with the first row that has it."""
for _row in ROWS:
    COMMANDS.setdefault(_row.command, _row)


@functools.cache
def functions(path: str) -> set[str]:
    """Names of the functions of a test file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_there_are_five_tables_numbered_from_one() -> None:
    found = tables()
    assert list(found) == list(TABLES)
    for letter, rows in found.items():
        assert [row.number for row in rows] == [f"{letter}{k}" for k in range(1, len(rows) + 1)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_every_row_has_a_command_a_test_and_a_status(row: Row) -> None:
    assert row.promise.endswith(".")
    assert row.command.startswith(("tiepoint ", "python -c "))
    assert row.tests
    assert re.match(r"(holds|differs:|no promise)", row.status)
    for name in row.tests:
        path, _, function = name.partition("::")
        assert function in functions(path), name


SWITCHES = {
    "hpatches-v1.md": ("mean_over=reference_patches", "neighbours=all", "--results-form document"),
    "keypoints.md": ("tie=optimistic", "border_px"),
    "tss.md": ("compare=less_than", "complement=true", "pixels=foreground", "larger_side=source"),
}
"""The rules of the documents where their programs do something else."""


@pytest.mark.parametrize(("page", "switches"), SWITCHES.items(), ids=list(SWITCHES))
def test_the_page_of_a_task_names_the_rules_of_the_document(page: str, switches: tuple[str, ...]) -> None:
    text = (ROOT / "docs" / "tasks" / page).read_text(encoding="utf-8")
    assert [switch for switch in switches if switch not in text] == []
    assert "conformance.md" in text


def test_every_conformance_test_holds_a_row() -> None:
    named = {name for row in ROWS for name in row.tests}
    written = {
        f"tests/conformance/{path.name}::{name}"
        for path in (ROOT / "tests" / "conformance").glob("test_*_document.py")
        for name in functions(f"tests/conformance/{path.name}")
        if name.startswith("test_")
    }
    assert sorted(written - named) == []


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The set-up block of the page, run as written in an empty folder; `tiepoint` and `python` are ours."""
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    pytest.importorskip("skimage", reason="scikit-image, which has the photographs, is not installed")
    folder = tmp_path_factory.mktemp("page")
    programs = tmp_path_factory.mktemp("bin")
    for name, words in (("tiepoint", "-m tiepoint"), ("python", "")):
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n')
        script.chmod(0o755)
    block = re.search(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)
    assert block
    (folder / ".path").write_text(str(programs))
    answer = in_bash(block[1], folder)
    assert answer.returncode == 0, answer.stdout[-2000:]
    return folder


def in_bash(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The exit code and the output of a script."""
    programs = (folder / ".path").read_text()
    environment = {k: v for k, v in os.environ.items() if k != "TIEPOINT_STORE"}
    environment["PATH"] = programs + os.pathsep + os.environ["PATH"]
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")])
    )
    return subprocess.run(
        ["bash", "-e", "-c", text],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def here(command: str) -> tuple[int, str]:
    """A command without shell syntax, run in this process: starting Python for each would take a minute."""
    output = io.StringIO()
    code = 0
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        for part in command.split(" && "):
            words = shlex.split(part)
            if words[0] == "python":
                exec(words[2], {"__name__": "__main__"})
            else:
                # Worker processes never change a number, and starting them would take most of the time.
                one = ["--jobs", "1"] if words[1] in {"run", "score"} else []
                code = run([*words[1:], *one])
            if code:
                break
    return code, output.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=[row.number for row in COMMANDS.values()])
def test_every_command_runs(shell: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = COMMANDS[command]
    if row.needs:
        pytest.skip(row.needs)
    monkeypatch.chdir(shell)
    monkeypatch.delenv("TIEPOINT_STORE", raising=False)
    if "$(" in command:
        answer = in_bash(command, shell)
        code, text = answer.returncode, answer.stdout
    else:
        code, text = here(command)
    assert code == 0, f"{row.number}: {command}\n{text[-2000:]}"
