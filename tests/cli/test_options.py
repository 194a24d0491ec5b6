"""Every option has an effect or is refused; the default of an option, given explicitly, never is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from tiepoint.cli import app as commands
from tiepoint.cli.main import app
from tiepoint.cli.main import run as command

EXPERIMENT = """
experiment: {name: e}
dataset: {path: nowhere}
descriptors: [{name: d, type: sift}]
"""
EVERYTHING = (
    *("sift", "--task", "t", "--data", "d", "--tasks", "t", "--benchmark", "b", "--protocol", "exact"),
    *("--split", "a", "--fit-on", "d", "--write-results", "d", "-o", "a=1", "--name", "n"),
)
RUN = ("run", "resize", "--task", "hpatches/matching", "--data", "patches")
V1 = ("--task", "hpatches-v1/matching", "--data", "patches")
REFUSED: list[tuple[tuple[str, ...], str]] = [
    (
        ("run", *EVERYTHING, "--config", "e.yaml"),
        "METHOD, --task, --data, --tasks, --benchmark, --protocol, --split, --name, --fit-on, "
        "--write-results, --option have no effect with --config",
    ),
    (("run", "--config", "e.yaml", "--split", "a"), "--split has no effect with --config"),
    ((*RUN, "--design", "pps"), "--design has no effect without --subset"),
    ((*RUN, "--references", "a"), "--references has no effect without --subset"),
    ((*RUN, "--subset-score", "auc"), "--subset-score has no effect without --subset"),
    ((*RUN, "--subset-seed", "1"), "--subset-seed has no effect without --subset"),
    ((*RUN, "--subset", "random:3"), "expected informative:NUMBER"),
    (("run", "--config", "e.yaml", "--subset", "informative:3"), "--subset has no effect with --config"),
    (("run", "--config", "e.yaml", "--on-bad", "banana"), "e.yaml: performance.on_bad"),
    (("run", "--config", "e.yaml", "--jobs", "-5"), "Invalid value for '--jobs'"),
    ((*RUN, "--jobs", "-5"), "Invalid value for '--jobs'"),
    ((*RUN, "--cluster", "local:2", "--jobs", "2"), "--jobs has no effect with --cluster"),
    ((*RUN, "--cluster", "here", "--dry-run"), "--cluster must be a scheduler address"),
    ((*RUN, "--device", "banana"), "unknown device 'banana'; write cpu, cuda"),
    ((*RUN, "--device", "cuda:99"), "--device cuda:99 cannot be used"),
    ((*RUN, "--fit-on", "patches"), "--fit-on has no effect: resize has no fitted transform"),
    ((*RUN, "pixels", "--name", "n"), "--name is for a single method"),
    ((*RUN, "-o", "split=a", "--split", "b"), "option split is given twice"),
    ((*RUN, "-o", "lists=clean", "-o", "lists=official"), "option lists is given twice"),
    ((*RUN, "--benchmark", "b"), "unknown option of hpatches/matching 'benchmark'"),
    ((*RUN, "--write-results", "out"), "cannot write result files"),
    (("run", "pixels", *V1, "--results-form", "document"), "--results-form has no effect without"),
    (("run", "pixels", *V1, "-o", "neighbours=5"), "option neighbours has no effect here"),
    (("score", *V1[1:], "--results", ".", "-o", "neighbours=all"), "option neighbours has no effect here"),
    (
        ("run", "zero", "--task", "tss", "--data", "d", "--write-results", "o", "--results-form", "document"),
        "omit --results-form document",
    ),
    (("score", "dense/flow", "--results", "r", "--data", "d", "--pairs"), "--pairs has no effect on"),
    (("score", "tss", "--results", "r", "--data", "d", "--pairs", "--json"), "--pairs has no effect with"),
    (
        ("score", "tss", "--results", "r", "--results", "s", "--data", "d", "--name", "n"),
        "--name has no effect with several folders of results",
    ),
    (("score", "tss", "--results", "r", "--data", "d", "--jobs", "-1"), "Invalid value for '--jobs'"),
    (("demo", "--jobs", "-1"), "Invalid value for '--jobs'"),
    (("data", "cut", "--data", "d", "--out", "o", "--jobs", "-1"), "Invalid value for '--jobs'"),
    (
        ("data", "tasks", "--suite", "hpatches-v1", "--data", "patches", "--out", "o", "--lists", "clean",
         "--split", "a", "--tasks", "t"),
        "--lists, --split, --tasks have no effect on the suite hpatches-v1",
    ),
    (
        ("data", "tasks", "--suite", "hpatches", "--data", "patches", "--out", "o", "--seed", "3"),
        "--seed has no effect on the official lists",
    ),
    (
        ("data", "tasks", "--suite", "hpatches", "--data", "patches", "--out", "o", "--label-column"),
        "--label-column has no effect on the suite hpatches",
    ),
    (("data", "check", "--store", "s", "--fast"), "--fast has no effect on a store"),
    (
        ("keypoints", "make", "sift_surf_intersection", "--data", "images", "--mode", "projected",
         "--max-features", "9", "--min-distance-px", "1", "--min-size-px", "1", "--max-size-px", "9",
         "--device", "cuda"),
        "--mode, --max-features, --min-distance-px, --min-size-px, --max-size-px, --device have no effect on",
    ),
    (
        ("keypoints", "subset", "s", "--out", "o", "--min-size-px", "1", "--scope", "set", "--by", "random"),
        "--scope, --by have no effect without --count",
    ),
    (
        ("keypoints", "subset", "s", "--out", "o", "--count", "1", "--seed", "3"),
        "--seed has no effect without --by random",
    ),
    (
        ("flow", "show", "--results", "r", "--data", "d", "--truth", "t", "--image1", "i",
         "--image2", "i", "--size2", "9x9", "--mask", "m", "--plain"),
        "--truth, --image1, --image2, --size2, --mask, --plain have no effect with --results",
    ),
    (("flow", "show", "f.flo", "--plain", "--image1", "i"), "--image1 has no effect with --plain"),
    (("flow", "show", "f.flo", "--size2", "9x9"), "--size2 has no effect without --image2"),
    (("flow", "show", "f.flo", "--data", "d", "--vis-dir", "v"), "--data, --vis-dir have no effect without"),
    (
        ("run", "--config", "e.yaml", "--time", "--exec-revision", "2"),
        "--exec-revision, --time have no effect with --config",
    ),
    (("flow", "show", "f.flo", "--bg-color", "1,2,3"), "--bg-color has no effect without"),
]  # fmt: skip

ALWAYS = {
    "run": "--store --config --dry-run --json",
    "score": "--results --data --tasks --benchmark --protocol --name --on-bad --option --auto-flip "
    "--use-prec --missing --scores-csv --store --json",
    "describe": "--data --out --on-bad --device --overwrite",
    "import": "--name --split --tasks --store --json",
    "demo": "--out --json",
    "data make": "--kind --width --height --seed",
    "data cut": "--data --out --max-patches --side --magnification --seed",
    "data tasks": "--suite --data --out",
    "data check": "--data --missing --store",
    "keypoints make": "--data --detector --border-px --overwrite --store",
    "keypoints intersect": "--out --tolerance-px --overwrite --store",
    "keypoints subset": "--out --count --min-size-px --max-size-px --min-distance-px --overwrite --store",
    "keypoints import": "--name --data --overwrite --store",
    "keypoints export": "--out --names --store",
    "keypoints list": "--store",
    "flow show": "--results --out --flow-bg-color",
    "flow convert": "",
    "flow warp": "--out --image1 --size2 --mask --bg-color",
}
"""Options that have an effect wherever the command takes them; all others stand above."""


def all_commands() -> dict[str, Any]:
    commands.mount(app)
    found: dict[str, Any] = {}
    for name, one in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(one, "commands", None)
        found |= {name: one} if inner is None else {f"{name} {k}": v for k, v in inner.items()}
    return found


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patches: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("e.yaml").write_text(EXPERIMENT)
    Path("patches").symlink_to(patches)
    Path("images/v_a").mkdir(parents=True)
    from PIL import Image

    for i in (1, 2):
        Image.fromarray(np.zeros((40, 40), np.uint8)).save(f"images/v_a/{i}.ppm")
    np.savetxt("images/v_a/H_1_2", np.eye(3))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "said"), REFUSED, ids=lambda v: " ".join(v)[:60] if isinstance(v, tuple) else ""
)
def test_an_option_without_effect_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert command(list(arguments)) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ALWAYS)
def test_every_option_is_accounted_for(name: str) -> None:
    words = name.split()
    refused = {a for arguments, _ in REFUSED if list(arguments[: len(words)]) == words for a in arguments}
    options = {
        next(o for o in p.opts if o.startswith("--")): {*p.opts, *p.secondary_opts}
        for p in all_commands()[name].params
        if p.opts[0].startswith("-") and p.name != "help"
    }
    left = {flag for flag, all_of in options.items() if not all_of & refused}
    assert left <= set(ALWAYS[name].split())
    assert set(ALWAYS[name].split()) <= set(options)


def test_a_default_given_explicitly_is_no_mistake(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    usual = ("--on-bad", "error", "--device", "cpu", "--jobs", "0", "--dry-run")
    assert command([*RUN, *usual]) == 0
    both = ("--data", "patches", "--out", "o1", "--seed", "0", "--lists", "official")
    assert command(["data", "tasks", "--suite", "hpatches-v1", *both]) == 0
    assert command(["data", "tasks", "--suite", "hpatches", *both]) == 0
    capsys.readouterr()
    assert command(["flow", "show", "f.flo", "--flow-bg-color", "128128128", "--bg-color", "000255255"]) == 2
    assert "no effect" not in capsys.readouterr().err


def test_a_plan_as_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command([*RUN, "--name", "mine", "--dry-run", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["plan"]
    assert one == {
        "method": "mine", "task": "hpatches/matching", "items": 48, "rows": 960, "units": 3,
        "protocols": ["exact"],
    }  # fmt: skip
    Path("e.yaml").write_text(EXPERIMENT.replace("nowhere", "images"))
    assert command(["run", "--config", "e.yaml", "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["plan"]
    assert [(c["method"], c["task"], c["items"]) for c in found] == [("d", "keypoints/ranking", 2)]
