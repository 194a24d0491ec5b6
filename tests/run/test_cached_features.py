# SPDX-License-Identifier: BSD-3-Clause
"""Cached features of user code are used only if the code still computes them."""

from __future__ import annotations

import argparse
import builtins
import decimal
import importlib
import shutil
import string
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import tiepoint as tp
from tiepoint.core.errors import InputError
from tiepoint.run import compute, repeat_check
from tiepoint.tools import race

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

HEAD = """
import argparse, decimal, functools, os, string, sys
import numpy as np

class Name(bytes):
    pass

@functools.singledispatch
def size(patches):
    return 8

class M:
    def __init__(self):
        self.given = Name(b"x")
        self.given.size = 8

    def describe(self, patches):
        k = {}
        return patches[:, ::k, ::k].reshape(len(patches), -1) + 1.0
"""

STATE: dict[str, tuple[str, Callable[[Any, pytest.MonkeyPatch], Any]]] = {
    "attribute of a library": (
        "getattr(argparse.Namespace, 'size_22', 8)",
        lambda made, patch: patch.setattr(argparse.Namespace, "size_22", 16, raising=False),
    ),
    "builtin": (
        "getattr(__builtins__, 'size_22', 8) if not isinstance(__builtins__, dict) "
        "else __builtins__.get('size_22', 8)",
        lambda made, patch: patch.setattr(builtins, "size_22", 16, raising=False),
    ),
    "library function replaced by a library function": (
        "8 if string.capwords('a') == 'A' else 16",
        lambda made, patch: patch.setattr(string, "capwords", str.lower),
    ),
    "variable that a library reads": (
        "int(os.path.expandvars('$SIZE_22'))",
        lambda made, patch: patch.setenv("SIZE_22", "16"),
    ),
    "attribute of bytes": ("self.given.size", lambda made, patch: setattr(made.given, "size", 16)),
    "arguments": ("16 if '--big' in sys.argv else 8", lambda made, patch: sys.argv.append("--big")),
    "overload": (
        "size(patches)",
        lambda made, patch: sys.modules[type(made).__module__].size.register(np.ndarray, lambda p: 16),
    ),
    "setting of a library": (
        "8 if len(str(decimal.Decimal(1) / 3)) > 10 else 16",
        lambda made, patch: patch.setattr(decimal.getcontext(), "prec", 3),
    ),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.setenv("SIZE_22", "8")
    return tmp_path


def evaluated(method: Any, patches: Path, store: str = "s") -> tp.Run:
    return tp.evaluate(method, task="hpatches/matching", data=patches, store=store, jobs=1, progress=False)


def warned(run: tp.Run) -> bool:
    return any("no longer computes the cached features of" in w for w in run.warnings)


@pytest.mark.parametrize("state", STATE)
def test_evaluate_after_unkeyed_state_changed_is_fresh(
    here: Path, patches: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    read, change = STATE[state]
    name = f"mine_{list(STATE).index(state)}"
    (here / f"{name}.py").write_text(HEAD.format(read))
    made = importlib.import_module(name).M()
    first = evaluated(made, patches)
    assert not warned(first)
    assert not warned(evaluated(made, patches))
    change(made, monkeypatch)
    second, fresh = evaluated(made, patches), evaluated(made, patches, "fresh")
    assert first.value("map") != fresh.value("map")
    assert second.value("map") == fresh.value("map")
    assert warned(second)
    assert not warned(fresh)


def test_evaluate_after_state_of_some_items_changed_is_fresh(
    here: Path, patches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fast methods compute all items again, slow ones only one, which may be one that did not change."""
    monkeypatch.setattr(repeat_check, "RECHECK_S", 60.0)
    text = HEAD.format("int(os.path.expandvars('$SIZE_22')) if patches.sum() == {} else 8")
    sums: list[int] = []

    class Sums:
        def describe(self, patches: Any) -> Any:
            sums.append(int(patches.sum()))
            return patches.reshape(len(patches), -1)[:, :4] + 1.0

    evaluated(Sums(), patches, "sums")
    (here / "some.py").write_text(text.replace("{}", str(sums[0])).replace("-1)", "-1)[:, -1:]"))
    evaluated("some.py:M", patches)
    monkeypatch.setenv("SIZE_22", "16")
    again = evaluated("some.py:M", patches)
    assert warned(again)


def test_evaluate_without_features_after_state_changed_is_fresh(
    here: Path, patches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "pruned.py").write_text(HEAD.format("int(os.path.expandvars('$SIZE_22'))"))
    first = evaluated("pruned.py:M", patches)
    shutil.rmtree(here / "s" / "features")
    assert evaluated("pruned.py:M", patches).manifest.units == first.manifest.units
    assert not (here / "s" / "features").exists()
    monkeypatch.setenv("SIZE_22", "16")
    second, fresh = evaluated("pruned.py:M", patches), evaluated("pruned.py:M", patches, "fresh")
    assert first.manifest.units != second.manifest.units == fresh.manifest.units


def test_evaluate_fitted_transform_after_state_changed_is_fitted_again(
    here: Path, patches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "fitted.py").write_text(
        "import os\nimport numpy as np\n"
        "class M:\n"
        "    def describe(self, patches):\n"
        "        rows = patches.reshape(len(patches), -1)[:, :32]\n"
        "        return rows * (1.0 + np.arange(32) % int(os.path.expandvars('$SIZE_22')))\n"
    )

    def scores(store: str) -> tp.Run:
        how = {"task": "hpatches/matching", "data": patches, "fit_on": patches}
        return tp.evaluate("fitted.py:M+pca?dims=8", store=store, jobs=1, progress=False, **how)

    first = scores("s")
    monkeypatch.setenv("SIZE_22", "16")
    second, fresh = scores("s"), scores("fresh")
    assert first.manifest.units != second.manifest.units == fresh.manifest.units
    assert any("the transform was refitted" in w for w in second.warnings)


def test_evaluate_lazily_drawn_numbers_are_noticed(here: Path, patches: Path) -> None:
    """Each process draws once, so computing an item twice in one process shows nothing."""
    (here / "lazy.py").write_text(
        "import numpy as np\n"
        "class M:\n"
        "    drawn = None\n"
        "    def describe(self, patches):\n"
        "        if self.drawn is None:\n"
        "            self.drawn = np.random.default_rng().normal(size=(64, 4))\n"
        "        return patches.reshape(len(patches), -1)[:, :64] @ self.drawn\n"
    )
    assert not warned(evaluated("lazy.py:M", patches))
    assert warned(evaluated("lazy.py:M", patches))


def test_evaluate_program_that_reads_another_file_is_fresh(here: Path, patches: Path) -> None:
    program = Path(__file__).parents[2] / "docs" / "exec" / "pixels.py"
    text = program.read_text().replace("patches.reshape", "patches[:, ::K, ::K].reshape")
    read = "from pathlib import Path\nK = int((Path(__file__).parent / ('k' + '.txt')).read_text())\n"
    (here / "program.py").write_text(text.replace("import json\n", f"import json\n{read}", 1))
    (here / "k.txt").write_text("2")
    method = f"exec:{sys.executable} {here / 'program.py'}"
    first = evaluated(method, patches)
    (here / "k.txt").write_text("4")
    second, fresh = evaluated(method, patches), evaluated(method, patches, "fresh")
    assert first.value("map") != second.value("map") == fresh.value("map")
    assert warned(second)


def test_evaluate_difference_of_rounding_uses_the_cache(
    here: Path, patches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOISE_22", "0")
    (here / "rounded.py").write_text(
        "import os\nfrom pathlib import Path\n"
        "class M:\n"
        "    def describe(self, patches):\n"
        "        with Path(__file__).with_suffix('.calls').open('a') as file: file.write('x')\n"
        "        noise = float(os.path.expandvars('$NOISE_22'))\n"
        "        return patches[:, ::8, ::8].reshape(len(patches), -1) * (1.0 + noise)\n"
    )
    monkeypatch.setattr(repeat_check, "RECHECK_S", 0.0)
    first = evaluated("rounded.py:M", patches)
    calls = len((here / "rounded.calls").read_text())
    monkeypatch.setenv("NOISE_22", "1e-6")
    second = evaluated("rounded.py:M", patches)
    assert second.value("map") == first.value("map")
    assert not warned(second)
    assert len((here / "rounded.calls").read_text()) == calls + 1


def test_evaluate_method_known_to_differ_uses_the_cache(here: Path, patches: Path) -> None:
    (here / "noisy.py").write_text(
        "import numpy as np\n"
        "class M:\n"
        "    def describe(self, patches):\n"
        "        return patches.reshape(len(patches), -1)[:, :16] + np.random.rand()\n"
    )
    first, second = evaluated("noisy.py:M", patches), evaluated("noisy.py:M", patches)
    assert first.manifest.nondeterministic_items == second.manifest.nondeterministic_items > 0
    assert first.value("map") == second.value("map")
    assert not warned(second)


def test_evaluate_corrupt_header_is_repaired(here: Path, patches: Path) -> None:
    (here / "plain.py").write_text(HEAD.format(8))
    first = evaluated("plain.py:M", patches)
    for header in (here / "s" / "features").rglob("meta.json"):
        header.write_text("{}")
    for record in (here / "s" / "records").rglob("*.*"):
        record.unlink()
    second = evaluated("plain.py:M", patches)
    assert second.value("map") == first.value("map")
    assert not warned(second)


def test_evaluate_builtin_method_computes_nothing_again(
    here: Path, patches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated("meanstd", patches)

    def fail(*_: Any) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(repeat_check, "_again", fail)
    assert not evaluated("meanstd", patches).warnings


def test_evaluate_method_that_returns_one_array_again_and_again(here: Path, patches: Path) -> None:
    (here / "reused.py").write_text(
        "import numpy as np\n"
        "class Copies:\n"
        "    made = np.zeros((1000, 16), np.float32)\n"
        "    def describe(self, patches):\n"
        "        return self.again(patches).copy()\n"
        "    def again(self, patches):\n"
        "        self.made[: len(patches)] = patches.reshape(len(patches), -1)[:, :16] + 1\n"
        "        return self.made[: len(patches)]\n"
        "class Reuses(Copies):\n"
        "    def describe(self, patches):\n"
        "        return self.again(patches)\n"
        "class Bits(Copies):\n"
        "    distance, made = 'hamming', np.zeros((1000, 16), np.uint8)\n"
        "    def describe(self, patches):\n"
        "        return self.again(patches)\n"
        "class CopiedBits(Bits):\n"
        "    def describe(self, patches):\n"
        "        return self.again(patches).copy()\n"
    )
    for one, other in (("Reuses", "Copies"), ("Bits", "CopiedBits")):
        first, second = (evaluated(f"reused.py:{name}", patches) for name in (one, other))
        assert first.manifest.units == second.manifest.units


def test_evaluate_builtin_after_replaced_library_function_is_not_cached(
    here: Path, patches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = evaluated("orb", patches)
    (here / "replaces.py").write_text(
        "import cv2\n"
        "resize = cv2.resize\n"
        "def coarse(image, size, **how): return resize(resize(image, (4, 4)), size, **how)\n"
    )
    monkeypatch.setattr(cv2, "resize", importlib.import_module("replaces").coarse)
    other = evaluated("orb", patches)
    assert any("`cv2.resize` was replaced by code in" in w for w in other.warnings)
    monkeypatch.undo()
    monkeypatch.chdir(here)
    again = evaluated("orb", patches)
    assert again.id == clean.id != other.id
    assert again.value("map") == clean.value("map")


def test_evaluate_pairs_after_state_changed_describe_images_again(
    here: Path, sequences: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "finds.py").write_text(
        "import os\nimport numpy as np\n"
        "class M:\n"
        "    def extract(self, image):\n"
        "        xy = np.random.default_rng(7).uniform(5, 60, (40, 2)).round()\n"
        "        k = float(os.path.expandvars('$SIZE_22'))\n"
        "        x, y = xy.astype(int).T\n"
        "        return xy, np.stack([np.roll(image[y, x, 0], i) % k for i in range(4)], 1) + 1.0\n"
    )

    def scores(store: str) -> tp.Run:
        method = "finds.py:M?matcher=mnn"
        return tp.evaluate(
            method, task="keypoints/geometry", data=sequences, store=store, jobs=1, progress=False
        )

    first = scores("s")
    monkeypatch.setenv("SIZE_22", "16")
    second, fresh = scores("s"), scores("fresh")
    assert first.manifest.units != fresh.manifest.units
    assert second.manifest.units == fresh.manifest.units
    assert warned(second)


def test_evaluate_workers_with_other_state_stops(
    here: Path, patches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compute, "MIN_PARALLEL_WORK_S", 0.0)
    (here / "jobs.py").write_text(HEAD.format("getattr(argparse.Namespace, 'size_22', 2)"))
    how = {"task": "hpatches/matching", "data": patches, "store": "s", "jobs": 2, "progress": False}
    monkeypatch.setattr(argparse.Namespace, "size_22", 4, raising=False)
    with pytest.raises(InputError, match="a worker process computes other features"):
        tp.evaluate("jobs.py:M", **how)
    monkeypatch.undo()
    monkeypatch.chdir(here)
    monkeypatch.setattr(compute, "MIN_PARALLEL_WORK_S", 0.0)
    assert tp.evaluate("jobs.py:M", **how).value("map") == evaluated("jobs.py:M", patches, "one").value("map")


def test_race_after_unkeyed_state_changed_stops(
    here: Path, patches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "raced.py").write_text(HEAD.format("int(os.path.expandvars('$SIZE_22'))"))
    evaluated("raced.py:M", patches)
    monkeypatch.setenv("SIZE_22", "16")
    with pytest.raises(InputError, match="cannot be cached"):
        race(["raced.py:M", "meanstd"], task="hpatches/matching", data=patches, store="s")
