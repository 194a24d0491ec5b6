# SPDX-License-Identifier: BSD-3-Clause
"""Measure the time per item that exec: adds to a program, one at a time, sent ahead, and in batches.

The program reads its input, answers with prepared arrays and measures the time that it spends on that. The
overhead is the wall time per item minus the program's own time, for patches (16 x 65 x 65) and image pairs
(640 x 480).

Usage: python bench/bench_exec.py [items]
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiepoint.core.records import ImageFacts, Item
from tiepoint.methods.base import Method
from tiepoint.methods.programs.program import close_programs
from tiepoint.methods.resolve import resolve
from tiepoint.run.costs import machine

REPEATS = 5

PROGRAM = """
import json, os, sys, time
import numpy as np
folder = json.loads(sys.stdin.readline())["folder"]
batch = int(sys.argv[1])
print(json.dumps({"protocol": 1, "families": ["patches", "pairs"], "batch": batch}), flush=True)
rows, points = np.ones((16, 128), np.float32), np.ones((500, 2))
own_s, clock = 0.0, open(__file__ + ".seconds", "w")
for line in sys.stdin:
    begin = time.perf_counter()
    given = json.loads(line)
    answers = []
    for request in given.get("batch", [given]):
        path = os.path.join(folder, f"{request['id']}-out")
        if request["family"] == "patches":
            np.load(request["patches"])
            np.save(path, rows)
            answers.append({"id": request["id"], "descriptors": path + ".npy"})
        else:
            np.load(request["image1"]), np.load(request["image2"])
            np.save(path, points)
            np.save(path + "1", points)
            answers.append({"id": request["id"], "points0": path + ".npy", "points1": path + "1.npy"})
    own_s += time.perf_counter() - begin
    clock.seek(0)
    clock.write(f"{own_s:.9f}")
    clock.flush()
    print("\\n".join(map(json.dumps, answers)), flush=True)
"""


def measured(call: Callable[[], None], items: int, program: Path) -> str:
    """Return milliseconds per item of a call: wall, of the program, overhead, and CPU of tiepoint."""

    def clocks() -> NDArray[np.float64]:
        seconds = float(program.with_name(program.name + ".seconds").read_text())
        return np.array([time.perf_counter(), seconds, time.process_time()])

    runs = []
    for _ in range(REPEATS):
        begin = clocks()
        call()
        runs.append(1000 * (clocks() - begin) / items)
    wall, own, cpu = np.median(runs, axis=0)
    low, high = np.percentile([run[0] - run[1] for run in runs], [0, 100])
    return (
        f"wall {wall:.3f} ms, of the program {own:.3f} ms, overhead {wall - own:.3f} ms "
        f"({low:.3f} to {high:.3f}), CPU of tiepoint {cpu:.3f} ms"
    )


def main() -> None:
    """Print the overhead of both families."""
    items = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(machine(), "load", os.getloadavg()[0])
    rng = np.random.default_rng(0)
    patches = rng.integers(0, 255, (16, 65, 65)).astype(np.uint8)
    pair = tuple(rng.integers(0, 255, (2, 480, 640, 3)).astype(np.uint8))
    facts = (ImageFacts("a"), ImageFacts("b"))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.py"
        file.write_text(PROGRAM)
        for family, payload, item in (
            ("patches", patches, Item("a/ref", "c", 16)),
            ("pairs", pair, Item("a-b", "c", images=facts)),
        ):
            for batch in (1, 16):
                method = resolve(f"exec:{sys.executable} {file} {batch}", family=family)
                method.extract(item, payload)

                def alone(method: Method = method, item: Item = item, payload: Any = payload) -> None:
                    for _ in range(items):
                        method.extract(item, payload)

                def ahead(method: Method = method, item: Item = item, payload: Any = payload) -> None:
                    assert method.stream is not None
                    for _, finish in method.stream(iter([(item, payload)] * items)):
                        finish()

                for name, call in (("one at a time", alone), ("sent ahead", ahead)):
                    print(f"{family}, batch {batch}, {name}: {measured(call, items, file)}", flush=True)
                close_programs()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime
    print(f"CPU of the 4 programs with their start: {cpu_s:.2f} s for {8 * REPEATS * items} items")


if __name__ == "__main__":
    main()
