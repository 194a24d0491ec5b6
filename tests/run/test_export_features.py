# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint export``: a run, written as files and run from them, is the same run to the bit."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "store"))
from damage_world import make_data

from tiepoint.cli.main import run as cli
from tiepoint.core.errors import InputError
from tiepoint.run.engine import evaluate
from tiepoint.run.export_features import export_features
from tiepoint.run.recompare import reopen
from tiepoint.run.request import RunRequest
from tiepoint.run.result import Run
from tiepoint.store.store import Store

POSED = {"seeds": 1, "estimator": "opencv"}
PAIRS = ("pose/relative", "pose/pairs.json", POSED)
SEQUENCES = ("keypoints/geometry", "sequences", {})
RANKED = ("keypoints/ranking", "sequences", {})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("export")
    make_data(root)
    return root


def _run(store: Store, data: Path, method: str, on: tuple[str, str, dict[str, Any]]) -> Run:
    task, folder, options = on
    return evaluate(RunRequest(method, task, data / folder, (), options), store)


def _scores(run: Run) -> list[tuple[Any, ...]]:
    return [
        (s.protocol, s.metric, s.group, s.value, s.n, s.low, s.high)
        for s in run.score_rows
        if "time" not in s.metric and "per_s" not in s.metric and s.metric != "metadata"
    ]


def _features(store: Store, run: Run) -> dict[str, dict[str, np.ndarray]]:
    opened = reopen(run.stored, store.root)
    return {key: dict(opened.features.arrays(key)) for key in opened.context.items}


def _same(first: dict[str, dict[str, np.ndarray]], second: dict[str, dict[str, np.ndarray]]) -> None:
    assert first.keys() == second.keys()
    for key, arrays in first.items():
        assert arrays.keys() == second[key].keys(), key
        for name, array in arrays.items():
            assert array.dtype == second[key][name].dtype, (key, name)
            np.testing.assert_array_equal(array, second[key][name], err_msg=f"{key} {name}")


@pytest.mark.parametrize("form", ["npz", "hloc", "glue-factory"])
@pytest.mark.parametrize(
    ("method", "on"),
    [
        ("sift?max_features=60&matcher=mnn&ratio=0.9", PAIRS),
        pytest.param("orb?max_features=60&matcher=nn", PAIRS, marks=pytest.mark.slow),
        pytest.param("sift?max_features=60&matcher=mnn", SEQUENCES, marks=pytest.mark.slow),
    ],
)
def test_matches_round_trip_is_equal_to_bit(
    data: Path, tmp_path: Path, form: str, method: str, on: tuple[str, str, dict[str, Any]]
) -> None:
    with Store.open(tmp_path / "store") as store:
        first = _run(store, data, method, on)
        exported = export_features(store, first.stored, tmp_path / "out", form)
        assert exported.method == f"files:{tmp_path / 'out'}"
        second = _run(store, data, exported.method, on)
        features = _features(store, first)
        assert min(len(arrays["points0"]) for arrays in features.values()) > 5
        _same(features, _features(store, second))
        assert _scores(second) == _scores(first)


@pytest.mark.parametrize("form", ["npz", "hloc"])
@pytest.mark.parametrize(
    ("method", "on"),
    [
        ("sift?max_features=40", SEQUENCES),
        pytest.param("orb?max_features=40", RANKED, marks=pytest.mark.slow),
    ],
)
def test_keypoints_round_trip_is_equal_to_bit(
    data: Path, tmp_path: Path, form: str, method: str, on: tuple[str, str, dict[str, Any]]
) -> None:
    with Store.open(tmp_path / "store") as store:
        first = _run(store, data, method, on)
        exported = export_features(store, first.stored, tmp_path / "out", form)
        assert exported.method.endswith("?distance=hamming") == method.startswith("orb")
        second = _run(store, data, exported.method, on)
        _same(_features(store, first), _features(store, second))
        assert _scores(second) == _scores(first)


def test_flow_round_trip_is_equal_to_bit_as_npz_only(data: Path, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        first = _run(store, data, "farneback", PAIRS)
        with pytest.raises(InputError, match="has flow, which hloc cannot express"):
            export_features(store, first.stored, tmp_path / "hloc", "hloc")
        assert list(tmp_path.iterdir()) == [tmp_path / "store"]
        exported = export_features(store, first.stored, tmp_path / "out")
        second = _run(store, data, exported.method, PAIRS)
        _same(_features(store, first), _features(store, second))
        assert _scores(second) == _scores(first)


def test_hloc_files_have_layout_of_hloc(data: Path, tmp_path: Path) -> None:
    """Without the extra datasets, other tools see the same matches."""
    import h5py

    with Store.open(tmp_path / "store") as store:
        run = _run(store, data, "sift?max_features=60&matcher=mnn", PAIRS)
        export_features(store, run.stored, tmp_path / "out", "hloc")
        features = _features(store, run)
    with (
        h5py.File(tmp_path / "out" / "features.h5") as images,
        h5py.File(tmp_path / "out" / "matches.h5") as f,
    ):
        assert sorted(images) == ["a.png", "b.png", "c.png"]
        for other in "bc":
            group = f["a.png"][f"{other}.png"]
            partner = group["matches0"][()]
            assert len(partner) == len(group["matching_scores0"]) == len(images["a.png"]["keypoints"])
            rows = np.flatnonzero(partner >= 0)
            points = np.hstack(
                [
                    images["a.png"]["keypoints"][()][rows],
                    images[f"{other}.png"]["keypoints"][()][partner[rows]],
                ]
            )
            own = features[f"room/a--{other}"]
            expected = np.hstack([own["points0"], own["points1"]])
            np.testing.assert_array_equal(np.unique(points, axis=0), np.unique(expected, axis=0))


def test_export_wrong_raises_and_leaves_nothing(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(tmp_path / "store") as store:
        keypoints = _run(store, data, "sift?max_features=40", SEQUENCES)
        patches = evaluate(
            RunRequest("meanstd", "hpatches/matching", data / "patches", (),
                       {"split": "a", "tasks": str(data / "tasks")}), store
        )  # fmt: skip
        own = type("Mine", (), {"extract": lambda self, image: (np.zeros((1, 2)), np.ones((1, 3)))})()
        nameless = evaluate(RunRequest(own, "keypoints/geometry", data / "sequences"), store)
        for run, form, reason in (
            (keypoints, "glue-factory", "matches of pairs"),
            (keypoints, "colmap", "has no reconstructions of COLMAP"),
            (keypoints, "loftr", "unknown form 'loftr'"),
            (patches, "npz", "`describe` writes"),
            (nameless, "npz", "Python object"),
        ):
            with pytest.raises(InputError, match=re.escape(reason)):
                export_features(store, run.stored, tmp_path / "out", form)
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "a").write_text("")
        with pytest.raises(InputError, match="is not an empty folder"):
            export_features(store, keypoints.stored, tmp_path / "full")
        next((tmp_path / "store" / "features").glob("??/*")).rename(tmp_path / "gone")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["full", "gone", "store"]
    asked = ["export", keypoints.id, "--store", str(tmp_path / "store")]
    for path in (tmp_path / "store" / "features").glob("??/*"):
        path.rename(tmp_path / "gone" / path.name)
    assert cli([*asked, "--out", str(tmp_path / "out")]) == 2
    assert "are missing in the store" in capsys.readouterr().err


def test_export_command_prints_method_that_reads_files(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = str(tmp_path / "store")
    with Store.open(store) as opened:
        run = _run(opened, data, "orb?max_features=40", SEQUENCES)
    out = tmp_path / "new" / "out"
    assert cli(["export", "orb?max_features=40", "--form", "hloc", "--out", str(out), "--store", store]) == 0
    told = capsys.readouterr().out
    assert f"wrote 4 images to {out}" in told
    assert f'the method "files:{out}?distance=hamming" on keypoints/geometry' in told
    out2 = str(tmp_path / "out2")
    assert cli(["export", run.id, "--out", out2, "--store", store, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"run": run.id, "folder": out2, "count": 4, "method": f"files:{out2}?distance=hamming"}
