"""Tasks of other packages: an example is installed from outside the tree and used from the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.errors import InputError
from tiepoint.tasks import TaskRegistry

PACKAGE = Path(__file__).parent / "example_task_package"
SOURCE = Path(__file__).parents[2] / "src"
NAME = "example/twins"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example as `pip install` leaves it."""
    target = tmp_path_factory.mktemp("site")
    build = tmp_path_factory.mktemp("build") / "package"  # building writes beside the sources
    build.mkdir()
    for path in PACKAGE.iterdir():
        if path.is_file():
            (build / path.name).write_bytes(path.read_bytes())
    words = ["-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([sys.executable, *words, "--target", str(target), str(build)], capture_output=True)
    if done.returncode:
        pytest.skip(f"pip cannot install here: {done.stderr.decode().strip().splitlines()[-1:]}")
    return target


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("twins")
    rng = np.random.default_rng(3)
    for scene in "abcdefgh":
        first = rng.integers(0, 256, (30, 16, 16))
        second = np.clip(first + rng.normal(0, 40, first.shape), 0, 255)
        np.save(folder / f"{scene}.npy", np.stack([first, second]).astype(np.uint8))
    return folder


def tiepoint(*words: str, at: Path, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    paths = [str(SOURCE), *([str(site)] if site else [])]
    return subprocess.run(
        [sys.executable, "-m", "tiepoint", *words],
        capture_output=True,
        text=True,
        cwd=at,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )


@pytest.fixture(scope="module")
def store(installed: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("work")
    done = tiepoint(
        "run", "resize", "resize?size=6", "meanstd", "--task", NAME, "--data", str(data), "--store", "s",
        "-o", "scenes=a,b,c,d,e,f", "--json", at=at, site=installed,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)["scores"]
    overall = {s["method"]: s for s in scores if s["group"] == "all"}
    assert len(overall) == 3
    assert all(s["metric"] == "found" and s["n"] == 180 and s["low"] is not None for s in overall.values())
    assert {s["group"] for s in scores} == {"all", *(f"scene={s}" for s in "abcdef")}
    return at


@pytest.mark.slow
def test_compare_and_report_know_the_task(store: Path, installed: Path) -> None:
    done = tiepoint("compare", "--task", NAME, "--store", "s", at=store, site=installed)
    assert done.returncode == 0, done.stderr
    assert "found" in done.stdout
    done = tiepoint("report", "--store", "s", "--out", "r.html", at=store, site=installed)
    assert done.returncode == 0, done.stderr
    page = (store / "r.html").read_text()
    assert "share of patches whose nearest patch is their twin" in page
    assert "@misc{twins2026" in page


@pytest.mark.slow
def test_its_options_are_checked_and_have_an_effect(store: Path, installed: Path, data: Path) -> None:
    common = ("run", "meanstd", "--task", NAME, "--data", str(data), "--store", "s", "--json")
    done = tiepoint(*common, "-o", "ratios=0.5", "-o", "scenes=a", at=store, site=installed)
    assert done.returncode == 2
    assert "unknown option of example/twins 'ratios'; did you mean 'ratio'?" in done.stderr
    loose, strict = (
        tiepoint(*common, "-o", "scenes=a", "-o", f"ratio={r}", at=store, site=installed) for r in (1, 0.2)
    )
    value = [json.loads(d.stdout)["scores"][0]["value"] for d in (loose, strict)]
    assert value[0] > value[1]


def test_a_store_can_be_read_without_the_package(store: Path) -> None:
    done = tiepoint("report", "--store", "s", "--out", "without.html", at=store)
    assert done.returncode == 0, done.stderr
    assert "meanstd" in (store / "without.html").read_text()
    done = tiepoint("run", "resize", "--task", NAME, "--data", ".", "--store", "s", at=store)
    assert done.returncode == 2
    assert "unknown task 'example/twins'" in done.stderr


def test_the_documentation_shows_this_package() -> None:
    page = (PACKAGE.parents[2] / "docs" / "adding-a-task.md").read_text()
    assert (PACKAGE / "twins.py").read_text() in page
    assert '"example/twins" = "twins:Twins"' in page


def entry_points(site: Path, text: str) -> Path:
    info = site / "broken-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[tiepoint.tasks]\n{text}\n")
    return site


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        ("no_such_module:TASK", "", "'broken' cannot be loaded (ModuleNotFoundError: No module named"),
        ("half:TASK", "1 / 0", "'broken' cannot be loaded (ZeroDivisionError: division by zero)"),
        ("half:TASK", "OTHER = 1", "'broken' cannot be loaded (AttributeError:"),
        (
            "half:TASK",
            "TASK = 5",
            "half:TASK of broken is registered as the task 'my/task', but is not a task",
        ),
    ],
)
def test_a_broken_plug_in_is_an_error_that_names_its_package(
    target: str, code: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = entry_points(tmp_path / "site", f"my/task = {target}")
    (site / "half.py").write_text(code)
    monkeypatch.syspath_prepend(site)
    sys.modules.pop("half", None)
    with pytest.raises(InputError) as e:
        TaskRegistry("task", group="tiepoint.tasks").load("my/task")
    assert words in str(e.value)


def test_broken_plug_ins_hide_no_other_task(tmp_path: Path) -> None:
    site = entry_points(tmp_path / "site", "my/task = no_such_module:TASK\ntss = no_such_module:TASK")
    done = tiepoint("list", "tasks", "--json", at=tmp_path, site=site)
    assert done.returncode == 0
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert "'broken' cannot be loaded" in rows["my/task"]["about"]
    assert rows["tss"]["options"]["missing"]["default"] == "zero"
    assert "the task 'tss' of broken is skipped: its name is already used by tiepoint" in done.stderr
    done = tiepoint("run", "resize", "--task", "my/task", "--data", ".", at=tmp_path, site=site)
    assert done.returncode == 2
    assert "'broken' cannot be loaded (ModuleNotFoundError: No module named" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_plug_in_does_not_replace_a_task_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(entry_points(tmp_path / "site", "mine = math:pi"))
    registry = TaskRegistry("task", group="tiepoint.tasks")
    registry.add("mine", "tiepoint.tasks.tss.task:TASK", family="dense")
    assert [e.target for e in registry if e.name == "mine"] == ["tiepoint.tasks.tss.task:TASK"]
    assert registry.problems == [
        "the task 'mine' of broken is skipped: its name is already used by tiepoint.tasks.tss.task:TASK"
    ]
