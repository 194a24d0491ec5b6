# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import numpy as np
import pytest

from tiepoint.core.errors import InputError, ProblemsError
from tiepoint.core.records import Item
from tiepoint.methods.patches.files import describe_to_csv
from tiepoint.methods.resolve import resolve

ITEMS = [Item(f"v_x/{im}", f"c{im}", 6) for im in ("ref", "e1")]


@pytest.fixture
def table():
    return np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


def folder_with(tmp_path, writer):
    for item in ITEMS:
        path = tmp_path / f"{item.key}"
        path.parent.mkdir(exist_ok=True)
        writer(path)
    return tmp_path


def test_text_and_arrays_give_the_same(tmp_path, table):
    for kind, writer in {
        "csv": lambda p: np.savetxt(f"{p}.csv", table, delimiter=";", fmt="%.9g"),
        "npy": lambda p: np.save(f"{p}.npy", table),
        "npz": lambda p: np.savez(f"{p}.npz", values=table),
    }.items():
        (tmp_path / kind).mkdir()
        method = resolve(f"files:{folder_with(tmp_path / kind, writer)}", family="patches")
        assert method.distance == "l2"
        assert method.needs_payload is False
        np.testing.assert_array_equal(method.extract(ITEMS[0], None)["values"], table)


def test_distance_is_a_parameter(tmp_path, table):
    folder = folder_with(tmp_path, lambda p: np.save(f"{p}.npy", table))
    assert resolve(f"files:{folder}?distance=l1", family="patches").distance == "l1"
    with pytest.raises(InputError, match="unknown distance 'l9'"):
        resolve(f"files:{folder}?distance=l9", family="patches")


def test_bits(tmp_path):
    bits = np.random.default_rng(0).random((6, 64)) < 0.5
    packed = np.packbits(bits, axis=1)
    for kind, writer, more in [
        ("packed", lambda p: np.save(f"{p}.npy", packed), ""),
        ("bool", lambda p: np.save(f"{p}.npy", bits), ""),
        ("text01", lambda p: np.savetxt(f"{p}.csv", bits, fmt="%d", delimiter=","), "?distance=hamming"),
        ("bytes", lambda p: np.savetxt(f"{p}.csv", packed, fmt="%d", delimiter=","), "?distance=hamming"),
    ]:
        (tmp_path / kind).mkdir()
        method = resolve(f"files:{folder_with(tmp_path / kind, writer)}{more}", family="patches")
        assert method.distance == "hamming"
        np.testing.assert_array_equal(method.extract(ITEMS[1], None)["values"], packed)


def test_key_follows_the_file_not_the_folder(tmp_path, table):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        folder_with(tmp_path / name, lambda p: np.save(f"{p}.npy", table))
    one, two = (resolve(f"files:{tmp_path / n}", family="patches") for n in ("one", "two"))
    before = one.key(ITEMS[0])
    assert two.key(ITEMS[0]) == before
    assert before is not None
    changed = table.copy()
    changed[0, 0] += 1
    np.save(tmp_path / "one" / "v_x" / "ref.npy", changed)
    assert one.key(ITEMS[0]) != before
    assert one.key(ITEMS[1]) == before  # the same content, whatever the image is called


def test_missing_files_are_reported_all_at_once(tmp_path, table):
    folder = folder_with(tmp_path, lambda p: np.save(f"{p}.npy", table))
    method = resolve(f"files:{folder}", family="patches")
    wanted = [*ITEMS, Item("v_x/h1", "c", 6), Item("v_y/ref", "c", 6)]
    with pytest.raises(ProblemsError) as caught:
        method.check(wanted)
    assert len(caught.value.problems) == 2
    assert "v_x/h1" in str(caught.value)
    assert "v_y/ref" in str(caught.value)
    method.check(ITEMS)
    with pytest.raises(InputError, match=r"v_y/ref.* is missing"):
        method.extract(wanted[-1], None)


def test_wrong_folders_are_explained(tmp_path, table):
    inner = tmp_path / "outer" / "mine"
    inner.mkdir(parents=True)
    folder_with(inner, lambda p: np.save(f"{p}.npy", table))
    for spec, message in [
        (tmp_path / "none", "no such folder"),
        (tmp_path / "outer", "one level deeper; use files:.*mine"),
        (inner / "v_x", "folder of one sequence; use files:.*mine"),
    ]:
        with pytest.raises(InputError, match=message):
            resolve(f"files:{spec}", family="patches")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"expected SEQ/IM\.csv"):
        resolve(f"files:{tmp_path / 'empty'}", family="patches")


def test_row_count_names_the_file(tmp_path, table):
    folder = folder_with(tmp_path, lambda p: np.save(f"{p}.npy", table))
    method = resolve(f"files:{folder}", family="patches")
    with pytest.raises(InputError, match=r"ref\.npy: found 6 descriptors for 7 patches"):
        method.extract(Item("v_x/ref", "c", 7), None)


def test_nan_in_a_file(tmp_path, table):
    table[2, 1] = np.nan
    folder = folder_with(tmp_path, lambda p: np.savetxt(f"{p}.csv", table, delimiter=","))
    with pytest.raises(InputError, match=r"NaN.*2.*`on_bad=.miss.`"):
        resolve(f"files:{folder}", family="patches").extract(ITEMS[0], None)
    missed = resolve(f"files:{folder}", family="patches", on_bad="miss").extract(ITEMS[0], None)
    assert np.flatnonzero(~missed["valid"]).tolist() == [2]


def test_dimensions_must_agree(tmp_path, table):
    folder = folder_with(tmp_path, lambda p: np.save(f"{p}.npy", table))
    np.save(folder / "v_x" / "e1.npy", table[:, :3])
    method = resolve(f"files:{folder}", family="patches")
    method.extract(ITEMS[0], None)
    with pytest.raises(InputError, match="v_x/e1 has 3 columns and v_x/ref has 4"):
        method.extract(ITEMS[1], None)


@pytest.mark.parametrize("name", ["sift", "pixels", "orb", "resize"])
def test_written_descriptors_come_back(tmp_path, patches, name):
    method = resolve(name, family="patches")
    item = Item("v_x/ref", "c", len(patches))
    written = describe_to_csv(method, [(item, patches)], tmp_path / "out")
    assert written == [tmp_path / "out" / "v_x" / "ref.csv"]
    back = resolve(f"files:{tmp_path / 'out'}?distance={method.distance}", family="patches")
    np.testing.assert_array_equal(
        back.extract(item, None)["values"], method.extract(item, patches)["values"].astype(np.float64)
    )
    with pytest.raises(InputError, match="exists; choose"):
        describe_to_csv(method, [(item, patches)], tmp_path / "out")
    describe_to_csv(method, [(item, patches)], tmp_path / "out", overwrite=True)


def test_failed_rows_are_written_as_nan(tmp_path, patches):
    few = patches[:3].copy()
    few[1] = 50
    method = resolve("vlfeat-sift", family="patches", on_bad="miss")
    item = Item("v_x/ref", "c", 3)
    describe_to_csv(method, [(item, few)], tmp_path)
    back = resolve(f"files:{tmp_path}", family="patches", on_bad="miss").extract(item, None)
    assert back["valid"].tolist() == [True, False, True]
