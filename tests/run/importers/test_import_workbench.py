# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import sqlite3

import numpy as np
import pytest
import sqlalchemy as sa

import tiepoint as tp
from tiepoint.cli.main import run as tiepoint
from tiepoint.core.errors import FormatError, InputError
from tiepoint.run import finish
from tiepoint.run.importers import import_files
from tiepoint.run.importers.workbench.importer import is_workbench
from tiepoint.run.importers.workbench.scores import parse_metadata
from tiepoint.run.update import update_run
from tiepoint.store.run_queries import load_runs
from tiepoint.store.store import Store
from tiepoint.store.writers import load_keypoint_set

EXPERIMENTS = """create table experiments (id integer primary key, descriptor_type text, dataset_name text,
 pooling_strategy text, similarity_threshold real, max_features integer, timestamp text, parameters text,
 keypoint_set_id integer, keypoint_source text, descriptor_dimension integer, execution_device text)"""
RESULTS = """create table results (id integer primary key, experiment_id integer, true_map_macro real,
 true_map_micro real, true_map_macro_with_zeros real, true_map_micro_with_zeros real,
 image_retrieval_map real default -1, viewpoint_map real, illumination_map real,
 viewpoint_map_with_zeros real,
 illumination_map_with_zeros real, keypoint_verification_ap real default -1,
 verification_viewpoint_ap real default -1, verification_illumination_ap real default -1,
 keypoint_retrieval_ap real default -1, retrieval_viewpoint_ap real default -1,
 retrieval_illumination_ap real default -1, retrieval_num_true_positives integer default 0,
 retrieval_num_hard_negatives integer default 0, retrieval_num_distractors integer default 0,
 mean_average_precision real, legacy_mean_precision real, precision_at_1 real, precision_at_5 real,
 recall_at_1 real, recall_at_5 real, total_matches integer, total_keypoints integer, processing_time_ms real,
 timestamp text, metadata text)"""
SETS = """create table keypoint_sets (id integer primary key, name text, generator_type text,
 generation_method text, max_features integer, dataset_path text, boundary_filter_px integer default 40,
 source_set_a_id integer, source_set_b_id integer, tolerance_px real)"""
LOCKED = """create table locked_keypoints (id integer primary key, keypoint_set_id integer, scene_name text,
 image_name text, x real, y real, size real, angle real, response real, octave integer, class_id integer)"""


def scenes(values):
    return "".join(
        f"{s}_true_map={v:.6f};{s}_query_count={n};"
        f"{s}_true_map_with_zeros={v / 2:.6f};{s}_excluded_count={n};"
        for s, v, n in values
    )


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "experiments.db"
    c = sqlite3.connect(path)
    for statement in (EXPERIMENTS, RESULTS, SETS, LOCKED):
        c.execute(statement)
    c.execute("insert into keypoint_sets values (7,'sift_surf_a','sift','mutual',100,'d',40,1,2,3.0)")
    for i, (x, response) in enumerate([(50.0, 0.1), (60.0, 0.9), (70.0, 0.5)]):
        c.execute(
            "insert into locked_keypoints values (?,7,'v_a','1ppm.ppm',?,40,5,-1,?,0,-1)", (i, x, response)
        )
    e = "insert into experiments values (?,?,'data/hpatches','none',0.05,100,'2026-01-01',?,?,?,128,'cpu')"
    c.execute(e, (1, "sift", "descriptor_type=sift;norm_type=l1;", 7, "database"))
    c.execute(e, (2, "orb", "descriptor_type=orb;", None, "database"))
    c.execute(e, (3, "broken", "descriptor_type=sift;", None, "database"))
    r = (
        "insert into results (experiment_id, true_map_macro, true_map_micro, true_map_macro_with_zeros,"
        " true_map_micro_with_zeros, viewpoint_map, illumination_map, keypoint_verification_ap,"
        " mean_average_precision, legacy_mean_precision, precision_at_1, precision_at_5, total_matches,"
        " total_keypoints, processing_time_ms, metadata) values (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
    )
    six = [(f"v_{k}", 0.1 * (i + 1), 100) for i, k in enumerate("abcdef")]
    c.execute(
        r,
        (1, 0.35, 0.35, 0.175, 0.175, 0.35, 0.0, 0.2, 0.35, 0, 0.3, 0.5, 0, 0, 0, "success=1;" + scenes(six)),
    )
    c.execute(r, (2, 0.05, 0.05, 0.02, 0.02, 0.05, 0.05, -1, 0.05, 0, 0.01, 0.05, 0, 0, 0, "success=1;"))
    c.execute(r, (3, 0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, "success=0;error_message=no keypoints;"))
    c.commit()
    c.close()
    return path


def test_a_database_becomes_runs_without_sentinels(database, tmp_path):
    with Store.open(tmp_path / "store") as store:
        runs, notes = import_files([database], store)
        with store.begin() as c:
            rows = c.execute(sa.text("select * from results order by method")).mappings().all()
            errors = c.execute(sa.text("select error from runs where status = 'failed'")).all()
    assert [r["method"] for r in rows] == ["broken", "orb", "sift"]
    failed, _, sift = rows
    assert failed["error"] in failed["metadata"]
    assert sift["true_map_micro"] == 0.35
    assert sift["keypoint_verification_ap"] == 0.2
    # a scene list without i_ scenes: the stored 0.0 is no measurement; -1 and 0 ms neither
    assert sift["illumination_map"] is None
    assert sift["keypoint_retrieval_ap"] is None
    assert sift["processing_time_ms"] is None
    assert sift["legacy_mean_precision"] is None
    assert sift["metadata"].startswith("success=1;")
    assert errors == [("no keypoints",)]
    text = " ".join(notes)
    assert "the L1 norm was in fact the L2 norm" in text
    assert "orb: the ORB bytes" in text
    assert "time was not measured" in text
    assert {r.task for r in runs if r.method == "sift"} == {"keypoints/ranking", "keypoints/verification"}


def test_scenes_of_the_metadata_give_intervals(database, tmp_path):
    with Store.open(tmp_path / "store") as store:
        runs, _ = import_files([database], store)
    ranking = next(r for r in runs if r.method == "sift" and r.task == "keypoints/ranking")
    macro = next(s for s in ranking.score_rows if s.metric == "true_map_macro_by_scene")
    assert macro.low < 0.35 < macro.high
    assert ranking.value("true_map_micro", "scene=v_c", "workbench") == pytest.approx(0.3)
    assert ranking.value("true_map_micro", "scene=v_f", "workbench") == pytest.approx(0.6)
    zeros = ranking.value("true_map_micro_including_zeros", "scene=v_f", "workbench")
    assert zeros == pytest.approx(0.3)
    kept = {s.metric for s in ranking.score_rows if s.group == "all" and s.low is not None}
    assert kept == {
        *(
            f"true_map_{mean}{zeros}"
            for mean in ("micro", "macro_by_scene")
            for zeros in ("", "_including_zeros")
        ),
        "mean_average_precision",
        "viewpoint_map",
    }


def test_scenes_of_imported_numbers_survive_new_rules(database, tmp_path, monkeypatch):
    with Store.open(tmp_path / "store") as store:
        with monkeypatch.context() as past:
            past.setattr(finish, "SCORING", -1)
            import_files([database], store)
        (before,) = [r for r in load_runs(store) if r.task == "keypoints/ranking" and r.method == "sift"]
        after = update_run(store, before)
        assert after.manifest.scoring == finish.SCORING
        assert after.scores == before.scores
        tables = store.values.get(after.manifest.values["workbench"])
        assert any(table is not None for table in tables.values())


def test_sets_keep_the_order_of_insertion(database, tmp_path):
    with Store.open(tmp_path / "store") as store:
        import_files([database], store)
        found = load_keypoint_set(store.root, "sift_surf_a")
        assert found.of("v_a/1").xy[:, 0].tolist() == [50, 60, 70]
        assert np.isnan(found.of("v_a/1").angle_deg).all()
        assert found.pairs["v_a/1"].tolist() == [0, 1, 2]
        assert found.recipe["border_px"] is None
        _, again = import_files([database], store)
    assert any("already" in note for note in again)


def test_csv_exports(tmp_path):
    path = tmp_path / "experiment_summary_full.csv"
    path.write_text(
        "experiment_name,experiment_id,descriptor_type,pooling_strategy,mean_average_precision,true_map_macro,"
        "true_map_micro,precision_at_1,precision_at_5,processing_time_s\n"
        "x,1,sift,none,0.53,0.53,0.56,0.52,0.59,0\nx,2,l2net,none,0,0,0,0,0,0\n"
    )
    assert is_workbench(path)
    with Store.open(tmp_path / "store") as store:
        runs, notes = import_files([path], store)
    assert [(r.method, r.stored.status) for r in runs] == [("sift", "done"), ("l2net", "failed")]
    assert runs[0].value("true_map_micro", "all", "workbench") == 0.56
    assert any("random weights" in note for note in notes)


HEAD = (
    "experiment_id,descriptor_type,dataset_name,true_map_macro,true_map_micro,precision_at_1,precision_at_5,"
    "total_keypoints,processing_time_ms,metadata,uses_color\n"
)


def test_a_csv_export_has_the_scenes_of_its_metadata(tmp_path):
    # Six scenes with 0.1 to 0.6 and as many queries each: the mean is 0.35; every second query has no truth.
    six = scenes([(f"{'iv'[i % 2]}_{k}", 0.1 * (i + 1), 100) for i, k in enumerate("abcdef")])
    more = "kps_per_sec=434.336420;precision_at_10=0.600000;total_queries_processed=600;"
    path = tmp_path / "descriptor_performance_analysis.csv"
    path.write_text(
        f"{HEAD}1,surf,../data/,0.35,0.35,0.3,0.5,1000,51840.0,success=true;{six}{more},False\n"
        f"2,plain,../data/,0.35,0.35,0.3,0.5,1000,51840.0,,False\n"
        f"3,other,../data/,0.36,0.35,0.3,0.5,1000,51840.0,{six},False\n"
    )
    with Store.open(tmp_path / "store") as store:
        (surf, plain, other), notes = import_files([path], store)

    def interval(run, metric):
        (row,) = [s for s in run.score_rows if (s.metric, s.group) == (metric, "all")]
        return row.low, row.high, row.note

    for metric in ("true_map_macro_by_scene", "true_map_micro"):
        low, high, _ = interval(surf, metric)
        assert low < 0.35 < high
        assert interval(plain, metric)[:2] == (None, None)
    assert interval(other, "true_map_macro_by_scene")[0] is None  # its scenes give another mean, 0.35
    assert "0.35" in interval(other, "true_map_macro_by_scene")[2]
    assert interval(other, "true_map_micro")[0] is not None
    assert surf.value("true_map_micro", "scene=i_c", "workbench") == pytest.approx(0.3)
    assert surf.value("precision_at_10", "all", "workbench") == 0.6
    assert surf.value("total_queries_processed", "all", "workbench") == 600
    text = " ".join(notes)
    assert "keys of metadata that make no score: kps_per_sec (1 of 3)" in text
    assert "columns that are not imported: uses_color" in text
    assert "scores have no intervals" not in text
    found = tp.compare(task="keypoints/ranking", metric="true_map_micro", store=tmp_path / "store")
    assert {row.method: row.tested for row in found.rows} == {"surf": True, "other": True, "plain": False}


def test_one_key_a_scene_is_enough_for_a_mean_over_scenes(tmp_path):
    # Four decimals, as the documentation writes them: 1/9 to 6/9 rounded, their mean 7/18 exactly.
    text = "".join(f"v_{k}_true_map={(i + 1) / 9:.4f};" for i, k in enumerate("abcdef"))
    path = tmp_path / "e.csv"
    path.write_text(f"{HEAD}1,surf,d,{7 / 18},0.4,0.3,0.5,1000,0,{text},\n")
    with Store.open(tmp_path / "store") as store:
        (run,), _ = import_files([path], store)
    rows = {s.metric: s for s in run.score_rows if s.group == "all"}
    macro = rows["true_map_macro_by_scene"]
    assert macro.low < 7 / 18 < macro.high
    assert rows["true_map_micro"].low is None
    assert "no number of queries by scene" in rows["true_map_micro"].note


def lone(path, *rows):
    c = sqlite3.connect(path)
    c.execute("create table results (true_map_micro real, keypoint_verification_ap real, metadata text)")
    c.executemany("insert into results values (?, ?, ?)", rows)
    c.commit()
    c.close()
    return path


def test_a_table_of_results_alone(tmp_path):
    path = lone(tmp_path / "mine.db", (0.3, -1, "x=1;"), (0.4, 0.2, None))
    with Store.open(tmp_path / "store") as store:
        runs, notes = import_files([path], store)
        assert [(r.method, r.task) for r in runs] == [
            ("mine-1", "keypoints/ranking"),
            ("mine-2", "keypoints/ranking"),
            ("mine-2", "keypoints/verification"),
        ]
        assert any("mine-1 to mine-2" in n for n in notes)
        assert any("(stored as -1): keypoint_verification_ap (1 of 2)" in n for n in notes)
        again, _ = import_files([path], store, name="sift")
        assert [r.method for r in again] == ["sift-1", "sift-2", "sift-2"]
        one = lone(tmp_path / "one.db", (0.3, None, None))
        assert [r.method for r in import_files([one], store)[0]] == ["one"]
        assert [r.method for r in import_files([one], store, name="surf")[0]] == ["surf"]
        with pytest.raises(InputError, match="renames a single descriptor"):
            import_files([path, database_of(tmp_path / "x.csv")], store, name="sift")


def database_of(path):
    path.write_text("descriptor_type,true_map_micro\nsurf,0.5\n")
    return path


def test_scenes_that_cannot_be_are_refused(tmp_path):
    path = lone(tmp_path / "mine.db", (0.3, -1, "v_wall_true_map=1.5;"))
    with Store.open(tmp_path / "store") as store:
        with pytest.raises(FormatError, match=r"metadata, v_wall_true_map: .* found 1.5"):
            import_files([path], store)
        assert not load_runs(store)
    other = tmp_path / "other.db"
    sqlite3.connect(other).execute("create table results (x)").connection.commit()
    with Store.open(tmp_path / "store") as store, pytest.raises(FormatError, match="no known scores"):
        import_files([other], store)


def test_a_measured_zero_of_a_kind_stays(tmp_path):
    text = "i_a_true_map=0.500000;"
    for viewpoint, kept in ((0.0, None), (0.4, 0.4)):
        path = tmp_path / f"{kept}.csv"
        path.write_text(
            f"descriptor_type,true_map_micro,viewpoint_map,metadata\nsurf,0.5,{viewpoint},{text}\n"
        )
        with Store.open(tmp_path / f"s{kept}") as store:
            (run,), _ = import_files([path], store)
        found = {s.metric: s.value for s in run.score_rows}
        assert found.get("viewpoint_map") == kept


def test_values_that_cannot_be_are_refused_with_their_place(database, tmp_path):
    path = tmp_path / "experiment_summary_full.csv"
    head = "experiment_id,descriptor_type,true_map_micro,precision_at_1,processing_time_s\n"
    for row, message in (
        ("1,sift,1.5,0.5,3\n", "line 3: true_map_micro: .* between 0 and 1, found 1.5"),
        ("1,sift,0.5,-2,3\n", "line 3: precision_at_1: .* found -2"),
        ("1,sift,many,0.5,3\n", "line 3: true_map_micro: expected a number, found 'many'"),
    ):
        path.write_text(head + "1,surf,0.4,0.4,0\n" + row)
        with Store.open(tmp_path / "store") as store:
            with pytest.raises(FormatError, match=message):
                import_files([path], store)
            assert not load_runs(store)
    c = sqlite3.connect(database)
    c.execute("update results set keypoint_verification_ap = 20 where experiment_id = 1")
    c.commit()
    c.close()
    with Store.open(tmp_path / "store") as store:
        with pytest.raises(FormatError, match=r"experiment 1, keypoint_verification_ap: .* found 20"):
            import_files([database], store)
        assert not load_runs(store)


def test_imported_numbers_can_be_compared(database, tmp_path):
    store = tmp_path / "store"
    with Store.open(store) as opened:
        import_files([database], opened)
    found = tp.compare(task="keypoints/ranking", store=store)
    assert [(r.method, r.value, r.tested) for r in found.rows] == [
        ("sift", pytest.approx(0.35), True),  # its metadata has the scenes
        ("orb", 0.05, False),
    ]
    assert "runs without scene values cannot be tested: orb" in str(found)


def test_wrong_files_are_explained(tmp_path):
    empty = tmp_path / "a.db"
    sqlite3.connect(empty).execute("create table t (x)").connection.commit()
    with (
        Store.open(tmp_path / "store") as store,
        pytest.raises(FormatError, match="the table results is missing"),
    ):
        import_files([empty], store)
    bad = tmp_path / "b.csv"
    bad.write_text("name,true_map_micro\nx,1\n")
    with Store.open(tmp_path / "store") as store, pytest.raises(FormatError, match="descriptor_type"):
        import_files([bad], store)


def test_the_command_line_imports_a_database(database, tmp_path, capsys):
    assert tiepoint(["import", str(database), "--store", str(tmp_path / "s"), "--json"]) == 0
    assert '"true_map_micro"' in capsys.readouterr().out


def test_metadata_is_read_as_pairs_or_json():
    assert parse_metadata("a=1;b=x=y;") == {"a": "1", "b": "x=y"}
    assert parse_metadata('{"a": 1}') == {"a": "1"}
    assert parse_metadata("") == {}


def test_a_name_fits_one_descriptor_and_settings_must_have_an_effect(database, tmp_path):
    with Store.open(tmp_path / "store") as store:
        for given, said in (
            ({"name": "mine"}, "`name` renames a single descriptor, but these files have 3: "),
            ({"split": "a"}, "`split` has no effect"),
            ({"tasks": tmp_path}, "`tasks` has no effect"),
        ):
            with pytest.raises(InputError, match=said):
                import_files([database], store, **given)
        assert load_runs(store) == []
        csv = tmp_path / "one.csv"
        csv.write_text("descriptor_type,dataset_name,true_map_micro\nsift,x,0.5\n")
        runs, _ = import_files([csv], store, name="mine")
        assert [(r.method, r.manifest.method.name_given) for r in runs] == [("mine", True)]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("update locked_keypoints set scene_name = '../../../x'", "cannot be part of a path"),
        ("update locked_keypoints set scene_name = char(27) || '[31m'", "cannot be part of a path"),
        ("update locked_keypoints set image_name = '..'", "cannot be part of a path"),
        ("update locked_keypoints set x = 'far'", "expected numbers in the columns x, y"),
        ("update locked_keypoints set x = 9e999", "expected numbers in the columns x, y"),
        ("update results set true_map_micro = 'high'", "true_map_micro: expected a number"),
        ("update results set keypoint_verification_ap = x'00ff'", "expected a number"),
        ("update results set processing_time_ms = 'long'", "processing_time_ms: expected a number"),
        ("alter table experiments drop column descriptor_type", "no column id or descriptor_type"),
        ("alter table locked_keypoints drop column octave", "locked_keypoints lacks octave"),
        ("alter table keypoint_sets drop column name", "keypoint_sets lacks name"),
        ("update results set metadata = cast(zeroblob(20000000) as text)", "corrupt database"),
    ],
)
def test_a_database_that_does_not_hold_is_refused_before_anything_is_stored(
    database, tmp_path, statement, words
):
    with sqlite3.connect(database) as c:
        c.execute(statement)
    c.close()
    with Store.open(tmp_path / "store") as store:
        with pytest.raises(FormatError, match=words):
            import_files([database], store)
        assert not list((store.root / "keypoint_sets").glob("*"))
        assert not load_runs(store)


def test_bytes_and_broken_text_in_a_database_are_text(database, tmp_path):
    with sqlite3.connect(database) as c:
        c.execute("update keypoint_sets set name = cast(x'ff2e2e2f78' as text), generator_type = x'00ff'")
        c.execute("update experiments set dataset_name = cast(x'ff' as text), parameters = x'7b7b'")
        c.execute("update results set metadata = ? where experiment_id = 2", ('{"a":' * 5000,))
    c.close()
    with Store.open(tmp_path / "store") as store:
        assert len(import_files([database], store)[0]) == 4
        assert [p.name for p in (store.root / "keypoint_sets").iterdir()] == ["set__.._x"]


@pytest.mark.parametrize("name", ["what?is", "100%41", "a#b", "a b'c"])
def test_a_database_in_a_folder_of_any_name_is_found(database, tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    moved = database.rename(folder / database.name)
    with Store.open(tmp_path / "store") as store:
        assert import_files([moved], store)[0]


def test_a_damaged_database_is_a_sentence(database, tmp_path):
    data = database.read_bytes()
    for cut in (100, 4096, len(data) // 2):
        database.write_bytes(data[:cut])
        with Store.open(tmp_path / "store") as store, pytest.raises(FormatError):
            import_files([database], store)


def test_numbers_of_a_csv_export_that_are_none_say_their_line(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("descriptor_type,true_map_micro,processing_time_s\nsift,0.5,1\nsurf,0.4,soon\n")
    with Store.open(tmp_path / "store") as store:
        with pytest.raises(FormatError, match=r"line 3: processing_time_ms: expected a number"):
            import_files([path], store)
        path.write_text("descriptor_type,true_map_micro\nsift," + "9" * 200_000 + "\n")
        with pytest.raises(FormatError, match="CSV"):
            import_files([path], store)
