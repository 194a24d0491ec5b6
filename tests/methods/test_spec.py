# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

import pytest

from tiepoint.core.errors import InputError, UnknownNameError
from tiepoint.methods.spec import Stage, arguments, parse_spec


@pytest.mark.parametrize(
    ("text", "name", "argument", "params", "transforms"),
    [
        ("sift", "sift", None, {}, []),
        ("sift+rootsift+l2", "sift", None, {}, ["rootsift", "l2"]),
        ("resize?size=6", "resize", None, {"size": "6"}, []),
        ("resize?size=6+zca?clip=0.25", "resize", None, {"size": "6"}, ["zca"]),
        ("files:out/mine", "files", "out/mine", {}, []),
        ("files:a+b/c?distance=l1+power", "files", "a+b/c", {"distance": "l1"}, ["power"]),
        ("kornia:TFeat?weights=w/a.params", "kornia", "TFeat", {"weights": "w/a.params"}, []),
        ("dir/my_file.py:Mine", "dir/my_file.py", "Mine", {}, []),
        ("my_file.py:Mine?flag=true&x=1.5", "my_file.py", "Mine", {"flag": "true", "x": "1.5"}, []),
        ("vlfeat-sift+hpatches-python", "vlfeat-sift", None, {}, ["hpatches-python"]),
    ],
)
def test_parts(text, name, argument, params, transforms):
    spec = parse_spec(text)
    assert (spec.base.name, spec.base.argument, dict(spec.base.params)) == (name, argument, params)
    assert [t.name for t in spec.transforms] == transforms
    assert spec.is_python_file == name.endswith(".py")


def test_text_of_a_spec_parses_to_the_same():
    for text in ("sift", "resize?size=6", "a.py:B?x=1&y=z", "files:d?distance=l1"):
        assert parse_spec(str(parse_spec(text).base)) == parse_spec(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sift+rootsfit", "did you mean 'rootsift'"),
        ("resize?size", "write [?]key=value"),
        ("resize?size=4&size=6", "given twice"),
        ("", "'' names no method"),
        ("+l2", "no method"),
        ("mine.py", "the class is missing"),
    ],
)
def test_what_cannot_be_read_is_explained(text, message):
    with pytest.raises(InputError, match=message):
        parse_spec(text)


def test_a_misspelt_transform_after_an_existing_folder_is_no_folder(tmp_path):
    with pytest.raises(UnknownNameError, match="rootsift"):
        parse_spec(f"files:{tmp_path}+rootsfit")
    plus = tmp_path / "a+b"
    plus.mkdir()
    assert parse_spec(f"files:{plus}").base.argument == str(plus)


def test_arguments_are_checked_against_the_signature():
    def make(path, size=4, device="cpu"): ...

    given = arguments(make, Stage("m", {"size": 6}, "file"), extra={"device": "cuda", "other": 1})
    assert given == (["file"], {"device": "cuda", "size": 6})
    with pytest.raises(UnknownNameError, match="parameter of m 'sice'; did you mean 'size'"):
        arguments(make, Stage("m", {"sice": 6}, "file"))
    with pytest.raises(InputError, match="needs path, as in m:PATH"):
        arguments(make, Stage("m"))
