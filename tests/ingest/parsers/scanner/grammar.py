"""JSON documents and access lines from a grammar, with slips that writers make and some that no writer
makes."""

from __future__ import annotations

import json

from hypothesis import strategies as st

PATHS = ["a", "b.c", "a.b", "ts", "c", "b", "a.b.c", "time.x", "é", "_raw"]


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


ACCESS = [
    '1.2.3.4 - frank [17/May/2015:10:05:03 +0200] "GET /a?b HTTP/1.1" 200 12 "http://r/" "Agent (X; Y)"',
    'h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.0" 304 -',
    'h - - [17/May/2015:10:05:03 +0000] "-" 408 - "-" "-"',
    r'h - - [17/May/2015:10:05:03 +0000] "GET /\" 200 5 \" x" 404 7 "-" "a \"b\" c"',
    'h - Frank N. Furter [17/Mar/2015:10:05:03 -0730] "POST /x HTTP/1.1" 500 123456 "" "" 0.003',
    'h - - [x y] "GET / HTTP/1.0" 200 1',
    'h - - [a] b] "GET / HTTP/1.0" 200 999999999999999999 "r" "cut off',
]
