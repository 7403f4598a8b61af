"""Records of several lines: the same ones however they are read, and offsets only at their beginnings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.containers import CRI_PARTS
from elfmesh.ingest.parsers.framing import Bounds, Framing, LineFraming, parse_framing
from elfmesh.ingest.sources import StreamReader
from elfmesh.ingest.sources.records import RecordCutter

LINES_MAX, BYTES_MAX = 4, 40
BOUNDS = Bounds(LINES_MAX, BYTES_MAX)
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


def cut(framing: Framing, data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """The blocks of some data that comes in pieces."""
    cutter = RecordCutter(framing=framing)
    blocks, at = [], 0
    for size in [*sizes, len(data)]:
        before = cutter.taken
        block = cutter.push(data[at : at + size])
        at += size
        assert cutter.taken == before + len(block)
        assert cutter.taken + cutter.pending == min(at, len(data))
        blocks.append(block)
    return [block for block in [*blocks, cutter.finish()] if block]


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


PARTS = st.tuples(st.sampled_from(["stdout", "stderr"]), st.sampled_from("PF"), st.sampled_from("abc"))


@settings(max_examples=200, deadline=None)
@given(st.lists(PARTS, max_size=15), st.lists(st.integers(1, 60), max_size=10))
def test_parts_are_joined_by_stream_however_the_bytes_come(
    parts: list[tuple[str, str, str]], sizes: list[int]
) -> None:
    data = "".join(f"2016-10-06T00:17:09Z {s} {tag} {text}\n" for s, tag, text in parts).encode()
    records: list[tuple[str, str]] = []
    opened: dict[str, int] = {}
    for stream, tag, text in parts:
        at = opened.pop(stream, len(records))
        if at == len(records):
            records.append((stream, ""))
        records[at] = stream, records[at][1] + text
        if tag == "P":
            opened[stream] = at
    parser = StreamFormat("cri").parser("f")
    found = [
        (row["stream"], row["message"])
        for block in cut(CRI_PARTS, data, sizes)
        for row in parser.parse(block, ["stream", "message"]).batch.to_pylist()
    ]
    assert found == records


def test_a_record_without_an_end_is_bounded() -> None:
    framing = LineFraming("^start", begins=True, bounds=Bounds(10, 1000))
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


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def reader(log: Path, clock: Clock) -> StreamReader:
    framing = parse_framing("indent", timeout_s=1.0)
    return StreamReader(str(log), StreamFormat("raw", framing=framing), clock=clock)


def raws(stream: StreamReader) -> list[str]:
    return [raw for each in stream.poll() for raw in each.parsed.arrays["_raw"].to_pylist()]


def test_the_last_record_ends_when_nothing_follows_and_can_be_read_again(tmp_path: Path) -> None:
    log, clock = tmp_path / "log", Clock()
    stream = reader(log, clock)
    stream.add("job", ["_raw"])
    log.write_text("a\n b\nc\n")
    assert raws(stream) == ["a\n b"]
    (source,) = stream.sources("job")
    assert not source.at_end, "a record that may go on holds the watermark"
    (place,) = stream.positions("job")
    assert place.offset == 5
    with log.open("a") as file:
        file.write(" d\n")
    assert raws(stream) == []
    clock.now += 2
    assert raws(stream) == ["c\n d"]
    assert stream.sources("job")[0].at_end
    with log.open("a") as file:
        file.write(" late\ne\n")
    assert raws(stream) == [" late"]
    end = stream.positions("job")
    stream.close()

    again = reader(log, clock)
    again.add("job", ["_raw"], positions=[place], boundaries=[place.at(10), *end])
    assert raws(again) == ["c\n d", " late"], "where it was ended once it ends again"
    again.close()


def test_a_rotated_file_is_not_closed_with_a_record_that_may_go_on(tmp_path: Path) -> None:
    log, clock = tmp_path / "log", Clock()
    framing = parse_framing("indent", timeout_s=60.0)
    stream = StreamReader(str(log), StreamFormat("raw", framing=framing), clock=clock, grace_s=5.0)
    stream.add("job", ["_raw"])
    log.write_text("a\n b\nc\n")
    found = raws(stream)
    log.rename(tmp_path / "log.1")
    log.write_text("d\n")
    for _ in range(20):
        clock.now += 4
        found += raws(stream)
    assert found == ["a\n b", "c", "d"]
    assert stream.gaps("job") == []
    stream.close()


def test_a_second_job_catches_up_with_a_file_that_grows(tmp_path: Path) -> None:
    log, clock = tmp_path / "log", Clock()
    log.write_text("a\n b\nc\n")
    stream = reader(log, clock)
    stream.add("one", ["_raw"])
    assert raws(stream) == ["a\n b"]
    stream.add("two", ["_raw"])
    assert raws(stream) == ["a\n b"]
    assert stream.groups == 1
    stream.close()
