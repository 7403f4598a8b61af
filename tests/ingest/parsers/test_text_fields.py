from __future__ import annotations

from datetime import UTC, datetime

import pytest

from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.logfmt import LogfmtParser, logfmt_fields
from elfmesh.ingest.parsers.text_fields import RegexParser


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("level=info msg=ok", {"level": "info", "msg": "ok"}),
        ('msg="two words" a=', {"msg": "two words", "a": ""}),
        (r'msg="say \"hi\"\n" flag', {"msg": 'say "hi"\n', "flag": "true"}),
        ("a=1 a=2", {"a": "2"}),
        ("url=http://x/?a=b", {"url": "http://x/?a=b"}),
        ("no pairs here", None),
        ('msg="never closed a=1', {"msg": "", "never": "true", "closed": "true", "a": "1"}),
    ],
)
def test_logfmt_pairs(line: str, fields: dict[str, str] | None) -> None:
    assert logfmt_fields(line) == fields


def test_logfmt_values_are_text_and_ts_is_a_time() -> None:
    parsed = LogfmtParser().parse(b"time=2021-09-15T21:17:10Z n=5\nplain words\n", ["n", "ts", "none"])
    assert parsed.batch.to_pylist() == [
        {"n": "5", "ts": datetime(2021, 9, 15, 21, 17, 10, tzinfo=UTC), "none": None}
    ]
    assert parsed.errors == 1


def test_regex_groups_are_the_columns() -> None:
    parser = RegexParser(pattern=r"(?P<level>[A-Z]+)(?: (?P<code>\d+))?")
    parsed = parser.parse(b"ERROR 5\nWARN\nquiet\n", ["level", "code"])
    assert parsed.batch.to_pylist() == [{"level": "ERROR", "code": "5"}, {"level": "WARN", "code": None}]
    assert parsed.samples == ["the pattern does not match: quiet"]


def test_the_block_extraction_equals_the_line_search() -> None:
    block = b"x=1 y=\nnothing\nx=22 y=z\n"
    quick = RegexParser(pattern=r"x=(?P<x>\d+) y=(?P<y>\w*)").parse(block, ["x", "y"])
    slow = RegexParser(pattern=r"x=(?P<x>\d+) y=(?P<y>\w*)(?:|never)").parse(block, ["x", "y"])
    assert quick.batch.equals(slow.batch)
    assert quick.samples == slow.samples


@pytest.mark.parametrize("pattern", ["(", "no groups", r"(?=look)(?P<a>b)", r"(?P<a>x)\1"])
def test_a_pattern_that_cannot_be_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="pattern"):
        StreamFormat(f"regex:{pattern}")


def test_a_hostile_pattern_takes_linear_time() -> None:
    parser = RegexParser(pattern=r"(?P<a>(?:a+)+b)")
    assert parser.parse(b"a" * 50_000 + b"\n", ["a"]).errors == 1


def test_declared_types_cast_and_count_what_does_not_fit() -> None:
    parser = StreamFormat("logfmt", declared={"n": "int"}).parser()
    parsed = parser.parse(b"n=5\nn=x\n", ["n"])
    assert parsed.batch.column(0).to_pylist() == [5, None]
    assert (parsed.errors, parsed.field_errors) == (0, 1)


@pytest.mark.parametrize(
    ("spec", "block"),
    [
        ("csv:ts,a", b"2015-05-17T10:00:00Z,1\nsoon,2\n,3\n"),
        ("csv:ts,a", b'2015-05-17T10:00:00Z,"1"\nsoon,2\n,3\n'),
        (r"regex:(?P<ts>\S*) (?P<a>\w+)", b"2015-05-17T10:00:00Z x\nsoon x\n x\n"),
        (r"regex:(?P<ts>\S+)? (?P<a>\w+)", b"2015-05-17T10:00:00Z x\nsoon x\n x\n"),
        ("logfmt", b"ts=2015-05-17T10:00:00Z a=1\nts=soon a=1\na=1\n"),
    ],
)
def test_event_times_are_read_whichever_way_the_block_went(spec: str, block: bytes) -> None:
    found = StreamFormat(spec).parser("f").parse(block, ["ts"]).batch.column(0)
    assert found.to_pylist() == [datetime(2015, 5, 17, 10, tzinfo=UTC), None, None]


def test_the_event_time_is_the_first_field_that_is_there() -> None:
    block = b"2015-05-17T10:00:00Z,\n,2015-05-17T10:00:01Z\n"
    found = StreamFormat("csv:timestamp,time").parser("f").parse(block, ["ts"]).batch.column(0)
    assert [time.second for time in found.to_pylist()] == [0, 1]
