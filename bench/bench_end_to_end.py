# SPDX-License-Identifier: BSD-3-Clause
"""Wall time from files to scores, with the limits of the machine.

python bench/bench_end_to_end.py [--parts features,tasks,every,brief] [--device cuda] [--scale 1]

features  A network of HardNet's shape (``torchscript:``) on 16 sequences x 16 strips x 1300 patches of
          65 x 65, from PNG strips and from a pack: opening, hashing, describing, checking, writing. For
          comparison: decoding alone, the network alone, writing alone. GPU utilisation is measured by CUDA
          events around every batch.
tasks     The three HPatches 2017 tasks at full size, from mapped features to records.
every     Retrieval with ``distractors=every``: 10,000 queries in 2.5 M patches, and the bare product.
brief     ``run brief`` on strips against the CPU time of decoding and describing, divided by the cores; then
          the time until a second task on these features starts to compare.

The script generates the data, scaled by `--scale`, and prints medians of `--repeats` repeats.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import tiepoint
from bench_hpatches import features_of, make_data, timed, warm_up
from tiepoint.core import hashing
from tiepoint.core.array_cache import use_array_cache_folder
from tiepoint.core.hashing import hash_json
from tiepoint.datasets.hpatches.layout import STANDARD_IMAGES
from tiepoint.datasets.hpatches.pack import pack_dataset
from tiepoint.formats.hpatches.patch_strip import read_strip, write_strip
from tiepoint.kernels import get_device, set_device, upload_ahead
from tiepoint.kernels.torch_backend.row_cache import clear_cache
from tiepoint.methods.resolve import resolve
from tiepoint.run.compute import UNITS_IN_FLIGHT_ON_GPU
from tiepoint.run.context import ContextRecipe, RecordWriters
from tiepoint.run.costs import cores, machine
from tiepoint.run.feature_pipeline import make_features
from tiepoint.store.atomic_files import atomic_file
from tiepoint.store.feature_cache import FeatureCache
from tiepoint.store.record_files import RecordStore
from tiepoint.tasks import TASKS

PARTS = ("features", "tasks", "every", "brief")
V2 = ("verification", "matching", "retrieval")
SIDE, PATCHES, SEQUENCES = 65, 1300, 16
UNTIL_COMPARED = """
import sys, time
from tiepoint.run.context import RunContext
compare = RunContext.compare
def told(*given):
    RunContext.compare = compare
    print("COMPARES", time.time(), file=sys.stderr, flush=True)
    return compare(*given)
RunContext.compare = told
from tiepoint.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


def make_strips(folder: Path, sequences: int, patches: int) -> Path:
    """Write strips of noise with the spectrum of photographs; PNG compresses them about like real strips."""
    rng = np.random.default_rng(0)
    frequency = np.hypot(np.fft.fftfreq(1024)[:, None], np.fft.rfftfreq(1024)[None])
    spectrum = np.fft.rfft2(rng.standard_normal((1024, 1024))) / np.maximum(frequency, 1 / 256) ** 1.6
    texture = np.fft.irfft2(spectrum)
    texture = 128 + 45 * (texture - texture.mean()) / texture.std()

    def one(job: tuple[int, int]) -> None:
        name = f"{'iv'[job[0] % 2]}_{job[0]:02}"
        path = folder / name / f"{STANDARD_IMAGES[job[1]]}.png"
        if path.exists():
            return
        own = np.random.default_rng(job)
        y, x = own.integers(0, 1024 - SIDE, (2, patches))
        windows = np.lib.stride_tricks.sliding_window_view(texture, (SIDE, SIDE))[y, x]
        noisy = windows + own.normal(0, 0.5, windows.shape).astype(np.float32)
        write_strip(path, np.clip(noisy, 0, 255).astype(np.uint8))

    with ThreadPoolExecutor(cores()) as threads:
        list(threads.map(one, [(s, m) for s in range(sequences) for m in range(len(STANDARD_IMAGES))]))
    return folder


def hardnet(path: Path) -> Path:
    """Write a scripted network with HardNet's layers and random weights."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for inner, outer, stride in (
        (1, 32, 1),
        (32, 32, 1),
        (32, 64, 2),
        (64, 64, 1),
        (64, 128, 2),
        (128, 128, 1),
    ):
        convolution = nn.Conv2d(inner, outer, 3, padding=1, stride=stride, bias=False)
        layers += [convolution, nn.BatchNorm2d(outer, affine=False), nn.ReLU()]

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Sequential(
                *layers, nn.Conv2d(128, 128, 8, bias=False), nn.BatchNorm2d(128, affine=False)
            )

        def forward(self, x):  # type: ignore[no-untyped-def]
            y = self.features(x).flatten(1)
            return y / (y.norm(dim=1, keepdim=True) + 1e-10)

    with torch.no_grad():
        torch.jit.trace(Net().eval(), torch.zeros(2, 1, 32, 32)).save(str(path))
    return path


@contextmanager
def busy_seconds(device: str) -> Iterator[Callable[[], float]]:
    """Return the GPU seconds between start and end of the batches: resizing, scaling, network."""
    if not device.startswith("cuda"):
        yield lambda: float("nan")
        return
    import torch

    from tiepoint.methods.networks.torch_runner import NetworkRunner

    forward, events = NetworkRunner.forward, []

    def watched(self: Any, pixels: Any, rows: int) -> Any:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        found = forward(self, pixels, rows)
        end.record()
        events.append((begin, end))
        return found

    def total() -> float:
        torch.cuda.synchronize()
        return sum(a.elapsed_time(b) for a, b in events) / 1000

    NetworkRunner.forward = watched  # type: ignore[method-assign]
    try:
        yield total
    finally:
        NetworkRunner.forward = forward  # type: ignore[method-assign]


def stage(data: Path, spec: str, method: Any, device: str, store: Path) -> tuple[float, float, float, Any]:
    """Return seconds to open and hash, seconds to describe and write, GPU utilisation, and the context."""
    hashing._memo.clear()
    shutil.rmtree(store, ignore_errors=True)
    recipe = ContextRecipe("hpatches/matching", str(data), {}, "meanstd", {}, str(store), 1)

    def opened() -> Any:
        from dataclasses import replace

        context = replace(recipe.build(), method=method)
        return context, {name: (name, key) for name, key in context.feature_keys.items()}

    open_s, (context, missing) = timed(opened)
    with busy_seconds(device) as busy:
        made_s, _ = timed(
            lambda: make_features(context, missing, None, None, lambda *_: None, 1, 8.0)  # type: ignore[arg-type]
        )
        return open_s, made_s, busy() / made_s, context


def features_part(folder: Path, given: argparse.Namespace) -> None:
    sequences = max(1, round(SEQUENCES * given.scale))
    patches = max(20, round(PATCHES * min(1.0, given.scale * 4)))
    spent, strips = timed(lambda: make_strips(folder / "strips", sequences, patches))
    files = sorted(strips.glob("*/*.png"))
    total, size = len(files) * patches, sum(f.stat().st_size for f in files)
    print(f"{len(files)} strips, {total:,} patches, {size / total:.0f} bytes each, written in {spent:.0f} s")
    small = make_strips(folder / "small", 1, 600)
    if not (folder / "packed.tiepack").exists():
        spent, _ = timed(lambda: pack_dataset(strips, folder / "packed.tiepack"))
        print(f"packed in {spent:.1f} s, {total / spent:,.0f} patches/s")
    net = hardnet(folder / "net.pt")
    spec = f"torchscript:{net}?size=32&input=zscore"
    spent, method = timed(lambda: resolve(spec, family="patches", device=given.device))
    print(f"torch and the network loaded in {spent:.1f} s")
    stage(small, spec, method, given.device, folder / "warm")
    rates: dict[str, list[tuple[float, ...]]] = {"PNG strips": [], "pack": []}
    contents = {}
    for _ in range(given.repeats):
        for name, data in (("PNG strips", strips), ("pack", folder / "packed.tiepack")):
            *found, context = stage(data, spec, method, given.device, folder / "store")
            rates[name].append(tuple(found))
            contents[name] = context.content()
    for name, rows in rates.items():
        open_s, made_s, busy = np.median(np.array(rows), axis=0)
        print(
            f"{name:<11} {total / (open_s + made_s):9,.0f} patches/s: opened and hashed {open_s:.2f} s, "
            f"described and written {made_s:.2f} s ({total / made_s:,.0f}/s), GPU busy {100 * busy:.0f} %"
        )
    print(f"both give the same features: {len(set(contents.values())) == 1}")
    limits(files, patches, context, method, given.device, folder)


def limits(files: list[Path], patches: int, context: Any, method: Any, device: str, folder: Path) -> None:
    """Time decoding alone, the network alone and writing alone."""
    total = len(files) * patches
    with ThreadPoolExecutor(cores()) as threads:
        spent = min(timed(lambda: [None for _ in threads.map(_dropped, files)])[0] for _ in range(2))
        print(f"decoding alone, {cores()} threads: {total / spent:,.0f} patches/s")
        arrays = {key: dict(context.features.get(key)) for key in context.feature_keys.values()}
        own = FeatureCache(folder / "written")
        spent, _ = timed(lambda: list(threads.map(lambda pair: own.put(*pair), arrays.items())))
        print(f"hashing and writing alone, {cores()} threads: {total / spent:,.0f} patches/s")
    runner = _runner(method)
    import torch

    batch = torch.randint(0, 255, (runner.batch, SIDE, SIDE), dtype=torch.uint8, device=runner.device)
    times = max(1, min(total, 200_000 if device != "cpu" else 2_000) // runner.batch)

    def forward() -> None:
        for _ in range(times):
            runner.forward(batch, runner.batch)
        if device.startswith("cuda"):
            torch.cuda.synchronize()

    forward()
    spent, _ = timed(forward)
    print(f"network alone, batches of {runner.batch}: {times * runner.batch / spent:,.0f} patches/s")


def _dropped(path: Path) -> None:
    read_strip(path)


def _runner(method: Any) -> Any:
    """Return the runner of a bound method."""
    held = (cell.cell_contents for cell in method.extract._call.__closure__)
    return next(thing.runner for thing in held if hasattr(thing, "runner"))


def full_size(folder: Path, given: argparse.Namespace) -> tuple[Path, FeatureCache]:
    place = folder / "full"
    if not (place / "done").exists():
        spent, (_, _, lengths) = timed(lambda: make_data(place, max(2, round(116 * given.scale))))
        print(
            f"{len(lengths)} sequences, {16 * sum(lengths.values()):,} descriptors written in {spent:.0f} s"
        )
        (place / "done").touch()
    return place, FeatureCache(place / "features")


def tasks_part(folder: Path, given: argparse.Namespace, every: bool = False) -> None:
    place, cache = full_size(folder, given)
    options = {"tasks": place / "tasks", "split": "full"}
    names = ("retrieval",) if every else V2
    tasks = {n: TASKS.load(f"hpatches/{n}") for n in names}
    set_device(given.device)
    use_array_cache_folder(place / "lists", atomic_file)  # as in a store: sampled once, then read
    try:
        warm_up(folder / "warm-up", tasks)
        spent: dict[str, list[tuple[float, float]]] = {n: [] for n in names}
        more = {"distractors": "every"} if every else {}
        for _ in range(given.repeats):
            cache = FeatureCache(cache.root)  # nothing is memory-mapped
            if get_device() != "cpu":
                clear_cache()
            for name, task in tasks.items():
                open_s, opened = timed(lambda t=task: t.open(place / "lengths.json", options | more))
                own = timed(lambda o=opened, c=cache: to_records(o, c, place / "records"))[0]
                spent[name].append((open_s, own))
    finally:
        set_device("cpu")
        use_array_cache_folder(None)
    sums = np.zeros(2)
    for name, rows in spent.items():
        open_s, own = np.median(np.array(rows), axis=0)
        sums += open_s, own
        print(f"{name + (' every' if every else ''):<16} {own:6.2f} s to records, opened in {open_s:.2f} s")
    if not every:
        print(f"{'together':<16} {sums[1]:6.2f} s to records, opened in {sums[0]:.2f} s")
    product(cache, given.device, every)


def to_records(opened: Any, cache: FeatureCache, folder: Path) -> None:
    """Compare all units, and write and sync their records, as a run does."""
    features = features_of(cache)
    keys = [item.key for item in opened.items] if get_device().startswith("cuda") else []
    with ThreadPoolExecutor(cores()) as pool:
        for i in range(0, len(keys), 256):
            upload_ahead(list(pool.map(lambda key: features.arrays(key)["values"], keys[i : i + 256])))
    at_once = UNITS_IN_FLIGHT_ON_GPU if get_device() != "cpu" and opened.thread_safe_compare else 1
    with (
        RecordWriters(RecordStore(folder / str(time.time_ns()))) as writers,
        ThreadPoolExecutor(at_once) as pool,
    ):

        def one(unit: Any) -> None:
            writers.put(hash_json([unit.key]), opened.compare(unit, features, "reference"))

        list(pool.map(one, opened.units))


def product(cache: FeatureCache, device: str, every: bool) -> None:
    """Time the bare float32 products of matching, or of retrieval among all patches, in memory."""
    import torch

    arrays = {f.name: None for f in cache.root.glob("*/*")}
    loaded: dict[str, Any] = {}
    for key in arrays:
        loaded[key] = torch.from_numpy(np.array(cache.get(key)["values"])).to(device)
    sequences = sorted({key.rsplit("-", 1)[0] for key in arrays})
    queries = torch.cat([loaded[f"{s}-ref"] for s in sequences])[:10_000]

    def work() -> None:
        for s in sequences:
            ref = queries if every else loaded[f"{s}-ref"]
            for image in STANDARD_IMAGES if every else STANDARD_IMAGES[1:]:
                (ref @ loaded[f"{s}-{image}"].T).amin(1)
        if device.startswith("cuda"):
            torch.cuda.synchronize()

    work()
    print(f"product and one pass alone: {timed(work)[0]:.3f} s")


def _tiepoint(arguments: list[str]) -> tuple[int, str]:
    places = [str(Path(tiepoint.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in places if p)},
    )
    if done.returncode:
        print(done.stderr[-2000:])
    return done.returncode, done.stderr


def brief_part(folder: Path, given: argparse.Namespace) -> None:
    sequences = max(1, round(SEQUENCES * given.scale))
    patches = max(20, round(PATCHES * min(1.0, given.scale * 4)))
    if not (folder / "strips").exists():
        make_strips(folder / "strips", sequences, patches)
    files = sorted((folder / "strips").glob("*/*.png"))
    method = resolve("brief", family="patches")
    stage(make_strips(folder / "small", 1, 100), "brief", method, "cpu", folder / "warm")
    describe = method.extract
    from tiepoint.core.records import Item

    line = ["--data", str(folder / "strips"), "--store", str(folder / "brief")]
    rows = []
    for _ in range(given.repeats):
        started = time.process_time()
        for file in files:
            found = read_strip(file)
            describe(Item(file.stem, "", len(found)), found)
        alone = time.process_time() - started
        started = time.process_time()
        *seconds, _ = stage(folder / "strips", "brief", method, "cpu", folder / "store")
        spent = time.process_time() - started
        shutil.rmtree(folder / "brief", ignore_errors=True)
        whole = timed(
            lambda: _tiepoint(["-m", "tiepoint", "run", "brief", "--task", "hpatches/matching", *line])
        )[0]
        started = time.time()
        told = _tiepoint(["-c", UNTIL_COMPARED, "run", "brief", "--task", "hpatches/retrieval", *line])[1]
        at = [float(text.split()[1]) for text in told.splitlines() if text.startswith("COMPARES")]
        rows.append((alone, sum(seconds[:2]), spent, whole, (at[0] - started) if at else float("nan")))
    alone, own, spent, whole, until = np.median(np.array(rows), axis=0)
    share = alone / cores()
    print(
        f"decoding and describing {len(files)} strips: {alone:.2f} s of CPU time, over {cores()} cores "
        f"{share:.2f} s\n"
        f"features of brief, opened, hashed, written: {own:.2f} s, {own / share:.2f} times that "
        f"(CPU time {spent:.2f} s)\n"
        f"tiepoint run brief on matching: {whole:.2f} s\n"
        f"a second task (retrieval) starts to compare after {until:.2f} s"
    )


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--parts", default=",".join(PARTS))
    p.add_argument("--device", default="cpu")
    p.add_argument("--scale", type=float, default=1.0)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--folder", type=Path)
    p.add_argument("--keep", action="store_true", help="write the data to --folder itself and reuse them")
    given = p.parse_args()
    m = machine()
    print(f"{m['cpu']}, {m['cores']} cores, load {os.getloadavg()[0]:.1f}, device {given.device}")
    parts: dict[str, Callable[[Path], None]] = {
        "features": lambda folder: features_part(folder, given),
        "tasks": lambda folder: tasks_part(folder, given),
        "every": lambda folder: tasks_part(folder, given, every=True),
        "brief": lambda folder: brief_part(folder, given),
    }
    unknown = sorted(set(given.parts.split(",")) - set(parts))
    if unknown:
        p.error(f"unknown part {unknown[0]!r}; choose from {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory(prefix="tiepoint-bench-", dir=given.folder) as scratch:
        for name in given.parts.split(","):
            print(f"-- {name}", flush=True)
            parts[name](given.folder if given.keep else Path(scratch))


if __name__ == "__main__":
    main()
