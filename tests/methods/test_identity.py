# SPDX-License-Identifier: BSD-3-Clause
"""No stale score: whatever a user's method depends on is in its key, seen from the command line."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tiepoint.cli.main import run
from tiepoint.core.errors import InputError
from tiepoint.core.hashing import hash_json
from tiepoint.core.records import Item
from tiepoint.formats.hpatches.patch_strip import write_strip
from tiepoint.methods.resolve import resolve

ITEM = Item("v_b/ref", "content", 4)
IMAGES = ("ref", *(f"{z}{k}" for z in "eht" for k in range(1, 6)))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("data") / "patches"
    rng = np.random.default_rng(3)
    for scene in ("i_a", "v_b"):
        base = rng.integers(0, 200, (12, 9, 9))
        for image in IMAGES:
            strip = np.clip(base + rng.integers(0, 56, base.shape), 0, 255).astype(np.uint8)
            write_strip(root / scene / f"{image}.png", strip)
    return root


@pytest.fixture
def score(data, tmp_path, capsys, monkeypatch):
    """The matching score of a method, from a store that is kept or, with ``fresh``, from an empty one."""
    monkeypatch.chdir(tmp_path)
    stores = iter(range(100))

    def scored(method, *, fresh=False):
        store = f"fresh{next(stores)}" if fresh else "store"
        arguments = ["run", method, "--task", "hpatches/matching", "--data", str(data), "--store", store]
        code = run([*arguments, "--json"])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        found = json.loads(printed.out)["scores"]
        return next(s["value"] for s in found if (s["metric"], s["group"]) == ("map", "all"))

    return scored


def write(path, text):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


SLOW = """
import numpy as np

class Slow:
    def __init__(self, noise=0.0):
        self.noise = noise
        self.config = {"version": 1}
    def describe(self, patches):
        keep = patches.reshape(len(patches), -1) + 1.0
        rng = np.random.default_rng(int(patches.sum()))
        return keep * (1 - self.noise) + self.noise * rng.normal(0, 500, keep.shape)
"""


def test_config_does_not_hide_a_parameter(score):
    write("my.py", SLOW)
    plain = score("my.py:Slow")
    noisy = score("my.py:Slow?noise=1.0")
    assert plain > 0.9
    assert noisy == score("my.py:Slow?noise=1.0", fresh=True)
    assert noisy < 0.5


LOADS = """
import numpy as np

class Loads:
    def __init__(self, weights="w.npy"):
        self.weights = weights
    def describe(self, patches):
        return patches.reshape(len(patches), -1) @ np.load(self.weights) + 1.0
"""


def test_overwritten_weights_are_noticed(score):
    write("my.py", LOADS)
    np.save("w.npy", np.eye(81))
    good = score("my.py:Loads")
    np.save("w.npy", np.zeros((81, 81)))
    poor = score("my.py:Loads")
    assert poor == score("my.py:Loads", fresh=True)
    assert poor < 0.5 < good


def test_an_edit_in_a_package_of_helpers_is_noticed(score):
    write(
        "my.py", "from helpers.net import f\nclass Uses:\n    def describe(self, p):\n        return f(p)\n"
    )
    write("helpers/net.py", "def f(p):\n    return p.reshape(len(p), -1) + 1.0\n")
    good = score("my.py:Uses")
    write("helpers/net.py", "def f(p):\n    return p.reshape(len(p), -1) * 0 + 1.0\n")
    poor = score("my.py:Uses")
    assert poor == score("my.py:Uses", fresh=True)
    assert poor < 0.5 < good


def test_two_classes_of_a_file_have_two_names(score, capsys):
    write(
        "bad.py",
        "class A:\n    def describe(self, p): return p.reshape(len(p), -1) + 1.0\nclass B(A): pass\n",
    )
    score("bad.py:A")
    score("bad.py:B")
    assert run(["compare", "--task", "hpatches/matching", "--store", "store", "--json"]) == 0
    printed = capsys.readouterr().out
    assert '"A"' in printed
    assert '"B"' in printed


@pytest.mark.slow
def test_lazy_imports_and_edits_are_seen_in_the_values(score):
    """The code that runs is the code of the key, however soon after an edit."""
    write("my.py", "class Lazy:\n    def describe(self, p):\n        import late\n        return late.f(p)\n")
    for factor, low in (("1", 0.9), ("0", 0.0), ("1", 0.9)):
        write("late.py", f"def f(p):\n    return p.reshape(len(p), -1) * {factor} + 1.0\n")
        assert score("my.py:Lazy") >= low
        assert (score("my.py:Lazy") > 0.5) == (factor == "1")


def key(spec="my.py:M", family="patches"):
    return resolve(str(spec), family=family).key(ITEM)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


METHOD = "    def describe(self, p):\n        return p.reshape(len(p), -1) + 1.0\n"


@pytest.mark.parametrize(
    ("main", "helper"),
    [
        ("import a.b\n", "a/b.py"),
        ("import a as c\n", "a/__init__.py"),
        ("from a import b\n", "a/b.py"),
        ("from a.b import c\n", "a/b/c.py"),
        ("from a.b.c import d\n", "a/b/__init__.py"),
        ("from a import *\n", "a/b.py"),
        ("def later():\n    import a\n", "a.py"),
        ("import importlib\nA = lambda: importlib.import_module('a.b')\n", "a/b.py"),
        ("TEXT = 'notes.txt'\n", "notes.txt"),
    ],
)
def test_the_key_follows_imports(here, main, helper):
    if helper.count("/"):
        write("a/__init__.py", "b = None\n")
    if helper.count("/") == 2:
        write("a/b/__init__.py", "c = None\n")
    if "a.b.c" in main:
        write("a/b/c.py", "d = 1\n")
    write(helper, "b = c = 1\n")
    write("my.py", main + "class M:\n" + METHOD)
    first = key()
    assert first is not None
    assert key() == first
    write(helper, "b = c = 2\n")
    assert key() != first
    write("other.py", "not imported")
    write(helper, "b = c = 1\n")
    assert key() == first


def test_relative_imports_of_a_package_work_and_are_followed(here):
    write("pack/__init__.py", "")
    write("pack/base.py", "one = 1.0\n")
    write("pack/deep/__init__.py", "")
    write("pack/deep/near.py", "from ..base import one\n")
    my = "from . import near\nfrom ..base import one\nclass M:\n" + METHOD.replace("1.0", "near.one + one")
    write("pack/deep/my.py", my)
    method = resolve("pack/deep/my.py:M", family="patches")
    assert method.extract(ITEM, np.zeros((4, 3, 3), np.uint8))["values"].max() == 2
    write("pack/base.py", "one = 2.0\n")
    again = resolve("pack/deep/my.py:M", family="patches")
    assert again.key(ITEM) != method.key(ITEM)
    assert again.extract(ITEM, np.zeros((4, 3, 3), np.uint8))["values"].max() == 4


def test_helpers_of_the_same_name_in_two_folders_stay_apart(here):
    for folder, value in (("one", 1), ("two", 2)):
        write(f"{folder}/helpers.py", f"value = {value}\n")
        write(f"{folder}/late.py", f"value = {value}\n")
        body = METHOD.replace("return", "import late; return").replace("1.0", "helpers.value + late.value")
        write(f"{folder}/my.py", "import helpers\nclass M:\n" + body)
    methods = [resolve(f"{f}/my.py:M", family="patches") for f in ("one", "two", "one")]
    patches = np.zeros((4, 3, 3), np.uint8)
    found = [m.extract(ITEM, patches)["values"].max() for m in (*methods, *reversed(methods))]
    assert found == [2, 4, 2, 2, 4, 2]
    assert methods[0].key(ITEM) == methods[2].key(ITEM) != methods[1].key(ITEM)


def test_threads_each_find_the_helpers_of_their_file(here):
    for folder, value in (("one", 1), ("two", 2)):
        write(f"{folder}/helpers/deep.py", f"value = {value}\n")
        body = METHOD.replace("return", "import helpers.deep as h; return").replace("1.0", "h.value")
        write(f"{folder}/my.py", "class M:\n" + body)
    patches = np.zeros((4, 3, 3), np.uint8)

    def largest(folder):
        method = resolve(f"{folder}/my.py:M", family="patches")
        return [method.extract(ITEM, patches)["values"].max() for _ in range(20)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(largest, ["one", "two"] * 8))
    assert found == [[1] * 20, [2] * 20] * 8
    assert not [name for name in sys.modules if name.startswith("helpers")]


def test_source_on_the_path_counts_and_installed_packages_by_version(here, monkeypatch):
    write("lib/mine/__init__.py", "")
    write("lib/mine/net.py", "x = 1\n")
    monkeypatch.syspath_prepend(str(here / "lib"))
    write("code/my.py", "import numpy\nfrom mine.net import x\nclass M:\n" + METHOD)
    method = resolve("code/my.py:M", family="patches")
    assert method.config["libraries"] == {"numpy": np.__version__}
    write("lib/mine/net.py", "x = 2\n")
    assert key("code/my.py:M") != method.key(ITEM)


def test_files_and_folders_count_by_content_wherever_they_are_named(here):
    init = (
        "    def __init__(self, given=None):\n        self.held = {'list': [given]}\n    kept = 'class.txt'\n"
    )
    write("my.py", "class M:\n" + init + METHOD)
    write("deep/part.txt", "one")
    keys = [key(), key("my.py:M?given=deep")]
    write("deep/part.txt", "two")
    keys.append(key("my.py:M?given=deep"))
    write("deep/more.txt", "")
    keys.append(key("my.py:M?given=deep"))
    write("class.txt", "")
    keys.append(key())
    assert len(set(keys)) == 5
    before = key("my.py:M?given=deep")
    write("deep/store/tiepoint.sqlite", "")
    write("deep/__pycache__/x.pyc", "")
    assert key("my.py:M?given=deep") == before


@pytest.mark.parametrize(
    ("read", "file"),
    [
        ("Path(__file__).parent / 'data' / 'w.txt'", "lib/data/w.txt"),
        ("os.path.join('data', 'deep', 'w.txt')", "data/deep/w.txt"),
        ("Path(__file__).parents[1] / 'data' / 'w.txt'", "data/w.txt"),
        ("files('sub') / 'data' / 'w.txt'", "lib/sub/data/w.txt"),
        ("os.system('sh tool.sh > out')", "tool.sh"),
        ("sub.helper.read()", "lib/sub/beside.txt"),
    ],
)
def test_key_file_named_by_parts_counts_by_content(here, read, file):
    write("lib/sub/__init__.py", "from . import helper\n")
    write("lib/sub/helper.py", "def read():\n    return open(__file__ + '/../' + 'beside.txt').read()\n")
    head = "import os, sub\nfrom pathlib import Path\nfrom importlib.resources import files\nclass M:\n"
    write("lib/my.py", head + METHOD + f"    def read(self):\n        return {read}\n")
    write(file, "one")
    first = key("lib/my.py:M")
    assert first == key("lib/my.py:M")
    write(file, "two")
    assert None not in (first, key("lib/my.py:M"))
    assert key("lib/my.py:M") != first


@pytest.mark.parametrize("read", ["open(Path(__file__).parent / 'w.txt')", "self.weights"])
def test_key_file_beside_imported_class_counts_by_content(here, monkeypatch, read):
    init = "    def __init__(self):\n        self.weights = 'w.' + 'txt'\n" if "self" in read else ""
    text = "from pathlib import Path\nclass M:\n" + init + METHOD
    write("lib/beside.py", text + f"    def read(self):\n        return {read}\n")
    write("lib/w.txt", "one")
    monkeypatch.syspath_prepend(str(here / "lib"))
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    thing = importlib.import_module("beside").M()
    first = resolve(thing, family="patches").key(ITEM)
    write("lib/w.txt", "two")
    assert first is not None
    assert resolve(thing, family="patches").key(ITEM) != first
    monkeypatch.delitem(sys.modules, "beside")


@pytest.mark.parametrize(
    "read", ["os.environ['SIZE']", "os.environ.get('SIZE', 3)", "os.getenv('SIZE')", "'SIZE' in environ"]
)
def test_key_environment_variable_that_is_read_counts(here, monkeypatch, read):
    write(
        "my.py",
        f"import os\nfrom os import environ\nclass M:\n{METHOD}    def size(self):\n        return {read}\n",
    )
    monkeypatch.delenv("SIZE", raising=False)
    keys = [key()]
    for value in ("3", "4", "secret"):
        monkeypatch.setenv("SIZE", value)
        keys.append(key())
    assert None not in keys
    assert len(set(keys)) == 4
    config = resolve("my.py:M", family="patches").config
    assert "secret" not in json.dumps(config)
    monkeypatch.setenv("OTHER", "1")
    assert key() == keys[-1]


def test_networks_count_by_their_tensors(here):
    torch = pytest.importorskip("torch")
    code = """
    import torch
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(9, 4)
            self.gain = GAIN
    class M:
        def __init__(self, weights):
            self.net = Net()
            self.net.load_state_dict(torch.load(weights, weights_only=True))
            self.net.train(TRAIN)
        def describe(self, p):
            return self.net.layer(torch.from_numpy(p.reshape(len(p), -1)).float())
    """
    write("my.py", code.replace("GAIN", "1").replace("TRAIN", "False"))
    torch.manual_seed(0)
    states = [torch.nn.Linear(9, 4).state_dict() for _ in range(2)]
    for i, state in enumerate(states):
        torch.save({f"layer.{k}": v for k, v in state.items()}, f"w{i}.pt")
    first = key("my.py:M?weights=w0.pt")
    assert first is not None
    assert first == key("my.py:M?weights=w0.pt")
    os.replace("w1.pt", "w0.pt")
    keys = {first, key("my.py:M?weights=w0.pt")}
    write("my.py", code.replace("GAIN", "1").replace("TRAIN", "True"))
    keys.add(key("my.py:M?weights=w0.pt"))
    assert len(keys) == 3


def test_a_scripted_network_counts_by_what_would_be_saved(here):
    torch = pytest.importorskip("torch")
    write(
        "my.py",
        "import torch\nclass M:\n    def __init__(self, net):\n        self.net = torch.jit.load(net)\n"
        + METHOD,
    )
    for i in range(2):
        torch.manual_seed(i)
        torch.jit.script(torch.nn.Linear(9, 4)).save(f"{i}.pt")
    method = resolve("my.py:M?net=0.pt", family="patches")
    state = method.config["params"]["net"]
    assert state == resolve("my.py:M?net=0.pt", family="patches").config["params"]["net"]
    assert state != resolve("my.py:M?net=1.pt", family="patches").config["params"]["net"]


@pytest.mark.parametrize(
    ("value", "other"),
    [
        ("np.arange(3)", "np.arange(4)"),
        ("lambda x: x", "lambda x: 2 * x"),
        ("functools.partial(max, 1)", "functools.partial(max, 2)"),
        ("(lambda n: lambda: n)(1)", "(lambda n: lambda: n)(2)"),
        ("np.sqrt", "np.exp"),
        ("{1: 'a'}", "{1: 'b'}"),
        ("{1, 2}", "{1, 3}"),
        ("Other(1)", "Other(2)"),
        ("Kind.A", "Kind.B"),
        ("argparse.Namespace(a=1)", "argparse.Namespace(a=2)"),
        ("Pair(1, 2)", "Pair(1, 3)"),
        ("b'a'", "b'b'"),
        ("np.float32(1)", "np.float64(1)"),
        ("'1'", "1"),
        ("True", "1"),
        ("[0, 1]", "(0, 1)"),
        ("{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}"),
        ("{1: 'a', 2: 'b'}", "{2: 'b', 1: 'a'}"),
        ("defaultdict(int, a=1)", "defaultdict(float, a=1)"),
        ("re.compile('a' * 300 + 'b')", "re.compile('a' * 300 + 'c')"),
        ("np.ma.array([1, 2], mask=[0, 0])", "np.ma.array([1, 2], mask=[0, 1])"),
        ("np.ones(2)", "np.ones(2).view(Marked)"),
        ("Private(1)", "Private(2)"),
        ("Scaled(1)", "Scaled(2)"),
        ("marked(1)", "marked(2)"),
    ],
)
def test_attributes_count_by_content(here, value, other):
    head = """
    import argparse, enum, functools, re
    from collections import defaultdict, namedtuple
    import numpy as np
    Kind = enum.Enum("Kind", "A B")
    Pair = namedtuple("Pair", "a b")
    class Other:
        def __init__(self, n): self.n = n
    class Marked(np.ndarray):
        pass
    class Private:
        __slots__ = ("__n",)
        def __init__(self, n): self.__n = n
    def marked(n):
        def f(): return f.n
        f.n = n
        return f
    class Scaled:
        def __init__(self, n):
            functools.update_wrapper(self, marked)
            self.n = n
        def __call__(self, x): return self.n * x
    VALUES = {VALUES}
    class M:
        def __init__(self, i=0):
            self.value = VALUES[i]
    """
    text = textwrap.dedent(head).replace("{VALUES}", f"[{value}, {other}]")
    write("my.py", text + METHOD)
    one, two = (resolve(f"my.py:M?i={i}", family="patches") for i in (0, 1))
    assert one.uncached_reason is None
    assert one.config["params"] == resolve("my.py:M", family="patches").config["params"]
    assert hash_json(one.config["params"]) != hash_json(two.config["params"])


@pytest.mark.parametrize(
    ("head", "one", "two"),
    [
        ("class M(NamedTuple):\n    size: int = 3\n", "M(3)", "M(4)"),
        ("class M(dict):\n", "M(size=3)", "M(size=4)"),
        ("class M(list):\n", "M([3])", "M([4])"),
        ("class M(float):\n", "M(3)", "M(4)"),
    ],
)
def test_key_class_with_builtin_base_counts_its_value(here, monkeypatch, head, one, two):
    write("with_base.py", "from typing import NamedTuple\n" + head + METHOD)
    monkeypatch.syspath_prepend(str(here))
    monkeypatch.delitem(sys.modules, "with_base", raising=False)
    names = vars(importlib.import_module("with_base"))
    keys = [resolve(eval(made, dict(names)), family="patches").key(ITEM) for made in (one, one, two)]
    assert None not in keys
    assert keys[0] == keys[1] != keys[2]


def test_key_shared_layer_of_a_network_counts_by_where_it_is_used(here, monkeypatch):
    torch = pytest.importorskip("torch")
    write("shared_net.py", "import torch\nclass M(torch.nn.Sequential):\n" + METHOD)
    monkeypatch.syspath_prepend(str(here))
    cls = importlib.import_module("shared_net").M
    a, b, c, d = (torch.nn.Linear(3, 3) for _ in range(4))
    c.weight, d.weight = a.weight, b.weight
    d.bias = c.bias
    layers = [(a, b, a), (a, b, b), (a, b, c), (a, b, d)]
    assert len({resolve(cls(*own), family="patches").key(ITEM) for own in layers}) == 4
    monkeypatch.delitem(sys.modules, "shared_net")


def test_a_plug_in_counts_by_the_source_of_its_package(here, monkeypatch):
    write("site-packages/theirs/__init__.py", "")
    write("site-packages/theirs/net.py", "x = 1\n")
    write("site-packages/other/__init__.py", "")
    my = "import other\nfrom .net import x\nclass M:\n" + METHOD
    write("site-packages/theirs/my.py", my)
    monkeypatch.syspath_prepend(str(here / "site-packages"))
    cls = importlib.import_module("theirs.my").M
    first = resolve(cls, family="patches").key(ITEM)
    assert first is not None
    write("site-packages/other/__init__.py", "y = 1\n")
    assert resolve(cls, family="patches").key(ITEM) == first
    write("site-packages/theirs/net.py", "x = 2\n")
    assert resolve(cls, family="patches").key(ITEM) != first
    for name in [n for n in sys.modules if n.partition(".")[0] in ("theirs", "other")]:
        del sys.modules[name]


def test_a_class_that_cannot_be_created_is_told_in_a_sentence(here):
    write("my.py", "class M:\n    def __init__(self):\n        raise ValueError('no\\nnet')\n" + METHOD)
    with pytest.raises(InputError, match=r"my\.py: M cannot be created: ValueError: no net"):
        resolve("my.py:M", family="patches")


def test_what_cannot_be_keyed_is_not_cached_and_says_what_to_do(here):
    init = "    def __init__(self):\n        self.parts = {'lock': threading.Lock()}\n"
    write("my.py", "import threading\nclass M:\n" + init + METHOD)
    method = resolve("my.py:M", family="patches")
    assert method.key(ITEM) is None
    assert "\n" not in method.notice
    assert "not cached because of its attribute `parts['lock']`: a lock cannot" in method.notice
    assert "create it on first use" in method.notice


def test_the_version_of_a_library_is_the_installed_one_imported_or_not(here):
    pytest.importorskip("cv2")
    code = (
        "import sys; FIRST; from tiepoint.methods.resolve import resolve;"
        "print(resolve('sparse', family='dense').config['libraries']['cv2'], 'cv2' in sys.modules)"
    )
    answers = [
        subprocess.run(
            [sys.executable, "-c", code.replace("FIRST", first)], capture_output=True, text=True, check=True
        ).stdout.split()
        for first in ("pass", "import cv2")
    ]
    assert [imported for _, imported in answers] == ["False", "True"]
    assert answers[0][0] == answers[1][0]
