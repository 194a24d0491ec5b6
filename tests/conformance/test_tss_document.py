# SPDX-License-Identifier: BSD-3-Clause
"""The Readme of the TSS evaluation kit, statement by statement."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from black_box import Program, document, flow_file, grey_file, run_ids

FORMULA = (
    "1 - #{ p | p is in true foreground and E(p) is less than a threshold }"
    " / #{ p | p is in true foreground }"
)
ERROR = "E(p) = sqrt(|u(p)-gu(p)|^2 + |v(p)-gv(p)|^2) * scale"
FILES = ("flow1.flo", "flow2.flo", "mask1.png", "mask2.png")
"""The examples above are those of the document."""

UNKNOWN = 1e10
SCORE = ("score", "tss", "--results", "Results", "--data", "Dataset")
ROWS = 4

Column = Callable[[int], float]


def test_the_examples_are_those_of_the_document() -> None:
    text = document("004")
    for example in (FORMULA, ERROR, *FILES):
        assert example in text


def flow(path: Path, columns: int, u: Column, v: Column = lambda _: 0.0, rows: int = ROWS) -> None:
    """A flow that is the same in every row."""
    flow_file(path, [[(u(x), v(x)) for x in range(columns)] for _ in range(rows)])


def mask(path: Path, columns: int, inside: Sequence[int], rows: int = ROWS) -> None:
    """A mask that is the same in every row."""
    grey_file(path, [[255 if x in inside else 0 for x in range(columns)] for _ in range(rows)])


def truth(pair: str, flipped: bool = False) -> None:
    """Image 1 has 10 columns, image 2 has 20. Nothing moves where the true flow is known.

    Image 1: foreground in columns 0 to 4, flow known in columns 1 to 5. Image 2: both in columns 0 to 9.
    """
    folder = Path("Dataset/FG3DCar") / pair
    grey_file(folder / "image1.png", [[100] * 10] * ROWS)
    grey_file(folder / "image2.png", [[100] * 20] * ROWS)
    mask(folder / "mask1.png", 10, range(5))
    mask(folder / "mask2.png", 20, range(10))
    flow(
        folder / "flow1.flo",
        10,
        lambda x: 0.0 if 1 <= x <= 5 else UNKNOWN,
        lambda x: 0.0 if 1 <= x <= 5 else UNKNOWN,
    )
    flow(folder / "flow2.flo", 20, lambda x: 0.0 if x < 10 else UNKNOWN, lambda x: 0.0 if x < 10 else UNKNOWN)
    (folder / "flip_gt.txt").write_text("1" if flipped else "0")
    (folder / "pair.txt").write_text("Image1,Image2\na.png,b.png\n")


ERRORS1 = {0: 0.0, 1: 0.5, 2: 1.0, 3: 1.5, 4: 0.5, 5: 0.25}
"""Endpoint errors by column in image 1; elsewhere 0."""
ERRORS2 = {**dict.fromkeys(range(4), 0.5), 4: 0.75, 5: 0.75}
"""The same in image 2."""


def estimate(pair: str) -> None:
    """All four files of a method."""
    folder = Path("Results/FG3DCar") / pair
    flow(folder / "flow1.flo", 10, lambda x: ERRORS1.get(x, 0.0))
    flow(folder / "flow2.flo", 20, lambda x: ERRORS2.get(x, 0.0))
    mask(folder / "mask1.png", 10, range(3))
    mask(folder / "mask2.png", 20, range(5, 15))


# 5 % of the target's larger side: 1 px into image 2, 0.5 px into image 1.
# Image 1, columns 1 to 5: errors 0.5, 1, 1.5, 0.5, 0.25, four of five at most 1.
# Image 2, columns 0 to 9: four of 0.5, two of 0.75, four of 0: eight of ten at most 0.5.
T5 = (4 / 5, 8 / 10)
# Masks: three columns of five; columns 5 to 9 of 0 to 14.
IOU = (3 / 5, 5 / 15)


@pytest.fixture
def world(tiepoint: Program) -> Program:
    """One pair with truth and all four files of a method."""
    truth("a")
    estimate("a")
    return tiepoint


def row(metric: str, direction: str, pair: str = "a") -> tuple[str, str]:
    """Metric and group of one direction of a pair."""
    return metric, f"direction={direction},pair=FG3DCar/{pair}"


# What is asked for


def test_four_files_a_pair(world: Program) -> None:
    assert {p.name for p in Path("Results/FG3DCar/a").iterdir()} == set(FILES)
    answer = world.json(*SCORE)
    for direction, t5, iou in zip(("1to2", "2to1"), T5, IOU, strict=True):
        assert answer.value(*row("flow_accuracy", direction)) == pytest.approx(t5, abs=1e-12)
        assert answer.value(*row("iou", direction)) == pytest.approx(iou, abs=1e-12)
    assert answer.value("flow_accuracy") == pytest.approx(sum(T5) / 2, abs=1e-12)
    assert answer.value("iou") == pytest.approx(sum(IOU) / 2, abs=1e-12)


@pytest.mark.parametrize("protocol", ["tss-cpp", "tss-matlab"])
def test_both_tools_of_the_kit_agree_at_full_size(world: Program, protocol: str) -> None:
    answer = world.json(*SCORE, "--protocol", protocol)
    assert answer.value("flow_accuracy", protocol=protocol) == pytest.approx(sum(T5) / 2, abs=1e-12)
    assert answer.value("iou", protocol=protocol) == pytest.approx(sum(IOU) / 2, abs=1e-12)


def test_all_pairs_are_asked_for(world: Program) -> None:
    truth("b")
    assert "b" in world(*SCORE, "--missing", "error", code=2).text
    assert world.json(*SCORE).value("iou") == pytest.approx(sum(IOU) / 4, abs=1e-12)  # b counts 0
    assert world.json(*SCORE, "--missing", "skip").value("iou") == pytest.approx(sum(IOU) / 2, abs=1e-12)


def table_of(path: str = "Results/FG3DCar/scores.csv") -> list[dict[str, str]]:
    """The rows of a score file."""
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_error_is_euclidean_and_normalised(world: Program) -> None:
    # (0.75, 1) has length 1.25. In a scale in which the 20 columns of image 2 are 100 px that is 6.25 px.
    flow(Path("Results/FG3DCar/a/flow1.flo"), 10, lambda _: 0.75, lambda _: 1.0)
    world(*SCORE, "--scores-csv")
    first = table_of()[0]
    assert (float(first["T6"]), float(first["T7"])) == (0, 1)


def test_thresholds_from_1_to_50_and_5_first(world: Program) -> None:
    world(*SCORE, "--scores-csv", "--protocol", "tss-cpp")
    table = table_of()
    assert [name for name in table[0] if name.startswith("T")] == [f"T{t}" for t in range(1, 51)]
    first, second = table[:2]
    # Image 1: thresholds 0.2, 0.4, 0.6, 0.8, 1.0, …, 1.4, 1.6 against 0.5, 1, 1.5, 0.5, 0.25.
    expected = {1: 0 / 5, 2: 1 / 5, 3: 3 / 5, 4: 3 / 5, 5: 4 / 5, 7: 4 / 5, 8: 5 / 5, 50: 1}
    for t, value in expected.items():
        assert float(first[f"T{t}"]) == pytest.approx(value, abs=5e-7)
    # Image 2: 0.1 steps against four of 0, four of 0.5, two of 0.75.
    for t, value in {1: 4 / 10, 4: 4 / 10, 5: 8 / 10, 7: 8 / 10, 8: 1}.items():
        assert float(second[f"T{t}"]) == pytest.approx(value, abs=5e-7)
    answer = world.json(*SCORE)
    assert answer.value("flow_accuracy", "threshold=5") == answer.value("flow_accuracy")
    assert {f"threshold={t}" for t in range(1, 51)} <= {r["group"] for r in answer.object["scores"]}
    assert "T5" in world(*SCORE).out


# What may be missing


def test_masks_are_estimated_from_both_flows(tiepoint: Program) -> None:
    # Both images have 10 columns. Flow 1 moves columns 0 to 4 by 3 px, flow 2 moves nothing: they come back 3
    # px off, more than 2.5 % of 10 px but less than the 20 px of the kit. The rest comes back where it was.
    folder = Path("Dataset/FG3DCar/a")
    for k in (1, 2):
        grey_file(folder / f"image{k}.png", [[100] * 10] * ROWS)
        mask(folder / f"mask{k}.png", 10, range(5, 10))
        flow(folder / f"flow{k}.flo", 10, lambda _: 0.0)
    flow(Path("Results/FG3DCar/a/flow1.flo"), 10, lambda x: 3.0 if x < 5 else 0.0)
    flow(Path("Results/FG3DCar/a/flow2.flo"), 10, lambda _: 0.0)
    answer = tiepoint.json(*SCORE, "--protocol", "exact,tss-cpp")
    # exact: columns 5 to 9, as in truth. Kit: all ten columns, five of them right.
    assert answer.value(*row("iou", "1to2")) == pytest.approx(1, abs=1e-12)
    metric, group = row("iou", "1to2")
    assert answer.value(metric, group, "tss-cpp") == pytest.approx(5 / 10, abs=1e-12)


def without_flows(*pairs: str) -> None:
    for pair in pairs:
        for k in (1, 2):
            (Path("Results/FG3DCar") / pair / f"flow{k}.flo").unlink()


@pytest.mark.parametrize("protocol", ["exact", "tss-cpp", "tss-matlab"])
def test_without_flows_the_masks_are_scored_and_flows_are_not(world: Program, protocol: str) -> None:
    without_flows("a")
    answer = world.json(*SCORE, "--missing", "skip", "--protocol", protocol)
    assert answer.value("iou", protocol=protocol) == pytest.approx(sum(IOU) / 2, abs=1e-12)
    for found in answer.object["scores"]:
        if found["metric"] in {"flow_accuracy", "flow_auc", "aepe"}:
            assert found["value"] is None
    text = world(*SCORE, "--missing", "skip", "--protocol", protocol, "--scores-csv").text
    assert "nan" not in text.lower()
    assert f"{100 * sum(IOU) / 2:.2f}" in text


def test_pairs_counts_what_was_scored(world: Program) -> None:
    without_flows("a")
    (line,) = [line for line in world(*SCORE).out.splitlines() if "FG3DCar" in line]
    assert line.split()[:2] == ["FG3DCar", "1"]


@pytest.mark.parametrize("protocol", ["exact", "tss-cpp"])
def test_a_score_file_has_no_nan(world: Program, protocol: str) -> None:
    without_flows("a")
    world(*SCORE, "--missing", "skip", "--protocol", protocol, "--scores-csv")
    text = Path("Results/FG3DCar/scores.csv").read_text()
    assert "nan" not in text.lower()
    table = table_of()
    assert float(table[0]["SegIUR"]) == pytest.approx(IOU[0], abs=5e-7)
    assert {line["T5"] for line in table} == {""}


def test_a_pair_without_flows_leaves_the_mean_of_the_others(world: Program) -> None:
    truth("b")
    estimate("b")
    without_flows("b")
    assert world.json(*SCORE).value("flow_accuracy") == pytest.approx(sum(T5) / 4, abs=1e-12)
    assert "* mean of 1 of 2 pairs" in world(*SCORE, "--missing", "skip").out
    answer = world.json(*SCORE, "--missing", "skip")
    assert answer.value("flow_accuracy") == pytest.approx(sum(T5) / 2, abs=1e-12)  # of the pair a alone
    assert answer.value("iou") == pytest.approx(sum(IOU) / 2, abs=1e-12)
    (found,) = answer.rows("flow_accuracy")
    assert found["n"] == 1
    (found,) = answer.rows("iou")
    assert found["n"] == 2


def test_one_flow_missing_leaves_the_score_of_the_other_direction(world: Program) -> None:
    Path("Results/FG3DCar/a/flow2.flo").unlink()
    assert world.json(*SCORE).value("flow_accuracy") == pytest.approx(T5[0] / 2, abs=1e-12)
    answer = world.json(*SCORE, "--missing", "skip")
    assert answer.value(*row("flow_accuracy", "1to2")) == pytest.approx(T5[0], abs=1e-12)
    assert answer.value(*row("flow_accuracy", "2to1")) is None
    assert answer.value("flow_accuracy") == pytest.approx(T5[0], abs=1e-12)
    assert answer.value("iou") == pytest.approx(sum(IOU) / 2, abs=1e-12)
    assert "flow2" in answer.warnings


def test_the_kit_counts_missing_flows_as_zero(world: Program) -> None:
    # With one flow missing the kit drops both.
    Path("Results/FG3DCar/a/flow2.flo").unlink()
    answer = world.json(*SCORE, "--protocol", "tss-cpp")
    assert answer.value("flow_accuracy", protocol="tss-cpp") == 0
    assert answer.value("iou", protocol="tss-cpp") == pytest.approx(sum(IOU) / 2, abs=1e-12)


def test_a_damaged_flow_is_still_an_error(world: Program) -> None:
    path = Path("Results/FG3DCar/a/flow1.flo")
    path.write_bytes(path.read_bytes()[:-4])
    assert "flow1.flo" in world(*SCORE, "--missing", "error", code=2).text


def test_a_pair_with_nothing_in_it_is_still_an_error(world: Program) -> None:
    for name in FILES:
        (Path("Results/FG3DCar/a") / name).unlink()
    assert "FG3DCar/a" in world(*SCORE, "--missing", "error", code=2).text


def test_results_of_another_size_are_resized(tiepoint: Program) -> None:
    # Everything moves by 2 px in images of 10 x 4. At half the size that is 1 px.
    folder, results = Path("Dataset/FG3DCar/a"), Path("Results/FG3DCar/a")
    for k in (1, 2):
        grey_file(folder / f"image{k}.png", [[100] * 10] * ROWS)
        mask(folder / f"mask{k}.png", 10, range(4))
        flow(folder / f"flow{k}.flo", 10, lambda _: 2.0)
        flow(results / f"flow{k}.flo", 5, lambda _: 1.0, rows=2)
        mask(results / f"mask{k}.png", 5, range(2), rows=2)
    answer = tiepoint.json(*SCORE, "--protocol", "exact,tss-cpp,tss-matlab")
    for protocol in ("exact", "tss-cpp", "tss-matlab"):
        assert answer.value("flow_accuracy", "threshold=1", protocol) == pytest.approx(1, abs=1e-12)
        assert answer.value("iou", protocol=protocol) == pytest.approx(1, abs=1e-12)


# Segmentation accuracy


def test_auto_flip_takes_the_better_labels(world: Program) -> None:
    # The masks of truth, inverted. The kit decides for both masks together.
    mask(Path("Results/FG3DCar/a/mask1.png"), 10, range(5, 10))
    mask(Path("Results/FG3DCar/a/mask2.png"), 20, range(10, 20))
    assert world.json(*SCORE).value("iou") == 0
    assert world.json(*SCORE, "--auto-flip").value("iou") == pytest.approx(1, abs=1e-12)


def test_use_prec_is_the_share_of_right_pixels(world: Program) -> None:
    # Image 1: columns 3 and 4 of ten are wrong. Image 2: columns 0 to 4 and 10 to 14 of twenty.
    answer = world.json(*SCORE)
    assert answer.value("pixel_accuracy") == pytest.approx((8 / 10 + 10 / 20) / 2, abs=1e-12)
    world(*SCORE, "--protocol", "tss-cpp", "--use-prec", "--scores-csv")
    table = table_of()
    assert float(table[0]["SegPrec"]) == pytest.approx(8 / 10, abs=5e-7)
    assert float(table[1]["SegPrec"]) == pytest.approx(10 / 20, abs=5e-7)


@pytest.mark.parametrize("protocol", ["exact", "tss-cpp"])
def test_use_prec_alone_prints_precision(world: Program, protocol: str) -> None:
    plain = world(*SCORE, "--protocol", protocol, "--pairs").out
    found = world(*SCORE, "--protocol", protocol, "--use-prec", "--pairs").out
    assert "SegPrec" in found
    assert "SegPrec" not in plain
    for line, value in (("FG3DCar  ", 65), ("1to2", 80), ("2to1", 50)):
        (row_of_table,) = (text for text in found.splitlines() if line in text.lstrip("│ "))
        assert row_of_table.strip("│ ").endswith(f"{value}.00")


def test_use_prec_of_matlab_tool_prints_iou(world: Program) -> None:
    assert "SegPrec" not in world(*SCORE, "--protocol", "tss-matlab", "--use-prec").out


def test_score_several_methods_are_rows_of_one_table(world: Program) -> None:
    shutil.copytree("Results", "Other")
    mask(Path("Other/FG3DCar/a/mask1.png"), 10, range(5))
    both = (*SCORE, "--results", "Other")
    answer = world(*both, "--scores-csv")
    assert answer.out.count("protocol exact") == 1
    assert [line.split()[0] for line in answer.out.splitlines()[3:5]] == ["FG3DCar", "FG3DCar"]
    for name, first in (("Results", IOU[0]), ("Other", 1.0)):
        assert f"files:{name}" in answer.out
        assert float(table_of(f"{name}/FG3DCar/scores.csv")[0]["SegIUR"]) == pytest.approx(first, abs=5e-7)
    assert "--name" in world(*both, "--name", "mine", code=2).text


# What the document says about flow accuracy, and the kit does not do


@pytest.mark.parametrize(
    ("options", "forward", "backward"),
    [
        # Less than: 1.0 px into image 2 and 0.5 px into image 1 are no longer right.
        (("compare=less_than",), 3 / 5, 4 / 10),
        (("compare=at_most",), 4 / 5, 8 / 10),
        # The "1 -" in front of the share of right pixels.
        (("complement=true",), 1 - 4 / 5, 1 - 8 / 10),
        (("complement=false",), 4 / 5, 8 / 10),
        # True foreground, columns 0 to 4: column 0 has no true flow and cannot be right, 1, 2 and 4 are.
        (("pixels=foreground",), 3 / 5, 8 / 10),
        (("pixels=known_flow",), 4 / 5, 8 / 10),
        # The larger side of the image the flow lives on: 0.5 px for image 1, 1 px for image 2.
        (("larger_side=source",), 3 / 5, 10 / 10),
        # The larger side of both images: 1 px.
        (("larger_side=both",), 4 / 5, 10 / 10),
        (("larger_side=target",), 4 / 5, 8 / 10),
        # The document to the letter: foreground columns 1 and 4 below 1 px; ten columns below 1 px.
        (
            ("compare=less_than", "complement=true", "pixels=foreground", "larger_side=both"),
            1 - 2 / 5,
            1 - 10 / 10,
        ),
    ],
)
def test_each_rule_of_the_document_is_a_switch(
    world: Program, options: tuple[str, ...], forward: float, backward: float
) -> None:
    answer = world.json(*SCORE, *(word for option in options for word in ("-o", option)))
    assert answer.value(*row("flow_accuracy", "1to2")) == pytest.approx(forward, abs=1e-12)
    assert answer.value(*row("flow_accuracy", "2to1")) == pytest.approx(backward, abs=1e-12)
    assert answer.value("flow_accuracy") == pytest.approx((forward + backward) / 2, abs=1e-12)
    assert answer.value("iou") == pytest.approx(sum(IOU) / 2, abs=1e-12)


@pytest.mark.parametrize(
    "option", ["compare=less_than", "complement=true", "pixels=foreground", "larger_side=source"]
)
def test_the_kits_protocols_keep_their_rules(world: Program, option: str) -> None:
    answer = world(*SCORE, "--protocol", "tss-cpp", "-o", option, code=2)
    assert "exact" in answer.text


@pytest.mark.parametrize(
    ("option", "known"),
    [
        ("compare=below", "less_than"),
        ("pixels=mask", "foreground"),
        ("larger_side=first", "source"),
    ],
)
def test_an_unknown_rule_is_refused(world: Program, option: str, known: str) -> None:
    assert known in world(*SCORE, "-o", option, code=2).text


def test_the_task_page_lists_what_differs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tasks" / "tss.md").read_text(encoding="utf-8")
    for word in ("compare=less_than", "complement=true", "pixels=foreground", "larger_side=source"):
        assert word in page


# Everything else


def test_pictures_of_results(world: Program) -> None:
    world("flow", "show", "--results", "Results", "--data", "Dataset", "--vis-dir", "vis")
    names = {p.name for p in Path("Results/FG3DCar/a/vis").iterdir()}
    for k in (1, 2):
        assert {f"foreground{k}.png", f"warped{k}.png", f"flow{k}.png"} <= names


def test_mirrored_pairs_are_also_left_out_of_a_mean(world: Program) -> None:
    truth("b", flipped=True)
    estimate("b")
    flow(Path("Results/FG3DCar/b/flow1.flo"), 10, lambda _: 0.0)
    flow(Path("Results/FG3DCar/b/flow2.flo"), 20, lambda _: 0.0)
    answer = world.json(*SCORE)
    assert answer.value("flow_accuracy") == pytest.approx((sum(T5) / 2 + 1) / 2, abs=1e-12)
    assert answer.value("flow_accuracy", "flip=0") == pytest.approx(sum(T5) / 2, abs=1e-12)


def test_three_subsets_of_the_kit(world: Program) -> None:
    for subset in ("JODS", "PASCAL"):
        for root in ("Dataset", "Results"):
            for path in Path(root, "FG3DCar", "a").iterdir():
                copy = Path(root, subset, "a", path.name)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(path.read_bytes())
    answer = world.json(*SCORE)
    for subset in ("FG3DCar", "JODS", "PASCAL"):
        assert answer.value("flow_accuracy", f"subset={subset}") == pytest.approx(sum(T5) / 2, abs=1e-12)


def test_the_paper_is_cited(world: Program) -> None:
    world(*SCORE)
    assert len(run_ids(world)) == 1
    world("report", "--out", "report.html")
    page = Path("report.html").read_text(encoding="utf-8")
    assert "Joint Recovery of Dense Correspondence and Cosegmentation in Two Images" in page
    assert "Taniai" in page
