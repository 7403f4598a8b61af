"""JSON by the native scanner is JSON by the decoder, to the last bit."""

from __future__ import annotations

import struct

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elfmesh.ingest.parsers.json_lines import JsonParser
from elfmesh.ingest.parsers.schema import DECLARABLE, StreamSchema
from tests.ingest.parsers.agreement import compare, using
from tests.ingest.parsers.scanner.grammar import PATHS, json_blocks, number


@settings(max_examples=400, deadline=None)
@given(json_blocks(), st.lists(st.sampled_from(PATHS), unique=True, max_size=6))
@example([b'{"a":1}\n{"a":1.5}\n', b'{"a":9007199254740993}\n{"a":0.5}\n'], ["a"])
@example([b'{"b":{"c":1},"b":{"x":2}}\n{"b":{"c":1},"b":7}\n'], ["b.c"])
@example([b'{"a":{"x":1}}\n', b'{"a":1.5}\n', b'{"a":1}\n{"a":2.5}\n'], ["a"])
def test_json_by_the_scanner_is_json_by_the_decoder(blocks: list[bytes], columns: list[str]) -> None:
    compare(JsonParser, blocks, columns)


@settings(max_examples=150, deadline=None)
@given(json_blocks(), st.sampled_from(sorted(DECLARABLE)), st.sampled_from([None, "b.c", "x"]))
def test_declared_types_and_times_agree(blocks: list[bytes], kind: str, timestamp: str | None) -> None:
    def make() -> JsonParser:
        return JsonParser(schema=StreamSchema({"a": DECLARABLE[kind]}), timestamp=timestamp)

    compare(make, blocks, ["a", "ts", "b"])


@settings(max_examples=200, deadline=None)
@given(st.lists(number, min_size=1, max_size=8))
def test_every_number_is_the_decoders_to_the_last_bit(numbers: list[str]) -> None:
    block = "".join(f'{{"a":{text}}}\n' for text in numbers).encode()
    (parsed,) = compare(JsonParser, [block], ["a"])
    column = parsed.batch.column("a")
    if pa.types.is_floating(column.type):
        with using("python"):
            slow = JsonParser().parse(block, ["a"]).batch.column("a")
        bits = [[None if v is None else struct.pack("d", v) for v in c.to_pylist()] for c in (column, slow)]
        assert bits[0] == bits[1], "-0.0 is not 0.0"


def hostile_lines() -> list[bytes]:
    deep = 100_000
    return [
        b'{"a":1}',
        b'{"a":"' + b"x" * (1 << 20) + b'","c":2}',
        b'{"x":"' + b"\\u00e9" * 1000 + b'","a":"' + b"\\ud83d\\ude00" * 500 + b'"}',
        b'{"a":' + b"[" * deep + b"]" * deep + b"}",
        b'{"x":' + b'{"x":' * deep + b"1" + b"}" * deep + b"}",
        b'{"x":' + b"[" * deep,
        b'{"x":' + b"[" * 62 + b"]" * 62 + b',"a":3}',
        b'{"x":' + b"[" * 70 + b"]" * 70 + b',"a":4}',
        b'{"b":' * 80 + b"1" + b"}" * 80,
        b'{"a":' + b"7" * 100_000 + b"}",
        b'{"x":' + b"7" * 100_000 + b',"a":5}',
        b'{"a":0.' + b"7" * 100_000 + b"}",
        b'{"a":1e' + b"7" * 1000 + b"}",
        b"{" + b",".join(b'"k%d":%d' % (n, n) for n in range(5000)) + b',"a":6}',
        b'{"a":7',
        b'{"a":"\xff\xc3("}',
        b'{"a":"\xed\xa0\x80"}',
    ]


def test_hostile_lines_cost_themselves() -> None:
    lines = hostile_lines()
    alone = [line + end for line in lines for end in (b"\n", b"")]
    compare(JsonParser, alone, ["a", "b.b.b", "c"])
    compare(JsonParser, [b"\n".join(lines)], ["a", "b.b.b", "c"])
    compare(JsonParser, [b"\n".join(lines * 3) + b"\n\xe2\x82"], ["x", "a"])
