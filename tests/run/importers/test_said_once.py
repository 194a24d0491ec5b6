# SPDX-License-Identifier: BSD-3-Clause
"""Results that say a thing twice, or lose one: each is a run, a note or a refusal, never a silent choice."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tiepoint.core.errors import FormatError
from tiepoint.run.importers import import_files
from tiepoint.run.importers.hpatches_matlab import read_score_table
from tiepoint.run.importers.hpatches_python import read_json_results
from tiepoint.run.importers.workbench.importer import read_workbench
from tiepoint.store.run_queries import load_runs
from tiepoint.store.store import Store

VERIFICATION = "descriptor,split,negs,geom_noise,method,pr_auc,pr_ap,roc_auc\n"
TABLES = """
create table experiments(id integer primary key, descriptor_type text);
create table results(experiment_id int, true_map_micro real, processing_time_ms real, metadata text);
create table keypoint_sets(id integer primary key, name text);
create table locked_keypoints(id integer primary key, keypoint_set_id int, scene_name text, image_name text,
  x real, y real, size real, angle real, response real, octave int, class_id int);
insert into experiments values (1, 'sift');
insert into results values (1, 0.5, 5, '');
"""


def database(tmp_path: Path, more: str = "") -> Path:
    with sqlite3.connect(tmp_path / "w.db") as connection:
        connection.executescript(TABLES + more)
    connection.close()
    return tmp_path / "w.db"


def written(tmp_path: Path, name: str, text: str) -> Path:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / name


def test_two_results_of_one_experiment_are_two_runs(tmp_path: Path) -> None:
    """The second took the place of the first, and both were told as stored."""
    path = database(tmp_path, "insert into results values (1, 0.9, 5, '')")
    with Store.open(tmp_path / "s") as store:
        _, notes = import_files([path], store)
        assert [r.scores[0].value for r in load_runs(store)] == [0.5, 0.9]
    assert "w.db: experiment 1 (sift) has 2 results; each becomes a separate run" in notes


def test_results_without_experiment_are_told(tmp_path: Path) -> None:
    rows, notes = read_workbench(database(tmp_path, "insert into results values (7, 0.9, 5, '')"))
    assert len(rows) == 1
    assert notes[0] == "1 results were skipped, because their experiments are missing in w.db"


def test_keypoints_of_two_images_never_become_those_of_one(tmp_path: Path) -> None:
    sets = "insert into keypoint_sets values (1, 'a'), (2, 'b');"
    point = "insert into locked_keypoints values (null, {}, 'v_a', '{}', 1, 2, 3, -1, 0, 0, -1);"
    fine = sets + point.format(1, "1.ppm") + point.format(2, "1ppm.ppm")
    read_workbench(database(tmp_path, fine))
    (tmp_path / "w.db").unlink()
    with pytest.raises(FormatError, match=r"keypoints of v_a: 1\.png and 1\.ppm are both image 1"):
        read_workbench(database(tmp_path, fine + point.format(1, "1.png")))


@pytest.mark.parametrize("said", ["total_queries_processed=1e300", "v_a_true_map=0.5;v_a_query_count=-3"])
def test_counts_that_are_none_are_refused(tmp_path: Path, said: str) -> None:
    with pytest.raises(FormatError, match="expected a count"):
        read_workbench(database(tmp_path, f"update results set metadata = '{said}'"))


def test_a_time_below_zero_was_not_measured(tmp_path: Path) -> None:
    _, notes = read_workbench(database(tmp_path, "update results set processing_time_ms = -5"))
    assert notes == ["w.db: not measured, so left out (stored as -5): processing_time_ms"]


def test_names_in_a_csv_export_are_text_as_it_stands(tmp_path: Path) -> None:
    path = written(tmp_path, "w.csv", "descriptor_type,true_map_micro\n007,0.5\nnan,0.6\n")
    assert [row["name"] for row in read_workbench(path)[0]] == ["007", "nan"]
    for text, words in (
        ("descriptor_type,true_map_micro\n ,0.5\n", "descriptor_type is empty"),
        ("descriptor_type,true_map_micro,true_map_micro\na,0.5,0.9\n", "duplicate"),
    ):
        with pytest.raises(FormatError, match=words):
            read_workbench(written(tmp_path, "w.csv", text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            VERIFICATION + 2 * "d,a,inter,easy,imbalanced,0,0.5,0\n",
            "line 3: .*same noise, negatives and method",
        ),
        (VERIFICATION.strip() + ",pr_ap\nd,a,inter,easy,imbalanced,0,0.5,0,0.9\n", "line 1: duplicate"),
        (VERIFICATION + "d,a,inter,everything,imbalanced,0,0.5,0\n", "unknown noise 'everything'"),
    ],
)
def test_a_matlab_table_says_each_number_once(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        read_score_table(written(tmp_path, "v.csv", text), split=None, tasks=None)


def test_a_query_and_a_pool_are_there_once(tmp_path: Path) -> None:
    def refused(results: object, words: str) -> None:
        table = {"descriptor": "d", "task": "retrieval", "split": "a", "results": results}
        with pytest.raises(FormatError, match=words):
            read_json_results(written(tmp_path, "r.json", json.dumps(table)), split=None, tasks=None)

    one = {z: {"100": 0.1} for z in "eht"}
    refused({"1": one, "01": one}, "query: two keys are the same number")
    refused({"1": {z: {"100": 0.1, "0100": 0.9} for z in "eht"}}, "pool: two keys are the same number")
    refused({"1": one, "2": {z: {"100": 0.1, "500": 0.2} for z in "eht"}}, "query 2, e has 2 pools")


def test_what_is_called_a_database_and_is_none_says_so(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store, pytest.raises(FormatError, match="is not an SQLite database"):
        import_files([written(tmp_path, "w.db", "")], store)
