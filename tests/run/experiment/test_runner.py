# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import sqlalchemy as sa
import yaml
from pydantic import BaseModel

from tiepoint.cli.main import run as tiepoint
from tiepoint.core.errors import FormatError, InputError, UnknownNameError
from tiepoint.methods.resolve import resolve
from tiepoint.run.experiment.config import Experiment, _inner, parse_experiment, read_experiment
from tiepoint.run.experiment.grid import plan
from tiepoint.run.experiment.runner import grid_requests, run_experiment, store_of
from tiepoint.store.store import Store

BASE = {
    "experiment": {"name": "e"},
    "dataset": {"path": "data"},
    "keypoints": {"generator": "sift"},
    "descriptors": [{"name": "d", "type": "sift"}],
    "evaluation": {"image_retrieval": {"enabled": True}, "geometry": True},
}
DSP = {"descriptors": [{"name": "d", "type": "sift", "pooling": "dsp"}]}
WEIGHTED = {
    "descriptors": [{"name": "d", "type": "sift", "pooling": "dsp", "pooling_aggregation": "weighted"}]
}
STACK = {"descriptors": [{"name": "d", "type": "surf", "pooling": "stacking"}]}
BOTH = [{"descriptor": "sift"}, {"descriptor": "surf"}]
COMPOSITE = {"descriptors": [{"name": "d", "type": "composite", "components": BOTH}]}
DATABASE = {"keypoints": {"source": "database", "keypoint_set_name": "s"}}
VERIFY = {"evaluation": {"keypoint_verification": {"enabled": True}}}
RETRIEVE = {"evaluation": {"keypoint_retrieval": {"enabled": True}}}
PROJECTED = {"keypoints": {"source": "homography_projection"}}
NORMAL = {"descriptors": [{"name": "d", "type": "sift", "normalize_after_pooling": True}]}

FLIPS = {
    # key: (what the file must have for the key to make sense, the key's other value)
    "experiment.name": ({}, "other"),
    "experiment.description": ({}, "words"),
    "experiment.version": ({}, "2"),
    "experiment.author": ({}, "me"),
    "dataset.path": ({}, "elsewhere"),
    "dataset.scenes": ({}, ["v_a"]),
    "keypoints.generator": ({}, "surf"),
    "keypoints.max_features": ({}, 7),
    "keypoints.border_px": ({}, 5),
    "keypoints.contrast_threshold": ({}, 0.1),
    "keypoints.edge_threshold": ({}, 5),
    "keypoints.sigma": ({}, 2),
    "keypoints.source": ({}, "homography_projection"),
    "keypoints.keypoint_set_name": (DATABASE, "t"),
    "keypoints.alternative_keypoints.keypoint_set_name": (DATABASE, None),
    "descriptors.name": ({}, "other"),
    "descriptors.type": ({}, "rgbsift"),
    "descriptors.keypoint_set_name": ({}, "s"),
    "descriptors.pooling": ({}, "dsp"),
    "descriptors.pooling_aggregation": (DSP, "max"),
    "descriptors.scales": (DSP, [1, 2]),
    "descriptors.scale_weights": (WEIGHTED, [1, 2, 3]),
    "descriptors.scale_weighting": (WEIGHTED, "triangular"),
    "descriptors.scale_weight_sigma": (WEIGHTED, 0.5),
    "descriptors.normalize_before_pooling": (DSP, True),
    "descriptors.normalize_after_pooling": (DSP, False),
    "descriptors.rooting_stage": ({}, "after_pooling"),
    "descriptors.norm_type": (NORMAL, "l1"),
    "descriptors.extended": ({"descriptors": [{"name": "d", "type": "surf"}]}, True),
    "descriptors.secondary_descriptor": (STACK, "rgbsift"),
    "descriptors.stacking_weight": (STACK, 0.25),
    "descriptors.aggregation": (COMPOSITE, "concat"),
    "descriptors.components.descriptor": (COMPOSITE, "rgbsift"),
    "descriptors.components.weight": (COMPOSITE, 2.0),
    "descriptors.components.keypoint_set_name": (COMPOSITE, None),
    "descriptors.components.extended": (COMPOSITE, True),
    "evaluation.protocols": ({}, ["exact"]),
    "evaluation.ranking": ({}, False),
    "evaluation.pair_matching": ({}, True),
    "evaluation.geometry": ({}, False),
    "evaluation.tau_px": ({}, 5),
    "evaluation.policy": ({}, "nearest"),
    "evaluation.gallery": ({}, [100]),
    "evaluation.seed": ({}, 3),
    "evaluation.matching.method": ({}, "ratio_test"),
    "evaluation.matching.ratio_threshold": ({}, 0.7),
    "evaluation.image_retrieval.enabled": ({}, False),
    "evaluation.image_retrieval.scorer": ({}, "ratio_sum"),
    **{
        f"evaluation.{section}.{key}": (needs, value)
        for section, needs in (("keypoint_verification", VERIFY), ("keypoint_retrieval", RETRIEVE))
        for key, value in (
            ("enabled", False), ("num_distractor_scenes", 3), ("num_distractors_per_scene", 2), ("seed", 1)
        )
    },
    "database.connection": ({}, "sqlite:///old.db"),
    "performance.num_threads": ({}, 3),
    "performance.device": ({}, "cuda"),
    "performance.on_bad": ({}, "miss"),
}  # fmt: skip


def merged(*parts):
    out = copy.deepcopy(BASE)
    for part in parts:
        for key, value in copy.deepcopy(part).items():
            out[key] = {**out.get(key, {}), **value} if isinstance(value, dict) else value
    if out["keypoints"].get("source") == "database":
        out["keypoints"].pop("generator", None)
    return out


def with_value(found, key, value):
    out = copy.deepcopy(found)
    if key == "keypoints.alternative_keypoints.keypoint_set_name":
        out["keypoints"]["alternative_keypoints"] = [{"keypoint_set_name": "t"}]
        return out
    if key == "descriptors.components.keypoint_set_name":
        for i, c in enumerate(out["descriptors"][0]["components"]):
            c["keypoint_set_name"] = f"s{i}"
        return out
    *path, last = key.split(".")
    place = out
    for part in path:
        place = place.setdefault(part, {})
        if isinstance(place, list):
            place = place[-1]
    place[last] = value
    return out


def effects(found):
    e = parse_experiment(found, "e.yaml")
    words = e.experiment.model_dump()
    border = e.keypoints.border_px if e.keypoints.source == "homography_projection" else None
    cells = plan(e)
    return repr((cells, grid_requests(cells, e), store_of(e, Path("e.yaml"), None), words, border,
                 e.dataset.path, e.performance.num_threads))  # fmt: skip


def leaves(model, place=""):
    for key in model.model_fields:
        inner = _inner(model, key)
        if inner is not None and issubclass(inner, BaseModel):
            yield from leaves(inner, f"{place}{key}.")
        else:
            yield f"{place}{key}"


def test_every_key_is_flipped_below():
    assert set(leaves(Experiment)) == set(FLIPS)


@pytest.mark.parametrize("key", FLIPS)
def test_every_accepted_key_has_an_effect(key):
    needs, value = FLIPS[key]
    plain = merged(needs)
    assert effects(plain) != effects(with_value(plain, key, value))


@pytest.mark.parametrize("key", [k for k in FLIPS if k.startswith("descriptors.")])
def test_every_plan_can_be_resolved(key):
    pytest.importorskip("cv2")
    needs, value = FLIPS[key]
    for cell in plan(parse_experiment(with_value(merged(needs), key, value), "e.yaml")):
        if "@set:" not in cell.spec:
            resolve(cell.spec, family="keypoints")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"datset": {}}, "did you mean 'dataset'"),
        ({"keypoints": {"max_feature": 3}}, "did you mean 'keypoints.max_features'"),
        ({"descriptors": [{"name": "d", "type": "sift", "rooting": 1}]}, "rooting_stage"),
        (
            {"descriptors": [{"name": "d", "type": "sift", "root_normalization": True}]},
            "rooting_stage: after",
        ),
        ({"evaluation": {"validation": {"threshold": 1}}}, "evaluation.tau_px"),
        ({"evaluation": {"matching": {"norm": "hamming"}}}, "the descriptor determines the distance"),
        ({"evaluation": {"keypoint_verification": {"num_distractors": 500000}}}, "num_distractors_per_scene"),
        ({"keypoints": {"num_octaves": 4}}, "remove it"),
        ({"descriptors": [{"name": "d", "type": "sift", "norm_type": "4"}]}, "norm_type"),
        ({"keypoints": {"source": "locked_in"}}, "keypoints.source"),
        ({"descriptors": []}, "descriptors"),
        ({"evaluation": {"tau_px": -1}}, "evaluation.tau_px"),
    ],
)
def test_wrong_keys_and_values_are_explained(change, words):
    with pytest.raises((InputError, UnknownNameError), match=words):
        parse_experiment(merged(change), "e.yaml")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"descriptors": [{"name": "d", "type": "sift"}, {"name": "d", "type": "orb"}]}, "its own name"),
        ({"keypoints": {"source": "database"}}, "needs a keypoint_set_name"),
        ({"keypoints": {"keypoint_set_name": "s"}}, "need `source: database`"),
        ({"keypoints": {"source": "database", "keypoint_set_name": "s", "max_features": 9}}, "generator"),
        ({"keypoints": {"generator": "surf", "sigma": 2}}, "apply to sift, not"),
        ({"descriptors": [{"name": "d", "type": "sift", "scales": [1, 2]}]}, "only with pooling"),
        ({"descriptors": [{"name": "d", "type": "sift", "extended": True}]}, "applies only to surf"),
        ({"descriptors": [{"name": "d", "type": "sift", "stacking_weight": 1}]}, "pooling: stacking"),
        ({"descriptors": [{"name": "d", "type": "sift", "components": BOTH}]}, "type: composite"),
        ({"descriptors": [{"name": "d", "type": "composite", "components": BOTH[:1]}]}, "at least two"),
        ({"descriptors": [{"name": "d", "type": "composite", "components": BOTH, "scales": [1]}]}, "no eff"),
        ({"descriptors": [{"name": "d", "type": "sift", "normalize_before_pooling": True,
                           "normalize_after_pooling": True}]}, "either before or after"),
        ({"evaluation": {"protocols": ["dw"]}}, "unknown protocol"),
        ({"evaluation": {"ranking": False, "image_retrieval": {}, "geometry": False}}, "no task"),
    ],
)  # fmt: skip
def test_combinations_without_effect_are_refused(change, words):
    with pytest.raises(InputError, match=words):
        plan(parse_experiment(merged(change), "e.yaml"))


def test_lists_are_a_grid():
    found = merged(
        {"keypoints": {"generator": ["sift", "surf"]}},
        {"descriptors": [{"name": "d", "type": "sift", "pooling": ["none", "dsp"],
                          "rooting_stage": ["none", "after_pooling"]}, {"name": "o", "type": "orb"}]},
        {"evaluation": {"matching": {"method": ["brute_force", "ratio_test"]}, "geometry": False}},
    )  # fmt: skip
    cells = plan(parse_experiment(found, "e.yaml"))
    assert len(cells) == 2 * (4 + 1) * 3
    assert len({(c.name, c.task, str(c.options)) for c in cells}) == len(cells)
    pooled = "dsp:sift?precise_upscale=false&scales=1,1.5,2&root=after@surf?max_features=2000"
    assert pooled in {c.spec for c in cells}


@pytest.mark.parametrize(
    ("descriptor", "expected"),
    [
        ({"type": "sift"}, "sift?precise_upscale=false"),
        ({"type": "VSIFT"}, "sift?precise_upscale=false"),
        ({"type": "sift?precise_upscale=true"}, "sift?precise_upscale=true"),
        ({"type": "rgbsift"}, "rgbsift?precise_upscale=false"),
        ({"type": "dspsift"}, "dsp:sift?precise_upscale=false&scales=1,1.5,2"),
        ({"type": "DSPSIFT_V2"}, "dsp:sift?precise_upscale=false&scales=1,1.5,2"),
        ({"type": "surf", "pooling": "stacking"}, "fuse:surf,sift?precise_upscale=false&weights=1,0.5"),
        ({"type": "composite", "components": BOTH}, "fuse:sift,surf?precise_upscale=false"),
        ({"type": "surf"}, "surf"),
    ],
)
def test_plan_sift_in_file_means_opencv_default(descriptor, expected):
    (cell,) = plan(
        parse_experiment(
            merged(
                {"keypoints": {"generator": "SIFT"}},
                {"descriptors": [{"name": "d", **descriptor}]},
                {"evaluation": {"image_retrieval": {"enabled": False}, "geometry": False}},
            ),
            "e.yaml",
        )
    )
    assert cell.spec == f"{expected}@sift?precise_upscale=false&max_features=2000"


def test_plan_generator_with_precise_upscale_keeps_it():
    found = merged({"keypoints": {"generator": "sift?precise_upscale=true"}})
    assert all("@sift?precise_upscale=true&" in c.spec for c in plan(parse_experiment(found, "e.yaml")))


def file(tmp_path, sequences, **change):
    found = merged({"dataset": {"path": str(sequences)}}, {"keypoints": {"max_features": 40}}, change)
    found["evaluation"] = {"gallery": [20]} | change.get("evaluation", {})
    path = tmp_path / "e.yaml"
    path.write_text(yaml.safe_dump(found))
    return path


def test_an_experiment_runs_resumes_and_lands_in_the_view(sequences, tmp_path, capsys):
    pytest.importorskip("cv2")
    path = file(tmp_path, sequences)
    assert tiepoint(["run", "--config", str(path), "--dry-run"]) == 0
    spec = "sift?precise_upscale=false@sift?precise_upscale=false&max_features=40"
    assert f"d on keypoints/ranking: {spec}, 4 items, 2 units" in capsys.readouterr().out
    store = str(tmp_path / "store")
    assert tiepoint(["run", "--config", str(path), "--store", store, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["scores"]
    assert {s["method"] for s in first} == {"d"}
    assert tiepoint(["run", "--config", str(path), "--store", store]) == 0
    assert "true_map_micro" in capsys.readouterr().out
    with Store.open(store) as opened, opened.begin() as c:
        row = c.execute(
            sa.text("select true_map_micro, metadata from results where protocol = 'workbench'")
        ).one()
        times = c.execute(sa.text("select count(*), max(created_at) from runs")).one()
    assert 0 < row[0] <= 1
    assert times[0] == 1
    stored = next(s for s in first if s["protocol"] == "workbench" and s["metric"] == "true_map_micro")
    assert row[0] == stored["value"]


def test_projected_keypoints_are_made_once(sequences, tmp_path):
    pytest.importorskip("cv2")
    change = {"keypoints": {"source": "homography_projection", "max_features": 30, "border_px": 12}}
    experiment = read_experiment(file(tmp_path, sequences, **change))
    with Store.open(tmp_path / "store") as store:
        (outcome,) = run_experiment(experiment, store)
        assert outcome.run.value("mean_precision", "all", "workbench") > 0.5
        made = (store.root / "keypoint_sets" / "e_sift_projected" / "set.json").stat().st_mtime_ns
        list(run_experiment(experiment, store))
        assert (store.root / "keypoint_sets" / "e_sift_projected" / "set.json").stat().st_mtime_ns == made


def test_failures_stay_failures(sequences, tmp_path, capsys):
    broken = tmp_path / "broken.py"
    broken.write_text(
        "class D:\n    def describe(self, image, keypoints):\n        raise RuntimeError('no')\n"
    )
    both = [{"name": "bad", "type": f"{broken}:D"}, {"name": "good", "type": "sift"}]
    path = file(tmp_path, sequences, descriptors=both)
    store = str(tmp_path / "store")
    assert tiepoint(["run", "--config", str(path), "--store", store]) == 1
    shown = capsys.readouterr()
    assert "failed" in shown.out
    assert "RuntimeError: no" in shown.err
    with Store.open(store) as opened, opened.begin() as c:
        rows = c.execute(sa.text("select status from runs order by status")).scalars().all()
        found = c.execute(sa.text("select distinct method, error is null from results order by 1")).all()
    assert rows == ["done", "failed"]
    assert found == [("bad", 0), ("good", 1)]


def test_wrong_cells_are_all_told_before_any_is_run(sequences, tmp_path, capsys):
    pytest.importorskip("cv2")
    three = [
        {"name": "good", "type": "sift"},
        {"name": "one", "type": "nosuch"},
        {"name": "two", "type": str(tmp_path / "lost.py:D")},
    ]
    path = file(tmp_path, sequences, descriptors=three)
    assert tiepoint(["run", "--config", str(path), "--store", str(tmp_path / "s")]) == 2
    told = capsys.readouterr().err
    assert "2 problems" in told
    assert "nosuch" in told
    assert "lost.py" in told
    assert not (tmp_path / "s" / "features").exists()


def test_files_that_are_no_experiment(tmp_path, capsys):
    bad = tmp_path / "bad.yaml"
    bad.write_text("a: [1\nb: 2\n")
    with pytest.raises(FormatError, match=r"line 2"):
        read_experiment(bad)
    bad.write_text("- 1\n")
    with pytest.raises(FormatError, match="no section"):
        read_experiment(bad)
    with pytest.raises(InputError, match="does not exist"):
        read_experiment(tmp_path / "missing.yaml")
    assert tiepoint(["run", "sift", "--config", str(bad)]) == 2
    assert "METHOD has no effect with --config" in capsys.readouterr().err


def test_the_example_of_the_docs_can_be_planned() -> None:
    text = (Path(__file__).parents[3] / "docs" / "keypoint-sets.md").read_text("utf-8")
    example = text.partition("```yaml\n")[2].partition("```")[0]
    assert len(plan(parse_experiment(yaml.safe_load(example), "docs"))) > 10


def test_program_in_a_grid_has_its_own_keypoints() -> None:
    found = merged({"descriptors": [{"name": "mine", "type": "exec:./Mine@SIFT --a +b"}]})
    (cell, *_) = plan(parse_experiment(found, "e.yaml"))
    assert cell.spec == "exec:./Mine@SIFT --a +b"
    found["descriptors"][0]["pooling"] = "dsp"
    with pytest.raises(InputError, match="mine: pooling has no effect on a program"):
        plan(parse_experiment(found, "e.yaml"))
