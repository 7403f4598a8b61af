"""A line of JSON is read alike, whatever names and spaces the lines before it had."""

from __future__ import annotations

import pytest

from elfmesh.ingest.parsers.json_lines import JsonParser
from tests.ingest.parsers.agreement import compare

LONGEST = "x" * 13
"""A name of 16 bytes with its quotes and colon, which is the longest that is compared at once."""

LINES = (
    '{"a":1,"c":"x","b":{"c":1,"d":2}}',
    '{"c":"x","a":1,"b":{"d":2,"c":1}}',
    '{"a": 1,"c" :"x","b":{"c": 1 ,"d":2}}',
    '{"a":\t 1,"c":  "x","b": {"c":1,"d":2}}',
    '{"a" : 1,"c":"x","b":{"c":1}}',
    '{"ab":1,"c":"x","b":{"cd":1}}',
    '{"\\u0061":1,"c":"x"}',
    '{"a\\"":1,"c":"x"}',
    '{"a":1,"a":2,"c":3}',
    '{"a":{"a":1},"b":{"c":{"c":1}}}',
    '{"a":1',
    '{"a":',
    '{"a"',
    '{"a',
    '{"a"=1,"c":2}',
    '{a:1,"c":2}',
    "{}",
    '{"b":{},"a":1}',
    f'{{"{LONGEST}":1,"a":2}}',
    f'{{"{LONGEST}x":1,"a":2}}',
    f'{{"{LONGEST}" :1,"a":2}}',
    "{" + ",".join(f'"k{number}":{number}' for number in range(20)) + ',"a":7}',
    "{" + ",".join(f'"k{number}":{number}' for number in range(20)) + ',"c":7}',
    '{"é":1,"a":2}',
    '{"ts":"2015-05-17T10:00:00Z","a":1}',
)
NUMBERS = (
    *("0", "-0", "00", "-", "", "7", "-7", "07", "-07", "+7", "7.", ".7", "7.0", "-7.25", "7.e1", "0.0"),
    *("7e1", "7E1", "7e+1", "7.5e-1", "7e", "7.5e", "7.5.5", "7-5", "7a", "0x7", "00.5", "-.5", "--7"),
    *("7" * length for length in range(13, 20)),
    *("7" * length + "." for length in range(12, 17)),
    *("7" * length + ".25" for length in range(11, 17)),
    *("7." + "25" * length for length in range(5, 10)),
    *("7" * length + "e5" for length in range(13, 18)),
)
FEW = 6
"""Lines with a slip that one block may have before the slow path reads all of it."""


@pytest.mark.parametrize("before", LINES)
def test_a_line_is_read_alike_after_any_other(before: str) -> None:
    blocks = []
    for start in range(0, len(LINES), FEW):
        lines = [line for each in LINES[start : start + FEW] for line in (before, each)]
        blocks += ["\n".join(lines).encode(), "\r\n".join([*lines, ""]).encode()]
    compare(JsonParser, blocks, ["a", "b.c", "k19", LONGEST, "é", "ts"])


@pytest.mark.parametrize("end", ["}", ',"a":1}', ' ,"a":1}', "", "]}", ',"a":1}' + " " * 20])
def test_a_skipped_number_is_one_for_both(end: str) -> None:
    lines = [f'{{"x":{number}{end}' for number in NUMBERS]
    blocks = ["\n".join(lines[start : start + FEW]).encode() for start in range(0, len(lines), FEW)]
    compare(JsonParser, [*blocks, *(line.encode() for line in lines)], ["a"])
