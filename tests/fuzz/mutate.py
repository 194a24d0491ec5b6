"""Seeded mutations of files: bits, blocks, lengths, pieces of others, tokens that text stumbles on."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random

_NUMBERS = (
    b"nan", b"inf", b"-inf", b"-1", b"0", b"1e999", b"-1e-999", b"1e308", b"9223372036854775808",
    b"4294967296", b"2147483648", b"1" * 400, b"0x10", b"1_0", b"1e", b".", b"-", b"+1", b"00", b"1.5",
    "٣".encode(),
)  # fmt: skip
_TOKENS = (
    b"\0", b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r\n", b"\r", b"\n", b"\n\n", b",", b";",
    b"\t", b" ", b'"', b"'", b"#", b"\\", b"/", b"../", b"null", b"true", b"NaN", b"Infinity", b"{}", b"[]",
    b'{"', b'"}', b":", b"&a", b"*a", b"!!python/object:os.system", b"- ", b"%", b"=", b"\x1b[31m",
    b"\\ud800", "é".encode("latin1"), b"\x85", "\u2028".encode(), b"2026-13-45", b"1e5", b"(2, 3)", b"True",
    b"'|O'",
)  # fmt: skip
_DEEP = (b"[", b"(", b"{", b'{"a":', b"-", b"~", b"not ", b"\x28", b"\x85", b"a:\n ", b"<a>")
_INTEGERS = (
    0,
    1,
    2,
    3,
    127,
    128,
    255,
    256,
    32767,
    65535,
    65536,
    1 << 20,
    1 << 27,
    2**31 - 1,
    2**31,
    2**32 - 1,
)
_WIDE = (*_INTEGERS, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


def mutated(data: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    """The data with one to four mutations; now and then it is empty, noise, or another file altogether.

    >>> mutated(b"abc", [], Random(1)) == mutated(b"abc", [], Random(1))
    True
    """
    chance = rng.random()
    if chance < 0.01:
        return rng.choice((b"", b"\0", rng.randbytes(64), b"\n", data + data, rng.choice(others or (b"",))))
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        data = rng.choice(_KINDS)(data, others, rng)
    return data


def _span(data: bytes, rng: Random, most: int = 64) -> tuple[int, int]:
    """A piece of the data; short ones are likelier, and so are the ends, where headers are."""
    size = len(data)
    near = rng.random()
    at = rng.randrange(size + 1)
    if near < 0.35:
        at = min(rng.randrange(64), size)
    elif near < 0.45:
        at = max(0, size - rng.randrange(96))
    return at, min(size, at + rng.randrange(1, rng.choice((2, 5, 9, most))))


def _flip(data: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    if not data:
        return data
    out = bytearray(data)
    at, _ = _span(data, rng)
    out[min(at, len(out) - 1)] ^= 1 << rng.randrange(8)
    return bytes(out)


def _byte(data: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    at, end = _span(data, rng, 3)
    return (
        data[:at]
        + bytes(rng.choice((0, 255, 127, 128, rng.randrange(256))) for _ in range(end - at))
        + data[end:]
    )


def _zero(data: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    at, end = _span(data, rng, 512)
    return data[:at] + bytes(end - at) + data[end:]


def _cut(data: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _drop(data: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    at, end = _span(data, rng)
    return data[:at] + data[end:]


def _insert(data: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    at, _ = _span(data, rng)
    return data[:at] + rng.randbytes(rng.choice((1, 2, 4, 8, 40))) + data[at:]


def _repeat(data: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    at, end = _span(data, rng)
    return data[:end] + data[at:end] * rng.choice((1, 1, 2, 8, 200)) + data[end:]


def _swap(data: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    (a, b), (c, d) = sorted((_span(data, rng), _span(data, rng)))
    if b > c:
        return data
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _splice(data: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    other = rng.choice(others) if others else data
    if rng.random() < 0.5:
        return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]
    (at, end), (a, b) = _span(data, rng), _span(other, rng, 256)
    return data[:at] + other[a:b] + data[end:]


def _integer(data: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    """A number of a header: small, at a border, huge; aligned more often than not."""
    form = rng.choice(("<H", ">H", "<I", ">I", "<I", ">I", "<Q", ">Q"))
    size = struct.calcsize(form)
    at, _ = _span(data, rng)
    at = at // size * size if rng.random() < 0.6 else at
    known = rng.choice(_WIDE) if rng.random() < 0.8 else len(data) + rng.randrange(-2, 3)
    return data[:at] + struct.pack(form, known % (1 << 8 * size)) + data[at + size :]


def _token(data: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    at, end = _span(data, rng)
    return data[:at] + rng.choice(_TOKENS) + data[at if rng.random() < 0.5 else end :]


def _number(data: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    """A run of digits becomes another number."""
    at, _ = _span(data, rng)
    while at < len(data) and not 48 <= data[at] < 58:
        at += 1
    end = at
    while end < len(data) and 48 <= data[end] < 58:
        end += 1
    return data[:at] + rng.choice(_NUMBERS) + data[end:]


def _line(data: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    lines = data.split(b"\n")
    i, k = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(4)
    if kind == 0:
        lines[i], lines[k] = lines[k], lines[i]
    elif kind == 1:
        lines.insert(i, lines[k])
    elif kind == 2:
        del lines[i]
    else:
        lines[i] = lines[i] * rng.choice((2, 50)) if len(lines[i]) < 4096 else b""
    return b"\n".join(lines)


def _deep(data: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    at, _ = _span(data, rng)
    return data[:at] + rng.choice(_DEEP) * rng.choice((60, 1100, 9000)) + data[at:]


Kind = Callable[[bytes, Sequence[bytes], Random], bytes]
_KINDS: tuple[Kind, ...] = (
    _flip, _flip, _flip, _flip, _byte, _byte, _byte, _zero, _cut, _drop, _insert, _repeat, _swap, _splice,
    _integer, _integer, _integer, _token, _token, _number, _number, _line, _deep,
)  # fmt: skip
