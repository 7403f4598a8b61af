"""Access logs by the native scanner are those by the regular expression."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.access import COMBINED_COLUMNS, COMMON_COLUMNS
from tests.ingest.parsers.agreement import compare
from tests.ingest.parsers.scanner.grammar import ACCESS

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
