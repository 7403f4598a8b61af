"""logfmt by the native scanner is what the regular expression finds."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elfmesh.ingest.parsers.logfmt import LogfmtParser
from elfmesh.ingest.parsers.schema import DECLARABLE
from elfmesh.ingest.parsers.text_fields import TextOptions
from tests.ingest.parsers.agreement import compare

KEYS = ["a", "b.c", "ts", "time", "é", "longer_than_eight", "_raw"]
WIDE_SPACES = [chr(code) for code in range(0x80, 0x3001) if chr(code).isspace()]
"""All white space beyond ASCII: the scanner must know each, for it ends a key or a value."""

key = st.sampled_from(["a", "b.c", "ts", "time", "é", "longer_than_eight", "A", "aa", "x", "caf\u00e9"])
space = st.sampled_from([" ", " ", " ", "  ", "\t", "\x1c", "\x1f", "\v", "\r", "", *WIDE_SPACES])
plain = st.text(st.sampled_from("ab1=\\/\u00e9\u20ac\u3042\u2070\u1681\U0001f600"), max_size=5)
quoted = st.lists(
    st.sampled_from(['\\"', "\\\\", "\\n", "\\t", "\\r", "\\/", "\\u0041", "\\é", "\\ ", " ", "=", "a", "é"]),
    max_size=6,
).map("".join)
pair = st.one_of(
    st.tuples(key, plain).map("=".join),
    st.tuples(key, quoted).map(lambda both: f'{both[0]}="{both[1]}"'),
    st.tuples(key, quoted).map(lambda both: f'{both[0]}="{both[1]}'),
    key,
    plain,
    st.sampled_from(["=", "==", '"', '="', '""', "=a", 'a"b', 'a="b"c', 'a="b"c=1', 'a=b"c"', "\\", 'a="\\']),
)
line = st.lists(st.tuples(pair, space).map("".join), max_size=6).map("".join)
sane = st.lists(st.tuples(key, st.sampled_from(["1", '"x y"', "2015-05-17T10:00:00Z", ""])).map("=".join))
block = st.lists(st.one_of(line, sane.map(" ".join)), max_size=8).map(lambda lines: "\n".join(lines).encode())


@settings(max_examples=500, deadline=None)
@given(st.lists(block, max_size=3), st.lists(st.sampled_from(KEYS), unique=True))
@example([b"a=1 a"], ["a"])
@example([b'a="'], ["a"])
@example([b'a="x\\'], ["a"])
def test_logfmt_by_the_scanner_is_what_the_expression_finds(blocks: list[bytes], names: list[str]) -> None:
    compare(LogfmtParser, blocks, names)


SLIPS = [
    *(
        "a",
        "=",
        "a=",
        "=a",
        "a==",
        '"',
        'a="',
        'a=""',
        'a="\\"',
        'a="\\',
        'a="b',
        'a="b" c="d',
        "a=b a=c",
        "a=1 a",
    ),
    *('a="\\n\\t\\r\\"\\\\\\/"', 'a="\\b"', 'a="\\u0041"', 'a="\\x" b.c="\\q"', 'x="\\q" a=1', 'a="\\é"'),
    *(
        'a=b"c"',
        'a"b"=c',
        'a="b"c',
        'a="b"c=d',
        "a=1\x1fb.c=2",
        "a\x1c=2",
        "aaaaaaaa=1",
        "longer_than_eight=1",
    ),
    *(f"a{space}=1 b.c=x{space}y" for space in WIDE_SPACES),
    *(f'a="x{space}y"' for space in WIDE_SPACES),
    *("a=\u1681", "a=\u2070", "a=\u3042", "a=\u00e9", "a=\U0001f600", "\u3042=1 a=2"),
]


@pytest.mark.parametrize("text", SLIPS, ids=ascii)
def test_one_slip_beside_good_lines(text: str) -> None:
    good, slip = b'a=1 b.c="two words" ts=2015-05-17T10:00:00Z\n', text.encode()
    for whole in (slip, good * 20 + slip + b"\n" + good * 20, good * 17 + slip):
        compare(LogfmtParser, [whole], ["a", "b.c", "ts", "longer_than_eight"])


def test_a_block_may_end_anywhere() -> None:
    text = 'a="x \\"y\\"" b.c=é\u3000ts="2015-05-17 10:00:00" longer_than_eight=\u3042'.encode()
    compare(LogfmtParser, [text[:end] for end in range(len(text) + 1)], KEYS)


@pytest.mark.parametrize("kind", sorted(DECLARABLE))
def test_declared_types_agree(kind: str) -> None:
    def make() -> LogfmtParser:
        return LogfmtParser(options=TextOptions({"a": DECLARABLE[kind]}))

    compare(make, [b"a=1\na=x\na=true\nb=2\nnone\n"], ["a", "b"])


def test_mostly_other_lines_go_the_slow_way_whole() -> None:
    (parsed,) = compare(LogfmtParser, [b"plain words\n" * 500 + b"a=1\n" * 100], ["a"])
    assert (parsed.rows, parsed.errors) == (100, 500)
