# SPDX-License-Identifier: BSD-3-Clause
"""Files that are something else than their names say are called what they are, by every reader."""

import pytest

from tiepoint.core.errors import InputError
from tiepoint.datasets.validation.dataset import check_dataset
from tiepoint.formats.flow.flo import read_flo
from tiepoint.formats.flow.reader import read_flow_array
from tiepoint.formats.hpatches.descriptors import read_array
from tiepoint.formats.hpatches.patch_strip import read_strip_header
from tiepoint.formats.image.mask import read_mask
from tiepoint.formats.image.reader import read_image, read_size
from tiepoint.formats.keypoints.features import read_features
from tiepoint.formats.keypoints.pf_willow import read_pf_keypoints
from tiepoint.formats.matches.native import read_npz
from tiepoint.formats.sniff import sniff
from tiepoint.methods.networks.batches import checked_file

POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:99cf7e1ca167896eb4ca2fe3d903beff6566243a3c0c8e07a13a2596648ad670\nsize 1279545572\n"
)
PAGE = b"<!DOCTYPE html>\n<html lang=en><head><title>Sign in</title></head><body>" + b" " * 400
READERS = {
    "a.png": [read_image, read_size, read_mask, read_strip_header],
    "a.jpg": [read_image, read_size],
    "a.flo": [read_flo],
    "a.npz": [read_npz, read_flow_array, read_features, read_array],
    "a.npy": [read_array],
    "a.mat": [read_pf_keypoints],
    "a.pth": [lambda path: checked_file(str(path), "weight file")],
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(("data", "words"), [(POINTER, "is a Git LFS pointer to"), (PAGE, "is a web page")])
def test_readers_name_pointers_and_pages(tmp_path, name, data, words):
    path = tmp_path / name
    path.write_bytes(data)
    for reader in READERS[name]:
        with pytest.raises(InputError, match=words):
            reader(path)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (POINTER[:40], "is a Git LFS pointer, not"),
        (b"../.git/annex/objects/mK/p1/SHA256E-s3--0a.zip/SHA256E-s3--0a.zip", "git-annex"),
        (b"\xef\xbb\xbf \r\n<HTML>", "web page"),
        (b"<?xml version='1.0'?>\n<!DOCTYPE html>", "web page"),
        (b"<!-- x -->\n<html>", "web page"),
        (b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code>", "XML response"),
        (b'{"error": "Not found"}', "error message of a server"),
    ],
)
def test_what_is_known(head, words):
    assert words in sniff(head)


@pytest.mark.parametrize(
    "head", [b"", b"PIEH", b"\x89PNG\r\n\x1a\n", b"PK\x03\x04", b'[{"a": 1}]', b"<svg>", b"1 2 3"]
)
def test_what_is_not_named(head):
    assert sniff(head) is None


def test_a_check_names_pointers_in_a_dataset(tmp_path):
    (tmp_path / "v_a").mkdir()
    (tmp_path / "v_a" / "ref.png").write_bytes(POINTER)
    report = check_dataset(tmp_path)
    assert "v_a/ref.png: is a Git LFS pointer to a file of 1,279,545,572 bytes" in str(report)
