"""Options that every command has, before and behind its name; what is missing; help."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tiepoint.cli.main import _mount
from tiepoint.cli.main import command as all_of
from tiepoint.cli.main import run as command
from tiepoint.cli.shell.common_options import format_help, reorder_arguments


def every_command() -> dict[str, Any]:
    _mount()
    found: dict[str, Any] = {}
    for name, one in all_of().commands.items():
        inner = getattr(one, "commands", None)
        found[name] = one
        found |= {} if inner is None else {f"{name} {k}": v for k, v in inner.items()}
    return found


def test_options_before_the_command_are_those_of_the_command() -> None:
    _mount()
    root = all_of()
    assert reorder_arguments(root, ["-q", "run", "sift"]) == ["run", "-q", "sift"]
    assert reorder_arguments(root, ["-j", "2", "data", "-v", "cut", "x"]) == [
        "data",
        "cut",
        "-j",
        "2",
        "-v",
        "x",
    ]
    assert reorder_arguments(root, ["-j2", "--debug", "demo"]) == ["demo", "-j2", "--debug"]
    assert reorder_arguments(root, ["run", "-q", "sift"]) == ["run", "-q", "sift"]
    assert reorder_arguments(root, []) == ["--help"]
    assert reorder_arguments(root, ["data"]) == ["data", "--help"]
    assert reorder_arguments(root, ["--version"]) == ["--version"]


def test_every_command_has_them() -> None:
    for name, one in every_command().items():
        flags = [flag for p in one.params for flag in p.opts]
        assert {"-q", "--quiet", "-v", "--verbose", "--debug"} <= set(flags), name
        assert ("-j" in flags) == ("--jobs" in flags), name
        assert len(flags) == len(set(flags)), name


def test_bare_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert command([]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Usage: tiepoint ")
    assert "Exit codes: 0 done; 1" in out
    assert err == ""
    assert command(["data"]) == 0
    assert capsys.readouterr().out.startswith("Usage: tiepoint data ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run"], "run needs METHOD, --task TASK and --data DIR, or --config FILE; see tiepoint run --help"),
        (["run", "sift", "--task", "tss"], "run needs --data DIR, or --config FILE; see tiepoint run --help"),
        (["flow", "convert", "a.flo"], "flow convert needs TARGET; see tiepoint flow convert --help"),
        (["score", "--data", "d"], "score needs TASK and --results DIR; see tiepoint score --help"),
        (["describe", "sift"], "describe needs --data DIR and --out PATH; see tiepoint describe --help"),
        (["rnu"], "unknown command 'rnu'; did you mean 'run'? Known: run, "),
        (["list", "-v", "-q"], "-q and -v contradict each other; pass one of them"),
    ],
)
def test_what_is_missing_is_said_at_once(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert command(arguments) == 2
    message = capsys.readouterr().err
    assert message == f"tiepoint: {said}\n" or (
        said.endswith(", ") and message.startswith(f"tiepoint: {said}")
    )


@pytest.mark.parametrize("width", [40, 80, 200])
def test_help_is_as_wide_as_the_terminal(width: int) -> None:
    longest = 50 if width == 40 else width
    for name, one in every_command().items():
        text = format_help(one, one.make_context(f"tiepoint {name}", ["x"], resilient_parsing=True), width)
        assert max(map(len, text.splitlines())) <= longest, (name, max(text.splitlines(), key=len))
        assert "<" not in text.replace("<=", ""), name
        for parameter in one.params:
            if parameter.param_type_name == "option":
                assert parameter.opts[-1] in text, (name, parameter.opts)
        required = sum(p.required for p in one.params if p.param_type_name == "option")
        assert text.replace("\n", " ").count("(required)") == required, name


def test_examples_are_printed_as_they_are_written() -> None:
    for name, one in every_command().items():
        context = one.make_context(f"tiepoint {name}", ["x"], resilient_parsing=True)
        text = " ".join(format_help(one, context, 80).replace("\\\n", " ").split())
        for paragraph in (one.help or "").split("\n\n"):
            if paragraph.strip().startswith("Example"):
                for example in re.findall(r"`([^`]+)`", " ".join(paragraph.split())):
                    assert example in text, name


def test_quiet_and_verbose(tmp_path: Path, patches: Path, capfd: pytest.CaptureFixture[str]) -> None:
    asked = ["run", "resize", "--task", "hpatches/matching", "--data", str(patches), "--jobs", "1"]
    asked += ["--store", str(tmp_path / "s")]
    assert command([*asked, "-v"]) == 0
    first = capfd.readouterr().err
    assert f"store: {tmp_path / 's'}" in first
    assert "resize on hpatches/matching: run " in first
    assert command(["-v", *asked]) == 0
    assert "found in the store" in capfd.readouterr().err
    assert command(["-q", *asked]) == 0
    out, err = capfd.readouterr()
    assert "resize" in out
    assert err == ""


def test_a_process_of_its_own_prints_no_module_in_its_usage() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tiepoint", "list", "-h"], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.startswith("Usage: tiepoint list ")
