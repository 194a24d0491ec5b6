# SPDX-License-Identifier: BSD-3-Clause
"""Detect files of the wrong type: Git LFS pointers, HTML pages, server errors."""

from __future__ import annotations

import os.path
import re
from pathlib import Path

HEAD_BYTES = 1024
"""Number of bytes at the start of a file that `sniff` needs."""
_LFS = b"version https://git-lfs"
_ANNEX = re.compile(rb"^[./git]*/annex/objects/")
_PAGE = re.compile(
    rb"^(<!--.*?-->\s*)?(<\?xml[^>]*>\s*)?<(!doctype\s+html|html|head|body|meta|title)\b", re.S | re.I
)
_XML = re.compile(rb"^<(\?xml|Error>|ListBucketResult)", re.I)
_JSON_ERROR = re.compile(rb'^\{\s*"(error|message|errors|detail)"\s*:', re.I)
_SIZE = re.compile(rb"^size (\d+)$", re.M)


def sniff(head: bytes) -> str | None:
    r"""Return a message if the first bytes show that a file has the wrong type. None if it may be valid.

    Detected are Git LFS and git-annex pointers, HTML pages, and XML or JSON error responses of servers.
    Leading whitespace and a byte order mark are ignored. For most types, 40 bytes are sufficient.

    >>> sniff(b"version https://git-lfs.github.com/spec/v1\noid sha256:0a\nsize 12\n")
    'is a Git LFS pointer to a file of 12 bytes, not that file; fetch it with "git lfs pull"'
    >>> sniff(b"\n<!DOCTYPE html><html>")
    'is a web page (HTML), perhaps an error or login page saved under this name; download it again'
    >>> sniff(b"PK\x03\x04") is None
    True
    """
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(_LFS):
        size = _SIZE.search(head)
        target = f" to a file of {int(size[1]):,} bytes" if size and len(size[1]) < 16 else ""
        return f'is a Git LFS pointer{target}, not that file; fetch it with "git lfs pull"'
    if _ANNEX.match(head):
        return 'is a git-annex pointer, not the file; fetch it with "git annex get"'
    if _PAGE.match(head):
        return "is a web page (HTML), perhaps an error or login page saved under this name; download it again"
    if _XML.match(head):
        return "is an XML response of a server, not the file; download it again"
    if _JSON_ERROR.match(head):
        return "is an error message of a server (JSON), not the file; download it again"
    return None


def explain_wrong_type(path: str | Path, otherwise: str) -> str:
    """Return the message of `sniff` for a file, or `otherwise` if `sniff` finds no problem.

    >>> explain_wrong_type("nowhere.npz", "is not an .npz file")
    'is not an .npz file'
    """
    if not os.path.isfile(path):
        return otherwise
    try:
        with open(path, "rb") as file:
            return sniff(file.read(HEAD_BYTES)) or otherwise
    except (OSError, ValueError):
        return otherwise
