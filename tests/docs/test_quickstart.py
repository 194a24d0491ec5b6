# SPDX-License-Identifier: BSD-3-Clause
"""Every command of the tutorials runs, in its order, in an empty folder; its output is the one shown."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tiepoint.cli.main import run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "quickstart.md"
FIRST_HOUR = ROOT / "docs" / "first-hour.md"
NUMBER = re.compile(r"(?<![\w.])[+-]?\d+(?:\.\d+)?(?![\w.]*\w)")


@dataclass
class Step:
    """A file to write (`name`, `text`), or a command and the beginning of what it prints."""

    line: int
    name: str = ""
    text: str = ""
    command: str = ""
    shown: list[str] = field(default_factory=list)


def steps(page: Path = PAGE) -> list[Step]:
    """Files and commands of a page, from top to bottom."""
    text = page.read_text(encoding="utf-8")
    found = []
    for block in re.finditer(r"^```(\w*)\n(.*?)^```$", text, flags=re.M | re.S):
        line = text[: block.start()].count("\n") + 2
        language, body = block.groups()
        if language:
            name = body.splitlines()[0].lstrip("#/ ")
            assert re.fullmatch(r"\w+\.\w+", name), f"line {line}: the first line of a file is its name"
            found.append(Step(line, name=name, text=body))
            continue
        shown: list[str] | None = None
        for k, row in enumerate(body.splitlines()):
            if row.startswith("$ "):
                found.append(Step(line + k, command=row[2:]))
                shown = found[-1].shown
            elif shown is not None:
                shown.append(row)
            else:
                found.append(Step(line + k, command=row))
    return found


def same(shown: str, printed: str) -> bool:
    """Equal words, and numbers that differ as the versions of libraries make them differ."""
    if NUMBER.sub("#", shown) != NUMBER.sub("#", printed):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return all(abs(float(a) - float(b)) <= 2 + 0.1 * abs(float(a)) for a, b in pairs)


def stand_in() -> None:
    """What `describe.cpp` writes, where no compiler is there."""
    import numpy as np
    from PIL import Image

    for strip in Path("pgm").glob("*/*.pgm"):
        values = np.asarray(Image.open(strip)).astype(float)
        patches = values.reshape(-1, values.shape[1], values.shape[1])[:, 2::6, 2::6]
        rows = patches.reshape(len(patches), -1)
        rows = rows - rows.mean(axis=1, keepdims=True)
        rows /= np.sqrt((rows**2).sum(axis=1, keepdims=True)) + 1e-9
        target = Path("mine", strip.parent.name, f"{strip.stem}.csv")
        target.parent.mkdir(parents=True, exist_ok=True)
        np.savetxt(target, rows, "%.6g", ",")


def test_steps_are_found() -> None:
    found = steps()
    assert [s.name for s in found if s.name] == [
        "net.py", "names.yaml", "strips.py", "describe.cpp", "matcher.py", "flow.py",
    ]  # fmt: skip
    commands = [s.command for s in found if s.command]
    assert len(commands) > 20
    known = ("tiepoint ", "python ", "g++ ", "./", "pip install ")
    assert [c for c in commands if not c.startswith(known)] == []
    assert sum(bool(s.shown) for s in found) >= 2
    assert not same("by 3.7 points", "by 9.9 points")
    assert not same("a is better than b", "b is better than a")
    assert same("by 14.67 points (0.1)", "by 14.9 points (0.2)")


def test_what_is_installed_exists() -> None:
    """The one command that is not run: its extras are those of the package."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"pip install \"(?:tiepoint|\.)\[(\w+)\]\"", PAGE.read_text(encoding="utf-8"))
    assert set(named) >= {"demo", "learned"}
    assert [n for n in named if n not in extras["optional-dependencies"]] == []


def test_the_readme_leads_here() -> None:
    top = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:20]
    assert any("docs/quickstart.md" in line for line in top)


def run_page(page: Path, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """Run a page in the current folder; return what was left out and why."""
    torch, compiler = importlib.util.find_spec("torch") is not None, shutil.which("g++")
    left_out = []
    for step in steps(page):
        where = f"{page.name}, line {step.line}: {step.command}"
        if step.name:
            Path(step.name).write_text(step.text, encoding="utf-8")
        elif step.command.startswith("pip "):
            continue
        elif not torch and re.search(r"\bnet\.py|mynet", step.command):
            left_out.append("torch is not installed: what runs net.py was left out")
        elif step.command.startswith(("g++", "./")) and compiler is None:
            stand_in()
            left_out.append("no C++ compiler: a stand-in wrote the files of describe.cpp")
        elif step.command.startswith("tiepoint "):
            capfd.readouterr()
            code = run(shlex.split(step.command)[1:])
            out, err = capfd.readouterr()
            assert code == 0, f"{where}\n{out[-2000:]}{err[-2000:]}"
            for shown, printed in zip(step.shown, out.splitlines(), strict=False):
                assert same(shown, printed), f"{where}\nshown:   {shown}\nprinted: {printed}"
        else:
            words = shlex.split(step.command)
            words = [sys.executable, *words[1:]] if words[0] == "python" else words
            done = subprocess.run(words, capture_output=True, timeout=120)
            assert done.returncode == 0, f"{where}\n{done.stderr.decode(errors='replace')[-2000:]}"
    return list(dict.fromkeys(left_out))


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("cv2", "skimage", "poselib"):
        pytest.importorskip(package, reason=f"{package} is not installed, which [demo] brings")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIEPOINT_STORE", raising=False)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("empty_folder")
def test_every_command_runs(capfd: pytest.CaptureFixture[str]) -> None:
    left_out = run_page(PAGE, capfd)
    check_what_was_made(importlib.util.find_spec("torch") is not None)
    if left_out:
        pytest.skip("; ".join(left_out) + "; all other commands ran")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("empty_folder")
@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no shell sh")
def test_first_hour_every_command_runs(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_page(FIRST_HOUR, capfd) == []
    theirs, own = (Path(store, "runs") for store in ("tiepoint-store", "recomputed"))
    assert sorted(p.name for p in theirs.iterdir()) == sorted(p.name for p in own.iterdir())
    scores = [
        json.loads(Path(f"{m}.json").read_text(encoding="utf-8"))["scores"] for m in ("sift", "rootsift")
    ]
    assert all(found for found in scores)
    assert json.loads(Path("difference.json").read_text(encoding="utf-8"))
    assert "no-such-method" in Path("error.txt").read_text(encoding="utf-8")


def check_what_was_made(torch: bool) -> None:
    """What the text promises about the files."""
    import tiepoint as tp

    tables = {n: Path(n).read_text(encoding="utf-8") for n in ("pairs.tex", "flow.tex", "scores.md")}
    assert "mymatcher" in tables["pairs.tex"]
    assert "myflow" in tables["flow.tex"]
    assert re.search(r"sift.*\[\d", tables["scores.md"])
    assert Path("report.html").stat().st_size > 100_000
    assert Path("tiepoint-pictures/DEMO/coins_01/sheet.png").exists()
    if torch:
        assert "MyNet (ours)" in Path("matching.tex").read_text(encoding="utf-8")
    scores = [
        tp.load(name, task="pose/relative", store="tiepoint-store").scores
        for name in ("mymatcher", "myfiles")
    ]
    first, second = (s[s["protocol"] == "exact"].set_index(["metric", "group"])["value"] for s in scores)
    for key in second.index:
        if key[0] in ("auc", "precision", "matches"):
            assert first[key] == pytest.approx(second[key], abs=1e-6), key
