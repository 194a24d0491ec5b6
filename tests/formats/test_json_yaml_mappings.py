# SPDX-License-Identifier: BSD-3-Clause
"""YAML of strangers: a mapping or a `FormatError` with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiepoint.core.errors import FormatError, InputError
from tiepoint.formats.json_yaml import read_mapping, read_yaml
from tiepoint.report.runs.names import read_names
from tiepoint.run.executors.cluster_spec import read_spec
from tiepoint.run.experiment.config import read_experiment

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{c}: &{c} [{', '.join([f'*{b}'] * 9)}]\n" for b, c in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {k0: 0, k1: 1, k2: 2}\n" + "".join(
    f"{c}: &{c} {{<<: [{', '.join([f'*{b}'] * 9)}]}}\n" for b, c in zip("abcdefgh", "bcdefghi", strict=True)
)


def written(tmp_path: Path, data: bytes | str) -> Path:
    path = tmp_path / "a.yaml"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (BOMB, 5, "more than 50,000 values"),
        (MERGES, 5, "more than 50,000 values"),
        ("a: 1\nb: &b [1, *b]\n", 2, "inside its own value"),
        ("a: 1\nb: caf\xe9\n".encode("latin-1"), 2, "not UTF-8"),
        ("a: 1\nb: \x07\n", 2, r"U\+0007"),
        ("a: 1\nb: 2\na: 3\n", 3, "duplicate key 'a'"),
        ("a: 1\n\tb: 2\n", 2, "is not YAML"),
        ("a: 1\nb: !!python/object/apply:os.system [id]\n", 2, "constructor"),
        ("a: !!timestamp 2001-99-99\n", 1, "is not of type timestamp"),
        ("a: !!bool maybe\n", 1, "is not of type bool"),
        ("a: !!int ''\n", 1, "is not of type int"),
        ("a: 1" + "0" * 5000 + "\n", 1, "is not of type int"),
        ("? [1, 2]\n: 3\n", 1, "unhashable"),
        ("a: " + "[" * 1000 + "]" * 1000, 1, "more than 50 levels"),
        ("- " * 20_000, 1, "more than 50 levels"),
        ("a: 1\n---\nb: 2\n", 2, "another document"),
        ("#" * (1 << 19), None, "the limit is"),
        ("- 1\n", None, "a mapping"),
        ("", None, "a mapping"),
    ],
)
def test_what_is_no_mapping_is_an_error_with_its_line(
    data: bytes | str, line: int | None, words: str, tmp_path: Path
) -> None:
    with pytest.raises(FormatError, match=words) as caught:
        read_mapping(written(tmp_path, data), "expected a mapping")
    assert caught.value.line == line


def test_dates_stay_text_and_aliases_work(tmp_path: Path) -> None:
    path = written(tmp_path, "\ufeffv: 2001-99-99\nd: 2024-01-01\na: &a {x: 1}\nb: *a\nc: {<<: *a, x: 2}\n")
    found = read_mapping(path, "")
    assert found == {"v": "2001-99-99", "d": "2024-01-01", "a": {"x": 1}, "b": {"x": 1}, "c": {"x": 2}}


@pytest.mark.parametrize("data", [BOMB, b"a: \xe9\n", "a: 2001-99-99\na: 3\n", "&a [*a]"])
def test_every_reader_of_yaml_keeps_to_it(data: bytes | str, tmp_path: Path) -> None:
    path = written(tmp_path, data)
    for read in (read_experiment, read_names, lambda p: read_spec(str(p))):
        with pytest.raises(FormatError):
            read(path)


def test_numbers_are_those_that_everybody_means(tmp_path: Path) -> None:
    """02000 was 1024, and 1:30 was 90."""
    path = tmp_path / "a.yaml"
    path.write_text("[02000, 1:30, 1:30.5, 0, -7, 1_000, 0x1f, 0b11, 1.5, -.5, 1.5e-3, .inf, 1e3]\n")
    expected = ["02000", "1:30", "1:30.5", 0, -7, 1000, 31, 3, 1.5, -0.5, 0.0015, float("inf"), "1e3"]
    assert read_yaml(path) == expected


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("keypoints: {max_features: yes}", "keypoints.max_features: expected a number, found a Boolean"),
        ("keypoints: {max_features: 1:30}", "keypoints.max_features: Input should be a valid integer"),
        ("performance: [1]", "performance: Input should be a valid dictionary"),
    ],
)
def test_a_truth_value_is_no_number_of_an_experiment(tmp_path: Path, section: str, words: str) -> None:
    """`max_features: yes` was 1, and a list for a section with --jobs a traceback."""
    path = tmp_path / "a.yaml"
    text = (
        f"experiment: {{name: e}}\ndataset: {{path: x}}\ndescriptors: [{{name: a, type: sift}}]\n{section}\n"
    )
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_experiment(path, {"num_threads": 2})
    assert words in str(caught.value)
