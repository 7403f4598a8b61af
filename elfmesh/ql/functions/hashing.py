"""Hash functions with Spark's results and seed (42): md5, sha1, sha2, crc32, hash (Murmur3), xxhash64.

xxh32 and xxh64 are not Spark's: the seed of other tools, 0, over the bytes of one value.

Deviation: every integer is hashed as a BIGINT; Spark hashes the literal 1 as an INT.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from elfmesh.ql.expressions.bytes_text import raw_of
from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, convert, lift_arrays
from elfmesh.ql.expressions.registry import CompileContext, argument, function, literal_int, nothing
from elfmesh.ql.values.columns import map_distinct
from elfmesh.ql.values.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    is_decimal,
    is_nested,
    type_name,
)

_SEED = 42
_M32, _M64 = (1 << 32) - 1, (1 << 64) - 1
_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
)  # fmt: skip


def _rotate32(x: int, by: int) -> int:
    return ((x << by) | (x >> (32 - by))) & _M32


def _mix32(h: int, k: int) -> int:
    k = _rotate32(k * 0xCC9E2D51 & _M32, 15) * 0x1B873593 & _M32
    return (_rotate32(h ^ k, 13) * 5 + 0xE6546B64) & _M32


def _final32(h: int, length: int) -> int:
    h ^= length
    h = (h ^ (h >> 16)) * 0x85EBCA6B & _M32
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & _M32
    return h ^ (h >> 16)


def murmur3(data: bytes, seed: int, words: bool) -> int:
    """Return Spark's Murmur3 of bytes, as a signed int; `words` is true for numbers, false for strings.

    The last bytes of a string that do not fill a word are mixed one by one, as signed numbers.
    """
    h = seed & _M32
    whole = len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        h = _mix32(h, word)
    if not words:
        for byte in data[whole:]:
            h = _mix32(h, (byte - 256 if byte > 127 else byte) & _M32)
    done = _final32(h, len(data))
    return done - (1 << 32) if done >> 31 else done


def _rotate64(x: int, by: int) -> int:
    return ((x << by) | (x >> (64 - by))) & _M64


def _round64(acc: int, lane: int) -> int:
    return _rotate64((acc + lane * _P2) & _M64, 31) * _P1 & _M64


def xxhash64(data: bytes, seed: int, _words: bool = True) -> int:
    seed &= _M64
    at, size = 0, len(data)
    if size >= 32:
        lanes = [(seed + _P1 + _P2) & _M64, (seed + _P2) & _M64, seed, (seed - _P1) & _M64]
        while at + 32 <= size:
            lanes = [
                _round64(lane, word)
                for lane, word in zip(lanes, struct.unpack_from("<4Q", data, at), strict=True)
            ]
            at += 32
        h = sum(_rotate64(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _M64
        for lane in lanes:
            h = ((h ^ _round64(0, lane)) * _P1 + _P4) & _M64
    else:
        h = (seed + _P5) & _M64
    h = (h + size) & _M64
    while at + 8 <= size:
        h = (_rotate64(h ^ _round64(0, struct.unpack_from("<Q", data, at)[0]), 27) * _P1 + _P4) & _M64
        at += 8
    if at + 4 <= size:
        h = (_rotate64(h ^ (struct.unpack_from("<I", data, at)[0] * _P1 & _M64), 23) * _P2 + _P3) & _M64
        at += 4
    for byte in data[at:]:
        h = _rotate64(h ^ (byte * _P5 & _M64), 11) * _P1 & _M64
    h = (h ^ (h >> 33)) * _P2 & _M64
    h = (h ^ (h >> 29)) * _P3 & _M64
    h ^= h >> 32
    return h - (1 << 64) if h >> 63 else h


def xxh32(data: bytes, seed: int = 0) -> int:
    """Return XXH32 of bytes, unsigned."""
    one, two, three, four, five = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    at, size = 0, len(data)
    if size >= 16:
        lanes = [(seed + one + two) & _M32, (seed + two) & _M32, seed & _M32, (seed - one) & _M32]
        while at + 16 <= size:
            lanes = [
                _rotate32((lane + word * two) & _M32, 13) * one & _M32
                for lane, word in zip(lanes, struct.unpack_from("<4I", data, at), strict=True)
            ]
            at += 16
        h = sum(_rotate32(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _M32
    else:
        h = (seed + five) & _M32
    h = (h + size) & _M32
    while at + 4 <= size:
        h = _rotate32((h + struct.unpack_from("<I", data, at)[0] * three) & _M32, 17) * four & _M32
        at += 4
    for byte in data[at:]:
        h = _rotate32((h + byte * five) & _M32, 11) * one & _M32
    h = (h ^ (h >> 15)) * two & _M32
    h = (h ^ (h >> 13)) * three & _M32
    return h ^ (h >> 16)


def _hashed(kind: pa.DataType) -> tuple[Callable[[pa.Array], pa.Array], Callable[[Any], bytes], bool]:
    """Return how a type is hashed: conversion of the column, bytes of a value, whether it is a number."""
    if kind == BOOLEAN:
        return _same, lambda value: struct.pack("<i", value), True
    if kind == DATE:
        return lambda array: array.view(pa.int32()), lambda days: struct.pack("<i", days), True
    if kind == BIGINT:
        return _same, lambda value: struct.pack("<q", value), True
    if kind == TIMESTAMP:
        return lambda array: array.view(pa.int64()), lambda value: struct.pack("<q", value), True
    if kind == DOUBLE:
        return _same, _double_bytes, True
    if kind == STRING:
        return _same, lambda text: text.encode(), False
    if kind == BINARY:
        return _same, lambda held: held, False
    assert is_decimal(kind), kind
    if kind.precision <= 18:
        return _same, lambda value: struct.pack("<q", int(value.scaleb(kind.scale))), True
    return _same, lambda value: _big_bytes(value, kind.scale), False


def _same(array: pa.Array) -> pa.Array:
    return array


def _double_bytes(value: float) -> bytes:
    return struct.pack("<d", float("nan") if value != value else value + 0.0)


def _big_bytes(value: Decimal, scale: int) -> bytes:
    number = int(value.scaleb(scale))
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


@function("hash xxhash64", 1, None, signature="$(x, y, ...)")
def _hash(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    for at, operand in enumerate(args):
        if is_nested(operand.type) or pa.types.is_duration(operand.type):
            raise context.error(
                call.args[at], f"{call.name} does not take {type_name(operand.type)}", "Write to_json(x)."
            )
    one = murmur3 if call.name == "hash" else xxhash64
    operands = [operand.raw or operand for operand in args if operand.type != pa.null()]
    if not operands:
        return Operand(BIGINT, lambda _env: pa.scalar(_SEED, BIGINT), constant=True)
    ways = [_hashed(operand.type) for operand in operands]

    def kernel(*columns: pa.Array) -> pa.Array:
        seeds: list[int] = []
        for (step, to_bytes, number), column in zip(ways, columns, strict=True):
            plain = step(column)
            if not seeds:
                alone = partial(_alone, one, to_bytes, number)
                seeds = map_distinct(alone, plain, BIGINT).fill_null(_SEED).to_pylist()
                continue
            seeds = [
                seed if value is None else one(to_bytes(value), seed, number)
                for seed, value in zip(seeds, plain.to_pylist(), strict=True)
            ]
        return pa.array(seeds, BIGINT)

    return lift_arrays(BIGINT, kernel, *operands)


def _alone(
    one: Callable[[bytes, int, bool], int], to_bytes: Callable[[Any], bytes], number: bool, value: Any
) -> int:
    return one(to_bytes(value), _SEED, number)


@function("crc32", 1, signature="$(x)")
def _crc32(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    held = bytes_of(context, call, args)
    return lift_arrays(BIGINT, lambda x: map_distinct(zlib.crc32, x, BIGINT), held)


@function("xxh32", 1, signature="$(x)")
@function("xxh64", 1, signature="$(x)")
def _xxh(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    one = xxh32 if call.name == "xxh32" else partial(xxhash64, seed=0)
    held = bytes_of(context, call, args)
    return lift_arrays(BIGINT, lambda x: map_distinct(one, x, BIGINT), held)


def bytes_of(context: CompileContext, call: Call, args: list[Operand], at: int = 0) -> Operand:
    """Return argument `at` as bytes; a string is encoded as UTF-8."""
    return raw_of(args[at]) or convert(argument(context, call, args, at, STRING), BINARY)


def _digest(name: str) -> Callable[[bytes], str]:
    return lambda held: hashlib.new(name, held, usedforsecurity=False).hexdigest()


@function("md5", 1, signature="$(x)")
@function("sha1 sha", 1, signature="$(x)")
def _one_digest(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    held, digest = bytes_of(context, call, args), _digest("md5" if call.name == "md5" else "sha1")
    return lift_arrays(STRING, lambda x: map_distinct(digest, x, STRING), held)


@function("sha2", 2, signature="$(x, bits)")
def _sha2(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    bits = literal_int(context, call, args, 1, "the number of bits")
    known = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}
    name = None if bits is None else known.get(bits)
    if name is None:
        return nothing(STRING)
    held, digest = bytes_of(context, call, args), _digest(name)
    return lift_arrays(STRING, lambda x: map_distinct(digest, x, STRING), held)
