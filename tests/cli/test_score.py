# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint score`` and ``run`` on dense tasks: tables, files, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tiepoint.cli.main import run
from tiepoint.formats.flow.flo import write_flo
from tiepoint.formats.flow.tss import write_pair_result
from tiepoint.formats.image.mask import write_mask
from tiepoint.formats.image.reader import write_image


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataset ``data`` with subsets A (two pairs, one mirrored) and B (one pair), and ``results``."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for key, flip in (("A/p1", 0), ("A/p2", 1), ("B/p1", 0)):
        folder = tmp_path / "data" / key
        folder.mkdir(parents=True)
        made = {}
        for i in (1, 2):
            mask = np.zeros((12, 16), np.uint8)
            mask[2:9, 3:12] = 255
            flow = np.where(np.dstack([mask, mask]) > 0, float(flip), 1e10).astype(np.float32)
            write_image(folder / f"image{i}.png", rng.integers(0, 256, (12, 16, 3)).astype(np.uint8))
            write_mask(folder / f"mask{i}.png", mask)
            write_flo(folder / f"flow{i}.flo", flow)
            made |= {f"flow{i}": np.zeros((12, 16, 2), np.float32), f"mask{i}": mask}
        (folder / "flip_gt.txt").write_text(str(flip))
        (folder / "corr.txt").write_text(f"{6 / 16}\t{6 / 12}\t{6 / 16}\t{6 / 12}\n")
        write_pair_result(tmp_path / "results" / key, made)
    return tmp_path


Says = Callable[..., str]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Says:
    """Runs a command line that must succeed; what it prints."""

    def called(*arguments: object) -> str:
        capsys.readouterr()
        code = run([str(a) for a in arguments])
        said = capsys.readouterr()
        assert code == 0, said.err
        return said.out

    return called


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Says:
    """Runs a command line that must end with code 2; its one sentence."""

    def called(*arguments: object) -> str:
        capsys.readouterr()
        assert run([str(a) for a in arguments]) == 2
        said = capsys.readouterr().err
        assert "Traceback" not in said
        return said

    return called


SCORE = ("score", "tss", "--results", "results", "--data", "data")


def test_tables_of_tss(world: Path, call: Says) -> None:
    words = call(*SCORE, "--protocol", "tss-cpp")
    assert words.startswith("tss, protocol tss-cpp, files:results, run ")
    assert "T5, T10: flow within 5, 10 %" in words
    flat = " ".join(words.split())
    for row in ("A 2 ", "B 1 ", "all: mean of the subsets 3 ", "all: mean over the pairs 3 "):
        assert row in flat
    assert words.count("Average") == 4
    assert words.count("w/o flip") == 3
    assert "A/p1" not in words


def test_pairs_of_tss_are_printed_on_request(world: Path, call: Says) -> None:
    flat = " ".join(call(*SCORE, "--pairs").split())
    for pair in ("A/p1", "A/p2", "B/p1"):
        for direction in ("1to2", "2to1"):
            assert f"{pair} │ {direction} │ {int(pair == 'A/p2')} │" in flat


def test_scores_csv_beside_a_subset_alone(world: Path, call: Says) -> None:
    alone = ("score", "tss", "--results", "results/A", "--data", "data/A", "--scores-csv")
    for _ in range(2):
        call(*alone, "--protocol", "tss-cpp")
    assert sorted(p.name for p in Path("results/A").iterdir()) == ["p1", "p2", "scores.csv"]


def test_results_of_another_subset_are_refused(world: Path, refused: Says) -> None:
    wrong = ("--results", "results/A", "--data", "data")
    for task in ("tss", "dense/flow", "dense/pck"):
        assert "could belong to any of A, B" in refused("score", task, *wrong)
    files = ("run", "files:results/A", "--task", "tss", "--data", "data")
    assert "could belong to any of A, B" in refused(*files)
    assert "could belong to any of" in refused("flow", "show", *wrong)


def test_what_is_refused(world: Path, refused: Says) -> None:
    Path("file").touch()
    Path("empty").mkdir()
    flow = ("score", "dense/flow", "--results", "results", "--data", "data")
    assert "--scores-csv has no effect on dense/flow" in refused(*flow, "--scores-csv")
    assert "--pairs has no effect on dense/flow" in refused(*flow, "--pairs")
    assert "is a file; pass a folder" in refused("score", "tss", "--results", "file", "--data", "data")
    assert "applies to descriptors" in refused(*SCORE, "--on-bad", "miss")
    assert "auto_flip must be a Boolean" in refused(*SCORE, "-o", "auto_flip=maybe")
    none = ("--results", "empty", "--data", "data", "--missing", "skip")
    assert "no results for any of 3 pairs: the folder is empty" in refused("score", "dense/flow", *none)
    Path("results/A/scores.csv").mkdir()
    assert "cannot write results/A/scores.csv" in refused(*SCORE, "--scores-csv", "--protocol", "tss-cpp")


def test_a_folder_with_a_question_mark(world: Path, call: Says) -> None:
    Path("results").rename("results?b=1+l2")
    found = json.loads(call("score", "tss", "--results", "results?b=1+l2", "--data", "data", "--json"))
    assert {s["method"] for s in found["scores"]} == {"files:results?b=1+l2"}


def test_masks_are_written_for_methods_without(world: Path, call: Says) -> None:
    Path("mine.py").write_text(
        "import numpy as np\n"
        "class Mine:\n"
        "    def match(self, a, b):\n"
        "        return np.ones((*a.shape[:2], 2)) * (1 if a.mean() > b.mean() else -1)\n"
    )
    for task in ("tss", "dense/flow"):
        call("run", "mine.py:Mine", "--task", task, "--data", "data", "--write-results", f"out/{task}")
        (folder,) = Path(f"out/{task}").glob("*/A/p1")
        names = sorted(p.name for p in folder.iterdir())
        assert names == ["flow1.flo", "flow2.flo", "mask1.png", "mask2.png"]


def test_pck_says_what_it_is(world: Path, call: Says) -> None:
    table = call("run", "zero", "--task", "dense/pck", "--data", "data", "-o", "scale=box", "--store", "s")
    assert "alpha=0.1,per=pair,scale=box" in table
    for form in ("md", "html", "latex"):
        call("report", "--store", "s", "--out", f"report.{form}", "--format", form)
        words = Path(f"report.{form}").read_text().replace("\\", "").replace("scale=", "scale ")
        assert "scale box" in words.split("all 3")[0]
    call("run", "zero", "--task", "tss,dense/flow", "--data", "data", "--store", "t")
    call("report", "--store", "t", "--out", "report.md", "--format", "md")
    assert "flow accuracy T5 (%)" in Path("report.md").read_text()
    call("report", "--store", "t", "--out", "report.md", "--format", "md", "--table", "scores")
    words = Path("report.md").read_text().replace("\\", "")
    assert "flow_accuracy T5" in words
    assert "flow_accuracy 5 px" in words


def test_a_mask_that_changes_changes_the_score(world: Path, call: Says) -> None:
    def value() -> float:
        made = call("run", "zero", "--task", "dense/pck", "--data", "data", "-o", "scale=box", "--json")
        scores = json.loads(made)["scores"]
        return next(s["value"] for s in scores if s["group"] == "alpha=0.1,per=pair,scale=box")

    for key in ("A/p1", "A/p2", "B/p1"):
        Path(f"data/{key}/corr.txt").write_text(f"{5 / 16}\t{6 / 12}\t{6 / 16}\t{6 / 12}\n")
    before = value()  # 1 px off, a box of 9 px
    wide = np.zeros((12, 16), np.uint8)
    wide[2:9, 1:15] = 255
    for key in ("A/p1", "A/p2", "B/p1"):
        for i in (1, 2):
            write_mask(Path(f"data/{key}/mask{i}.png"), wide)
    assert (before, value()) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("task", "options", "told"),
    [
        ("tss", {"subsets": "NOPE", "missing": "bad", "auto_flip": "maybe", "foo": "1"}, 4),
        ("dense/pck", {"scale": "bad", "alphas": "x", "missing": "bad"}, 3),
        ("hpatches/matching", {"sequences": "bad", "foo": "1", "tasks": "nowhere"}, 4),
    ],
)
def test_everything_wrong_with_options_is_told_at_once(
    tmp_path: Path, task: str, options: dict[str, str], told: int
) -> None:
    from tiepoint.core.errors import ProblemsError
    from tiepoint.tasks import load_task

    folder = tmp_path / "data"
    if task == "tss":
        (folder / "S" / "p").mkdir(parents=True)
        (folder / "S" / "p" / "flip_gt.txt").write_text("0")
    with pytest.raises(ProblemsError) as caught:
        load_task(task).open(folder, options)
    assert len(caught.value.problems) == told
