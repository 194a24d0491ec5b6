# SPDX-License-Identifier: BSD-3-Clause
"""``tiepoint stress``: the table where methods break, its curves and figures, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stress_world import write_images
from tiepoint.cli.main import run as tiepoint

pytest.importorskip("cv2")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Images, methods, and a store with runs of two kinds."""
    root = tmp_path_factory.mktemp("stress")
    images = write_images(root)
    methods = [f"{root / 'mine.py'}:{name}" for name in ("Still", "Sharp")]
    store = str(root / "store")
    line = ["stress", *methods, "--images", str(images), "--kinds", "scale,blur", "--store", store]
    assert tiepoint([*line, "--jobs", "1", "-q", "--json"]) == 0
    return {"images": str(images), "methods": methods, "store": store, "line": line, "root": root}


def test_stress_prints_table_curves_and_limits(
    world: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "where.csv"
    assert tiepoint([*world["line"], "--out", str(out)]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0] == "where methods break (corner, 6 images)"
    assert lines[1].split() == ["kind", "Still", "Sharp"]
    rows = {line.split()[0]: line for line in lines[2:4]}
    assert list(rows) == ["scale", "blur"]
    assert rows["scale"].split()[1] == "1.12x"  # half of the score between 1 and 1.25, on a logarithmic axis
    assert rows["blur"].split()[1:3] == [">", "12"]
    assert "[" in rows["blur"]  # Sharp breaks at a point with an interval
    assert "blur: blur (sigma, px); corner in percent" in lines
    assert ["level", "0", "1", "2", "3", "4", "6", "8", "12", "rise"] in [line.split() for line in lines]
    assert "do not show real viewpoint or light" in captured.out
    assert "3 px in the changed image are up to 12 px" in captured.out
    table = out.read_text().splitlines()
    assert table[0].startswith("method,kind,metric,level,mean,fit,breakdown,beyond,low")
    assert len(table) == 1 + 2 * (8 + 8)


def test_stress_json_has_curves_and_warnings(
    world: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["stress", *world["methods"], "--images", world["images"], "--kinds", "blur", "--metric", "mma"]
    line += ["--json", "--max-side", "44", "--store", str(tmp_path), "--jobs", "1"]
    assert tiepoint(line) == 0
    found = json.loads(capsys.readouterr().out)
    assert {(c["kind"], c["method"]) for c in found["curves"]} == {
        ("blur", method) for method in ("Still", "Sharp")
    }
    still = next(c for c in found["curves"] if c["method"] == "Still")
    assert still["mean"] == [1.0] * 8
    assert still["breakdown"] == {"level": 12.0, "beyond_last_level": True, "nothing_at_first_level": False}
    assert any("reduced 6 of 6 images to 44 px" in w for w in found["warnings"])


def test_run_shows_scores_and_plots_curves(
    world: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", world["store"]]
    line = ["run", world["methods"][0], "--task", "stress/blur", "--data", world["images"], *store, "-q"]
    assert tiepoint(line) == 0
    assert "corner" in capsys.readouterr().out
    for more, name in ((["--task", "stress/blur"], "blur.svg"), ([], "all.svg")):
        dataset = ["--dataset", "images"] if not more else []
        code = tiepoint(
            ["plot", "stress", "Still", "Sharp", *more, *dataset, "--out", str(tmp_path / name), *store]
        )
        assert code == 0
        assert "<svg" in (tmp_path / name).read_text()
    capsys.readouterr()
    assert tiepoint(["plot", "--json", *store]) == 0
    kinds = {f["kind"] for f in json.loads(capsys.readouterr().out)}
    assert "stress" in kinds


def test_plot_stress_without_stress_runs_states_what_it_shows(
    world: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(tmp_path)]
    (tmp_path / "seq" / "v_a").mkdir(parents=True)
    for k in (1, 2):
        (tmp_path / "seq" / "v_a" / f"{k}.png").write_bytes((Path(world["images"]) / "s5.png").read_bytes())
    (tmp_path / "seq" / "v_a" / "H_1_2").write_text("1 0 0\n0 1 0\n0 0 1\n")
    line = ["run", world["methods"][0], "--task", "keypoints/geometry", "--data", str(tmp_path / "seq")]
    assert tiepoint([*line, *store, "-q"]) == 0
    assert tiepoint(["plot", "stress", *store]) == 2
    assert "it shows runs of the tasks stress/KIND" in capsys.readouterr().err


@pytest.mark.slow
def test_report_has_curves_and_limits(world: dict[str, Any], tmp_path: Path) -> None:
    store = ["--store", world["store"]]
    page = tmp_path / "report.html"
    assert tiepoint(["report", "--out", str(page), "-q", *store]) == 0
    text = page.read_text()
    assert "Where methods break: blur." in text
    assert "do not show real viewpoint or light" in text


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--kinds", "blurr"], "did you mean 'blur'"),
        (["--metric", "cornr"], "did you mean 'corner'"),
        (["--kinds", "blur", "--seed", "1"], "--seed affects only the kind noise"),
        (["-o", "levels=0,1"], "every kind has its own levels"),
        (["-o", "ransac=1"], "ransac_px"),
        (["--max-side", "-1"], "max_side"),
        (["--images", "nowhere"], "nowhere does not exist; pass a folder of images"),
    ],
)
def test_stress_wrong_arguments_state_remedy(
    world: dict[str, Any], more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tiepoint(["stress", world["methods"][0], "--images", world["images"], *more]) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")


def test_stress_without_arguments_names_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert tiepoint(["stress"]) == 2
    assert "stress needs METHOD and --images DIR" in capsys.readouterr().err


def test_stress_failing_method_others_are_printed(
    world: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.py").write_text(
        "class Bad:\n    def match(self, image1, image2):\n        raise RuntimeError('no weights')\n"
    )
    line = ["stress", f"{tmp_path / 'bad.py'}:Bad", world["methods"][0], "--images", world["images"]]
    assert tiepoint([*line, "--kinds", "blur", "--store", world["store"]]) != 0
    captured = capsys.readouterr()
    assert "no weights" in captured.err
    assert "where methods break" in captured.out
