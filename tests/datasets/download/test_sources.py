# SPDX-License-Identifier: BSD-3-Clause
"""The file of sources: what is in it holds together, and what a user may write instead."""

import json
from urllib.parse import urlsplit

import pytest

from tiepoint.core.errors import FormatError
from tiepoint.datasets.download.allowed_hosts import AddressError, is_listed, next_url
from tiepoint.datasets.download.fetch import is_guarded
from tiepoint.datasets.download.sources import VARIABLE, read_sources
from tiepoint.datasets.validation.releases import releases

NAMES = {
    "hpatches", "hpatches-sequences", "tss", "pf-willow", "pf-pascal", "spair-71k", "wxbs", "evd",
    "megadepth-1500", "scannet-1500",
}  # fmt: skip


@pytest.fixture(autouse=True)
def own(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def test_all_datasets_are_there_with_a_release_that_can_be_recognised():
    found = read_sources()
    assert set(found) == NAMES
    assert {s.release for s in found.values()} <= set(releases())
    assert len({s.folder for s in found.values()}) == len(found)


def test_the_first_mirror_is_always_guarded_and_every_mirror_says_how_it_is_known():
    for source in read_sources().values():
        for file in source.files:
            assert is_guarded(file.mirrors[0])
            assert all(len(m.verified) > 2 for m in file.mirrors)
            assert urlsplit(file.mirrors[0].url).scheme == "https"


def test_scannet_is_not_downloaded():
    source = read_sources()["scannet-1500"]
    assert not source.files
    assert "sign" in source.licence.ask


def written(tmp_path, change, name="s.json"):
    value = json.loads(json.dumps({"format": 1, "sources": {"evd": {}}}))
    value["sources"]["evd"] = json.loads(read_sources()["evd"].model_dump_json())
    change(value["sources"]["evd"], value)
    path = tmp_path / name
    path.write_text(json.dumps(value))
    return path


def test_a_file_of_ones_own_replaces_the_package(tmp_path, monkeypatch):
    path = written(tmp_path, lambda s, _: s.update(title="mine"))
    assert read_sources(path)["evd"].title == "mine"
    monkeypatch.setenv(VARIABLE, str(path))
    assert list(read_sources()) == ["evd"]
    as_yaml = written(tmp_path, lambda s, _: s.update(title="ours"), "s.yaml")  # JSON is YAML
    assert read_sources(as_yaml)["evd"].title == "ours"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s, _: s.update(extra=1), "Extra inputs"),
        (lambda s, _: s["files"][0]["mirrors"][0].update(url="file:///etc/passwd"), "http or https"),
        (
            lambda s, _: s["files"][0]["mirrors"][0].update(url="https://u:p@cmp.felk.cvut.cz/a"),
            "no user name",
        ),
        (lambda s, _: s["files"][0]["mirrors"][0].update(url="https://evil.org/a"), "is missing in `hosts`"),
        (lambda s, _: s["files"][0]["mirrors"][0].update(md5="abc"), "pattern"),
        (lambda s, _: s["files"][0].update(name="../x"), "cannot be part of a path"),
        (lambda s, _: s.update(folder="/tmp"), "cannot be part of a path"),
        (lambda s, _: s.update(files=[]), "in `ask` how to request them"),
        (lambda s, _: s["files"][0].update(about_bytes=-1), "greater than 0"),
        (lambda _, v: v.update(format=2), "format"),
        (lambda _, v: v.update(sources={}), "at least 1"),
    ],
)
def test_a_file_that_does_not_hold_together_is_an_error(tmp_path, change, words):
    with pytest.raises(FormatError, match=words):
        read_sources(written(tmp_path, change))


def test_what_is_no_file_of_sources(tmp_path):
    for name, data in (
        ("a.json", b"{"),
        ("b.json", b"\xff"),
        ("c.yaml", b"a: [b"),
        ("d.json", b"[" * 100_000),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(FormatError, match=r"(is not|unsupported) (JSON|YAML)"):
            read_sources(tmp_path / name)
    with pytest.raises(FormatError, match="does not exist"):
        read_sources(tmp_path / "nowhere.json")
    with pytest.raises(FormatError, match="is a device"):
        read_sources("/dev/zero")


def test_hosts_and_redirects():
    assert is_listed("https://CDN-lfs.huggingface.co./x", ["*.huggingface.co"])
    assert not is_listed("https://huggingface.co/x", ["*.huggingface.co"])
    assert not is_listed("https://evilhuggingface.co/x", ["*.huggingface.co", "huggingface.co"])
    assert next_url("https://a.org/x/y", "../z", ["a.org"]) == "https://a.org/z"
    with pytest.raises(AddressError, match="redirects to http, which is not encrypted"):
        next_url("https://a.org/x", "http://a.org/x", ["a.org"])
    with pytest.raises(AddressError, match="redirects to an invalid URL"):
        next_url("https://a.org/x", "https://[", ["a.org"])
