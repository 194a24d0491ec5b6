# SPDX-License-Identifier: BSD-3-Clause
"""The document "Patch Classification Benchmark", statement by statement, with its own examples."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from black_box import Program, curve, descriptors, document, grey_file, lengths, only, run_ids, write

TASK = "hpatches-v1/classification"

BENCHMARKS = """train_diffseq_easy.benchmark
train_diffseq_hard.benchmark
train_sameseq_easy.benchmark
train_sameseq_hard.benchmark
"""
DIFFSEQ_EASY = "train_easy_pos.pairs\ntrain_diffseq_neg.pairs\n"
EASY_POS = """i_smurf.e4.854,i_smurf.e1.854,1
v_dirtywall.e4.1854,v_dirtywall.ref.1854,1
i_boutique.e5.721,i_boutique.e2.721,1
"""
RESULTS_HEAD, RESULTS_LAST = "1.2,1\n0.1,1\n3.8,1\n", "0.5,1\n"
PAIRS = """train_easy_pos.pairs
train_hard_pos.pairs
train_diffseq_neg.pairs
train_sameseq_neg.pairs
"""
"""The examples above are those of the document."""

FOURTH = "i_boutique.e1.3,i_boutique.e2.3,1\n"
DIFFSEQ_NEG = """i_smurf.e4.854,i_boutique.e1.3,0
i_smurf.e4.5,i_boutique.e1.3,0
i_smurf.e4.6,v_dirtywall.e1.3,0
i_smurf.e4.7,v_dirtywall.e1.3,0
"""
SAMESEQ_NEG = """i_smurf.e4.854,i_smurf.e1.3,0
i_smurf.e4.5,i_smurf.e1.3,0
v_dirtywall.e4.6,v_dirtywall.e1.3,0
v_dirtywall.e4.7,v_dirtywall.e1.3,0
"""
POS_SCORES = RESULTS_HEAD + RESULTS_LAST
DIFFSEQ_SCORES = "0.3,0\n2.0,0\n4.0,0\n5.0,0\n"
SAMESEQ_SCORES = "6.0,0\n0.2,0\n0.7,0\n0.9,0\n"

BENCH = Path("data/benchmarks/classification")
RESULTS = Path("results/classification/my_desc")

# The document's four positive scores are 1.2, 0.1, 3.8, 0.5; the four diffseq negatives are 0.3, 2, 4, 5.
# AUC: 1.2 is nearer than three of the negatives, 0.1 than four, 3.8 than two, 0.5 than three: 12 / 16.
AUC = 12 / 16
# Ranking: 0.1 P, 0.3, 0.5 P, 1.2 P, 2, 3.8 P, 4, 5. Precision at the positives: 1/1, 2/3, 3/4, 4/6.
AP = (1 + 2 / 3 + 3 / 4 + 4 / 6) / 4
# With the sameseq negatives 6, 0.2, 0.7, 0.9 as well. AUC: 4 + 8 + 3 + 6 of 32.
AUC_UNION = 21 / 32
# 0.1 P, 0.2, 0.3, 0.5 P, 0.7, 0.9, 1.2 P, 2, 3.8 P, 4, 5, 6: precision 1/1, 2/4, 3/7, 4/9.
AP_UNION = (1 + 2 / 4 + 3 / 7 + 4 / 9) / 4


@pytest.fixture
def world(tiepoint: Program) -> Program:
    """The document's folder: four benchmarks, four lists, and results for two of the lists."""
    images = ["ref", *(f"{noise}{k}" for noise in "eh" for k in range(1, 6))]
    lengths("data/lengths.json", {"i_smurf": 855, "v_dirtywall": 1855, "i_boutique": 722}, images)
    for kind in ("diffseq", "sameseq"):
        for noise in ("easy", "hard"):
            text = f"train_{noise}_pos.pairs\ntrain_{kind}_neg.pairs\n"
            write(BENCH / f"train_{kind}_{noise}.benchmark", text)
    write(BENCH / "train_easy_pos.pairs", EASY_POS + FOURTH)
    write(BENCH / "train_hard_pos.pairs", (EASY_POS + FOURTH).replace(".e", ".h"))
    write(BENCH / "train_diffseq_neg.pairs", DIFFSEQ_NEG)
    write(BENCH / "train_sameseq_neg.pairs", SAMESEQ_NEG)
    write(RESULTS / "train_easy_pos.results", POS_SCORES)
    write(RESULTS / "train_diffseq_neg.results", DIFFSEQ_SCORES)
    return tiepoint


SCORE = ("score", TASK, "--results", "results", "--data", "data")


def test_the_examples_are_those_of_the_document() -> None:
    text = document("000")
    for example in (BENCHMARKS, DIFFSEQ_EASY, EASY_POS, RESULTS_HEAD, RESULTS_LAST, PAIRS):
        assert example in text


# What a benchmark is


def test_a_benchmark_is_the_union_of_the_lists_it_names(world: Program) -> None:
    assert (BENCH / "train_diffseq_easy.benchmark").read_text() == DIFFSEQ_EASY
    answer = world.json(*SCORE, "--benchmark", "train_diffseq_easy")
    assert answer.value("auc", "benchmark=train_diffseq_easy") == pytest.approx(AUC, abs=1e-12)
    assert answer.value("ap", "benchmark=train_diffseq_easy") == pytest.approx(AP, abs=1e-12)
    assert {row["method"] for row in answer.object["scores"]} == {"my_desc"}


def test_only_the_order_of_the_scores_counts(world: Program) -> None:
    # The threshold is implicit: any growing function of the dissimilarity gives the same numbers.
    squares = "".join(f"{float(line.split(',')[0]) ** 2},1\n" for line in POS_SCORES.split())
    write(RESULTS / "train_easy_pos.results", squares)
    squares = "".join(f"{float(line.split(',')[0]) ** 2},0\n" for line in DIFFSEQ_SCORES.split())
    write(RESULTS / "train_diffseq_neg.results", squares)
    answer = world.json(*SCORE, "--benchmark", "train_diffseq_easy")
    assert answer.value("auc") == pytest.approx(AUC, abs=1e-12)
    assert answer.value("ap") == pytest.approx(AP, abs=1e-12)


def test_a_benchmark_may_name_three_lists(world: Program) -> None:
    write(BENCH / "three.benchmark", DIFFSEQ_EASY + "train_sameseq_neg.pairs\n")
    write(RESULTS / "train_sameseq_neg.results", SAMESEQ_SCORES)
    answer = world.json(*SCORE, "--benchmark", "three")
    assert answer.value("auc", "balance=imbalanced") == pytest.approx(AUC_UNION, abs=1e-12)
    assert answer.value("ap", "balance=imbalanced") == pytest.approx(AP_UNION, abs=1e-12)
    # The balanced list has the first four negatives in the order of the lists: those of diffseq.
    assert answer.value("auc", "balance=balanced") == pytest.approx(AUC, abs=1e-12)
    assert answer.value("ap", "balance=balanced") == pytest.approx(AP, abs=1e-12)


def test_the_order_of_the_lists_is_free(world: Program) -> None:
    write(BENCH / "turned.benchmark", "train_diffseq_neg.pairs\ntrain_easy_pos.pairs\n")
    answer = world.json(*SCORE, "--benchmark", "turned")
    assert answer.value("auc") == pytest.approx(AUC, abs=1e-12)
    assert answer.value("ap") == pytest.approx(AP, abs=1e-12)


def test_one_list_may_hold_both_labels(world: Program) -> None:
    both = zip((EASY_POS + FOURTH).split(), DIFFSEQ_NEG.split(), strict=True)
    write(BENCH / "mixed.pairs", "".join(f"{p}\n{n}\n" for p, n in both))
    scores = zip(POS_SCORES.split(), DIFFSEQ_SCORES.split(), strict=True)
    write(RESULTS / "mixed.results", "".join(f"{p}\n{n}\n" for p, n in scores))
    write(BENCH / "one.benchmark", "mixed.pairs\n")
    answer = world.json(*SCORE, "--benchmark", "one")
    assert answer.value("auc") == pytest.approx(AUC, abs=1e-12)
    assert answer.value("ap") == pytest.approx(AP, abs=1e-12)


def test_positive_negative_and_mixed_lists_together(world: Program) -> None:
    # Two positives and two negatives move into a mixed list; the union is that of the three lists above.
    positives, negatives = (EASY_POS + FOURTH).split(), DIFFSEQ_NEG.split()
    p, n = POS_SCORES.split(), DIFFSEQ_SCORES.split()
    for name, pairs, scores in (
        ("a", positives[:2], p[:2]),
        ("b", negatives[:2], n[:2]),
        ("c", [negatives[2], positives[2], positives[3], negatives[3]], [n[2], p[2], p[3], n[3]]),
    ):
        write(BENCH / f"{name}.pairs", "\n".join(pairs) + "\n")
        write(RESULTS / f"{name}.results", "\n".join(scores) + "\n")
    write(BENCH / "abc.benchmark", "a.pairs\nb.pairs\nc.pairs\n")
    answer = world.json(*SCORE, "--benchmark", "abc")
    assert answer.value("auc") == pytest.approx(AUC, abs=1e-12)
    assert answer.value("ap") == pytest.approx(AP, abs=1e-12)


def test_the_label_column_is_the_truth(world: Program) -> None:
    # The first negative is called positive: 0.3 joins the positives, three negatives remain.
    write(BENCH / "train_diffseq_neg.pairs", DIFFSEQ_NEG.replace("i_boutique.e1.3,0", "i_boutique.e1.3,1", 1))
    write(RESULTS / "train_diffseq_neg.results", DIFFSEQ_SCORES.replace("0.3,0", "0.3,1"))
    answer = world.json(*SCORE, "--benchmark", "train_diffseq_easy")
    # Positives 1.2, 0.1, 3.8, 0.5, 0.3 against 2, 4, 5: 3 + 3 + 2 + 3 + 3 of 15.
    assert answer.value("auc", "balance=imbalanced") == pytest.approx(14 / 15, abs=1e-12)


def test_lists_lie_beside_the_benchmark(world: Program) -> None:
    (BENCH / "train_diffseq_neg.pairs").rename(BENCH.parent / "train_diffseq_neg.pairs")
    answer = world(*SCORE, "--benchmark", "train_diffseq_easy", code=2)
    assert "train_diffseq_neg.pairs" in answer.text


def test_the_four_benchmarks_of_the_document_are_found(world: Program) -> None:
    for name in PAIRS.split():
        stem = name.removesuffix(".pairs")
        write(RESULTS / f"{stem}.results", POS_SCORES if stem.endswith("pos") else DIFFSEQ_SCORES)
    answer = world.json(*SCORE)
    groups = {r["group"] for r in answer.object["scores"] if r["metric"] == "ap"}
    assert {f"benchmark={name.removesuffix('.benchmark')}" for name in BENCHMARKS.split()} <= groups
    assert answer.value("ap") == pytest.approx(AP, abs=1e-12)  # the mean of four equal values


# Result files


def test_scores_and_labels_are_read_from_one_file_a_list(world: Program) -> None:
    assert sorted(p.name for p in RESULTS.iterdir()) == [
        "train_diffseq_neg.results",
        "train_easy_pos.results",
    ]
    for folder in ("results", "results/classification/my_desc"):
        arguments = (
            "score",
            TASK,
            "--results",
            folder,
            "--data",
            "data",
            "--benchmark",
            "train_diffseq_easy",
        )
        assert world.json(*arguments).value("ap") == pytest.approx(AP, abs=1e-12)


def test_the_label_in_a_result_file_is_not_needed(world: Program) -> None:
    for name, text in (("train_easy_pos", POS_SCORES), ("train_diffseq_neg", DIFFSEQ_SCORES)):
        write(RESULTS / f"{name}.results", "".join(line.split(",")[0] + "\n" for line in text.split()))
    assert world.json(*SCORE, "--benchmark", "train_diffseq_easy").value("ap") == pytest.approx(AP, abs=1e-12)


def test_a_label_that_contradicts_the_list_is_an_error(world: Program) -> None:
    write(RESULTS / "train_easy_pos.results", POS_SCORES.replace("3.8,1", "3.8,0"))
    answer = world(*SCORE, "--benchmark", "train_diffseq_easy", code=2)
    assert "train_easy_pos.results" in answer.text
    assert "3" in answer.text  # the line


def test_two_files_are_enough_for_one_benchmark(world: Program) -> None:
    # Without a name, all four benchmarks are asked for: every missing file is named at once, and the
    # benchmark that can be scored is named with the flag that asks for it.
    answer = world(*SCORE, code=2)
    assert "train_hard_pos.results" in answer.text
    assert "train_sameseq_neg.results" in answer.text
    assert "--benchmark train_diffseq_easy" in answer.text
    assert world.json(*SCORE, "--benchmark", "train_diffseq_easy").value("ap") == pytest.approx(AP, abs=1e-12)


def test_score_without_strips_takes_lengths_from_lists(world: Program) -> None:
    Path("only").mkdir()
    Path("data/benchmarks").rename("only/benchmarks")
    arguments = ("score", TASK, "--results", "results", "--data", "only", "--benchmark", "train_diffseq_easy")
    assert world.json(*arguments).value("auc") == pytest.approx(AUC, abs=1e-12)


def test_run_without_strips_names_folder(world: Program) -> None:
    Path("empty").mkdir()
    arguments = ("run", "sift", "--task", TASK, "--data", "empty", "--tasks", "data/benchmarks")
    assert "empty: the dataset has numbers of patches but no pixels" in world(*arguments, code=2).text


def test_benchmark_is_found_by_its_file_name(world: Program) -> None:
    name, file = (world.json(*SCORE, "--benchmark", f"train_diffseq_easy{end}") for end in ("", ".benchmark"))
    assert name.value("auc") == file.value("auc")


def test_score_prints_row_of_each_benchmark(world: Program) -> None:
    write(RESULTS / "train_hard_pos.results", "3,1\n0.1,1\n9,1\n0.5,1\n")
    write(RESULTS / "train_sameseq_neg.results", SAMESEQ_SCORES)
    answer = world(*SCORE, "--benchmark", "train_*")
    rows = [line for line in answer.out.splitlines() if re.search(r"train_(diff|same)seq_(easy|hard)", line)]
    assert len(rows) == 4
    values = world.json(*SCORE, "--benchmark", "train_*")
    for row in rows:
        name = re.search(r"train_\w+", row)[0]
        assert f"{100 * values.value('ap', f'benchmark={name}'):.2f}" in row


def test_written_lists_have_three_columns(tiepoint: Program) -> None:
    write(Path("lengths.json"), '{"lengths": {"i_a": 9, "v_b": 9}, "images": ["ref", "e1", "e2"]}')
    tiepoint(
        "data", "tasks", "--suite", "hpatches-v1", "--data", "lengths.json", "--out", "o", "--label-column"
    )
    for path in Path("o/classification").glob("*.pairs"):
        for line in path.read_text().split():
            a, b, label = line.split(",")
            (sequence, _, index), (other, _, second) = a.split("."), b.split(".")
            assert label == str(int((sequence, index) == (other, second)))


# Writing result files

SMALL = {
    "i_a.ref": (0, 10),
    "i_a.e1": (1, 13),
    "v_b.ref": (20, 30),
    "v_b.e1": (24, 35),
}
"""One number a patch; the other column is 1 everywhere."""


@pytest.fixture
def small(tiepoint: Program) -> Program:
    """Two sequences of two patches, descriptors in files, one benchmark with labelled lists."""
    lengths("data/lengths.json", {"i_a": 2, "v_b": 2}, ["ref", "e1"])
    descriptors("my_desc", SMALL)
    write(BENCH / "train_diffseq_easy.benchmark", DIFFSEQ_EASY)
    write(
        BENCH / "train_easy_pos.pairs", "i_a.ref.0,i_a.e1.0,1\ni_a.ref.1,i_a.e1.1,1\nv_b.ref.0,v_b.e1.0,1\n"
    )
    write(
        BENCH / "train_diffseq_neg.pairs",
        "i_a.ref.0,v_b.e1.0,0\ni_a.e1.1,v_b.ref.0,0\ni_a.ref.1,v_b.ref.0,0\n",
    )
    return tiepoint


WRITE = ("run", "files:my_desc", "--task", TASK, "--data", "data", "--write-results", "results")


def test_results_are_written_in_the_form_of_the_document(small: Program) -> None:
    small(*WRITE, "--results-form", "document")
    folder = only(Path("results/classification").iterdir())
    assert sorted(p.name for p in folder.iterdir()) == ["train_diffseq_neg.results", "train_easy_pos.results"]
    # Distances 1, 3, 4 and 24, 7, 10; the program of the document prints their squares with six decimals.
    assert (folder / "train_easy_pos.results").read_text() == "1.000000,1\n9.000000,1\n16.000000,1\n"
    assert (folder / "train_diffseq_neg.results").read_text() == "576.000000,0\n49.000000,0\n100.000000,0\n"


def test_a_list_that_two_benchmarks_share_is_written_once(small: Program) -> None:
    write(BENCH / "again.benchmark", DIFFSEQ_EASY)
    small(*WRITE, "--results-form", "document")
    folder = only(Path("results/classification").iterdir())
    assert len(list(folder.iterdir())) == 2


def test_what_is_written_scores_as_the_run_did(small: Program) -> None:
    made = small.json(*WRITE, "--results-form", "document", "--protocol", "exact,hbench-2016")
    read = small.json(*SCORE, "--protocol", "exact,hbench-2016")
    for protocol in ("exact", "hbench-2016"):
        for metric in ("auc", "ap", "fpr95"):
            assert read.value(metric, protocol=protocol) == made.value(metric, protocol=protocol)


def test_labelled_lists_get_form_of_document(small: Program) -> None:
    answer = small(*WRITE)
    assert "form document" in answer.err
    written = {p.parts[-3:] for p in Path("results").rglob("*.results")}
    lists = ("train_easy_pos.results", "train_diffseq_neg.results")
    assert written == {("classification", "my_desc", name) for name in lists}


def test_unlabelled_lists_get_final_form(small: Program) -> None:
    for path in BENCH.glob("*.pairs"):
        write(path, "".join(line.rpartition(",")[0] + "\n" for line in path.read_text().split()))
    answer = small(*WRITE)
    assert "form final" in answer.err
    written = only(Path("results").rglob("*.results"))
    assert written.parts[-2:] == ("classification", "train_diffseq_easy.results")
    assert written.read_text().split() == [
        "1.000000",
        "9.000000",
        "16.000000",
        "576.000000",
        "49.000000",
        "100.000000",
    ]


def test_an_unknown_form_is_refused(small: Program) -> None:
    answer = small(*WRITE, "--results-form", "documents", code=2)
    assert "document" in answer.text
    assert "final" in answer.text


# Any distance


def test_built_in_descriptors_take_l1(tiepoint: Program) -> None:
    # A patch of 2 x 2 pixels m - a, m + a, m - a, m + a has the mean m and the sample deviation 2a / sqrt 3;
    # `meanstd` is these two numbers. Patch 0 of e1 differs from ref by (3, 6 / sqrt 3): l2 4.58, l1 6.46.
    # Patch 1 of e1 differs from patch 0 of ref by (5, 0): l2 5, l1 5.
    def strip(*patches: tuple[int, int]) -> list[list[int]]:
        return [row for m, a in patches for row in ([m - a, m + a], [m - a, m + a])]

    grey_file(Path("data/i_a/ref.png"), strip((100, 10), (200, 40)))
    grey_file(Path("data/i_a/e1.png"), strip((103, 13), (105, 10)))
    write(BENCH / "x.benchmark", "p.pairs\nn.pairs\n")
    write(BENCH / "p.pairs", "i_a.ref.0,i_a.e1.0,1\n")
    write(BENCH / "n.pairs", "i_a.ref.0,i_a.e1.1,0\n")
    arguments = ("--task", TASK, "--data", "data")
    assert tiepoint.json("run", "meanstd", *arguments).value("auc") == 1  # 4.58 < 5
    assert tiepoint.json("run", "meanstd?distance=l2", *arguments).value("auc") == 1
    l1 = tiepoint.json("run", "meanstd?distance=l1", *arguments)
    assert l1.value("auc") == 0  # 6.46 > 5
    assert {row["method"] for row in l1.object["scores"]} == {"meanstd?distance=l1"}


def test_l1_is_not_for_bits(tiepoint: Program) -> None:
    grey_file(Path("data/i_a/ref.png"), [[k % 251] * 65 for k in range(130)])
    grey_file(Path("data/i_a/e1.png"), [[k % 241] * 65 for k in range(130)])
    write(BENCH / "x.benchmark", "p.pairs\n")
    write(BENCH / "p.pairs", "i_a.ref.0,i_a.e1.0,1\ni_a.ref.0,i_a.e1.1,0\n")
    answer = tiepoint("run", "orb?distance=l1", "--task", TASK, "--data", "data", code=2)
    assert "hamming" in answer.text


# Curves and balance


def test_roc_and_precision_recall_points(world: Program) -> None:
    world(*SCORE, "--benchmark", "train_diffseq_easy")
    (run,) = run_ids(world)
    world("show", run, "--curves", "curves.csv")
    group = "balance=balanced,benchmark=train_diffseq_easy"
    # Precision at each positive, over recall: see AP above.
    points = curve("curves.csv", group, "pr")
    for point in ((0.25, 1), (0.5, 2 / 3), (0.75, 3 / 4), (1, 4 / 6)):
        assert any(point == pytest.approx(found, abs=1e-12) for found in points)
    # ROC corners along the ranking P N P P N P N N.
    points = curve("curves.csv", group, "roc")
    for point in ((0, 0), (0, 0.25), (0.25, 0.25), (0.25, 0.75), (0.5, 0.75), (0.5, 1), (1, 1)):
        assert any(point == pytest.approx(found, abs=1e-12) for found in points)


@pytest.fixture
def imbalanced(world: Program) -> Program:
    """Four positives against the eight negatives of both lists."""
    write(BENCH / "imbalanced.benchmark", "train_easy_pos.pairs\nmany_neg.pairs\n")
    write(BENCH / "many_neg.pairs", DIFFSEQ_NEG + SAMESEQ_NEG)
    write(RESULTS / "many_neg.results", DIFFSEQ_SCORES + SAMESEQ_SCORES)
    return world


IMBALANCED = (*SCORE, "--benchmark", "imbalanced")


def test_balanced_and_imbalanced_lists_are_both_scored(imbalanced: Program) -> None:
    answer = imbalanced.json(*IMBALANCED)
    assert answer.value("auc", "balance=balanced") == pytest.approx(AUC, abs=1e-12)
    assert answer.value("ap", "balance=balanced") == pytest.approx(AP, abs=1e-12)
    assert answer.value("auc", "balance=imbalanced") == pytest.approx(AUC_UNION, abs=1e-12)
    assert answer.value("ap", "balance=imbalanced") == pytest.approx(AP_UNION, abs=1e-12)
    # The plain scores: ROC area of the balanced list, AP of the imbalanced one.
    assert answer.value("auc") == pytest.approx(AUC, abs=1e-12)
    assert answer.value("ap") == pytest.approx(AP_UNION, abs=1e-12)


@pytest.mark.parametrize("protocol", ["exact", "hbench-2016"])
def test_the_json_warns_of_a_roc_area_on_an_imbalanced_list(imbalanced: Program, protocol: str) -> None:
    warnings = imbalanced.json(*IMBALANCED, "--protocol", protocol).warnings
    assert "ROC" in warnings
    assert "imbalanced" in warnings


def test_table_without_imbalanced_area_does_not_warn(imbalanced: Program) -> None:
    assert "imbalanced list" not in imbalanced(*IMBALANCED).text


def test_curves_mark_roc_points_of_imbalanced_list(imbalanced: Program) -> None:
    imbalanced(*IMBALANCED)
    imbalanced("show", "my_desc", "--curves", "curves.csv")
    assert curve("curves.csv", "balance=imbalanced,benchmark=imbalanced", "roc (imbalanced)")
    assert not curve("curves.csv", "balance=imbalanced,benchmark=imbalanced", "roc")
    assert curve("curves.csv", "balance=balanced,benchmark=imbalanced", "roc")


def test_a_balanced_list_is_not_warned_about(world: Program) -> None:
    answer = world.json(*SCORE, "--benchmark", "train_diffseq_easy", "--protocol", "exact,hbench-2016")
    assert "ROC" not in answer.warnings


def test_the_balanced_roc_area_stands_first_under_the_program_of_2016(imbalanced: Program) -> None:
    answer = imbalanced(*IMBALANCED, "--protocol", "hbench-2016")
    # Balanced 12/16 = 75.00 %, imbalanced 21/32 = 65.62 %.
    assert answer.out.index("75.00") < answer.out.index("65.62")
    notes = [line for line in answer.out.splitlines() if line.lstrip().startswith("*")]
    assert any("ROC" in line for line in notes), "the mark has no line that explains it"
    assert any("imbalanced" in line for line in notes)
    assert "65.62 *" in answer.text  # the mark stands behind the number it belongs to
    assert "75.00 *" not in answer.text
    # What the program reports as its number is still the imbalanced area.
    value = imbalanced.json(*IMBALANCED, "--protocol", "hbench-2016").value("auc", protocol="hbench-2016")
    assert value == pytest.approx(AUC_UNION, abs=1e-12)


def test_a_run_marks_the_imbalanced_roc_area_too(small: Program) -> None:
    write(BENCH / "train_easy_pos.pairs", "i_a.ref.0,i_a.e1.0,1\n")  # one positive, three negatives
    arguments = ("run", "files:my_desc", "--task", TASK, "--data", "data", "--protocol", "hbench-2016")
    assert "*" in small(*arguments).out
    warnings = small.json(*arguments).warnings
    assert "ROC" in warnings
    assert "imbalanced" in warnings


# The lists that are drawn for a dataset


@pytest.fixture
def drawn(tiepoint: Program) -> Path:
    """Lists for eight sequences of eight patches."""
    images = ["ref", *(f"{noise}{k}" for noise in "eh" for k in range(1, 6))]
    counts = {f"{kind}_{name}": 8 for kind in "iv" for name in ("one", "two", "three", "four")}
    lengths("data/lengths.json", counts, images)
    tiepoint("data", "tasks", "--suite", "hpatches-v1", "--data", "data/lengths.json", "--out", "benchmarks")
    return Path("benchmarks/classification")


def rows(path: Path) -> list[tuple[list[str], list[str]]]:
    """The two patches of every line, each as (sequence, image, index)."""
    return [
        (line.split(",")[0].split("."), line.split(",")[1].split(".")) for line in path.read_text().split()
    ]


def test_four_benchmarks_out_of_four_lists(drawn: Path) -> None:
    names = {p.name.partition("_")[2] for p in drawn.glob("*.benchmark")}
    assert names == {name.partition("_")[2] for name in BENCHMARKS.split()}
    names = {p.name.partition("_")[2] for p in drawn.glob("*.pairs")}
    assert names == {name.partition("_")[2] for name in PAIRS.split()}
    for path in drawn.glob("*.benchmark"):
        prefix, kind, noise = path.stem.split("_")
        assert path.read_text().split() == [f"{prefix}_{noise}_pos.pairs", f"{prefix}_{kind}_neg.pairs"]


def test_easy_and_hard_positives(drawn: Path) -> None:
    for noise in ("easy", "hard"):
        pairs = rows(only(drawn.glob(f"*_{noise}_pos.pairs")))
        assert pairs
        for a, b in pairs:
            assert (a[0], a[2]) == (b[0], b[2])
            assert {a[1][0], b[1][0]} <= {"r", noise[0]}


def test_names_of_negative_lists_mean_what_they_say(drawn: Path) -> None:
    # The document's descriptions of the two lists are exchanged; the names are taken literally.
    for a, b in rows(only(drawn.glob("*_sameseq_neg.pairs"))):
        assert a[0] == b[0]
        assert a[2] != b[2]
    for a, b in rows(only(drawn.glob("*_diffseq_neg.pairs"))):
        assert a[0] != b[0]


def test_negatives_outnumber_positives_five_to_one(drawn: Path) -> None:
    # The document: 1M negatives beside 200K positives.
    positives = len(rows(only(drawn.glob("*_easy_pos.pairs"))))
    for kind in ("sameseq", "diffseq"):
        assert len(rows(only(drawn.glob(f"*_{kind}_neg.pairs")))) == 5 * positives
