# SPDX-License-Identifier: BSD-3-Clause
"""The program as a black box: a command line goes in, an exit code, text and JSON come out.

The tests of this folder are written from the five original documents alone. They call the command line and
the documented Python interface, and they work out what they expect by hand or with plain loops of their own.
"""

from __future__ import annotations

import csv
import json
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tiepoint.cli.main import run

DOCUMENTS = Path(os.environ.get("TIEPOINT_DOCUMENTS", Path(__file__).parents[3] / "shared" / "seeds"))
"""Where the original documents lie; tests that read them skip without them."""


@dataclass(frozen=True)
class Answer:
    """What one command answered."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """Everything that was printed, with runs of blanks and line ends made one blank."""
        return " ".join((self.out + "\n" + self.err).split())

    @property
    def object(self) -> Any:
        """The JSON that was printed."""
        return json.loads(self.out)

    @property
    def warnings(self) -> str:
        """The warnings of the JSON object as one text."""
        return " | ".join(self.object["warnings"])

    def rows(self, metric: str, group: str = "all", protocol: str = "exact") -> list[dict[str, Any]]:
        """The rows of one score in the JSON object."""
        return [
            row
            for row in self.object["scores"]
            if (row["metric"], row["group"], row["protocol"]) == (metric, group, protocol)
        ]

    def value(self, metric: str, group: str = "all", protocol: str = "exact") -> Any:
        """The value of one score, which must be there exactly once."""
        found = self.rows(metric, group, protocol)
        assert len(found) == 1, f"{len(found)} rows of {metric}, {group}, {protocol}"
        return found[0]["value"]


class Program:
    """`tiepoint …`, called in this process; the exit code must be the one that is asked for."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: object, code: int = 0) -> Answer:
        words = [str(a) for a in arguments]
        if words[0] in {"run", "score"} and "--jobs" not in words:
            words += ["--jobs", "1"]
        self._capsys.readouterr()
        found = run(words)
        captured = self._capsys.readouterr()
        answer = Answer(found, captured.out, captured.err)
        assert found == code, f"exit code {found}, expected {code}: {captured.err or captured.out}"
        return answer

    def json(self, *arguments: object, code: int = 0) -> Answer:
        """The same with `--json`."""
        return self(*arguments, "--json", code=code)

    def sql(self, query: str, *arguments: object) -> list[dict[str, Any]]:
        """The rows of a query on the store."""
        rows: list[dict[str, Any]] = self("sql", query, "--json", *arguments).object
        return rows


def write(path: Path | str, text: str) -> Path:
    """Write a text file, with its folders."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def lengths(path: Path | str, counts: Mapping[str, int], images: Sequence[str]) -> Path:
    """A dataset without pixels: how many patches each sequence has, and its images."""
    return write(path, json.dumps({"lengths": dict(counts), "images": list(images)}))


def descriptors(folder: Path | str, table: Mapping[str, Iterable[float]]) -> Path:
    """`FOLDER/SEQ/IM.csv`: the numbers of `table["SEQ.IM"]`, each beside a 1 so that no row is zero."""
    for image, values in table.items():
        sequence, name = image.split(".")
        write(Path(folder) / sequence / f"{name}.csv", "".join(f"{v},1\n" for v in values))
    return Path(folder)


def only(paths: Iterable[Path]) -> Path:
    """The one path among `paths`."""
    found = list(paths)
    assert len(found) == 1, found
    return found[0]


def curve(path: Path | str, group: str, kind: str) -> list[tuple[float, float]]:
    """Points of one curve that `show --curves` wrote."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        rows = [r for r in csv.DictReader(file) if (r["group"], r["curve"]) == (group, kind)]
    return [(float(r["x"]), float(r["y"])) for r in rows]


def run_ids(program: Program, *arguments: object) -> list[str]:
    """Ids of the runs of a store, in the order in which they were made."""
    return [row["run"] for row in program("list", "runs", "--json", *arguments).object]


def flow_file(path: Path, rows: Sequence[Sequence[tuple[float, float]]]) -> None:
    """A Middlebury `.flo` file, written here byte by byte: tag, width, height, then u and v by rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers = [n for row in rows for pixel in row for n in pixel]
    head = b"PIEH" + struct.pack("<ii", len(rows[0]), len(rows))
    path.write_bytes(head + struct.pack(f"<{len(numbers)}f", *numbers))


def grey_file(path: Path, rows: Sequence[Sequence[int]]) -> None:
    """An 8-bit grey PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new("L", (len(rows[0]), len(rows)))
    image.putdata([value for row in rows for value in row])
    image.save(path)


def document(number: str) -> str:
    """The text of an original document, by the three digits its name begins with."""
    found = sorted(DOCUMENTS.glob(f"{number}_*.txt"))
    if not found:
        pytest.skip(f"the original documents are not in {DOCUMENTS} (set TIEPOINT_DOCUMENTS)")
    return found[0].read_text(encoding="utf-8")
