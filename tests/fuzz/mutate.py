"""Seeded mutation of valid examples: of bytes, and of the plain values inside an encoding.

A mutation of bytes finds what a reader does with any input; one of values, packed and sealed again, gets past
the checksums and types that stop the first kind.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

NUMBERS = (0, 1, -1, 2, 7, 20, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32, 2**53)
HUGE_NUMBERS = (2**62, -(2**62), 2**63 - 1, -(2**63), 2**63, 2**64 - 1)
NASTY: tuple[Any, ...] = (
    *NUMBERS,
    *HUGE_NUMBERS,
    None,
    True,
    False,
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "a",
    "é\0\n\x1b[31m",
    "x" * 300,
    b"",
    b"\x00" * 20,
    b"\xff" * 20,
    b"\x01" * 19,
    [],
    {},
    [[[[[[[[]]]]]]]],
)
BYTES = (
    b"\x00",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\n",
    b"\r\n",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b" ",
)
PACKED = (
    b"\xdd\xff\xff\xff\xff",
    b"\xc6\x7f\xff\xff\xff",
    b"\xdf\x00\x10\x00\x00",
    b"\x91",
    b"\xc0",
    b"\xca",
    b"\xcf",
)
"""Beginnings of huge, nested and odd msgpack values."""


def mutated(rng: random.Random, data: bytes, splices: Sequence[bytes] = BYTES) -> bytes:
    """The bytes with one to some of them dropped, doubled, replaced, put in or moved."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(8)
        if kind == 0:
            del out[at : at + rng.choice((1, 1, 2, 4, 16, 100))]
        elif kind == 1:
            out[at:at] = rng.choice(splices) * rng.choice((1, 1, 1, 2, 60))
        elif kind == 2:
            out[at:at] = out[max(0, at - rng.randrange(1, 60)) : at] * rng.choice((1, 1, 2, 20))
        elif kind == 3:
            out[at : at + 1] = bytes((rng.randrange(256),))
        elif kind == 4 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 5:
            width = rng.choice((1, 2, 4, 8))
            number = rng.choice(NUMBERS + HUGE_NUMBERS) & ((1 << 8 * width) - 1)
            out[at : at + width] = number.to_bytes(width, rng.choice(("big", "little")))
        elif kind == 6:
            start = rng.randrange(len(out) + 1)
            out[at:at] = out[start : start + rng.randrange(1, 40)]
        elif rng.randrange(3) == 0:
            del out[at:]
    return bytes(out)


def changed(rng: random.Random, value: Any, nasty: Sequence[Any] = NASTY) -> Any:
    """A copy of plain values (lists, maps, scalars) with one to three of them changed somewhere."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        value = _changed(rng, value, nasty)
    return value


def _changed(rng: random.Random, value: Any, nasty: Sequence[Any]) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        if rng.random() < 0.05:
            return {other: kept for other, kept in value.items() if other != key}
        return {**value, key: _changed(rng, value[key], nasty)}
    if isinstance(value, list | tuple) and value and rng.random() < 0.9:
        out = list(value)
        at = rng.randrange(len(out))
        kind = rng.randrange(20)
        if kind == 0:
            del out[at]
        elif kind == 1:
            out.insert(at, out[rng.randrange(len(out))])
        elif kind == 2:
            out[:] = out * rng.choice((2, 3, 20))
        elif kind == 3:
            rng.shuffle(out)
        else:
            out[at] = _changed(rng, out[at], nasty)
        return out
    return _scalar(rng, value, nasty)


def _scalar(rng: random.Random, value: Any, nasty: Sequence[Any]) -> Any:
    if rng.random() < 0.15:
        return rng.choice(nasty)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice(
            (
                value + 1,
                value - 1,
                -value,
                value ^ (1 << rng.randrange(63)),
                rng.choice(NUMBERS),
                rng.choice(HUGE_NUMBERS),
            )
        )
    if isinstance(value, float):
        return rng.choice((-value, value * 2, value + 1e-9, rng.random(), float("nan"), float("-inf")))
    if isinstance(value, str):
        return mutated(rng, value.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
    if isinstance(value, bytes):
        return mutated(rng, value) if rng.random() < 0.6 else rng.randbytes(len(value))
    return rng.choice(nasty)


def of(corpus: Sequence[bytes], splices: Sequence[bytes] = BYTES) -> Callable[[random.Random], bytes]:
    """A generator of mutated examples; one in fifty is an example as it is, one in fifty noise."""

    def generate(rng: random.Random) -> bytes:
        draw = rng.randrange(50)
        if draw == 0:
            return rng.choice(corpus)
        if draw == 1:
            return rng.randbytes(rng.randrange(200))
        return mutated(rng, rng.choice(corpus), splices)

    return generate
