"""Valid values of msgspec types, made by dice from nothing but their annotations."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import inspect as shapes

IDS = (b"\x01" * 20, b"\x02" * 20, b"\x80" + b"\x00" * 19, b"\xfe" * 20)

TEXTS = ("", "log", "127.0.0.1", "shop", "top", "agent-1", "00c0ffee00c0ffee")


def example(rng: random.Random, kind: Any) -> Any:
    """A valid value of a type, as plain values that `msgspec.convert` takes."""
    return _value(rng, shapes.type_info(kind), 0)


def examples(rng: random.Random, kinds: Sequence[type[msgspec.Struct]], each: int) -> list[Any]:
    """Some of each type; each fits its type, which is checked."""
    found = [example(rng, kind) for kind in kinds for _ in range(each)]
    for value, kind in zip(found, [kind for kind in kinds for _ in range(each)], strict=True):
        msgspec.convert(value, kind)
    return found


def _value(rng: random.Random, shape: shapes.Type, depth: int) -> Any:
    match shape:
        case shapes.IntType():
            most = min(shape.le if shape.le is not None else 2**63, (shape.lt or 2**63) - 1)
            return min(rng.choice((0, 1, 2, 7, 100, 1431856800, 2**40)), most)
        case shapes.FloatType():
            return rng.choice((0.0, 1.0, 0.25, 30.0))
        case shapes.BoolType():
            return rng.random() < 0.5
        case shapes.StrType(pattern=pattern):
            return rng.choice([text for text in TEXTS if pattern is None or re.search(pattern, text)])
        case shapes.BytesType(min_length=least):
            return rng.choice(IDS) if least else rng.choice((*IDS, b"", b"\x03", b"{}"))
        case shapes.NoneType():
            return None
        case shapes.LiteralType():
            return rng.choice(shape.values)
        case shapes.UnionType():
            return _value(rng, rng.choice(shape.types), depth)
        case shapes.ListType() | shapes.VarTupleType():
            return [_value(rng, shape.item_type, depth + 1) for _ in range(rng.randrange(max(1, 4 - depth)))]
        case shapes.TupleType():
            return [_value(rng, item, depth + 1) for item in shape.item_types]
        case shapes.DictType():
            pairs = rng.randrange(3)
            return {
                _value(rng, shape.key_type, depth + 1): _value(rng, shape.value_type, depth + 1)
                for _ in range(pairs)
            }
        case shapes.StructType():
            values = {field.encode_name: _value(rng, field.type, depth + 1) for field in shape.fields}
            if shape.array_like:
                return [*([] if shape.tag is None else [shape.tag]), *values.values()]
            return values if shape.tag is None else {str(shape.tag_field): shape.tag, **values}
        case shapes.AnyType():
            return rng.choice((None, 1, "x", [1, 2], {"a": 1}))
    raise TypeError(f"no example of {shape}")
