# SPDX-License-Identifier: BSD-3-Clause
"""Pickles are read as data: equal to the usual reader on plain data, and inert on everything else."""

import builtins
import collections
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiepoint.core.errors import FormatError
from tiepoint.formats.safe_pickle import OpaqueObject, parse_plain_pickle, read_plain_pickle

leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.text(), st.binary()
)
whole = st.integers(1 - 2**60, 2**60 - 1)
keys = st.one_of(st.text(), whole, st.tuples(whole, st.text()))
plain = st.recursive(
    leaves,
    lambda x: st.one_of(
        st.lists(x),
        st.dictionaries(keys, x),
        st.tuples(x, x),
        st.sets(whole),
        st.frozensets(st.text()),
    ),
    max_leaves=30,
)


@given(plain, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_plain_data_comes_out_as_it_went_in(value, protocol):
    if protocol < 4 and not _simple(value):
        return  # old protocols write sets (and no bytes) as calls, which stay inert
    assert parse_plain_pickle(pickle.dumps(value, protocol)) == value


def _simple(value):
    if isinstance(value, bytes | set | frozenset):
        return False
    if isinstance(value, dict):
        return all(_simple(v) for v in value.values())
    if isinstance(value, list | tuple):
        return all(_simple(v) for v in value)
    return True


def test_numpy_scalars_and_default_dicts():
    value = collections.defaultdict(int, {"ap": np.float64(0.25), "n": np.int64(7), "f": np.float32(0.5)})
    for protocol in (2, 4, 5):
        assert parse_plain_pickle(pickle.dumps(value, protocol)) == {"ap": 0.25, "n": 7, "f": 0.5}


def test_an_array_stays_inert_beside_plain_values():
    found = parse_plain_pickle(pickle.dumps({"ap": 0.5, "pr": np.arange(3.0)}))
    assert found["ap"] == 0.5
    assert isinstance(found["pr"], OpaqueObject)


class Evil:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


def attacks(marker):
    command = f"touch {marker}"
    code = f"open({str(marker)!r}, 'w').close()"
    yield pickle.dumps(Evil(os.system, (command,)))
    yield pickle.dumps({"e": [Evil(os.system, (command,))]}, 2)
    yield pickle.dumps(Evil(builtins.eval, (f"__import__('os').system({command!r})",)))
    yield pickle.dumps(Evil(builtins.exec, (code,)), 0)
    yield pickle.dumps(Evil(subprocess.Popen, (["touch", str(marker)],)))
    yield pickle.dumps(Evil(builtins.open, (str(marker), "w")))
    yield f"cos\nsystem\n(S'{command}'\ntR.".encode()
    yield f"(S'{command}'\nios\nsystem\n.".encode()
    yield f"(cos\nsystem\nS'{command}'\no.".encode()
    yield (
        b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c" + bytes([len(command)]) + command.encode() + b"\x85R."
    )
    # A defaultdict whose factory is harmful must not be kept: looking up a missing key would call it.
    yield f"ccollections\ndefaultdict\n(cos\nsystem\ntR(S'e'\ncos\nsystem\n(S'{command}'\ntRsb.".encode()
    # dill: a function from raw code, then called.
    yield (
        b"cdill._dill\n_create_function\n(cdill._dill\n_create_code\n(I0\nI0\nI0\nI3\nI83\nS't'\nNNtRctiepoint\n"
        b"__dict__\nS'<lambda>'\nNN}NtR(tR."
    )
    # BUILD would call __setstate__ of whatever was made.
    yield f"cbuiltins\neval\n(S'1'\ntR(S'x'\ncos\nsystem\n(S'{command}'\ntRdb.".encode()


def test_nothing_in_a_malicious_pickle_happens(tmp_path, monkeypatch):
    marker = tmp_path / "pwned"
    modules = set(sys.modules)

    def refuse(*args, **kwargs):
        raise AssertionError("executed")

    count = 0
    programs = list(attacks(marker))
    for protocol in range(6):  # Python loads its text encodings by executing them, rightly
        parse_plain_pickle(pickle.dumps({"a": [1.0, b"b"]}, protocol))
    for module, name in ((os, "system"), (builtins, "eval"), (builtins, "exec"), (subprocess, "Popen")):
        monkeypatch.setattr(module, name, refuse)
    for data in programs:
        try:
            found = parse_plain_pickle(data)
        except FormatError:
            continue
        count += 1
        assert _no_callables(found)
    monkeypatch.undo()
    assert count >= len(programs) - 2
    assert not marker.exists()
    assert "dill" not in set(sys.modules) - modules


def _no_callables(value):
    if isinstance(value, dict):
        return type(value) is dict and all(_no_callables(v) for v in value.values())
    if isinstance(value, list | tuple):
        return all(_no_callables(v) for v in value)
    return isinstance(value, OpaqueObject | str | int | float | bytes | type(None))


@pytest.mark.parametrize(
    "data",
    [b"", b"no pickle", b"\x80\x04K\x01", b".", b"\x80\x04K\x01K\x02.", b"\x80\x04h\x07.", b"(.", b"0.",
     b"t.", b"\x80\x02\x82\x01.", b"Pid\n.", b"]K\x01}s.", b"K\x01K\x02K\x03s."],
)  # fmt: skip
def test_damage_is_reported_with_the_file(tmp_path, data):
    path = tmp_path / "x.p"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=r"x\.p"):
        read_plain_pickle(path)
