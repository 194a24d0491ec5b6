# SPDX-License-Identifier: BSD-3-Clause
"""`tiepoint.tools`: races, plans and stress curves from Python, imported on demand."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import tiepoint as tp
from stress_world import write_images
from tiepoint.core.errors import InputError

_SPEC = importlib.util.spec_from_file_location(
    "race_world", Path(__file__).parents[1] / "run" / "race" / "race_world.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
race_world = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(race_world)


def test_tools_are_not_imported_with_the_package() -> None:
    code = "import sys, tiepoint; print('tiepoint.tools' in sys.modules); tiepoint.tools.race"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert "tools" not in tp.__all__
    assert "tools" in dir(tp)


def test_race_and_plan_from_python(tmp_path: Path) -> None:
    from tiepoint.tools import plan, race

    data = race_world.write_world(tmp_path, pairs=24, scenes=6)
    methods = [f"{tmp_path / 'mine.py'}:Shift?noise={noise}" for noise in (0.6, 2.5)]
    store = tmp_path / "store"
    found = race(methods, task="semantic/pck", data=data, group="alpha=0.05,per=pair", store=store)
    assert found.decided
    assert found.best == methods[0] or "noise=0.6" in str(found.best)
    assert found.steps < 24
    assert set(found.evaluations.values()) == {found.steps}
    frame = found.to_frame()
    assert frame.claimed.tolist() == [True]
    assert 0 < frame.low[0] < frame.high[0]
    assert "is ahead of" in str(found)
    assert found.plot(tmp_path / "race.svg").csv.startswith("first,second,pairs")
    for name, method in zip(("good", "bad"), methods, strict=True):
        tp.evaluate(method, task="semantic/pck", data=data, store=store, name=name)
    replayed = race(["good", "bad"], replay=True, group="alpha=0.05,per=pair", store=store)
    assert replayed.steps == found.steps
    rows = plan(task="semantic/pck", detect=2.0, group="alpha=0.05,per=pair", store=store).rows
    assert [{r.first, r.second} for r in rows] == [{"good", "bad"}]
    assert rows[0].now == 6


def test_race_wrong_arguments_raise(tmp_path: Path) -> None:
    from tiepoint.tools import race

    with pytest.raises(InputError, match="list of methods"):
        race("sift", task="semantic/pck", data=tmp_path)
    with pytest.raises(InputError, match="needs `task` and `data`"):
        race(["a", "b"])
    with pytest.raises(InputError, match="`data` has no effect"):
        race(["a", "b"], replay=True, data=tmp_path)
    with pytest.raises(InputError, match="`keep` has no effect"):
        race(["a", "b"], task="t", data=tmp_path, keep=True)


def test_stress_from_python(tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    from tiepoint.tools import stress

    images = write_images(tmp_path)
    methods = [f"{tmp_path / 'mine.py'}:{name}" for name in ("Still", "Sharp")]
    store = tmp_path / "store"
    with pytest.warns(UserWarning, match="reduced 6 of 6 images to 40 px"):
        found = stress(methods, images=images, kinds=["noise", "rotation"], max_side=40, seed=3, store=store)
    assert [r.task for r in found.runs] == ["stress/rotation"] * 2 + ["stress/noise"] * 2
    frame = found.to_frame()
    assert list(frame.columns) == ["kind", "method", "level", "mean", "fit"]
    assert len(frame) == 2 * (13 + 8)
    points = found.breakdown().set_index(["kind", "method"])
    assert points.beyond["noise", "Still"]
    assert 0 < points.breakdown["rotation", "Still"] <= 15
    assert "Rotation is not monotone" in str(found)
    assert str(found).splitlines()[0].split() == ["kind", "Still", "Sharp"]
    assert found.plot(tmp_path / "all.svg").csv.startswith("method,kind,metric,level")
    runs = {r.id for r in found.runs}
    matrix = stress([f"{tmp_path / 'mine.py'}:Matrix"], images=images, kinds=["noise"], store=store)
    assert not runs & {r.id for r in matrix.runs}
    assert [c.point for c in matrix.curves] == ["> 80"]
    with pytest.raises(InputError, match="list of kinds"):
        stress("sift", images=images, kinds="noise")
    with pytest.raises(InputError, match="at least one method"):
        stress([], images=images)


def test_choose_from_python(tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    pytest.importorskip("poselib")
    from choose_golden import write_photos
    from tiepoint.tools import choose

    photos = write_photos(tmp_path / "photos", 2)
    methods = ["sift?ratio=0.8", "brief@fast?ratio=0.8"]
    with pytest.warns(UserWarning, match="only one pair is confirmed: about 4 points are lost"):
        found = choose(methods, images=photos, store=tmp_path / "store", progress=False)
    frame = found.to_frame()
    assert frame.method[0] == found.leader
    assert dict(zip(frame.method, frame.steady, strict=True)) == dict(found.steady)
    assert found.level == ()
    assert f"Use {found.leader}" in str(found)
    found.save(tmp_path / "choice.html")
    assert str(found.leader).replace("&", "&amp;") in (tmp_path / "choice.html").read_text()
    with pytest.raises(InputError, match="list of methods"):
        choose("sift", images=photos)
