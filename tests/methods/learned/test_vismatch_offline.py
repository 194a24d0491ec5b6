"""``vismatch:NAME`` offline: identity by the files of Hugging Face snapshots, and missing files."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from importlib.util import find_spec

import pytest

from tiepoint.core.errors import InputError
from tiepoint.core.records import Item
from tiepoint.methods.resolve import resolve

pytest.importorskip("torch")
if find_spec("huggingface_hub") is None:
    pytest.skip("huggingface_hub is not installed", allow_module_level=True)

ITEM = Item("a--b", "content")
PACKAGE = """
from huggingface_hub import snapshot_download

available_models = ["loftr", "sift-nn", "fetching"]


def get_matcher(matcher_name, device="cpu", max_num_keypoints=2048):
    try:
        snapshot_download(f"vismatch/{matcher_name}")
    except Exception:
        print("not found")
    if matcher_name == "loftr":
        from vismatch.im_models import loftr
        return loftr.made()
    if matcher_name == "fetching":
        import urllib.request
        urllib.request.urlopen("http://localhost:9/weights.pth")
    return lambda a, b: {"matched_kpts0": [[1.0, 1.0]], "matched_kpts1": [[2.0, 2.0]]}
"""
LOFTR = """
from huggingface_hub import hf_hub_download


def made():
    hf_hub_download("kornia/loftr", "outdoor.ckpt")
    return lambda a, b: {"matched_kpts0": [[1.0, 1.0]], "matched_kpts1": [[2.0, 2.0]]}
"""


def snapshot(root, repository, **files):
    """A repository in a cache of Hugging Face."""
    folder = root / f"models--{repository.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc123")
    (folder / "snapshots" / "abc123").mkdir(parents=True)
    for name, content in files.items():
        (folder / "snapshots" / "abc123" / name.replace("__", ".")).write_text(content)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A package like vismatch, and an empty cache."""
    import huggingface_hub.constants

    (tmp_path / "vismatch" / "im_models").mkdir(parents=True)
    (tmp_path / "vismatch" / "__init__.py").write_text(PACKAGE)
    (tmp_path / "vismatch" / "im_models" / "loftr.py").write_text(LOFTR)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    for module in ("_snapshot_download", "file_download"):
        monkeypatch.setattr(f"huggingface_hub.{module}.constants.HF_HUB_CACHE", str(tmp_path / "hub"))

    def forget():
        for name in [n for n in sys.modules if n.partition(".")[0] == "vismatch"]:
            del sys.modules[name]

    forget()
    yield tmp_path / "hub"
    forget()


def test_missing_repository_is_named(cache, no_network):
    with pytest.raises(
        InputError, match=r"huggingface.co/kornia/loftr is not in the cache .*hf download kornia"
    ):
        resolve("vismatch:loftr", family="pairs")


def test_files_of_snapshots_are_in_key(cache, no_network):
    snapshot(cache, "kornia/loftr", outdoor__ckpt="weights")
    snapshot(cache, "vismatch/loftr", README__md="card")
    first = resolve("vismatch:loftr", family="pairs")
    expected = {
        "models--kornia--loftr/abc123/outdoor.ckpt": hashlib.sha256(b"weights").hexdigest(),
        "models--vismatch--loftr/abc123/README.md": hashlib.sha256(b"card").hexdigest(),
    }
    assert first.config["weights"] == expected
    (cache / "models--kornia--loftr/snapshots/abc123/outdoor.ckpt").write_text("other weights")
    again = resolve("vismatch:loftr", family="pairs")
    assert again.key(ITEM) != first.key(ITEM)
    assert set(again.config["weights"]) == set(expected)  # with the module imported before


def test_matcher_without_files_has_no_hashes(cache, no_network):
    assert "weights" not in resolve("vismatch:sift-nn", family="pairs").config


def test_other_downloads_are_refused_and_everything_is_restored(cache):
    import huggingface_hub

    before = socket.socket.connect, huggingface_hub.snapshot_download, os.environ.get("HF_HUB_OFFLINE")
    with pytest.raises(InputError, match=r"cannot be loaded offline: .*run the matcher once with vismatch"):
        resolve("vismatch:fetching", family="pairs")
    now = socket.socket.connect, huggingface_hub.snapshot_download, os.environ.get("HF_HUB_OFFLINE")
    assert now == before
