# SPDX-License-Identifier: BSD-3-Clause
"""The code that runs is the code of the key, also if files were edited after their import."""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from tiepoint.core.records import Item
from tiepoint.formats.hpatches.patch_strip import write_strip
from tiepoint.methods.resolve import resolve

ITEM = Item("v_b/ref", "content", 4)
METHOD = "class M:\n    def describe(self, p):\n        return p.reshape(len(p), -1) * {} + 1.0\n"


def write(name, text):
    Path(f"{name}.py").write_text(textwrap.dedent(text))


def reason(thing):
    return resolve(thing, family="patches").uncached_reason


def key(thing):
    return resolve(thing, family="patches").key(ITEM)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (METHOD.format(1), METHOD.format(2)),
        (METHOD.format(1), METHOD.format("1.0")),
        (METHOD.format("(lambda: 1)()"), METHOD.format("(lambda: 2)()")),
        (METHOD.replace("p):", "p, n=1):").format("n"), METHOD.replace("p):", "p, n=2):").format("n")),
        (METHOD.replace("p):", "p, *, n=1):").format("n"), METHOD.replace("p):", "p, *, n=2):").format("n")),
        ("def f(): return 1\n" + METHOD.format("f()"), "def f(): return 2\n" + METHOD.format("f()")),
        ("F = 1\n" + METHOD.replace("p):", "p, n=F):").format("n"), "F = 2\n" + METHOD.format("n")),
        (METHOD.format(1) + "    @property\n    def x(self): return 1\n", METHOD.format(1)),
    ],
)
def test_key_file_edited_after_import_is_not_cached(load, before, after):
    module = load(stale_a=before)
    assert reason(module.M()) is None
    write("stale_a", after)
    assert "the loaded code differs from stale_a.py" in reason(module.M())
    assert "restart Python" in reason(module.M)
    importlib.reload(module)
    assert reason(module.M()) is None


def test_key_edit_that_changes_no_code_stays_cached(load):
    module = load(stale_b=METHOD.format(1))
    write("stale_b", "# a comment\n\n" + METHOD.format(1))
    assert reason(module.M()) is None


def test_key_old_instance_after_reload_is_not_cached(load):
    module = load(stale_c=METHOD.format(1))
    old = module.M()
    write("stale_c", METHOD.format(2))
    importlib.invalidate_caches()
    importlib.reload(module)
    assert reason(module.M()) is None
    assert "differs from stale_c.py" in reason(old)


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("import stale_e\n", "stale_e.f()"),
        ("from stale_e import f as g\n", "g()"),
        ("def late():\n    import stale_e\n    return stale_e.f()\n", "late()"),
        ("import stale_e\nfrom stale_e import f\nTABLE = {'f': f}\n", "TABLE['f']()"),
        ("import stale_e\n", "getattr(stale_e, 'f')()"),
    ],
)
def test_key_sibling_edited_after_import_is_not_cached(load, text, call):
    module = load(stale_d=text + METHOD.format(call), stale_e="def f():\n    return 1\n")
    importlib.import_module("stale_e")
    first = reason(module.M())
    assert first is None
    write("stale_e", "def f():\n    return 2\n")
    assert "differs from stale_e.py" in reason(module.M())


def test_key_function_of_a_reloaded_sibling_is_the_old_one(load):
    module = load(stale_f="from stale_g import f\n" + METHOD.format("f()"), stale_g="def f(): return 1\n")
    write("stale_g", "def f(): return 20\n")
    importlib.invalidate_caches()
    importlib.reload(sys.modules["stale_g"])
    assert "differs from stale_g.py" in reason(module.M())


def test_key_constant_of_an_edited_file_counts_as_loaded(load):
    module = load(stale_h="N = 1\n" + METHOD.format("N"))
    keys = {key(module.M())}
    write("stale_h", "N = 2\n" + METHOD.format("N"))
    keys.add(key(module.M()))
    importlib.invalidate_caches()
    importlib.reload(module)
    keys.add(key(module.M()))
    assert len(keys) == 3


def test_key_shared_module_of_a_named_file_is_checked(load, tmp_path):
    """A file is loaded again for each run, and the modules that it finds on the path are not."""
    load(stale_i="def f(): return 1\n")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "my.py").write_text("from stale_i import f\n" + METHOD.format("f()"))
    assert reason("code/my.py:M") is None
    write("stale_i", "def f(): return 2\n")
    assert "differs from stale_i.py" in reason("code/my.py:M")


def test_key_removed_files_are_not_cached(load):
    module = load(stale_j="import stale_k\n" + METHOD.format("stale_k.f()"), stale_k="def f(): return 1\n")
    Path("stale_k.py").unlink()
    assert "differs from stale_k.py, which was edited or removed" in reason(module.M())
    Path("stale_j.py").unlink()
    assert "stale_j.py no longer exists" in reason(module.M())


SCORE = """
import sys, tiepoint as tp
sys.path.insert(0, ".")
import mine
from pathlib import Path
edit = Path("edit.txt")
if edit.exists():
    Path("mine.py").write_text(edit.read_text())
run = tp.evaluate(mine.M(), task="hpatches/matching", data="data", store="store", jobs=1, progress=False)
print(run.value("map"), *run.warnings, sep="\\n")
"""


@pytest.mark.slow
def test_evaluate_code_edited_after_import_never_reaches_another_process(tmp_path):
    rng = np.random.default_rng(3)
    for scene in ("i_a", "v_b"):
        base = rng.integers(0, 200, (12, 9, 9))
        for image in ("ref", *(f"{z}{k}" for z in "eht" for k in range(1, 6))):
            strip = np.clip(base + rng.integers(0, 56, base.shape), 0, 255).astype(np.uint8)
            write_strip(tmp_path / "data" / scene / f"{image}.png", strip)
    (tmp_path / "score.py").write_text(SCORE)
    (tmp_path / "mine.py").write_text(METHOD.format(1))
    (tmp_path / "edit.txt").write_text(METHOD.format(0))

    def scored():
        made = subprocess.run(
            [sys.executable, "-B", "score.py"], cwd=tmp_path, capture_output=True, text=True, check=True,
            timeout=300,
        )  # fmt: skip
        return made.stdout.splitlines()

    old = scored()
    (tmp_path / "edit.txt").unlink()
    new = scored()
    assert float(old[0]) > 0.9
    assert float(new[0]) < 0.5
    assert any("not cached because the loaded code differs from mine.py" in line for line in old)
