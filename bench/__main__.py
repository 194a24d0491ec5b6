"""Run the benchmarks in this folder one after the other: ``python -m bench [NAME...]``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    here = Path(__file__).parent
    wanted = sys.argv[1:]
    code = 0
    for script in sorted(here.glob("bench_*.py")):
        name = script.stem.removeprefix("bench_")
        if wanted and name not in wanted:
            continue
        print(f"== {name}", flush=True)
        code |= subprocess.call([sys.executable, str(script)])
    return code


if __name__ == "__main__":
    raise SystemExit(main())
