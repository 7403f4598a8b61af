"""Records of several lines: where one begins and ends."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.framing import LineFraming, RecordBounds, parse_framing
from elfmesh.ingest.sources.records import RecordCutter
from tests.ingest.parsers.cutting import cut

LINES_MAX, BYTES_MAX = 4, 40


BOUNDS = RecordBounds(LINES_MAX, BYTES_MAX)


LINE = st.sampled_from(["a start", "a other", "  more", "  x", "", "\t", "é", "  long " + "y" * 30, "b"])


def oracle(lines: Sequence[str], pattern: str, *, begins: bool) -> list[str]:
    """The rule, line by line: what the pages say of it."""
    records: list[list[tuple[int, str]]] = []
    at = 0
    for line in lines:
        offset, at = at, at + len(line.encode()) + 1
        if not line.strip(" \t"):
            continue
        matches = bool(re.search(pattern, line))
        goes_on = records and matches != begins
        if goes_on:
            record = records[-1]
            goes_on = len(record) < LINES_MAX and offset - record[0][0] < BYTES_MAX
        if goes_on:
            records[-1].append((offset, line))
        else:
            records.append([(offset, line)])
    text = "".join(line + "\n" for line in lines).encode()
    return [text[record[0][0] : record[-1][0] + len(record[-1][1].encode())].decode() for record in records]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(LINE, max_size=25),
    st.lists(st.integers(1, 30), max_size=20),
    st.sampled_from([("^a", True), (r"^[ \t]", False)]),
)
def test_records_are_those_of_the_rule_however_the_bytes_come(
    lines: list[str], sizes: list[int], rule: tuple[str, bool]
) -> None:
    framing = LineFraming(rule[0], begins=rule[1], bounds=BOUNDS)
    data = "".join(line + "\n" for line in lines).encode()
    parser = StreamFormat("raw", framing=framing).parser("f")
    blocks = cut(framing, data, sizes)
    assert b"".join(blocks) == data
    found = [raw for block in blocks for raw in parser.parse(block, ["_raw"]).batch.column(0).to_pylist()]
    assert found == oracle(lines, rule[0], begins=rule[1])


def test_a_record_without_an_end_is_bounded() -> None:
    framing = LineFraming("^start", begins=True, bounds=RecordBounds(10, 1000))
    cutter = RecordCutter(framing=framing)
    for _ in range(200):
        cutter.push(b"  more\n" * 50)
        assert cutter.held <= 10 * 7


def test_an_overlong_line_ends_the_record_before_it() -> None:
    framing = LineFraming(r"^[ \t]", begins=False)
    cutter = RecordCutter(100, framing=framing)
    assert cutter.push(b"a\n b\n" + b"x" * 200 + b"\nc\n") == b"a\n b\nc\n"
    assert (cutter.taken, cutter.overlong) == (208, 1)


@pytest.mark.parametrize("spec", ["start:(", "start:", "indent:x", "lines", "start:(?=a)"])
def test_a_rule_that_cannot_be_is_refused(spec: str) -> None:
    with pytest.raises(ConfigError):
        parse_framing(spec)


@pytest.mark.parametrize(
    ("spec", "text", "count"),
    [
        ("trace", "E: x\n\tat a.b(C.java:1)\nCaused by: y\n\t... 3 more\nnext\n", 2),
        ("timestamp", "2020-01-01 00:00:00 x\nTraceback\n  File\nValueError: y\n[2020-01-02] z\n", 2),
        ("timestamp", "Oct 11 22:14:15 h a: x\n more\nOct 11 22:14:16 h a: x\n", 2),
    ],
)
def test_named_rules(spec: str, text: str, count: int) -> None:
    framing = parse_framing(spec)
    assert StreamFormat("raw", framing=framing).parser("f").parse(text.encode(), []).rows == count
