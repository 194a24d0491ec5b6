# SPDX-License-Identifier: BSD-3-Clause
"""State outside an object is in its key: globals, closures, patched methods, settings of torch."""

from __future__ import annotations

import importlib
import sys
import textwrap
import types

import numpy as np
import pytest

from tiepoint.core.records import Item
from tiepoint.methods.resolve import resolve

ITEM = Item("v_b/ref", "content", 4)
METHOD = "    def describe(self, p):\n        return p.reshape(len(p), -1) * {} + 1.0\n"


def resolved(thing):
    return resolve(thing, family="patches")


def key(thing):
    method = resolved(thing)
    assert method.uncached_reason is None, method.uncached_reason
    return method.key(ITEM)


HEAD = """
import argparse
import functools
import numpy as np
N = 1
TABLE = {"a": [1, 2]}
W = np.arange(3)
CONFIG = argparse.Namespace(size=4)
class Settings:
    size = 3
class Kind:
    def __init__(self): self.n = 1
KIND = Kind()
def helper(x=2):
    return N
def unused():
    return 7
class Scaled:
    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.n = 1
    def __call__(self, x):
        return self.n * x
SCALED = Scaled(helper)
"""


@pytest.mark.parametrize(
    ("read", "change"),
    [
        ("N", lambda m: setattr(m, "N", 2)),
        ("N", lambda m: setattr(m, "N", 1.0)),
        ("helper()", lambda m: setattr(m, "N", 2)),
        ("(lambda: helper())()", lambda m: setattr(m, "N", 2)),
        ("TABLE['a'][0]", lambda m: m.TABLE["a"].append(3)),
        ("W.sum()", lambda m: m.W.__setitem__(0, 9)),
        ("CONFIG.size", lambda m: setattr(m.CONFIG, "size", 5)),
        ("Settings.size", lambda m: setattr(m.Settings, "size", 5)),
        ("KIND.n", lambda m: setattr(m.KIND, "n", 5)),
        ("helper()", lambda m: setattr(m, "helper", m.unused)),
        ("helper()", lambda m: setattr(m.helper, "__defaults__", (3,))),
        ("helper()", lambda m: setattr(m, "helper", np.sum)),
        ("helper()", lambda m: setattr(m.helper, "mark", 5)),
        ("SCALED(1)", lambda m: setattr(m.SCALED, "n", 5)),
    ],
)
def test_key_global_changed_after_import_differs(load, read, change):
    module = load(outside_a=HEAD + "class M:\n" + METHOD.format(read))
    thing = module.M()
    first = key(thing)
    assert key(module.M()) == first
    change(module)
    changed = resolved(thing)
    assert changed.uncached_reason is not None or changed.key(ITEM) != first


def test_key_literal_globals_that_are_unchanged_are_only_in_the_source(load):
    module = load(outside_b=HEAD + "class M:\n" + METHOD.format("N + TABLE['a'][0] + Settings.size"))
    assert "outside" not in resolved(module.M()).config


def test_key_global_that_is_not_read_does_not_count(load):
    module = load(outside_c=HEAD + "class M:\n" + METHOD.format("helper()"))
    first = key(module.M())
    module.TABLE["a"].append(9)
    assert key(module.M()) == first


@pytest.mark.parametrize(
    ("head", "read", "change"),
    [
        ("import outside_e\n", "outside_e.N", lambda e: setattr(e, "N", 2)),
        ("from outside_e import f\n", "f()", lambda e: setattr(e, "N", 2)),
        ("from outside_e import f as g\n", "g()", lambda e: setattr(e, "N", 2)),
        ("import outside_e\n", "outside_e.f()", lambda e: setattr(e, "f", lambda: 3)),
        ("from outside_e import Base\n", "Base().f()", lambda e: setattr(e, "N", 2)),
        ("", "self.g()\n    def g(self):\n        import outside_e\n        return outside_e.N", None),
    ],
)
def test_key_state_of_a_sibling_module_counts(load, head, read, change):
    change = change or (lambda e: setattr(e, "N", 2))
    text = "class M:\n" + METHOD.format("({})").replace("({}) + 1.0", "1.0 + " + read)
    helper = "N = 1\ndef f():\n    return N\nclass Base:\n    def f(self):\n        return N\n"
    module = load(outside_d=head + text, outside_e=helper)
    other = importlib.import_module("outside_e")
    first = resolved(module.M())
    assert "outside" not in first.config
    change(other)
    changed = resolved(module.M())
    assert changed.uncached_reason is not None or changed.key(ITEM) != first.key(ITEM)


def test_key_imported_constant_counts_as_bound(load):
    module = load(outside_f="from outside_g import N\nclass M:\n" + METHOD.format("N"), outside_g="N = 1\n")
    first = resolved(module.M())
    assert "outside" not in first.config
    module.N = 2
    assert key(module.M()) != first.key(ITEM)


def test_key_closures_of_a_local_class_count(load):
    code = "def make(n):\n    class M:\n" + textwrap.indent(METHOD.format("n"), "    ") + "    return M\n"
    module = load(outside_h=code)
    keys = [key(module.make(n)()) for n in (1, 2, 1)]
    assert keys[0] == keys[2] != keys[1]


def test_key_patched_methods_count(load):
    other = "def better(self, p):\n    return p.reshape(len(p), -1) * 9.0\nN = 1\n"
    module = load(outside_i="class M:\n" + METHOD.format(1), outside_j=other)
    better = importlib.import_module("outside_j").better
    thing, keys = module.M(), []
    keys.append(key(thing))
    thing.describe = types.MethodType(better, thing)
    keys.append(key(thing))
    module.M.describe = better
    keys.append(key(module.M()))
    module.M.describe = lambda self, p: p * 1.0
    assert resolved(module.M()).uncached_reason is not None or key(module.M()) not in keys
    assert len(set(keys)) == 3


def test_key_library_decorators_change_nothing(load):
    pytest.importorskip("torch")
    text = "import torch\nimport functools\n@functools.lru_cache\ndef f():\n    return 1\n"
    module = load(outside_k=text + "class M:\n    @torch.no_grad()\n" + METHOD.format("f()"))
    assert "outside" not in resolved(module.M()).config


def test_key_compiled_functions_count_by_their_source(load):
    text = "import numba\nN = 2\n@numba.njit\ndef f(x):\n    return x * N\nclass M:\n" + METHOD.format("f(1)")
    module = load(outside_l=text)
    first = resolved(module.M())
    assert "outside" not in first.config
    module.N = 3
    assert key(module.M()) != first.key(ITEM)


@pytest.mark.parametrize(
    "made", ["threading.Lock()", "open(__file__)", "np.random.default_rng(0)", "iter([1])", "object()"]
)
def test_key_global_without_content_is_not_cached(load, made):
    text = f"import threading\nimport numpy as np\nG = {made}\nclass M:\n" + METHOD.format("id(G)")
    method = resolved(load(outside_m=text).M())
    assert method.key(ITEM) is None
    assert "not cached because its code reads `outside_m.py:G`: a" in method.notice
    assert "\n" not in method.notice
    del sys.modules["outside_m"]


def test_key_log_that_is_only_written_does_not_count(load):
    body = METHOD.replace("return", "CALLS.append(len(p)); return").format
    module = load(outside_w="CALLS = []\nclass M:\n" + body(1))
    first = key(module.M())
    module.CALLS.append(1)
    assert key(module.M()) == first
    module = load(outside_x="CALLS = []\nclass M:\n" + body("len(CALLS)"))
    first = key(module.M())
    module.CALLS.append(1)
    assert key(module.M()) != first


def test_distinct_names_state_outside_is_shown(load):
    from types import SimpleNamespace

    from tiepoint.report.runs.names import distinct_names
    from tiepoint.store.stored_run import DatasetFacts, Manifest, MethodFacts

    module = load(outside_y="N = 1\nclass M:\n" + METHOD.format("N"))
    runs = []
    for i in (1, 2):
        module.N = i
        facts = MethodFacts(name="M", family="patches", config=dict(resolved(module.M()).config))
        manifest = Manifest(task="t", method=facts, dataset=DatasetFacts(hash="0", name="d"))
        runs.append(SimpleNamespace(id=i, task="t", method="M", created_at="", manifest=manifest))
    assert distinct_names(runs) == ["M (default outside_y.py:N)", "M (outside_y.py:N=2)"]


def test_key_logger_and_type_variables_do_not_count(load):
    text = "import logging\nfrom typing import TypeVar\nL = logging.getLogger()\nT = TypeVar('T')\n"
    module = load(outside_n=text + "class M:\n" + METHOD.format("len([L, T])"))
    assert "outside" not in resolved(module.M()).config


def test_key_dataclasses_and_properties_are_followed(load):
    text = """
    from dataclasses import dataclass
    from functools import cached_property
    N = 1
    @dataclass
    class M:
        size: int = 3
        @cached_property
        def one(self): return N
        @property
        def two(self): return self.one
    """
    module = load(outside_o=textwrap.dedent(text) + METHOD.format("self.two"))
    first = resolved(module.M())
    assert "outside" not in first.config
    module.N = 2
    assert key(module.M()) != first.key(ITEM)


NET = """
import torch
class Net(torch.nn.Module):
    size = 8
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 4)
        with torch.no_grad():
            self.layer.weight.fill_(0.5)
            self.layer.bias.fill_(0.5)
    def forward(self, x):
        return self.layer(x.flatten(1))
"""


def double(module, given, made):
    return made * 2


def test_key_hooks_of_a_network_are_not_cached(load):
    torch = pytest.importorskip("torch")
    net = load(outside_p=NET).Net()
    assert resolved(net).uncached_reason is None
    for register in (net.register_forward_hook, net.layer.register_forward_hook):
        handle = register(double)
        assert "it has hooks" in resolved(net).uncached_reason
        handle.remove()
    handle = torch.nn.modules.module.register_module_forward_hook(double)
    try:
        assert "global forward hooks" in resolved(net).uncached_reason
    finally:
        handle.remove()
    assert resolved(net).uncached_reason is None


def test_key_patched_forward_counts(load):
    pytest.importorskip("torch")
    other = "def forward(self, x):\n    return self.layer(x.flatten(1)) * 2\n"
    module = load(outside_q=NET, outside_r=other)
    net = module.Net()
    first = key(net)
    net.forward = types.MethodType(importlib.import_module("outside_r").forward, net)
    second = resolved(net)
    assert second.uncached_reason is not None or second.key(ITEM) != first


@pytest.mark.parametrize(
    ("set_to", "back"),
    [
        ("torch.set_default_dtype(torch.float64)", "torch.set_default_dtype(torch.float32)"),
        ("torch.set_float32_matmul_precision('high')", "torch.set_float32_matmul_precision('highest')"),
        ("torch.use_deterministic_algorithms(True)", "torch.use_deterministic_algorithms(False)"),
        ("torch.backends.cudnn.benchmark = True", "torch.backends.cudnn.benchmark = False"),
        ("torch.backends.cudnn.allow_tf32 = False", "torch.backends.cudnn.allow_tf32 = True"),
        ("torch.backends.cuda.matmul.allow_tf32 = True", "torch.backends.cuda.matmul.allow_tf32 = False"),
    ],
)
def test_key_settings_of_torch_count(load, set_to, back):
    torch = pytest.importorskip("torch")
    module = load(outside_s="import torch\nclass M:\n" + METHOD.format("torch.ones(1).item()"))
    plain = load(outside_t="class M:\n" + METHOD.format(1))
    first, other = resolved(module.M()), key(plain.M())
    assert "outside" not in first.config
    exec(set_to, {"torch": torch})
    try:
        assert key(module.M()) != first.key(ITEM)
        assert key(plain.M()) == other
    finally:
        exec(back, {"torch": torch})
    assert key(module.M()) == first.key(ITEM)


def test_recipe_worker_with_other_state_is_refused(load, tmp_path, monkeypatch):
    """A worker process does not have what a session changed in a module on the path."""
    from dataclasses import replace

    from tiepoint.core.errors import InputError
    from tiepoint.formats.hpatches.patch_strip import write_strip
    from tiepoint.run.preparation import make_recipe
    from tiepoint.run.request import RunRequest

    for image in ("ref", *(f"{z}{k}" for z in "eht" for k in range(1, 6))):
        write_strip(tmp_path / "data" / "v_a" / f"{image}.png", np.ones((3, 9, 9), np.uint8))
    module = load(outside_u="N = 1\n")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "my.py").write_text("import outside_u\nclass M:\n" + METHOD.format("outside_u.N"))
    request = RunRequest("code/my.py:M", "hpatches/matching", tmp_path / "data")
    recipe = make_recipe(request, resolved("code/my.py:M"), tmp_path / "s", 1)
    assert recipe.build().method.name == "M"
    module.N = 2
    changed = make_recipe(request, resolved("code/my.py:M"), tmp_path / "s", 1)
    assert changed.build().method.name == "M"
    module.N = 1
    with pytest.raises(InputError, match="M: its code reads globals or settings that have other values"):
        changed.build()
    assert replace(changed, outside=None).build().method.name == "M"


def test_key_function_of_a_session_is_not_cached(load):
    """A notebook cell is a file that does not exist, and its functions belong to `__main__`."""
    module = load(outside_v="def f():\n    return 1\nclass M:\n" + METHOD.format("f()"))
    namespace = {"__name__": "__main__"}
    for value in (2, 3):
        code = compile(f"def f():\n    return {value}\n", f"/tmp/ipykernel_1/{value}.py", "exec")
        exec(code, namespace)
        module.f = namespace["f"]
        reason = resolved(module.M()).uncached_reason
        assert "`outside_v.py:f`: it was defined in a session or in the main script" in reason
