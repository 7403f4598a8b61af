"""The native scanner never changes an answer: it agrees with the slow path on anything that can be a line."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elfmesh.agent.parsers import StreamFormat, scanner
from elfmesh.agent.parsers.access import COMBINED_COLUMNS, COMMON_COLUMNS
from elfmesh.agent.parsers.cells import TEXT, Field, Grid, spans
from elfmesh.agent.parsers.json_lines import JsonParser, json_fields
from elfmesh.agent.parsers.lines import Lines, valid_utf8
from elfmesh.agent.parsers.schema import DECLARABLE, StreamSchema, timestamps
from elfmesh.errors import ConfigError
from tests.agent.parsers.agreement import compare, forced, using

DATA = Path(__file__).parents[3].parent / "shared/data"
PATHS = ["a", "b.c", "a.b", "ts", "c", "b", "a.b.c", "time.x", "é", "_raw"]


@pytest.fixture(autouse=True)
def which_scanner() -> Iterator[str]:
    """Once, not twice: these tests run both ways themselves."""
    yield from forced("native")


# JSON documents from a grammar, with the slips that real writers make and the ones that nobody makes.

space = st.sampled_from(["", "", "", "", " ", "\t", "  ", "\r", "\x0b", "\xa0"])
escape = st.sampled_from(
    [
        *(
            "\\n",
            "\\t",
            '\\"',
            "\\\\",
            "\\/",
            "\\b",
            "\\f",
            "\\r",
            "\\u0041",
            "\\u00e9",
            "\\u20aC",
            "\\u0000",
        ),
        *(
            "\\ud83d\\ude00",
            "\\ud800",
            "\\udc00",
            "\\ud83d\\u0041",
            "\\u12",
            "\\uzzzz",
            "\\x41",
            "\\",
            "\\U0041",
        ),
    ]
)
letter = st.sampled_from(
    ["a", "b", "c", "x", "1", " ", "é", "€", "😀", "\x7f", "\x1f", "\x00", "{", "}", ":"]
)
string_body = st.lists(st.one_of(letter, letter, letter, escape), max_size=40).map("".join)
string = string_body.map(lambda body: f'"{body}"')
key_text = st.sampled_from(
    ["a", "b", "c", "ts", "time", "a.b", "b.c", "a.b.c", "x", "é", "", "\\u0061", "timestamp", "@timestamp"]
)
number = st.one_of(
    st.sampled_from(
        [
            *(
                "0",
                "-0",
                "-0.0",
                "00",
                "01",
                "-",
                "+1",
                "1.",
                ".5",
                "1.5",
                "-1e5",
                "1E+2",
                "1e",
                "1e+",
                "0e0",
                "1.5e-7",
            ),
            *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809"),
            *(
                "18446744073709551615",
                "18446744073709551616",
                "99999999999999999999",
                "1e308",
                "1e309",
                "-1e400",
            ),
            *("5e-324", "2.2250738585072014e-308", "1e-400", "0.1", "0.30000000000000004", "NaN", "Infinity"),
            *(
                "123456789012345678901234567890.5",
                "9007199254740993",
                "9007199254740993.0",
                "1" * 70,
                "0." + "3" * 70,
            ),
            *("1779999999000000001", "1431856800", "1431856800123", "1431856800.25", "1e5x", "0x10", "1_0"),
        ]
    ),
    st.integers(-(2**66), 2**66).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.tuples(st.integers(0, 10**20), st.integers(0, 10**20), st.integers(-330, 330)).map(
        lambda t: f"{t[0]}.{t[1]}e{t[2]}"
    ),
)
word = st.sampled_from(["true", "false", "null", "True", "nul", "truex", "undefined", ""])
time_text = st.sampled_from(
    [
        '"2015-05-17T10:00:00Z"',
        '"2015-05-17 10:00:00.25+02:00"',
        '"17/May/2015:10:05:03 +0000"',
        '"soon"',
        '"1431856800"',
    ]
)


def array_of(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    comma = st.sampled_from([",", ",", ",", ",", "", ",,", ", "])
    return st.tuples(st.lists(inner, max_size=3), comma, space).map(
        lambda parts: f"[{parts[2]}{parts[1].join(parts[0])}{parts[2]}]"
    )


def object_of(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    member = st.tuples(
        key_text, space, st.sampled_from([":", ":", ":", ":", ":", "=", ""]), space, inner, space
    ).map(lambda m: f'"{m[0]}"{m[1]}{m[2]}{m[3]}{m[4]}{m[5]}')
    comma = st.sampled_from([",", ",", ",", ",", ",", ", ", "", ",,"])
    end = st.sampled_from(["}", "}", "}", "}", "}", "}", ",}", "", "}}", "]"])
    return st.tuples(st.lists(member, max_size=5), comma, space, end).map(
        lambda parts: "{" + parts[2] + parts[1].join(parts[0]) + parts[3]
    )


value = st.recursive(
    st.one_of(string, number, word, time_text), lambda inner: array_of(inner) | object_of(inner), max_leaves=8
)
document = st.tuples(space, object_of(value), space).map("".join)
sane_value = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**66), 2**66),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=30),
        st.sampled_from(["2015-05-17T10:00:00Z", "2015-05-17 10:00:00.5", 1431856800, "x" * 300]),
    ),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "b", "c", "x"]), inner, max_size=3)
    ),
    max_leaves=5,
)
sane = st.dictionaries(
    st.sampled_from(["a", "b", "c", "ts", "time", "a.b", "b.c", "x"]), sane_value, max_size=6
).flatmap(lambda record: st.booleans().map(lambda plain: json.dumps(record, ensure_ascii=plain)))
line_end = st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n", "\n \t\n"])


@st.composite
def json_blocks(draw: st.DrawFn) -> list[bytes]:
    blocks: list[bytes] = []
    for _ in range(draw(st.integers(1, 3))):
        texts = draw(st.lists(st.one_of(sane, sane, document), max_size=6))
        data = b"".join(text.encode("utf-8", "surrogatepass") + draw(line_end).encode() for text in texts)
        if data and draw(st.integers(0, 3)) == 0:
            at = draw(st.integers(0, len(data) - 1))
            data = data[:at] + draw(st.binary(max_size=3)) + data[at + draw(st.integers(0, 3)) :]
        blocks.append(data)
    return blocks


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


NEAR_MISSES = [
    *('{"b.c":1,"\\u0061":2,"b.c":null}', '{"a":1,"b":{"c":1},"b":{"x":1},"a":null}'),
    # Each is a good line but for one slip, or looks like a slip and is none.
    *(
        '{"x":"\\ud83d\\u0041"}',
        '{"x":"\\udc00"}',
        '{"x":"\\ud83d"}',
        '{"x":"\\ud83dx12345"}',
        '{"x":"\\ud83d\\ude00"}',
    ),
    *(
        '{"x":"\\u12"}',
        '{"x":"\\u12g4"}',
        '{"x":"\\x41"}',
        '{"x":"\\"}',
        '{"x":"\\\\"}',
        '{"x":"a\tb"}',
        '{"x":"\x01"}',
    ),
    *(
        '{"x":"\x7f"}',
        '{"x":"a',
        '{"x":1}}',
        '{"x":1}x',
        '{"x":1} \t',
        '{"x":1}\x0b',
        ' {"x":1}',
        '\x0b{"x":1}',
        '{"x":1}{"x":2}',
    ),
    *(
        '{"x":[1,]}',
        '{"x":[,1]}',
        '{"x":[1 2]}',
        '{"x":[]}',
        '{"x":[ ]}',
        '{"x":[1}',
        '{"x":{"y":1,}}',
        '{"x":{,}}',
        '{"x":{}}',
    ),
    *(
        '{"a":1,}',
        '{,"a":1}',
        "{}",
        "{ }",
        '{"a":1 "x":2}',
        '{"a" 1}',
        '{"a"::1}',
        '{"a":}',
        "{a:1}",
        "{'a':1}",
        '{"a":1',
        "{",
    ),
    *(
        '{"x":00}',
        '{"x":01}',
        '{"x":-}',
        '{"x":1.}',
        '{"x":.5}',
        '{"x":1e}',
        '{"x":1e+}',
        '{"x":+1}',
        '{"x":0x1}',
        '{"x":-01}',
    ),
    *(
        '{"a":00}',
        '{"a":01}',
        '{"a":-}',
        '{"a":1.}',
        '{"a":.5}',
        '{"a":1e}',
        '{"a":1e+}',
        '{"a":+1}',
        '{"a":-0}',
        '{"a":-01}',
    ),
    *(
        '{"a":9223372036854775807}',
        '{"a":9223372036854775808}',
        '{"a":-9223372036854775808}',
        '{"a":-9223372036854775809}',
    ),
    *(
        '{"a":18446744073709551616}',
        '{"a":18446744073709551617}',
        '{"a":100000000000000000000}',
        '{"x":1e999}',
        '{"a":1e999}',
    ),
    *(
        '{"a":9007199254740993.0}',
        '{"a":9007199254740993e3}',
        '{"a":1844674407370955161.60}',
        '{"a":184467440737095516170.0}',
    ),
    *(
        '{"a":1e-400}',
        '{"a":5e-324}',
        '{"a":2e-308}',
        '{"a":0.1e-400}',
        '{"a":0e999}',
        '{"a":1e23}',
        '{"a":8.5e22}',
        '{"a":-0.0}',
    ),
    *(
        '{"x":truE}',
        '{"x":tru}',
        '{"x":nulll}',
        '{"a":truE}',
        '{"a":nul}',
        '{"a":falsey}',
        '{"a":t}',
        '{"x":NaN}',
        '{"a":Infinity}',
    ),
    *(
        '{"a":{"y":1}}',
        '{"a":[1]}',
        '{"a":{"y":1e999}}',
        '{"a":{}}',
        '{"a":1,"a":2}',
        '{"a":1,"a":null}',
        '{"a":"s","a":7}',
    ),
    *(
        '{"b":{"c":1},"b":{}}',
        '{"b":{},"b":{"c":1}}',
        '{"b":{"c":1},"b":3}',
        '{"b":{"c":1},"b":null}',
        '{"b":[{"c":1}]}',
        '{"b":1e999}',
    ),
    *(
        '{"b":{"c":1,"c":2}}',
        '{"\\u0061":1}',
        '{"\\u0061":1,"a":2}',
        '{"x\\n":1,"a":2}',
        '{"b":{"\\u0063":1}}',
        '{"x":{"\\u0061":1}}',
    ),
    *(
        '{"b.c":1}',
        '{"b":{"c":null},"b.c":1}',
        '{"b.c":1,"b":{"c":2}}',
        '{"":1}',
        '{"a ":1}',
        '{"aa":1}',
        '{"A":1}',
        '{"bc":1}',
    ),
    *('[{"a":1}]', '"a"', "1", "null", "true", "", "[]", "{}[]"),
]


@pytest.mark.parametrize("text", NEAR_MISSES)
def test_one_slip_beside_good_lines(text: str) -> None:
    good = b'{"a":1,"b":{"c":2},"x":[{"y":"z"}]}\n'
    for block in (text.encode(), good * 20 + text.encode() + b"\n" + good * 20, good * 17 + text.encode()):
        compare(JsonParser, [block], ["a", "b.c", "ts"])
        compare(JsonParser, [block], ["x", "b"])


ACCESS_MISSES = [
    *('h - - [t z] "GET / H\\" 200 1 x" 404 7', 'h - - [t z] "GET / H\\" 200 1" 404 7 "r" "a"'),
    *(
        'h - - [t z] "GET / H" 200 1',
        'h - - [t z] "GET / H" 200 -',
        'h - - [t z] "GET / H" 200 -1',
        'h - - [t z] "GET / H" 20 1',
    ),
    *(
        'h - - [t z] "GET / H" 2x0 1',
        'h - - [t z] "GET / H" 2000 1',
        'h - - [t z] "GET / H" 200 1x',
        'h - - [t z] "GET / H" 200',
    ),
    *(
        'h - - [t z] "GET / H" 200 999999999999999999',
        'h - - [t z] "GET / H" 200 9999999999999999999',
        'h - - [t z] "GET / H"',
    ),
    *(
        'h - - [t z] "GET / H\\" 200 1 "x" "y"',
        'h - - [t z] "GET / H\\\\" 200 1 "x" "y"',
        'h - - [t z] "GET /  H" 200 1',
    ),
    *(
        'h - - [t z] "GET / " 200 1',
        'h - - [t z] " GET / H" 200 1',
        'h - - [t z] "GET" 200 1',
        'h - - [t z] "" 200 1',
    ),
    *(
        'h - - [t z] "GET / H X" 200 1',
        'h - - [t z]  "GET / H" 200 1',
        'h - - [tz] "GET / H" 200 1',
        'h - - [t z "GET / H" 200 1',
    ),
    *(
        'h - - [t y z] "GET / H" 200 1',
        'h -  - [t z] "GET / H" 200 1',
        ' h - - [t z] "GET / H" 200 1',
        'h - [t z] "GET / H" 200 1',
    ),
    *(
        'h "q" - [t z] "GET / H" 200 1',
        'h - a"b [t z] "GET / H" 200 1',
        'h - - [t "] "GET / H" 200 1',
        'h - - t z] "GET / H" 200 1',
    ),
    *(
        'h - - [t z] "GET / H" 200 1 "r\\" "a"',
        'h - - [t z] "GET / H" 200 1 "r" "a\\"',
        'h - - [t z] "GET / H" 200 1 "r" "a\\" b"',
    ),
    *(
        'h - - [t z] "GET / H" 200 1 "r"',
        'h - - [t z] "GET / H" 200 1 "r" "a',
        'h - - [t z] "GET / H" 200 1 "r" a',
        'h - - [t z] "GET / H" 200 1 r "a"',
    ),
    *(
        'h - - [t z] "GET / H" 200 1 "r""a"',
        'h - - [t z] "GET / H" 200 1 "" ""',
        'h - - [t z] "GET / H" 200 1 "r" "a"x',
        'h - - [t z] "GET / H" 200 1 ',
    ),
    *(
        'h - - [t z] "GET / H" 200 1 "r" "a" x y',
        'h - - [t z] "GET / H" 200  1',
        'h - - [] "GET / H" 200 1',
        'h - - [ ] "GET / H" 200 1',
    ),
]


@pytest.mark.parametrize("text", ACCESS_MISSES)
@pytest.mark.parametrize("spec", ["combined", "common"])
def test_one_slip_in_an_access_log(spec: str, text: str) -> None:
    good = ACCESS[0].encode() + b"\n"
    columns = COMBINED_COLUMNS if spec == "combined" else COMMON_COLUMNS
    for block in (text.encode(), good + text.encode() + b"\n" + good):
        compare(StreamFormat(spec).parser, [block], columns)


TIMES = [
    *(
        "17/May/2015:10:05:03 +0000",
        "17/May/2015:10:05:04 +0000",
        "17/May/2015:10:05:14 +0000",
        "18/May/2015:10:05:14 +0000",
    ),
    *(
        "2016-02-29",
        "2015-02-29",
        "1900-02-29",
        "2000-02-29",
        "2000-02-29T00:00:00Z",
        "1900-02-29 00:00:00",
        "0000-02-29",
    ),
    *(
        "2015-05-17T10:05:03+02:00",
        "2015-05-17T10:05:03-02:00",
        "17/May/2015:10:05:03 +0200",
        "17/May/2015:10:05:03 -0200",
    ),
    *(
        "2015-05-17T10:05:03Z",
        "2015-05-17T10:05:04Z",
        "2015-05-18T10:05:03Z",
        "2025-05-17T10:05:03Z",
        "2015-05-17T20:05:03Z",
    ),
    *(
        "2015-05-17T10:05:03.9999999Z",
        "2015-05-17T10:05:03,5",
        "0001-01-01T00:00:00+23:59",
        "1969-12-31T23:59:59.999999Z",
    ),
    *(
        "29/Feb/2015:00:00:00 +0000",
        "29/Feb/2016:00:00:00 +0000",
        "30/Apr/2015:23:59:59 +0000",
        "31/Apr/2015:23:59:59 +0000",
    ),
    *(
        -1,
        -1001,
        -(10**17) - 1,
        -(10**17) - 999,
        10**17 + 999,
        1.5,
        -0.0000005,
        0.0000005,
        0.0000015,
        1e11,
        1.1e14,
        1.2e17,
        -1.2e17,
    ),
]


def test_times_that_are_nearly_alike() -> None:
    found = field_of(TIMES).times().view(pa.int64()).to_pylist()
    assert found == [timestamps([item]).view(pa.int64())[0].as_py() for item in TIMES]
    backwards = field_of(TIMES[::-1]).times().view(pa.int64()).to_pylist()
    assert backwards == found[::-1]


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


def test_a_block_may_end_anywhere() -> None:
    """Under a sanitizer this also shows that nothing behind the block is looked at."""
    texts = [
        '{"a":"\\u00e9\\ud83d\\ude00\\n","b":{"c":-12.5e+10},"x":[true,false,null,{"y":1}],"ts":"2015-05-17T10:00:00Z"}',
        ' { "x" : 1 , "a" : 7 } ',
    ]
    blocks = [text.encode()[:end] for text in texts for end in range(len(text) + 1)]
    compare(JsonParser, blocks, ["a", "b.c", "ts"])
    for line in ACCESS:
        data = line.encode()
        compare(
            StreamFormat("combined").parser, [data[:end] for end in range(len(data) + 1)], COMBINED_COLUMNS
        )


def test_no_lines_at_all() -> None:
    for block in (b"", b"\n", b"\r\n \t\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"):
        compare(JsonParser, [block], ["a", "ts", "_raw"])
        compare(StreamFormat("combined").parser, [block], ["path", "ts", "_raw"])


# Access logs.

ACCESS = [
    '1.2.3.4 - frank [17/May/2015:10:05:03 +0200] "GET /a?b HTTP/1.1" 200 12 "http://r/" "Agent (X; Y)"',
    'h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.0" 304 -',
    'h - - [17/May/2015:10:05:03 +0000] "-" 408 - "-" "-"',
    r'h - - [17/May/2015:10:05:03 +0000] "GET /\" 200 5 \" x" 404 7 "-" "a \"b\" c"',
    'h - Frank N. Furter [17/Mar/2015:10:05:03 -0730] "POST /x HTTP/1.1" 500 123456 "" "" 0.003',
    'h - - [x y] "GET / HTTP/1.0" 200 1',
    'h - - [a] b] "GET / HTTP/1.0" 200 999999999999999999 "r" "cut off',
]
access_bit = st.text(st.sampled_from('ab/"\\[]- é1\t'), max_size=6)


@st.composite
def access_text(draw: st.DrawFn) -> str:
    line = draw(st.sampled_from(ACCESS))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(line)))
        line = line[:at] + draw(access_bit) + line[at + draw(st.integers(0, 4)) :]
    return line


@settings(max_examples=400, deadline=None)
@given(st.lists(access_text(), max_size=6), st.booleans(), st.booleans(), st.data())
def test_access_lines_agree(texts: list[str], combined: bool, newline: bool, data: st.DataObject) -> None:
    block = "\n".join(texts).encode() + (b"\n" if newline else b"")
    known = COMBINED_COLUMNS if combined else COMMON_COLUMNS
    columns = data.draw(st.lists(st.sampled_from([*known, "_raw", "nothing"]), unique=True))
    compare(StreamFormat("combined" if combined else "common").parser, [block], columns)


# Times.

clock = st.sampled_from(
    ["10:05:03", "23:59:59", "24:00:00", "10:60:00", "1:05:03", "10:05", "10", "10:05:03.5", "10:05:60"]
)
fraction = st.sampled_from(["", ".1", ".123456", ".1234567", ".123456789", ".1234567890", ",25", ".", ".x"])
zone = st.sampled_from(
    [
        "",
        "Z",
        "z",
        "+00:00",
        "+0530",
        "-08",
        "+18:00",
        "+19:00",
        "-23:59",
        "+24:00",
        "+1",
        " +0200",
        "+05:60",
        " UTC",
        "Zx",
    ]
)
date = st.one_of(
    st.dates().map(str),
    st.sampled_from(
        [
            "2015-02-29",
            "2016-02-29",
            "2015-13-01",
            "0000-01-01",
            "1900-02-29",
            "2000-02-29",
            "2015-5-7",
            "20150517",
        ]
    ),
)
iso_text = st.tuples(date, st.sampled_from(["T", " ", "t", "  ", ""]), clock, fraction, zone).map("".join)
clf_text = st.tuples(
    st.sampled_from(["17", "31", "30", "29", "00", "7", " 7"]),
    st.sampled_from(["/", "/", "-"]),
    st.sampled_from(["May", "feb", "NOV", "Mai", "Dec", "ſep"]),
    st.sampled_from(["/2015:", "/2016:", "/0000:", "/9999:", "/15:"]),
    clock,
    st.sampled_from(
        [" +0000", " -0700", " +1830", " +2359", " +2400", " +0060", "", " Z", " +9999", " +00:0"]
    ),
).map("".join)
any_time = st.one_of(
    iso_text,
    clf_text,
    clf_text.map(lambda text: f"[{text}]"),
    st.datetimes().map(str),
    st.sampled_from(
        [
            "Sun May 17 10:00:00 2015",
            "Sun, 17 May 2015 10:00:00 GMT",
            "soon",
            "",
            "1431856800",
            " 12.5 ",
            "2015-05-17",
        ]
    ),
    st.text(max_size=30),
)
time_value = st.one_of(
    any_time,
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.none(),
    st.booleans(),
    st.just([]),
    st.sampled_from(
        [10**11, 10**11 + 1, 10**14, 10**14 + 1, 10**17, 10**17 + 1, -(10**17) - 1, 9.2e18, 1e17, 0.5e-6]
    ),
)


def field_of(values: list[Any]) -> Field:
    grid = Grid(scanner.active, b"a block", 1, len(values))
    for row, item in enumerate(values):
        grid.put(0, row, item)
    return grid.field([0])


@settings(max_examples=400, deadline=None)
@given(st.lists(time_value, max_size=6))
def test_event_times_agree_whatever_stands_beside_them(values: list[Any]) -> None:
    found = field_of(values).times()
    found.validate(full=True)
    micros = found.view(pa.int64()).to_pylist()
    assert micros == timestamps(values).view(pa.int64()).to_pylist()
    assert micros == [timestamps([item]).view(pa.int64())[0].as_py() for item in values]


@settings(max_examples=150, deadline=None)
@given(st.lists(time_value, max_size=6))
def test_cells_give_back_what_was_put_in(values: list[Any]) -> None:
    numbers = [value for value in values if value == value]
    assert field_of(numbers).values() == numbers


# Lines and texts.


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=300), st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass"))
    )
)
@example(b"\xf4\x90\x80\x80")
@example(b"\xe0\x80\x80")
@example(b"\xc0\x80\xc1\xbf")
@example(b"\xed\xa0\x80\xf5\x80\x80\x80")
@example(b"a\n \t \nb")
@example(b"\xf0\x80\x80\x80")
@example(b"a" * 64 + b"\xe2\x82")
@example(b"\r")
@example(b"a\r\r\n\r\n\r")
def test_lines_and_their_repair_agree(block: bytes) -> None:
    with using("native"):
        fast = Lines(block)
        raw = fast.raw()
    with using("python"):
        slow = Lines(block)
        assert raw.equals(slow.raw())
    assert (fast.data, fast.replaced) == (slow.data, slow.replaced)
    assert (fast.starts.tolist(), fast.ends.tolist()) == (slow.starts.tolist(), slow.ends.tolist())
    assert scanner.active.valid(block) == (valid_utf8(block)[0] == block)


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=200).map(lambda b: b.hex().encode()),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 90))),
)
def test_texts_are_cut_at_any_distance_from_the_blocks_end(data: bytes, pairs: list[tuple[int, int]]) -> None:
    starts = np.array([min(start, len(data)) for start, _ in pairs], np.int64)
    ends = np.minimum(starts + np.array([length for _, length in pairs], np.int64), len(data))
    found = spans(scanner.active, data, starts, ends)
    found.validate(full=True)
    assert found.to_pylist() == [
        data[s:e].decode() for s, e in zip(starts.tolist(), ends.tolist(), strict=True)
    ]


# The boundary to C: no size or position that is not right gets past it.


def test_wrong_buffers_are_refused() -> None:
    scan, eight, kind = scanner.active, np.zeros(8, np.int64), np.full(1, TEXT, np.uint8)
    one, none, three = eight[:1], eight[:0], np.full(1, 3)
    with pytest.raises(ValueError, match="more lines"):
        scan.split(b"a\nb\n", np.zeros(1, np.int64), np.zeros(9, np.int64))
    for starts, ends in ((one, three + 1), (three, one), (one - 1, three), (eight, three)):
        with pytest.raises(ValueError, match="lines of the block"):
            scan.access(True, b"abc", starts, ends, b"", np.zeros(0, np.uint8), none, one)
    with pytest.raises(ValueError, match="no such field"):
        scan.access(True, b"abc", one, three, b"\x63", kind, one, np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="row per slot"):
        scan.access(True, b"abc", one, three, b"\x01\x02", kind, one, np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="offsets"):
        scan.offsets(b"", b"", np.full(2, TEXT, np.uint8), eight[:2], np.zeros(2, np.int32))
    with pytest.raises(ValueError, match="room"):
        scan.texts(b"abc", b"", kind, three, np.zeros(2, np.int32), bytearray(2))
    with pytest.raises(ValueError, match="differ"):
        scan.times(b"", b"", np.zeros(2, np.uint8), eight[:1], eight[:2], np.zeros(2, np.uint8))
    with pytest.raises(ValueError, match="PyCapsule"):
        scan.project(object(), b"", eight[:0], eight[:0], np.zeros(0, np.uint8), eight[:0], eight)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60))
def test_no_description_of_a_plan_crashes(text: bytes) -> None:
    sound = struct.pack("=IIIIII", 2, 1, 0, 1, 1, 1) + b"a" + struct.pack("=II", 1, 0)
    assert scanner.active.plan(sound)
    for wrong in (text, sound[: len(text)], sound + text[:1] + b"x"):
        if wrong != sound:
            with pytest.raises(ValueError, match="plan"):
                scanner.active.plan(wrong)


@pytest.mark.parametrize("room", [0, 1, 15, 16, 31, 32, 33, 47, 48, 70])
def test_texts_stay_within_the_room_they_are_given(room: int) -> None:
    block = bytes(range(65, 91)) * 8
    kinds, words = (
        np.full(4, TEXT, np.uint8),
        np.array([0, 3, 5, 40], np.int64) << 32 | np.array([16, 1, 20, 33]),
    )
    out, offsets = bytearray(b"#" * 200), np.zeros(5, np.int32)
    need = scanner.active.offsets(block, b"", kinds, words, offsets)
    for give in (need, room):
        view = memoryview(out)[:give]
        if give < need:
            with pytest.raises(ValueError, match="room"):
                scanner.active.texts(block, b"", kinds, words, offsets, view)
        else:
            assert scanner.active.texts(block, b"", kinds, words, offsets, view) == need
        assert out[max(give, need) :] == b"#" * (200 - max(give, need))
    short = bytearray(b"#" * 64)
    assert scanner.active.texts(block, b"", kinds[:1], words[1:2], offsets[:2], memoryview(short)[:1]) == 1
    assert short[1:] == b"#" * 63


def test_text_cells_outside_of_the_block_are_empty() -> None:
    grid = Grid(scanner.active, b"abc", 1, 0)
    words = np.array([1 << 32 | 2, 2 << 32 | 2, 3 << 32, 2**62, -1], np.int64)
    assert Field(grid, np.full(5, TEXT, np.uint8), words).column(pa.string()).to_pylist() == [
        "bc",
        "",
        "",
        "",
        "",
    ]


def test_a_scanner_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="ELF_SCANNER"):
        scanner.choose("fast")


# Real logs.

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not beside this checkout")


def real_logs() -> list[Path]:
    rooms = ("access_logs", "json_streams", "lnav", "system_logs")
    return sorted(path for room in rooms for path in (DATA / room).glob("*") if path.is_file())


def blocks_of(path: Path, size: int = 1 << 20) -> list[bytes]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    blocks: list[bytes] = []
    while data and len(blocks) < 8:
        end = data.find(b"\n", size) + 1 or len(data)
        blocks.append(data[:end])
        data = data[end:]
    return blocks


@needs_data
@pytest.mark.parametrize("path", real_logs(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_real_logs_agree(path: Path) -> None:
    blocks = blocks_of(path)
    for spec in ("combined", "common"):
        columns = COMBINED_COLUMNS if spec == "combined" else COMMON_COLUMNS
        compare(StreamFormat(spec).parser, blocks, [*columns, "_raw"])
    names: dict[str, None] = dict.fromkeys(["ts", "a"])
    for text in Lines(blocks[0] if blocks else b"").texts()[:50]:
        names.update(dict.fromkeys(json_fields(text)))
    nested = ["actor.login", "payload.size", "userIdentity.type", "connections.accepted", "log.level"]
    compare(JsonParser, blocks, [*list(names)[:12], *nested])
    compare(JsonParser, blocks, ["ts", "actor.login", "type", "id", "eventName", "eventTime"])
