# SPDX-License-Identifier: BSD-3-Clause
"""The document "Image and Patch Retrieval Benchmark", statement by statement, with its own examples."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from black_box import Program, curve, descriptors, document, lengths, only, run_ids, write

TASK = "hpatches-v1/retrieval"

NAMES = "<train|test>_<easy|hard>_<num_sequences>s_<random_seed>.benchmark"
POOL_COMMENT, QUERY_COMMENT = " # List of descriptors pool", " # Signature of the first query patch"
RESULTS_PATH = "../results/retrieval/desc_name/bench_name.results"
"""The examples above are those of the document."""

BENCH = Path("data/benchmarks/retrieval")
RESULTS = Path("results/retrieval/desc_name")
SCORE = ("score", TASK, "--results", "results", "--data", "data")
NAME = "train_easy_2s_1"

POOL = "i_one.ref,i_one.e1,i_one.e2,v_two.ref,v_two.e1,v_two.e2"
QUERIES = ("i_one.ref.0", "v_two.ref.1")
RANKED = (
    "i_one.e1.0 v_two.e1.1 i_one.e2.0 i_one.e1.1 v_two.e1.0 v_two.e2.0 v_two.ref.0 v_two.ref.1 v_two.e2.1"
    " i_one.ref.1 i_one.e2.1",
    "i_one.e1.0 v_two.e1.1 i_one.e2.0 i_one.e1.1 v_two.e1.0 v_two.e2.0 v_two.ref.0 i_one.ref.0 v_two.e2.1"
    " i_one.ref.1 i_one.e2.1",
)
"""The other eleven patches of the pool for each query, nearest first."""

# Patch retrieval. First query: e1.0 is first, e2.0 third. Second query: e1.1 is second, e2.1 ninth.
PATCH = ((1 / 1 + 2 / 3) / 2, (1 / 2 + 2 / 9) / 2)
# Image retrieval, any patch of the sequence. First query: places 1, 3, 4, 10, 11. Second: 2, 5, 6, 7, 9.
IMAGE = (
    (1 / 1 + 2 / 3 + 3 / 4 + 4 / 10 + 5 / 11) / 5,
    (1 / 2 + 2 / 5 + 3 / 6 + 4 / 7 + 5 / 9) / 5,
)


def test_the_examples_are_those_of_the_document() -> None:
    text = document("002")
    for example in (NAMES, f"...{POOL_COMMENT}", f"1{QUERY_COMMENT}", RESULTS_PATH):
        assert example in text


@pytest.fixture
def world(tiepoint: Program) -> Program:
    """Two sequences of two patches in three images each, two queries, and results of another program."""
    lengths("data/lengths.json", {"i_one": 2, "v_two": 2}, ["ref", "e1", "e2"])
    write(BENCH / f"{NAME}.benchmark", "\n".join((POOL, *QUERIES)) + "\n")
    lines = [",".join((query, *ranked.split())) for query, ranked in zip(QUERIES, RANKED, strict=True)]
    write(RESULTS / f"{NAME}.results", "\n".join((POOL, *lines)) + "\n")
    return tiepoint


def test_mean_average_precision_of_patch_and_image_retrieval(world: Program) -> None:
    answer = world.json(*SCORE)
    assert answer.value("map_patch") == pytest.approx(sum(PATCH) / 2, abs=1e-12)
    assert answer.value("map_image") == pytest.approx(sum(IMAGE) / 2, abs=1e-12)
    for scene, patch, image in zip(("i_one", "v_two"), PATCH, IMAGE, strict=True):
        assert answer.value("map_patch", f"scene={scene}") == pytest.approx(patch, abs=1e-12)
        assert answer.value("map_image", f"scene={scene}") == pytest.approx(image, abs=1e-12)
    assert {row["method"] for row in answer.object["scores"]} == {"desc_name"}


def test_the_program_of_2016_divides_by_one_query_too_many(world: Program) -> None:
    answer = world.json(*SCORE, "--protocol", "hbench-2016")
    assert answer.value("map_patch", protocol="hbench-2016") == pytest.approx(sum(PATCH) / 3, abs=1e-12)
    assert answer.value("map_image", protocol="hbench-2016") == pytest.approx(sum(IMAGE) / 3, abs=1e-12)


# Definition files


def test_comments_of_the_document_are_read(world: Program) -> None:
    text = f"{POOL}{POOL_COMMENT}\n{QUERIES[0]}{QUERY_COMMENT}\n{QUERIES[1]}\n"
    write(BENCH / f"{NAME}.benchmark", text)
    assert world.json(*SCORE).value("map_patch") == pytest.approx(sum(PATCH) / 2, abs=1e-12)


def test_comments_are_read_in_the_other_definition_files_too(tiepoint: Program) -> None:
    lengths("data/lengths.json", {"i_a": 2}, ["ref", "e1"])
    descriptors("d", {"i_a.ref": (0, 10), "i_a.e1": (1, 9)})
    folder = Path("data/benchmarks")
    write(folder / "matching/x.benchmark", "i_a.ref,i_a.e1 # reference, target\n")
    write(folder / "classification/x.benchmark", "p.pairs # positive\nn.pairs # negative\n")
    write(folder / "classification/p.pairs", "i_a.ref.0,i_a.e1.0,1 # the same place\n# nothing else\n")
    write(folder / "classification/n.pairs", "i_a.ref.0,i_a.e1.1,0# another\n")
    arguments = ("--task", "hpatches-v1/matching,hpatches-v1/classification", "--data", "data")
    answer = tiepoint.json("run", "files:d", *arguments)
    # |0 - 1| = 1, |0 - 9| = 9, |10 - 9| = 1, |10 - 1| = 9: right targets are first, the positive is nearer.
    assert answer.value("map_query") == 1
    assert answer.value("auc") == 1


def test_every_query_is_in_the_pool(world: Program) -> None:
    write(BENCH / f"{NAME}.benchmark", f"{POOL.replace('i_one.ref,', '')}\n{QUERIES[0]}\n")
    answer = world(*SCORE, code=2)
    assert "i_one.ref.0" in answer.text
    assert f"{NAME}.benchmark" in answer.text


@pytest.fixture
def drawn(tiepoint: Program) -> Path:
    images = ["ref", *(f"{noise}{k}" for noise in "eh" for k in range(1, 6))]
    lengths("data/lengths.json", {f"{'iv'[k % 2]}_s{k}": 4 for k in range(9)}, images)
    tiepoint("data", "tasks", "--suite", "hpatches-v1", "--data", "data/lengths.json", "--out", "benchmarks")
    return Path("benchmarks/retrieval")


def test_names_of_drawn_files_say_noise_size_and_seed(drawn: Path) -> None:
    files = sorted(drawn.glob("*.benchmark"))
    assert files
    for path in files:
        found = re.fullmatch(r"(train|test|all)_(easy|hard)_(\d+)s_(\d+)", path.stem)
        assert found, path.name
        pool, *queries = path.read_text().split()
        images = [name.split(".") for name in pool.split(",")]
        sequences = {sequence for sequence, _ in images}
        assert len(sequences) == int(found[3])
        assert len(images) == 6 * len(sequences)
        assert {image[0] for _, image in images} == {"r", found[2][0]}
        assert all(query.rsplit(".", 1)[0] in pool.split(",") for query in queries)
        assert len(set(queries)) == len(queries)


@pytest.mark.parametrize(
    ("sequences", "draws"), [(12, {"5s": 1, "12s": 1}), (40, {"5s": 3, "40s": 1}), (76, {"5s": 5, "40s": 2})]
)
def test_number_of_draws_grows_with_sequences(
    tiepoint: Program, sequences: int, draws: dict[str, int]
) -> None:
    """The published sets have 76 and 40 sequences, with these numbers of files."""
    lengths = ", ".join(f'"v_{i}": 3' for i in range(sequences))
    write(Path("lengths.json"), f'{{"lengths": {{{lengths}}}, "images": ["ref", "e1", "e2"]}}')
    command = ("data", "tasks", "--suite", "hpatches-v1", "--data", "lengths.json", "--seed", 7, "--out")
    tiepoint(*command, "seven")
    written = [p.stem for p in Path("seven/retrieval").glob("*.benchmark")]
    expected = {f"all_easy_{size}_{7 + i}" for size, n in draws.items() for i in range(n)}
    assert set(written) == expected
    pools = {p.read_text().split()[0] for p in Path("seven/retrieval").glob("*_5s_*.benchmark")}
    assert len(pools) == draws["5s"]


def test_seed_in_name_determines_draw(tiepoint: Program) -> None:
    lengths = ", ".join(f'"v_{i}": 3' for i in range(30))
    write(Path("lengths.json"), f'{{"lengths": {{{lengths}}}, "images": ["ref", "e1", "e2"]}}')
    for seed in (6, 7):
        command = (
            "data",
            "tasks",
            "--suite",
            "hpatches-v1",
            "--data",
            "lengths.json",
            "--seed",
            seed,
            "--out",
        )
        tiepoint(*command, f"s{seed}")
    one, other = (Path(f"s{seed}/retrieval/all_easy_5s_7.benchmark").read_text() for seed in (6, 7))
    assert one == other


# Result files


def test_the_first_line_repeats_the_pool(world: Program) -> None:
    text = (RESULTS / f"{NAME}.results").read_text()
    write(RESULTS / f"{NAME}.results", text.replace(POOL, POOL.replace(",v_two.e2", ""), 1))
    assert f"{NAME}.results" in world(*SCORE, code=2).text


def test_the_first_patch_is_the_query(world: Program) -> None:
    text = (RESULTS / f"{NAME}.results").read_text()
    swapped = text.replace("i_one.ref.0,i_one.e1.0", "i_one.e1.0,i_one.ref.0", 1)
    write(RESULTS / f"{NAME}.results", swapped)
    answer = world(*SCORE, code=2)
    assert "i_one.ref.0" in answer.text or "i_one.e1.0" in answer.text


def test_a_patch_from_outside_the_pool_is_an_error(world: Program) -> None:
    text = (RESULTS / f"{NAME}.results").read_text()
    write(RESULTS / f"{NAME}.results", text.replace("v_two.e2.0", "v_two.e2.7", 1))
    assert "v_two.e2.7" in world(*SCORE, code=2).text


SIXTY = {f"{s}.{im}": 10 for s in ("i_one", "v_two") for im in ("ref", "e1", "e2")}


def ranked_by_hand(table: dict[str, list[float]], query: str) -> list[str]:
    """All patches of the pool by distance to the query, in a plain loop; no two distances are equal."""
    sequence, image, index = query.split(".")
    centre = table[f"{sequence}.{image}"][int(index)]
    found = []
    for name, values in table.items():
        for k, value in enumerate(values):
            found.append((abs(value - centre), f"{name}.{k}"))
    return [patch for _, patch in sorted(found)]


@pytest.fixture
def sixty(tiepoint: Program) -> tuple[Program, dict[str, list[float]]]:
    """A pool of sixty patches with one different number each."""
    rng = random.Random(7)
    numbers = rng.sample(range(1, 1_000), 60)
    table = {name: [float(numbers.pop()) for _ in range(10)] for name in SIXTY}
    descriptors("desc_name", table)
    lengths("data/lengths.json", {"i_one": 10, "v_two": 10}, ["ref", "e1", "e2"])
    text = f"{','.join(SIXTY)}\ni_one.ref.0\nv_two.ref.3\n"
    write(BENCH / f"{NAME}.benchmark", text)
    return tiepoint, table


WRITE = ("run", "files:desc_name", "--task", TASK, "--data", "data", "--write-results", "results")


def test_fifty_one_patches_are_written_for_each_query(sixty: tuple[Program, dict[str, list[float]]]) -> None:
    tiepoint, table = sixty
    tiepoint(*WRITE)
    lines = only(Path("results").rglob(f"{NAME}.results")).read_text().split()
    assert lines[0] == ",".join(SIXTY)
    for line, query in zip(lines[1:], ("i_one.ref.0", "v_two.ref.3"), strict=True):
        found = line.split(",")
        assert found[0] == query
        assert len(found) == 51
        centre = table[query.rsplit(".", 1)[0]][int(query.rsplit(".", 1)[1])]
        distances = [abs(table[p.rsplit(".", 1)[0]][int(p.rsplit(".", 1)[1])] - centre) for p in found]
        assert distances == sorted(distances)
        assert distances == [
            abs(table[p.rsplit(".", 1)[0]][int(p.rsplit(".", 1)[1])] - centre)
            for p in ranked_by_hand(table, query)[:51]
        ]


def average_precision_at_50(ranked: list[str], right: set[str]) -> float:
    """Precision at the right answers among the first fifty, over the number that could be there."""
    hits, total = 0, 0.0
    for place, patch in enumerate(ranked[:50], 1):
        if patch in right:
            hits += 1
            total += hits / place
    return total / min(len(right), 50)


def test_only_the_distance_ranks(sixty: tuple[Program, dict[str, list[float]]]) -> None:
    tiepoint, table = sixty
    answer = tiepoint.json(*WRITE)
    patch, image = [], []
    for query in ("i_one.ref.0", "v_two.ref.3"):
        ranked = [p for p in ranked_by_hand(table, query) if p != query]
        sequence, _, index = query.split(".")
        same = {p for p in ranked if p.split(".")[0] == sequence and p.split(".")[2] == index}
        patch.append(average_precision_at_50(ranked, same))
        image.append(average_precision_at_50(ranked, {p for p in ranked if p.split(".")[0] == sequence}))
    assert answer.value("map_patch") == pytest.approx(sum(patch) / 2, abs=1e-12)
    assert answer.value("map_image") == pytest.approx(sum(image) / 2, abs=1e-12)


def test_results_are_written_where_the_document_looks_for_them(
    sixty: tuple[Program, dict[str, list[float]]],
) -> None:
    tiepoint, _ = sixty
    made = tiepoint.json(*WRITE, "--results-form", "document")
    written = only(Path("results").rglob("*.results"))
    assert written.parts[:2] == ("results", "retrieval")
    assert len(written.parts) == 4  # results/retrieval/DESC/train_easy_2s_1.results
    read = tiepoint.json(*SCORE)
    for metric in ("map_patch", "map_image"):
        assert read.value(metric) == made.value(metric)


def test_any_distance_may_rank(tiepoint: Program) -> None:
    # From (100, 100): (103, 103) has l2 4.24 and l1 6, (105, 100) has 5 and 5.
    lengths("data/lengths.json", {"i_one": 2}, ["ref", "e1"])
    write(BENCH / "x.benchmark", "i_one.ref,i_one.e1\ni_one.ref.0\n")
    write("d/i_one/ref.csv", "100,100\n300,100\n")
    write("d/i_one/e1.csv", "103,103\n105,100\n")
    arguments = ("--task", TASK, "--data", "data")
    assert tiepoint.json("run", "files:d", *arguments).value("map_patch") == 1
    assert tiepoint.json("run", "files:d?distance=l1", *arguments).value("map_patch") == 1 / 2


# Curves


def test_precision_recall_points_of_a_query(world: Program) -> None:
    world(*SCORE)
    (run,) = run_ids(world)
    world("show", run, "--curves", "curves.csv")
    for query, precisions in zip(QUERIES, ((1, 2 / 3), (1 / 2, 2 / 9)), strict=True):
        group = f"benchmark={NAME},query={query},relevant=patch"
        points = curve("curves.csv", group, "pr")
        for point in zip((1 / 2, 1), precisions, strict=True):
            assert any(pytest.approx(found, abs=1e-12) == point for found in points), (query, point)
    group = f"benchmark={NAME},query={QUERIES[0]},relevant=image"
    points = curve("curves.csv", group, "pr")
    for point in zip((1 / 5, 2 / 5, 3 / 5, 4 / 5, 1), (1, 2 / 3, 3 / 4, 4 / 10, 5 / 11), strict=True):
        assert any(pytest.approx(found, abs=1e-12) == point for found in points), point
    assert "nan" not in Path("curves.csv").read_text().lower()


def test_the_mean_curve_has_the_score_as_its_area(world: Program) -> None:
    # At recall r a query has the precision of its first hit that reaches r: at 1/2 these are 1 and 1/2, at 1
    # they are 2/3 and 2/9. The area under the steps of the mean is the mean average precision.
    world(*SCORE)
    (run,) = run_ids(world)
    world("show", run, "--curves", "curves.csv")
    points = curve("curves.csv", f"benchmark={NAME},relevant=patch", "pr")
    for point in ((1 / 2, (1 + 1 / 2) / 2), (1, (2 / 3 + 2 / 9) / 2)):
        assert any(pytest.approx(found, abs=1e-12) == point for found in points), point


def test_the_report_draws_precision_over_recall(world: Program) -> None:
    world(*SCORE)
    world("report", "--out", "report.html")
    page = Path("report.html").read_text(encoding="utf-8")
    assert f"Precision over recall, benchmark {NAME}" in page
