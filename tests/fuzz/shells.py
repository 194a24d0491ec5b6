"""Archives, PNG files and packs taken apart and put together again, checksums and lengths right."""

from __future__ import annotations

import hashlib
import io
import struct
import warnings
import zipfile
import zlib
from collections.abc import Sequence

from fuzz.reader import Shell

_PNG = b"\x89PNG\r\n\x1a\n"
_PACK_END = struct.Struct("<QQ32s16s")


def _zip_parts(data: bytes) -> list[bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        return [part for i in z.infolist() for part in (i.filename.encode(), z.read(i))]


def _zip_whole(data: bytes, parts: Sequence[bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as z, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, part in zip(parts[::2], parts[1::2], strict=True):
            z.writestr(
                name[:20_000].decode("utf-8", "replace").partition("\0")[0] or "-", part
            )  # 65,535 bytes is the most
    return out.getvalue()


def _chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    at, found = 8, []
    while at + 12 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        found.append((kind, data[at + 8 : at + 8 + size]))
        at += 12 + size
    return found


def _png_parts(data: bytes) -> list[bytes]:
    """The bodies of all chunks, those of pixels as one and inflated."""
    parts, pixels = [], b"".join(body for kind, body in _chunks(data) if kind == b"IDAT")
    for kind, body in _chunks(data):
        if kind != b"IDAT":
            parts += [kind, body]
        elif pixels:
            parts += [kind, zlib.decompress(pixels)]
            pixels = b""
    return parts


def _png_whole(data: bytes, parts: Sequence[bytes]) -> bytes:
    out = [_PNG]
    for kind, body in zip(parts[::2], parts[1::2], strict=True):
        inner = zlib.compress(body, 1) if kind == b"IDAT" else body
        name = (kind + b"abcd")[:4]
        out += [
            struct.pack(">I", len(inner)),
            name,
            inner,
            struct.pack(">I", zlib.crc32(inner, zlib.crc32(name))),
        ]
    return b"".join(out)


def _pack_parts(data: bytes) -> list[bytes]:
    at, length, _, _ = _PACK_END.unpack(data[-_PACK_END.size :])
    return [data[at : at + length]]


def _pack_whole(data: bytes, parts: Sequence[bytes]) -> bytes:
    at, _, _, last = _PACK_END.unpack(data[-_PACK_END.size :])
    end = _PACK_END.pack(at, len(parts[0]), hashlib.sha256(parts[0]).digest(), last)
    return data[:at] + parts[0] + end


ZIP = Shell(_zip_parts, _zip_whole)
PNG = Shell(_png_parts, _png_whole)
PACK = Shell(_pack_parts, _pack_whole)
