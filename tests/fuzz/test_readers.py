"""A few hundred mutated files for every reader; `bench/fuzz.py` reads as many as one likes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from fuzz.cases import Cases, explore, supported
from fuzz.mutate import mutated
from fuzz.reader import Reader
from fuzz.readers import READERS
from tiepoint.core.errors import FormatError

COUNT = 100
PARTS = 4
pytestmark = pytest.mark.skipif(not supported(), reason="needs fork and limits of Linux")


def test_names_are_unique() -> None:
    names = [r.name for r in READERS]
    assert len(set(names)) == len(names)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_mutated_files_give_results_or_errors(part: int) -> None:
    names = [r.name for r in READERS if r.possible][part::PARTS]
    root = Path(__file__).parents[1]
    paths = os.pathsep.join([str(root), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", "--count", str(COUNT), "--readers", *names],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert {f["reader"] for f in found} == set(names)
    assert all(f["cases"] == COUNT for f in found)
    failures = [
        f"{f['reader']}: {x['kind']} (case {x['case']}) {x['words']}" for f in found for x in f["failures"]
    ]
    assert not failures, "\n".join(failures)


def seeds(root: Path) -> list[Path]:
    (root / "a.txt").write_bytes(b"0123456789" * 8)
    return [root / "a.txt"]


def _crash(path: Path) -> object:
    if path.read_bytes() != b"0123456789" * 8:
        os.kill(os.getpid(), 11)
    return None


def _take(path: Path) -> object:
    return bytearray(2 << 30) if len(path.read_bytes()) != 80 else None


def _take_and_tell(path: Path) -> object:
    try:
        return _take(path)
    except MemoryError as e:
        raise FormatError(path, "is wrong") from e


def _raise(path: Path) -> object:
    return {80: 1}[len(path.read_bytes())]


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        (_crash, "crash: SIGSEGV"),
        (_take, "MemoryError"),
        (_take_and_tell, "memory, told"),
        (_raise, "KeyError"),
    ],
)
def test_what_goes_wrong_is_told_and_kept(read, kind: str, tmp_path: Path) -> None:
    found = explore(Reader("x", seeds, read), 40, keep=tmp_path)
    assert found.cases == 40
    assert found.failures
    assert all(f.kind.startswith(kind) for f in found.failures)
    kept = sorted(tmp_path.rglob("*.txt"))
    assert 1 <= len(kept) <= 3 * len(found.kinds())
    again = Cases(Reader("x", seeds, read), tmp_path / "again", 0)
    assert again.content(found.failures[0].case)[2] in [p.read_bytes() for p in kept]


def test_a_case_that_hangs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(path: Path) -> object:
        while len(path.read_bytes()) != 80:
            pass
        return None

    monkeypatch.setattr("fuzz.cases.SECONDS", 0.05)
    found = explore(Reader("x", seeds, wait), 4)
    assert found.cases == 4
    assert {f.kind.split(" in ")[0] for f in found.failures} == {"hang"}


def test_mutations_follow_from_their_seed() -> None:
    data = [mutated(b"a,1\n2,3\n", [b"other"], Random(i)) for i in range(500)]
    assert data == [mutated(b"a,1\n2,3\n", [b"other"], Random(i)) for i in range(500)]
    assert len(set(data)) > 300
