"""Wrong input: found before any work, all of it at once, whatever methods and tasks it concerns."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tiepoint.cli.main import run as tiepoint
from tiepoint.core.errors import InputError, ProblemsError, UnknownNameError
from tiepoint.run import preparation
from tiepoint.run.preparation import prepare_all
from tiepoint.run.request import RunRequest

V2 = "hpatches/verification,hpatches/matching,hpatches/retrieval"


def refused(capsys: pytest.CaptureFixture[str], store: Path, *arguments: object) -> str:
    """What is said about a wrong line; nothing has been computed or stored."""
    assert tiepoint(["run", *map(str, arguments), "--store", str(store)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert not (store / "features").exists()
    assert not (store / "records").exists()
    assert not (store / "transforms").exists()
    return told.err


@pytest.mark.parametrize(
    ("methods", "tasks", "message"),
    [
        (["pixels", "nosuch"], "hpatches/matching", "unknown method 'nosuch'"),
        (["pixels", "resize+l1"], "hpatches/matching", "unknown transform 'l1'"),
        (["pixels"], "hpatches/matching,hpatches/nope", "unknown task 'hpatches/nope'"),
        (["pixels", "resize?sizze=3"], "hpatches/matching", "sizze"),
        (["resize+pca?dims=3"], "hpatches/matching", "no training sequences"),
    ],
)
def test_one_wrong_name_stops_before_the_others_run(
    patches: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], methods: Any, tasks: str, message: str
) -> None:
    told = refused(capsys, tmp_path / "s", *methods, "--task", tasks, "--data", patches, "--split", "full")
    assert message in told
    assert "problems" not in told


def test_all_problems_are_listed_once(
    patches: Path, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tables / "i_aa" / "e3.csv").unlink()
    arguments = ("pixels", "nosuch", f"files:{tables}", "--task", f"{V2},hpatches/nope", "--data", patches)
    for more in ((), ("--dry-run",)):
        told = refused(capsys, tmp_path / "s", *arguments, "--protocol", "exat", *more)
        assert "wrong input: 6 problems" in told
        assert told.count("unknown method 'nosuch'") == 1
        assert told.count("unknown protocol") == 3
        assert told.count("unknown task 'hpatches/nope'") == 1
        assert told.count("i_aa/e3.csv") == 1


def test_a_bad_folder_is_found_before_a_good_one_is_scored(
    patches: Path, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad"
    (bad / "x" / "i_aa").mkdir(parents=True)
    (bad / "x" / "i_aa" / "ref.csv").write_text("1,2\n")
    methods = (f"files:{tables}", f"files:{bad}")
    told = refused(capsys, tmp_path / "s", *methods, "--task", "hpatches/matching", "--data", patches)
    assert "one level deeper" in told


def test_a_bad_task_file_of_the_last_task_and_bad_descriptors_together(
    patches: Path,
    tables: Path,
    lists: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    edit: Callable[[Path, int, str], None],
) -> None:
    edit(lists / "retr_queries_split-full.csv", 3, "v_bb,999")
    table = tables / "v_cc" / "t2.csv"
    table.write_text("\n".join(table.read_text().splitlines()[:-1]) + "\n")
    where = ("--data", patches, "--tasks", lists, "--split", "full")
    for tasks in (V2, "hpatches/retrieval"):
        told = refused(capsys, tmp_path / "s", f"files:{tables}", "--task", tasks, *where)
        assert "wrong input: 2 problems" in told
        assert "patch 999 of 'v_bb' does not exist" in told
        assert "v_cc/t2.csv has 19 descriptors" in told


def test_result_files_that_a_task_has_not_are_refused_first(
    patches: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ("--write-results", tmp_path / "out")
    told = refused(
        capsys, tmp_path / "s", "pixels", "nosuch", "--task", "hpatches/matching", "--data", patches, *out
    )
    assert "cannot write result files" in told
    assert "nosuch" in told


def test_a_task_is_opened_once_and_a_method_made_once(
    patches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    load = preparation.load_task

    class Counting:
        def __init__(self, task: Any) -> None:
            self.task = task

        def __getattr__(self, name: str) -> Any:
            return getattr(self.task, name)

        def open(self, data: Path, options: Any) -> Any:
            opened.append(self.task.name)
            return self.task.open(data, options)

    monkeypatch.setattr(preparation, "load_task", lambda name: Counting(load(name)))
    tasks = V2.split(",")
    requests = [RunRequest(m, t, patches) for t in tasks for m in ("pixels", "resize+l2")]
    made = prepare_all(requests, tmp_path)
    assert opened == tasks
    assert [p.request for p in made] == requests
    assert len({id(p.opened) for p in made}) == 3
    assert len({id(p.method) for p in made}) == 2


def test_a_fit_waits_until_everything_is_checked(patches: Path, tmp_path: Path) -> None:
    asked = [
        RunRequest(m, "hpatches/matching", patches, (), {"split": "full"}, {}, 1, patches)
        for m in ("resize+pca?dims=3", "nosuch+pca")
    ]
    with pytest.raises(UnknownNameError, match="nosuch"):
        prepare_all(asked, tmp_path / "s")
    assert not (tmp_path / "s").exists()
    (ready,) = prepare_all(asked[:1], tmp_path / "s")
    method, fit = ready.fit_transforms(tmp_path / "s")
    assert fit.log[0]["sequences"] == ["i_aa", "v_bb", "v_cc"]
    assert method.config["fitted"] == fit.log[0]["hash"]


def test_one_problem_keeps_its_kind(patches: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere") as found:
        prepare_all([RunRequest("pixels", "hpatches/matching", Path("nowhere"))], tmp_path)
    assert "wrong input" not in str(found.value)


def test_bad_rows_and_lines_of_all_images_are_listed(
    patches: Path,
    tables: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    edit: Callable[[Path, int, str], None],
) -> None:
    edit(tables / "i_aa" / "ref.csv", 3, "nan,1,1,1")
    edit(tables / "v_bb" / "e1.csv", 1, "0,0,0,0")
    edit(tables / "v_cc" / "t4.csv", 5, "1,2,3")
    edit(tables / "v_cc" / "t5.csv", 7, "x,1,1,1")
    arguments = ["run", f"files:{tables}", "pixels", "--task", "hpatches/matching", "--data", str(patches)]
    assert tiepoint([*arguments, "--store", str(tmp_path / "s"), "--json"]) == 2
    told = capsys.readouterr()
    assert "4 problems" in told.err
    for part in (
        "i_aa/ref: 1 descriptors have NaN (rows 2)",
        "v_bb/e1: 1 descriptors have only zeros (rows 0)",
    ):
        assert part in told.err
    for part in ("t4.csv, line 5", "t5.csv, line 7"):
        assert part in told.err
    assert {s["method"] for s in json.loads(told.out)["scores"]} == {"pixels"}  # what was done is told


def test_a_list_of_problems_is_cut(
    patches: Path, tables: Path, tmp_path: Path, edit: Callable[[Path, int, str], None]
) -> None:
    from tiepoint.run.engine import evaluate
    from tiepoint.store.store import Store

    files = sorted(tables.glob("*/*.csv"))
    for file in files:
        edit(file, 2, "nan,1,1,1")
    with Store.open(tmp_path / "s") as store, pytest.raises(ProblemsError) as found:
        evaluate(RunRequest(f"files:{tables}", "hpatches/matching", patches), store)
    assert len(found.value.problems) == len(files) == 48
    assert "(and 47 more of this kind: i_aa/e1, i_aa/e2, i_aa/e3, …)" in str(found.value)


def test_runs_that_are_stored_load_no_worker_pool_and_no_image_pairs():
    code = (
        "import sys, tiepoint.run.engine\n"
        "unused = ('tiepoint.run.executors.process_pool', 'tiepoint.datasets.image_pairs.pair')\n"
        "print([name for name in unused if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
