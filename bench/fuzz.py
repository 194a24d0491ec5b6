# SPDX-License-Identifier: BSD-3-Clause
"""Run every reader on many mutated files; the short version is tests/fuzz/test_readers.py.

Each case is a valid file with a few mutations, which depend only on seed and case. A reader must return a
result or raise an error of tiepoint. Any other exception, 5 s of CPU time, 1 GiB of memory or a crash is a
failure. Files that caused failures are stored.

Usage: python bench/fuzz.py [--readers NAME …] [--count 100000] [--jobs 2] [--seed 0] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
_PART = 25_000
"""Cases of a reader that a process takes at a time."""


def explored(reader: str, first: int, count: int, seed: int, keep: Path) -> dict[str, Any]:
    """Run some cases of a reader in a separate process."""
    paths = [str(ROOT / "tests"), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", "--readers", reader, "--count", str(count), "--first", str(first),
         "--seed", str(seed), "--keep", str(keep)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode or not done.stdout.strip():
        words = done.stderr.strip().splitlines()[-1:] or ["no word"]
        failure = {"kind": f"the seeds are not read: {words[0]}", "case": first, "words": ""}
        return {"reader": reader, "cases": 0, "results": 0, "errors": 0, "cpu_s": 0.0, "failures": [failure]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge the partial results of one reader."""
    numbers = {key: sum(p[key] for p in parts) for key in ("cases", "results", "errors", "cpu_s")}
    return {"reader": parts[0]["reader"], **numbers, "failures": [f for p in parts for f in p["failures"]]}


def main() -> int:
    """Run all readers and print one line each; return 1 if a case failed."""
    from fuzz.readers import READERS

    names = [r.name for r in READERS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--readers", nargs="*", default=[], help=", ".join(names))
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"))
    asked = parser.parse_args()
    unknown = [name for name in asked.readers if name not in names]
    if unknown:
        parser.error(f"unknown reader {unknown[0]!r}; known are {', '.join(names)}")
    chosen = [r for r in READERS if not asked.readers or r.name in asked.readers]
    started, failed = time.perf_counter(), 0
    print(f"{'reader':<20} {'cases':>8} {'results':>8} {'errors':>8} {'failures':>8} {'CPU s':>8}  cases/s")
    with ThreadPoolExecutor(asked.jobs) as pool:
        waiting = {}
        for reader in (r for r in chosen if r.possible):
            spans = range(0, asked.count, _PART)
            waiting[reader.name] = [
                pool.submit(explored, reader.name, at, min(_PART, asked.count - at), asked.seed, asked.keep)
                for at in spans
            ]
        for name, parts in waiting.items():
            found = joined([p.result() for p in parts])
            failed += len(found["failures"])
            rate = found["cases"] / max(found["cpu_s"], 1e-9)
            print(
                f"{name:<20} {found['cases']:>8} {found['results']:>8} {found['errors']:>8} "
                f"{len(found['failures']):>8} {found['cpu_s']:>8.1f} {rate:>8.0f}",
                flush=True,
            )
            kinds: dict[str, list[dict[str, Any]]] = {}
            for failure in found["failures"]:
                kinds.setdefault(failure["kind"], []).append(failure)
            for kind, alike in sorted(kinds.items(), key=lambda k: -len(k[1])):
                print(f"    {len(alike)} x {kind}; case {alike[0]['case']} {alike[0]['words']}", flush=True)
    for reader in chosen:
        if not reader.possible:
            print(f"{reader.name:<20} left out: {reader.needs} is not installed")
    print(f"{time.perf_counter() - started:.0f} s, {failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
