# SPDX-License-Identifier: BSD-3-Clause
"""One task on two datasets: a section and a gallery each, with pictures of their own data."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from report_world import make_patches

from tiepoint.cli.main import run as command
from tiepoint.core.errors import InputError
from tiepoint.report.compare.runs import compare_runs
from tiepoint.report.galleries import gallery
from tiepoint.report.paper_tables import combined_tables
from tiepoint.report.runs.names import DisplayNames
from tiepoint.report.runs.sections import sections
from tiepoint.report.runs.selection import of_protocol, runs_of
from tiepoint.store.store import Store

TASK = "hpatches-v1/matching"
ONE = [f"i_one{s}" for s in range(7)]
TWO = [f"i_two{s}" for s in range(7)]


def make_store(root: Path, first: list[str], second: list[str]) -> Path:
    """Two methods on two datasets whose folders share their name."""
    for k, scenes in enumerate((first, second)):
        folder = root / str(k)
        data = make_patches(folder, scenes, seed=k)
        words = ["run", "meanstd", "constant", "resize", "--task", TASK, "--data", str(data)]
        assert command([*words, "--tasks", str(folder), "--store", str(root / "store")]) == 0
    return root / "store"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("two"), ONE, TWO)


def test_each_dataset_has_its_section_and_its_letters(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    assert command(["report", "--store", str(store), "--out", str(out)]) == 0
    page = out.read_text(encoding="utf-8")
    assert len(re.findall(r'<section id="[^"]*" class="task">', page)) == 2
    assert page.count("not separated by these 7 scenes (95 %") == 2
    assert "no groups" not in page
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    for form in ("md", "latex"):
        assert command(["report", "--store", str(store), "--format", form, "--out", str(out)]) == 0
        assert len(set(re.findall(r"on patches [0-9a-f]{8}", out.read_text()))) == 2


def decoded(source: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2]))).convert("L"))


@pytest.mark.parametrize("second", [TWO, ONE], ids=["other scenes", "scenes of the same names"])
def test_pictures_come_from_the_dataset_of_the_run(second: list[str], tmp_path: Path) -> None:
    where = make_store(tmp_path, ONE, second)
    with Store.open(where) as opened:
        found = sections(runs_of(opened))
    assert len(found) == 2
    for section in found:
        told = gallery(section)
        assert told is not None
        folder = Path(section.runs[0].manifest.dataset.path)
        for miss in told["misses"]:
            for picture in miss["pictures"]:
                item, _, index = picture["what"].partition("#")
                strip = np.asarray(Image.open(folder / f"{item}.png")).reshape(-1, 20, 20)
                assert (decoded(picture["source"]) == strip[int(index)]).all()


def test_without_its_dataset_a_run_has_no_pictures(tmp_path: Path) -> None:
    where = make_store(tmp_path, ONE, TWO)
    changed = tmp_path / "0" / "patches" / "i_one0" / "ref.png"
    strip = np.asarray(Image.open(changed))
    Image.fromarray(255 - strip).save(changed)
    with Store.open(where) as opened:
        told = [gallery(s) for s in sections(runs_of(opened))]
    assert sorted(t is None for t in told) == [False, True]


def test_runs_on_two_datasets_are_compared_when_one_is_named(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert command(["compare", "--task", TASK, "--store", str(store)]) == 2
    told = capsys.readouterr().err
    names = re.findall(r"patches [0-9a-f]{8}", told[: told.index("or accept")])
    assert "choose one with --dataset: " in told
    assert len(names) == 2
    words = ["--task", TASK, "--store", str(store)]
    assert command(["compare", *words, "--dataset", names[0]]) == 0
    assert "7 scenes" in capsys.readouterr().out
    assert command(["compare", *words, "--dataset", "patchs"]) == 2
    assert f"did you mean '{names[0]}'" in capsys.readouterr().err
    with Store.open(store) as opened:
        first = sections(runs_of(opened))[0]
    assert command(["compare", *(r.id for r in first.runs), "--task", TASK, "--store", str(store)]) == 0
    assert "7 scenes" in capsys.readouterr().out


def test_a_figure_of_a_task_on_two_datasets_needs_the_name_of_one(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["plot", "scores", "--task", TASK, "--store", str(store), "--out", str(tmp_path / "s.csv")]
    capsys.readouterr()
    assert command(words) == 2
    told = capsys.readouterr().err
    assert "figure 'scores' exists for 2 datasets" in told
    assert "choose one with --dataset" in told
    (name, *_) = re.findall(r"patches [0-9a-f]{8}", told)
    assert command([*words, "--dataset", name]) == 0


def test_a_method_on_two_datasets_has_one_row_in_the_table_of_all_tasks(store: Path) -> None:
    with Store.open(store) as opened:
        runs = runs_of(opened)
    (table,) = combined_tables(runs, DisplayNames())
    assert sorted(name for name, _ in table.rows) == ["meanstd", "resize"]
    assert all(cell.text for _, cells in table.rows for cell in cells)
    assert {h.over for h in table.heads} == {"HPatches 2016 matching"}
    assert all(re.fullmatch("on patches [0-9a-f]{8}", h.name) for h in table.heads)
    title = sections(runs)[0].title
    (named,) = combined_tables(runs, DisplayNames(tasks={title: "Ours"}))
    assert [h.whole.split(" ")[0] for h in named.heads] == ["Ours", "HPatches"]


def test_single_numbers_on_two_datasets_are_not_compared(store: Path) -> None:
    with Store.open(store) as opened:
        runs = [replace(r, values={}) for r in of_protocol(runs_of(opened, ["meanstd"]), "exact")]
    with pytest.raises(InputError, match="dataset differs"):
        compare_runs(runs)
    assert len(compare_runs(runs, allow=["dataset", "lists"]).rows) == 2
