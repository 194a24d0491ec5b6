"""Import of per-pair results of ZEB: scores, intervals, refusals, and the commands that use such runs."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import tiepoint as tp
from less_golden import ZEB, golden, needs_golden, needs_zeb
from tiepoint.cli.main import run as command
from tiepoint.core.errors import FormatError, InputError
from tiepoint.formats.zeb import HEADER, read_zeb
from tiepoint.report.compare.comparability import DifferingRunsError
from tiepoint.report.runs.selection import runs_of
from tiepoint.run.importers import import_files, zeb
from tiepoint.run.result import Run
from tiepoint.store.store import Store
from tiepoint.tools import plan, race

GOOD = "s#a#b 0.5 0.5 1.0 2.0 0.1 0.9 90 1.0 80"
SETS = (
    "GL3D", "BlendedMVS", "ETH3DI", "ETH3DO", "KITTI", "RobotcarWeather",
    "RobotcarSeason", "RobotcarNight", "Multi-FoV", "SceneNetRGBD", "ICL-NUIM", "GTA-SfM",
)  # fmt: skip
TASK = "pose/relative"


def written(
    folder: Path, *lines: str, name: str = "[T] mine            GL3D v1.txt", end: str = "\n"
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("\n".join([HEADER, *lines]) + end)
    return path


def value(run: Run, metric: str, group: str) -> float:
    (row,) = [s for s in run.score_rows if (s.metric, s.group) == (metric, group)]
    assert row.value is not None
    return row.value


def rows_of_files() -> dict[str, dict[str, list[list[str]]]]:
    """Rows of the sample by method and set, split at blanks."""
    found: dict[str, dict[str, list[list[str]]]] = {}
    for path in sorted(ZEB.glob("[[]T]*.txt")):
        _, method, name, _ = path.stem.split()
        lines = path.read_text().splitlines()[1:]
        found.setdefault(method, {})[name] = [line.split() for line in lines]
    return found


def _areas(rows: list[list[str]]) -> list[float]:
    return [max(0.0, 1 - max(float(r[3]), float(r[4])) / 5) for r in rows]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("zeb") / "store"
    with Store.open(root) as opened:
        runs, notes = import_files([ZEB], opened)
    assert len(runs) == 4
    assert notes == []
    return root


@pytest.fixture(scope="module")
def runs(store: Path) -> dict[str, Run]:
    with Store.open(store, mode="read") as opened:
        return {run.method: run for run in runs_of(opened, task=TASK)}


@needs_zeb
@needs_golden
def test_scores_of_sample_are_those_recorded(runs: dict[str, Run]) -> None:
    recorded = golden()["zeb_sample"]
    for method, run in runs.items():
        printed = [100 * value(run, "auc", f"set={name},threshold_deg=5") for name in SETS]
        exact = [100 * value(run, "auc", f"area=exact,set={name},threshold_deg=5") for name in SETS]
        assert printed == pytest.approx(recorded["trapezoid_points"][method], abs=1e-9)
        assert exact == pytest.approx(recorded["exact_points"][method], abs=1e-9)
        assert value(run, "auc", "threshold_deg=5") == pytest.approx(np.mean(printed) / 100)
        mean = 100 * value(run, "auc", "area=exact,threshold_deg=5")
        assert mean == pytest.approx(recorded["mean_exact_points"][method], abs=1e-9)
        assert value(run, "failures", "all") == recorded["no_pose"][method]


@needs_zeb
def test_counts_and_accuracies_equal_plain_loops(runs: dict[str, Run]) -> None:
    for method, by_set in rows_of_files().items():
        right, shares = 0, []
        for rows in by_set.values():
            good = 0
            for row in rows:
                R, t = float(row[3]), float(row[4])
                right += math.isinf(R) and float(row[7]) >= 100 and float(row[6]) >= 0.9
                good += max(R, t) < 10
            shares.append(good / len(rows))
        run = runs[method]
        assert value(run, "failures_with_right_matches", "all") == right
        assert value(run, "accuracy", "threshold_deg=10") == pytest.approx(sum(shares) / 12)
        assert run.manifest.method.config["version"] == {"gim_loftr": "50h", "root_sift": "vanilla"}.get(
            method, "100h"
        )
        assert run.manifest.dataset.items == 1440


@needs_zeb
def test_intervals_over_sets_and_pairs_equal_plain_loops(runs: dict[str, Run], store: Path) -> None:
    by_set = rows_of_files()
    shares = {m: {name: _areas(rows) for name, rows in found.items()} for m, found in by_set.items()}
    means = {m: [sum(shares[m][s]) / len(shares[m][s]) for s in SETS] for m in shares}
    se = sum(np.var(shares["gim_dkm"][s], ddof=1) / 120 for s in SETS) ** 0.5 / 12
    (pairs,) = [s for s in runs["gim_dkm"].score_rows if s.group == "cluster=pair,threshold_deg=5"]
    center = float(np.mean(means["gim_dkm"]))
    assert (pairs.low, pairs.high) == pytest.approx((center - 1.96 * se, center + 1.96 * se))
    assert "not over scenes" in str(pairs.note)
    (sets,) = [s for s in runs["gim_dkm"].score_rows if s.group == "cluster=set,threshold_deg=5"]
    half = stats.t.ppf(0.975, 11) * np.std(means["gim_dkm"], ddof=1) / 12**0.5
    assert (sets.low, sets.high) == pytest.approx((center - half, center + half))
    (headline,) = [s for s in runs["gim_dkm"].score_rows if (s.metric, s.group) == ("auc", "threshold_deg=5")]
    assert headline.low is None
    assert "Multi-FoV have one scene" in str(headline.note)
    two = ["gim_loftr", "gim_lightglue"]
    over_sets = tp.compare(two, task=TASK, group="cluster=set,threshold_deg=5", store=store)
    gaps = np.array(means["gim_loftr"]) - np.array(means["gim_lightglue"])
    pair = over_sets.pair(*two)
    half = stats.t.ppf(0.975, 11) * gaps.std(ddof=1) / 12**0.5
    assert pair.difference == pytest.approx(gaps.mean())
    assert (pair.single_low, pair.single_high) == pytest.approx((gaps.mean() - half, gaps.mean() + half))
    assert over_sets.exact
    assert "12 sets" in str(over_sets)
    assert "scenes within kinds" not in str(over_sets)
    over_pairs = tp.compare(two, task=TASK, group="cluster=pair,threshold_deg=5", store=store)
    (gap,) = over_pairs.unit_differences
    both = [np.array(shares["gim_lightglue"][s]) - np.array(shares["gim_loftr"][s]) for s in SETS]
    se = sum(d.var(ddof=1) / 120 for d in both) ** 0.5 / 12
    assert (gap.low, gap.high) == pytest.approx((-gaps.mean() - 1.96 * se, -gaps.mean() + 1.96 * se))
    assert not over_pairs.pairs
    with pytest.raises(InputError, match="`margin` needs a test over scenes or sets"):
        tp.compare(two, task=TASK, group="cluster=pair,threshold_deg=5", store=store, margin=1.0)
    assert "They say nothing about other scenes" in str(over_pairs)
    assert r"gim\_lightglue minus gim\_loftr: -2.53 points" in over_pairs.to_latex()


@needs_zeb
def test_compare_by_default_names_the_groups_with_intervals(store: Path) -> None:
    found = tp.compare(task=TASK, store=store)
    assert [r.method for r in found.rows] == ["gim_dkm", "gim_loftr", "gim_lightglue", "root_sift"]
    assert all(r.low is None for r in found.rows)
    assert any("cluster=set,threshold_deg=5" in note for note in found.notes)
    scenes = tp.compare(task=TASK, store=store, group="set=GL3D,threshold_deg=5")
    assert scenes.n_scenes == 120
    assert any("exact area" in note for note in scenes.notes)
    few = tp.compare(task=TASK, store=store, group="set=Multi-FoV,threshold_deg=5")
    assert all(r.low is None for r in few.rows)


@needs_zeb
@needs_golden
def test_races_of_sample_are_those_recorded(store: Path) -> None:
    recorded = golden()["zeb_sample"]
    found = race(["gim_dkm", "gim_lightglue"], replay=True, task=TASK, store=store)
    own = recorded["two_methods"]["gim_dkm - gim_lightglue"]
    assert found.steps == own["steps"]
    assert list(found.stored.drawn[:10]) == recorded["first_ten"]
    assert (found.claims[0].low, found.claims[0].high) == pytest.approx(own["confidence_at_stop"], abs=1e-8)
    assert "1,440 pairs, mean over 12 sets" in str(found)
    four = recorded["four_methods"]["best"]
    best = race(list(four["evaluations"]), replay=True, task=TASK, store=store)
    assert [[c.better, c.worse, c.step] for c in best.claims] == four["claims"]
    assert best.evaluations == four["evaluations"]
    with pytest.raises(InputError, match="'RobotcarSeason' has only one scene"):
        race(["gim_dkm", "root_sift"], replay=True, task=TASK, store=store, about="scenes")


@needs_zeb
def test_plan_of_one_set_works_and_of_all_sets_is_refused(store: Path) -> None:
    made = plan(task=TASK, detect=1.0, group="set=GL3D,threshold_deg=5", store=store)
    assert len(made.rows) == 6
    assert made.rows[0].now == 120
    with pytest.raises(InputError, match="has one scene"):
        plan(task=TASK, detect=1.0, store=store)


@needs_zeb
def test_commands_and_report_work(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["report", "--store", str(store), "--out", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text()
    assert "gim_lightglue" in page
    assert "52.39" in page
    assert "Multi-FoV have one scene, so nothing is tested" in page
    assert r"\multicolumn{1}{c}{at 5$^{\circ}$}" in page
    assert command(["store", "check", "--store", str(store)]) == 0
    again = tmp_path / "again"
    capsys.readouterr()
    assert command(["import", str(ZEB), "--store", str(again)]) == 0
    assert capsys.readouterr().err.count("imported gim_") == 3


@needs_zeb
def test_fewer_sets_and_fewer_pairs_are_not_compared_with_all(store: Path, tmp_path: Path) -> None:
    for path in ZEB.glob("[[]T] gim_dkm*.txt"):
        name = path.stem.split()[2]
        if name in ("GL3D", "KITTI"):
            lines = path.read_text().splitlines(keepends=True)
            (tmp_path / "few").mkdir(exist_ok=True)
            (tmp_path / "few" / path.name.replace("gim_dkm ", "few ")).write_text("".join(lines[:101]))
    root = tmp_path / "store"
    shutil.copytree(store, root)
    with Store.open(root) as opened:
        (few,), notes = import_files([tmp_path / "few"], opened)
    assert any("mean of 2 of 12 sets" in note for note in notes)
    assert "mean of 2 of 12 sets" in str(
        next(s.note for s in few.score_rows if (s.metric, s.group) == ("auc", "threshold_deg=5"))
    )
    names = ["few", "gim_dkm", "gim_loftr"]
    for group in (None, "cluster=set,threshold_deg=5", "cluster=pair,threshold_deg=5"):
        with pytest.raises(DifferingRunsError, match="lists differ"):
            tp.compare(names, task=TASK, store=root, group=group)
    found = tp.compare(names, task=TASK, store=root, allow="lists")
    values = {r.method: r.value for r in found.rows}
    assert values["few"] == values["gim_dkm"] == value(few, "auc", "threshold_deg=5")
    assert any("200 units that all runs have" in note for note in found.notes)
    pairs = tp.compare(names, task=TASK, store=root, allow="lists", group="cluster=pair,threshold_deg=5")
    assert {d.difference for d in pairs.unit_differences if d.first == "few"} <= {0.0}
    with pytest.raises(InputError, match="differ in their pair lists"):
        race(names, replay=True, task=TASK, store=root)


@pytest.mark.parametrize(
    ("lines", "end", "message"),
    [
        (["s#a#b 0.5 0.5 1.0"], "\n", r"line 2: expected 10 words with single blanks, found 4"),
        ([GOOD, GOOD.replace("s#a#b", "s#a#c")[:-8]], "", r"line 3: .*so the file is truncated"),
        ([GOOD, GOOD.replace("s#a#b", "s#a#c")[:-1]], "", r"line 3: .*so the file is truncated"),
        ([GOOD.replace(" 1.0 2.0", "  1.0 2.0")], "\n", r"single blanks"),
        ([GOOD.replace("s#a#b", "s#a")], "\n", r"line 2: expected SCENE#IMAGE0#IMAGE1"),
        ([GOOD, GOOD.replace(" 1.0 2.0", " -1.0 2.0")], "\n", r"line 3: R_errs is -1; expected 0 to 180"),
        ([GOOD.replace(" 1.0 2.0", " 1.0 181")], "\n", r"line 2: t_errs is 181; expected 0 to 180"),
        ([GOOD.replace(" 1.0 2.0", " x 2.0")], "\n", r"line 2: R_errs: expected a number, found 'x'"),
        ([GOOD.replace(" 0.9 90", " 1.9 90")], "\n", r"Bef.Prec is 1.9; expected a fraction"),
        ([], "\n", r"has no pairs"),
    ],
)
def test_read_zeb_wrong_content_raises(tmp_path: Path, lines: list[str], end: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_zeb(written(tmp_path, *lines, end=end))


def test_read_zeb_wrong_header_raises(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    path.write_text(path.read_text().replace("t_errs2 ", ""))
    with pytest.raises(FormatError, match="line 1: expected the header"):
        read_zeb(path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("[T]_mine____________GL3D_v1.txt", "blanks became underscores: restore the original name"),
        ("mine GL3D v1.txt", r"expected the name '\[T\] METHOD SET VERSION.txt'"),
        ("[T] mine GL3D v1 copy.txt", r"expected the name '\[T\] METHOD SET VERSION.txt'"),
    ],
)
def test_import_renamed_file_raises(tmp_path: Path, name: str, message: str) -> None:
    written(tmp_path / "dump", GOOD, name=name)
    with Store.open(tmp_path / "s") as store, pytest.raises(FormatError, match=message):
        import_files([tmp_path / "dump"], store)


def test_import_unknown_set_warns_and_is_not_in_mean(tmp_path: Path) -> None:
    written(tmp_path / "dump", GOOD, GOOD.replace("s#a#b", "s#c#d").replace(" 1.0 2.0", " inf inf"))
    written(tmp_path / "dump", GOOD.replace(" 1.0 2.0", " 0 0"), name="[T] mine own v1.txt")
    with Store.open(tmp_path / "s") as store:
        (run,), notes = import_files([tmp_path / "dump"], store)
    assert any("that the benchmark does not have (own)" in note for note in notes)
    assert value(run, "auc", "area=exact,set=own,threshold_deg=5") == 1.0
    assert value(run, "auc", "area=exact,threshold_deg=5") == pytest.approx(0.3)
    assert value(run, "failures", "all") == 1


def test_import_duplicates_and_versions(tmp_path: Path) -> None:
    written(tmp_path / "a", GOOD, GOOD.replace(" 1.0 2.0", " 9.0 9.0"))
    written(tmp_path / "b", GOOD, name="[T] mine GL3D v2.txt")
    with Store.open(tmp_path / "s") as store:
        runs, notes = import_files([tmp_path / "a", tmp_path / "b"], store)
        assert [run.manifest.method.config["version"] for run in runs] == ["v1", "v2"]
        assert len({run.id for run in runs}) == 2
        assert any("1 pair repeated; the first row" in note for note in notes)
        assert value(runs[0], "auc", "area=exact,set=GL3D,threshold_deg=5") == pytest.approx(0.6)
        (named,), _ = import_files([tmp_path / "a"], store, name="other")
        assert named.method == "other"
        with pytest.raises(InputError, match="results of ZEB have no splits"):
            import_files([tmp_path / "a"], store, split="full")
        shutil.copy(tmp_path / "a" / "[T] mine            GL3D v1.txt", tmp_path / "b")
        with pytest.raises(FormatError, match="same method, set and version"):
            import_files([tmp_path / "a", tmp_path / "b"], store)


def test_import_different_pairs_is_noted(tmp_path: Path) -> None:
    written(tmp_path / "a", GOOD)
    written(tmp_path / "a", GOOD.replace("s#a#b", "s#a#c"), name="[T] other GL3D v1.txt")
    with Store.open(tmp_path / "s") as store:
        _, notes = import_files([tmp_path / "a"], store)
        assert any("different pairs in GL3D" in note for note in notes)
    with pytest.raises(InputError, match="no unit in common"):
        tp.compare(task=TASK, store=tmp_path / "s", allow="lists")


@needs_zeb
def test_import_of_complete_dump_shows_printed_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zeb, "FULL_PAIRS", (120,) * 12)
    with Store.open(tmp_path / "s") as store:
        runs, notes = import_files([ZEB], store)
    dkm = next(note for note in notes if note.startswith("gim_dkm"))
    assert "mean 52.39 (51.2), GL3D 65.88 (63.3)" in dkm
    assert "different runs" in dkm
    assert len(notes) == 4
    assert all(len(run.warnings) == 1 for run in runs)


def test_other_protocol_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "a", GOOD)
    with Store.open(tmp_path / "s") as store:
        (run,), _ = import_files([tmp_path / "a"], store)
    (records,) = [by["loftr"] for by in run.unit_records.values()]
    from tiepoint.tasks import load_task

    score: Callable[..., object] = load_task(TASK).score
    with pytest.raises(InputError, match="imported as pose errors under zeb"):
        score([records], "loftr")
