# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import types

import numpy as np
import pytest

from tiepoint.core.errors import InputError, UnitError, UnknownNameError
from tiepoint.core.records import Item
from tiepoint.methods.resolve import check_device, resolve

MINE = """
import numpy as np
from helper import scale

class Mine:
    name, distance = "mine", "l1"
    def __init__(self, factor=1, device="cpu"):
        self.factor = factor
    def describe(self, patches):
        return scale(patches.reshape(len(patches), -1)[:, :9] + 1.0) * self.factor
"""
HELPER = "def scale(x):\n    return x * 2\n"


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "my_file.py").write_text(MINE)
    (tmp_path / "helper.py").write_text(HELPER)
    return tmp_path / "my_file.py"


def item(patches):
    return Item("v_x/ref", "c", len(patches))


def test_class_in_a_file(mine, patches):
    method = resolve(f"{mine}:Mine", family="patches")
    assert (method.name, method.distance, method.spec) == ("mine", "l1", f"{mine}:Mine")
    expected = (patches.reshape(len(patches), -1)[:, :9] + 1.0) * 2
    np.testing.assert_array_equal(method.extract(item(patches), patches)["values"], expected)
    assert method.config["libraries"]["numpy"] == np.__version__
    tripled = resolve(f"{mine}:Mine?factor=3", family="patches")
    assert tripled.name == "mine?factor=3"
    np.testing.assert_array_equal(tripled.extract(item(patches), patches)["values"], expected * 3)
    assert tripled.key(item(patches)) != method.key(item(patches))


def test_key_follows_the_source_and_what_it_imports(mine, patches):
    first = resolve(f"{mine}:Mine", family="patches").key(item(patches))
    assert first == resolve(f"{mine}:Mine", family="patches").key(item(patches))
    (mine.parent / "helper.py").write_text(HELPER.replace("2", "3"))
    second = resolve(f"{mine}:Mine", family="patches").key(item(patches))
    mine.write_text(MINE + "\n# changed\n")
    third = resolve(f"{mine}:Mine", family="patches").key(item(patches))
    assert len({first, second, third}) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_library_at_all", "cannot be imported: ModuleNotFoundError.*no_such_library_at_all"),
        ("1 / 0", "cannot be imported: ZeroDivisionError"),
        ("def f(:", "cannot be imported: SyntaxError"),
        ("class Mime:\n    pass", "unknown class in .*'Mine'; did you mean 'Mime'"),
        ("class Mine:\n    name = 'm'", "neither describe.patches. nor lookup"),
        ("class Mine:\n    distance = 'l3'\n    def describe(self, p): ...", "unknown distance 'l3'"),
        ("class Mine:\n    def __init__(self, size): ...", "needs size, as in"),
    ],
)
def test_import_errors_are_one_sentence(tmp_path, text, message):
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        resolve(f"{tmp_path}/broken.py:Mine", family="patches")
    assert "\n" not in str(caught.value)


def test_missing_file():
    with pytest.raises(InputError, match="no such Python file"):
        resolve("nowhere.py:Mine", family="patches")


class Sized:
    """A user's descriptor, as in the documentation."""

    name, distance = "sized", "l2"

    def __init__(self, size=3, extra=None):
        self.size = size
        self.extra = extra

    def describe(self, patches):
        return patches.reshape(len(patches), -1)[:, : self.size] + 1.0


def test_objects_and_classes(patches):
    for thing in (Sized, Sized()):
        method = resolve(thing, family="patches")
        assert method.spec is None
        assert method.extract(item(patches), patches)["values"].shape == (len(patches), 3)
    with_arrays = resolve(Sized(extra=np.arange(3)), family="patches")
    keys = {
        resolve(t, family="patches").key(item(patches))
        for t in (Sized(3), Sized(4), Sized(extra="a"), Sized(extra=[1, (2.0, None)]), Sized(extra={"a": 1}))
    } | {with_arrays.key(item(patches))}
    assert len(keys) == 6
    assert None not in keys


def test_objects_that_could_change_unseen_are_not_cached(patches):
    unknown = resolve(Sized(extra=object()), family="patches")
    assert unknown.key(item(patches)) is None
    assert "not cached because of its attribute `extra`" in unknown.notice
    notebook = types.new_class("InNotebook", (), {}, lambda ns: ns.update(describe=Sized.describe, size=3))
    notebook.__module__ = "__main__"
    method = resolve(notebook(), family="patches")
    assert method.name == "InNotebook"
    assert method.distance == "l2"
    assert method.key(item(patches)) is None

    class Lookup:
        name = "lookup"

        def lookup(self, sequence, image):
            return np.full((len(patches), 2), len(sequence) + len(image))

    looked_up = resolve(Lookup(), family="patches")
    assert looked_up.key(item(patches)) is None
    assert (looked_up.extract(item(patches), None)["values"] == len("v_x") + len("ref")).all()


def test_what_an_object_states_as_config_is_added_to_its_attributes(patches):
    def key(size, **config):
        stating = Sized(size)
        stating.config = config
        return resolve(stating, family="patches").key(item(patches))

    keys = {key(3, version=1), key(3, version=2), key(4, version=2)}
    assert len(keys) == 3
    assert None not in keys
    hiding = Sized(extra=object())
    hiding.config = {"version": 1}
    assert resolve(hiding, family="patches").key(item(patches)) is None


def test_attributes_of_a_user_with_names_of_ours_do_no_harm(patches):
    other = Sized()
    other.weights, other.check = np.ones(3), lambda: 1 / 0
    method = resolve(other, family="patches")
    assert method.check is None
    assert "weights" not in method.config


def test_a_users_exception_names_item_and_method(patches):
    class Broken:
        name = "broken"

        def describe(self, patches):
            raise IndexError("five")

    with pytest.raises(UnitError, match="broken failed on v_x/ref: IndexError: five"):
        resolve(Broken(), family="patches").extract(item(patches), patches)


def test_wrong_row_count_of_a_user(patches):
    class Short:
        name = "short"

        def describe(self, patches):
            return np.ones((len(patches) - 1, 3))

    expected = f"short on v_x/ref: {len(patches) - 1} descriptors for {len(patches)} patches"
    with pytest.raises(InputError, match=expected):
        resolve(Short(), family="patches").extract(item(patches), patches)


class ByCosine:
    name, distance = "angle", "cosine"

    def describe(self, patches):
        return np.ones((len(patches), 3))


def test_usage_errors(patches):
    with pytest.raises(UnknownNameError, match="did you mean 'sift'"):
        resolve("sfit", family="patches")
    with pytest.raises(InputError, match="unknown family"):
        resolve("sift", family="patch")
    with pytest.raises(InputError, match="unknown value 'drop' of `on_bad`"):
        resolve("sift", family="patches", on_bad="drop")
    with pytest.raises(InputError, match=r"undefined for zero vectors; use `on_bad=.miss.`"):
        resolve(ByCosine(), family="patches", on_bad="keep-zeros")
    with pytest.raises(UnknownNameError, match="parameter of sift 'size'"):
        resolve("sift?size=3", family="patches")
    with pytest.raises(InputError, match="uint8"):
        resolve("sift", family="patches").extract(Item("v_x/ref", "c", 2), np.zeros((2, 65, 65)))


def test_a_method_passes_through():
    method = resolve("constant", family="patches")
    assert resolve(method, family="patches") is method


def test_parameters_and_bad_rows_are_part_of_the_key(patches):
    specs = [("resize", "error"), ("resize?size=6", "error"), ("resize", "miss"), ("pixels", "error")]
    keys = {resolve(s, family="patches", on_bad=b).key(item(patches)) for s, b in specs}
    assert len(keys) == 4
    spelled_out = resolve("resize?size=4", family="patches")
    assert spelled_out.key(item(patches)) == resolve("resize", family="patches").key(item(patches))


def test_the_device_is_part_of_methods_that_use_it(patches):
    one, two = (resolve("resize", family="patches", device=d) for d in ("cpu", "cuda:1"))
    assert one.config == two.config
    keys = {resolve(OnDevice, family="patches", device=d).key(item(patches)) for d in ("cpu", "cuda:1")}
    assert len(keys) == 2


class OnDevice(Sized):
    def __init__(self, device):
        super().__init__()


def test_names_that_are_no_device_are_refused():
    for device in ("cpu", "cuda", "cuda:1", "mps"):
        check_device(device)
    for device in ("banana", "cuda:", "cuda:x", "CPU", ""):
        with pytest.raises(InputError, match="unknown device"):
            check_device(device)
    with pytest.raises(InputError, match="unknown device 'banana'"):
        resolve("sift", family="patches", device="banana")


def test_real_valued_patch_descriptors_take_another_distance():
    plain, same, l1 = (resolve(f"pixels{q}", family="patches") for q in ("", "?distance=l2", "?distance=l1"))
    assert (plain.name, plain.config) == (same.name, same.config)
    assert (l1.name, l1.distance) == ("pixels?distance=l1", "l1")
    assert l1.config != plain.config
    both = resolve("resize?size=6&distance=l1+l2", family="patches")
    assert (both.name, both.distance) == ("resize?size=6&distance=l1+l2", "l1")
    with pytest.raises(UnknownNameError, match=r"unknown distance of pixels 'l3'.*Known: l1, l2"):
        resolve("pixels?distance=l3", family="patches")


def test_a_file_that_ends_the_program_is_a_sentence(tmp_path):
    (tmp_path / "m.py").write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(InputError, match=r"m\.py cannot be imported: SystemExit: 0"):
        resolve(f"{tmp_path}/m.py:Mine", family="patches")
