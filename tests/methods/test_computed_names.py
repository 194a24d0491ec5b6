# SPDX-License-Identifier: BSD-3-Clause
"""State that user code reaches by computed names, in libraries or in memoised results changes its key."""

from __future__ import annotations

import functools
import types

import numpy as np
import pytest

from tiepoint.core.records import Item
from tiepoint.methods.resolve import resolve

ITEM = Item("v_b/ref", "content", 4)
SOURCE = """
import functools
import importlib
import operator
import os
import sys
import numpy as np
import numpy.linalg
from numpy.linalg import norm
import helpers
K = 2
class M:
    def describe(self, p):
        return p.reshape(len(p), -1) * {} + 1.0
"""
HELPERS = "K = 2\ndef scale():\n    return 3\n"


def resolved(thing):
    return resolve(thing, family="patches")


def key(thing):
    method = resolved(thing)
    assert method.uncached_reason is None, method.uncached_reason
    return method.key(ITEM)


@pytest.mark.parametrize(
    "expression",
    [
        'globals()["K"]',
        'globals()["K" + ""]',
        "vars(helpers)['K']",
        "helpers.__dict__['K']",
        'getattr(helpers, "K")',
        'getattr(helpers, "K".upper())',
        'operator.attrgetter("K")(helpers)',
        'eval("K")',
        'sys.modules[__name__.replace("user", "helpers")].K',
        'importlib.import_module("hel" + "pers").K',
        '__import__(f"{self.__module__[:0]}helpers").K',
    ],
)
def test_key_of_global_read_by_computed_name_follows_its_value(load, expression):
    user = load(user=SOURCE.format(expression), helpers=HELPERS)
    helpers = user.helpers
    before = key(user.M())
    user.K = helpers.K = 3
    after = key(user.M())
    assert after != before
    user.K = helpers.K = 2
    assert key(user.M()) == before


def test_key_of_function_in_module_imported_by_computed_name_follows_its_source(load, tmp_path):
    expression = 'importlib.import_module("other" + "").scale()'
    keys = []
    for scale in (3, 4):
        import sys

        for name in ("user", "helpers", "other"):
            sys.modules.pop(name, None)
        other = f"def scale():\n    return {scale}\n"
        user = load(user=SOURCE.format(expression), helpers=HELPERS, other=other)
        importlib_other = __import__("other")
        assert importlib_other.scale() == scale
        keys.append(key(user.M()))
    assert keys[0] != keys[1]


def test_key_with_unused_variables_of_self_ignores_other_globals(load):
    user = load(user=SOURCE.format("len(vars(self)) + getattr(self, 'a', 1)"), helpers=HELPERS)
    before = key(user.M())
    user.K = 3
    assert key(user.M()) == before


@pytest.mark.parametrize("expression", ["np.linalg.norm(p)", "norm(p)", "numpy.linalg.norm(p)"])
def test_key_with_replaced_library_function_differs(load, monkeypatch, expression):
    patch = "import numpy as np\ndef norm(x):\n    return 5.0\n"
    plain = load(user=SOURCE.format(expression), helpers=HELPERS)
    before = key(plain.M())
    better = load(better=patch)
    monkeypatch.setattr(np.linalg, "norm", better.norm)
    monkeypatch.setattr(plain, "norm", better.norm)
    assert key(plain.M()) != before


def test_replaced_library_function_of_session_is_not_cached(load, monkeypatch):
    user = load(user=SOURCE.format("np.linalg.norm(p)"), helpers=HELPERS)
    mine = types.FunctionType((lambda x: 5.0).__code__, {"__name__": "__main__"}, "norm")
    assert mine.__module__ == "__main__"
    monkeypatch.setattr(np.linalg, "norm", mine)
    assert "numpy.linalg.norm" in resolved(user.M()).uncached_reason


def test_key_with_replaced_method_of_library_class_differs(load, monkeypatch):
    torch = pytest.importorskip("torch")
    source = """
    import torch
    class M:
        def __init__(self):
            self.net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.ReLU())
        def describe(self, p):
            return self.net(torch.from_numpy(p).float()) + 1
    """
    user = load(user=source)
    before = key(user.M())
    better = load(better="def forward(self, x):\n    return x + 1\n")
    monkeypatch.setattr(torch.nn.ReLU, "forward", better.forward)
    assert key(user.M()) != before


MEMO = """
import functools
class M:
    @staticmethod
    @functools.lru_cache
    def own(n):
        return n + 1
    def describe(self, p):
        return p.reshape(len(p), -1) + {}
@functools.lru_cache(maxsize=None)
def table(n):
    return n + 1
"""


@pytest.mark.parametrize("name", ["table", "self.own"])
def test_memoised_results_are_not_cached(load, name):
    user = load(user=MEMO.format(f"{name}(2)"))
    before = key(user.M())
    function = user.table if name == "table" else user.M.own
    function(2)
    assert "has memoised results" in resolved(user.M()).uncached_reason
    function.cache_clear()
    assert key(user.M()) == before


def test_memoised_results_of_attribute_are_not_cached(load):
    user = load(user=MEMO.format("self.table(2)"))
    thing = user.M()
    thing.table = functools.lru_cache(user.table.__wrapped__)
    key(thing)
    thing.table(3)
    assert "has memoised results" in resolved(thing).uncached_reason


@pytest.mark.parametrize(
    ("expression", "is_cached"),
    [
        ('float(os.environ["SIZE"])', True),
        ('float(os.environ["SI" + "ZE"])', False),
        ('float(os.environ.get(f"{self.__module__[:0]}SIZE", 1))', False),
        ('float(os.getenv("SIZE".upper()))', False),
        ('float([v for k, v in os.environ.items() if k == "SIZE"][0])', False),
        ('len([k for k in os.environ if k == "SIZE"])', False),
        ('len(dict(os.environ, SIZE="4")) * 0', True),
    ],
)
def test_environment_variable_of_computed_name_is_not_cached(load, monkeypatch, expression, is_cached):
    monkeypatch.setenv("SIZE", "4")
    reason = resolved(load(user=SOURCE.format(expression), helpers=HELPERS).M()).uncached_reason
    assert reason is None if is_cached else "environment variables whose names it computes" in reason


READER = """
import cv2
import os
from pathlib import Path
HERE = Path(__file__).parent
class M:
    def __init__(self):
        self.path = "a.png"
        self.start = cv2.imread(f"{self.path}")
    def describe(self, p):
        folder = HERE / "weights"
        name = "b" + self.path
        image = cv2.imread({})
        return p.reshape(len(p), -1) + 1.0
"""


@pytest.mark.parametrize(
    ("path", "is_cached"),
    [
        ('"a.png"', True),
        ("self.path", True),
        ("str(Path(self.path))", True),
        ('str(HERE / "a.png")', True),
        ('str(folder / "a.png")', True),
        ('os.path.join(os.path.dirname(__file__), "a.png")', True),
        ('str(Path(__file__).with_name("a.png"))', True),
        ("name", False),
        ('f"{folder}/a.png"', False),
        ("str(HERE / self.path)", False),
        ('os.path.join("weights", self.path)', False),
        ('str(Path(self.path).with_suffix(".jpg"))', False),
        ('str(next(HERE.glob("*.png")))', False),
        ("filename=name", False),
    ],
)
def test_file_of_computed_name_read_without_python_is_not_cached(load, path, is_cached):
    pytest.importorskip("cv2")
    reason = resolved(load(user=READER.replace("{}", path)).M()).uncached_reason
    assert reason is None if is_cached else "with `imread`, whose names it computes" in reason


STATE = """
import os
from pathlib import Path
HERE = Path(__file__).parent
def is_there(path):
    return os.path.exists(path)
class M:
    def __init__(self):
        self.path, self.tag = "a.png", "a"
    def describe(self, p):
        name = HERE / f"{self.tag}.flag"
        state = {}
        return p.reshape(len(p), -1) + 1.0
"""


@pytest.mark.parametrize(
    ("state", "is_cached"),
    [
        ('(HERE / "a.flag").exists()', True),
        ("os.path.exists(self.path)", True),
        ("Path(self.path).stat().st_size", True),
        ("is_there(self.path)", True),
        ("name.exists()", False),
        ('(HERE / (self.tag + ".flag")).is_file()', False),
        ('os.stat(HERE / (self.tag + ".flag")).st_size', False),
        ('os.path.getsize(os.path.join("weights", self.tag))', False),
        ('os.path.isfile(os.path.expandvars("$PLACE"))', False),
        ('Path(self.path).with_suffix(".jpg").stat()', False),
        ('os.readlink("current")', False),
    ],
)
def test_state_of_file_of_computed_name_is_not_cached(load, state, is_cached):
    reason = resolved(load(user=STATE.replace("state = {}", f"state = {state}")).M()).uncached_reason
    assert reason is None if is_cached else "whose names it computes" in reason


@pytest.mark.parametrize(
    "source",
    [
        'from os import environ as E\nn = lambda: E["TIEPOINT_SIDE"]',
        'from os import getenv as g\nn = lambda: g("TIEPOINT_SIDE")',
    ],
)
def test_key_with_environment_variable_under_other_name_follows_its_value(load, monkeypatch, source):
    monkeypatch.setenv("TIEPOINT_SIDE", "2")
    user = load(
        user=f"import numpy as np\n{source}\nclass M:\n    def describe(self, p): return p * int(n())\n"
    )
    before = key(user.M())
    monkeypatch.setenv("TIEPOINT_SIDE", "3")
    assert key(user.M()) != before


def test_key_with_plain_opencv_differs(load):
    cv2 = pytest.importorskip("cv2")
    user = load(user=READER.replace("{}", '"a.png"'))
    before = key(user.M())
    try:
        cv2.setUseOptimized(False)
        assert key(user.M()) != before
    finally:
        cv2.setUseOptimized(True)
    assert key(user.M()) == before
