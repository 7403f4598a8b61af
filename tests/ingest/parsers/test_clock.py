"""One example of every format, read as its page says."""

from __future__ import annotations

import os
import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.clock import LocalClock


def read(spec: str, text: str | bytes, columns: list[str], **options: Any) -> list[tuple[Any, ...]]:
    data = text.encode() if isinstance(text, str) else text
    parsed = StreamFormat(spec, **options).parser("f").parse(data, columns)
    return [tuple(row.values()) for row in parsed.batch.to_pylist()]


def test_syslog_splits_the_priority_and_reaches_into_structured_data() -> None:
    line = r'<165>1 2003-10-11T22:14:15.003Z m.example evntslog - ID47 [e@1 a="x\"y" b="2"][f.g@2 c="3"] hi'
    columns = ["facility", "severity", "priority", "procid", "structured_data.e@1.a", "message", "ts"]
    stamp = datetime(2003, 10, 11, 22, 14, 15, 3000, tzinfo=UTC)
    assert read("syslog", line, columns) == [("local4", "notice", 165, None, 'x"y', "hi", stamp)]
    assert read("syslog", line, ["structured_data.f.g@2.c"]) == [("3",)]
    assert read("syslog", line, ["structured_data"]) == [('{"e@1":{"a":"x\\"y","b":"2"},"f.g@2":{"c":"3"}}',)]


@pytest.mark.parametrize(
    ("rest", "host", "app", "message"),
    [
        ("fe80::1 app[7]: up", "fe80::1", "app", "up"),
        ("fe80::1 no tag here", "fe80::1", None, "no tag here"),
        ("su: a: b", None, "su", "a: b"),
        ("web-1 su:tight", "web-1", "su", "tight"),
        ("web-1 last message repeated 2 times", "web-1", None, "last message repeated 2 times"),
        ("kernel: usb 1-1: new", None, "kernel", "usb 1-1: new"),
        ("cron[3]:", None, "cron", None),
    ],
)
def test_hosts_and_tags_are_told_apart(rest: str, host: str | None, app: str | None, message: str) -> None:
    found = read("syslog", f"Oct 11 22:14:15 {rest}", ["host", "app", "message"])
    assert found == [(host, app, message)]


def test_a_date_without_a_year_is_of_the_files_own_time(tmp_path: Path) -> None:
    log = tmp_path / "messages"
    log.write_text("Dec 31 23:59:59 h a: x\nJan  2 00:00:00 h a: y\nFeb 29 00:00:00 h a: z\n")
    changed = datetime(2022, 1, 2, 12, tzinfo=UTC).timestamp()
    os.utime(log, (changed, changed))
    parser = StreamFormat("syslog").parser(str(log))
    for _ in range(2):  # whatever the clock says meanwhile
        found = parser.parse(log.read_bytes(), ["ts"]).batch.column(0).to_pylist()
        assert [(ts.year, ts.month) for ts in found] == [(2021, 12), (2022, 1), (2020, 2)]
    assert read("syslog", log.read_bytes(), ["ts"], clock=LocalClock(year=1999)) == [
        (datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC),),
        (datetime(1999, 1, 2, tzinfo=UTC),),
        (None,),
    ]


def test_a_time_without_a_zone_is_of_the_declared_one_and_others_stay() -> None:
    text = "2021-07-01 12:00:00|a\n2021-07-01T12:00:00Z|b\n1625140800|c\n2021-01-01 12:00:00+02:00|d\n"
    clock = LocalClock("Europe/Berlin")
    found = read(r"regex:(?P<ts>[^|]*)\|(?P<x>.)", text, ["x", "ts"], clock=clock)
    assert {x: ts.hour for x, ts in found} == {"a": 10, "b": 12, "c": 12, "d": 10}


def test_a_local_time_that_never_was_goes_on_with_the_offset_before_it() -> None:
    clock = LocalClock("Europe/Berlin")
    text = "2026-03-29 02:30:00\n2026-10-25 02:30:00\n"
    found = read("regex:(?P<ts>.*)", text, ["ts"], clock=clock)
    assert [ts.isoformat() for (ts,) in found] == ["2026-03-29T01:30:00+00:00", "2026-10-25T00:30:00+00:00"]


def test_an_empty_group_is_null_as_in_grok() -> None:
    text = "a1\nb\n"
    for words in (
        r"regex:(?P<k>[a-z])(?P<n>\d*)",
        r"regex:(?P<k>[a-z])(?P<n>\d*)(x)?",
        r"grok:(?<k>[a-z])(?<n>\d*)",
    ):
        assert read(words, text, ["k", "n"]) == [("a", "1"), ("b", None)]


@pytest.mark.parametrize("options", [{"zone": "Middle/Earth"}, {"year": 12}, {"zone": "../etc/passwd"}])
def test_no_such_zone_or_year(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        LocalClock(**options)


def test_a_servers_own_words_are_a_format() -> None:
    line = 'x.de 1.2.3.4 [10/Oct/2000:13:55:36 -0700] "GET /a?b=1 HTTP/1.1" 200 0.5 "0.1, 0.25" more'
    words = (
        'nginx:$host $remote_addr [$time_local] "$request" $status $request_time "$upstream_response_time"'
    )
    columns = ["vhost", "host", "path", "status", "request_time", "upstream_response_time"]
    assert read(words, line, columns) == [("x.de", "1.2.3.4", "/a?b=1", 200, 0.5, 0.35)]
    words = 'apache:%v:%p %h %t "%r" %>s %b "%{User-Agent}i" %D'
    line = 'x.de:80 ::1 [10/Oct/2000:13:55:36 -0700] "-" 408 - "a \\" b" 17'
    columns = ["vhost", "port", "path", "method", "bytes", "agent", "time_us"]
    assert read(words, line, columns) == [("x.de", 80, "-", "", None, 'a \\" b', 17)]


def test_cef_values_go_to_the_next_key_and_escapes_are_undone() -> None:
    line = r"<13>Sep 29 08:26:10 host CEF:0|a|b|1|7|n \| m|9|msg=two\n words\=1 src=10.0.0.1 url=h?x=y k="
    columns = ["name", "severity", "msg", "src", "url", "k", "none"]
    expected = ("n | m", "9", "two\n words=1", "10.0.0.1", "h?x=y", "", None)
    assert read("cef", line, columns) == [expected]
    assert read("cef", line, ["ts"], clock=LocalClock(year=2020)) == [
        (datetime(2020, 9, 29, 8, 26, 10, tzinfo=UTC),)
    ]


def test_lines_of_many_leef_delimiters_make_no_pattern_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern for each delimiter and key took 1 ms for each line of 33 bytes."""
    made: set[str] = set()
    extract_regex = pc.extract_regex

    def noted(texts: pa.Array, pattern: str) -> pa.Array:
        made.add(pattern)
        return extract_regex(texts, pattern)

    monkeypatch.setattr(pc, "extract_regex", noted)
    lines = [f"LEEF:2.0|a|b|1|7|x{0x100 + row:04x}|x={row}{chr(0x100 + row)}y=2" for row in range(500)]
    assert read("leef", "\n".join(lines), ["x", "y"]) == [(str(row), "2") for row in range(500)]
    assert len(made) < 10


def test_a_leef_delimiter_that_is_no_character_is_found_nowhere() -> None:
    assert read("leef", "LEEF:2.0|a|b|1|7|xD800|x=1\ty=2", ["x", "y"]) == [("1\ty=2", None)]


def test_leef_uses_its_own_delimiter() -> None:
    lines = "LEEF:2.0|a|b|1|7|^|x=1^y=2 3\nLEEF:2.0|a|b|1|7|0x7C|x=4|y=5\nLEEF:1.0|a|b|1|7|x=6\ty=7\n"
    assert read("leef", lines, ["event_id", "x", "y"]) == [
        ("7", "1", "2 3"),
        ("7", "4", "5"),
        ("7", "6", "7"),
    ]


def test_w3c_directives_are_no_records_and_say_what_follows() -> None:
    text = (
        "#Version: 1.0\n#Date: 2002-05-03 00:00:00\n#Fields: date time c-ip cs(User-Agent)\n"
        '2002-05-02 17:42:15 1.2.3.4 "a ""b"""\nshort\n#Fields: time x-n\n17:00:01 -\n'
    )
    parsed = StreamFormat("w3c").parser("f").parse(text.encode(), ["ts", "c_ip", "cs_user_agent", "x_n"])
    assert [tuple(row.values()) for row in parsed.batch.to_pylist()] == [
        (datetime(2002, 5, 2, 17, 42, 15, tzinfo=UTC), "1.2.3.4", 'a "b"', None),
        (datetime(2002, 5, 3, 17, 0, 1, tzinfo=UTC), None, None, None),
    ]
    assert (parsed.lines, parsed.errors) == (3, 1)


def test_parts_of_container_lines_are_joined_by_stream() -> None:
    text = (
        "2016-10-06T00:17:09Z stdout P a\n2016-10-06T00:17:10Z stderr F err\n"
        "2016-10-06T00:17:11Z stdout P b\n2016-10-06T00:17:12Z stdout F c\nbad\n"
        "2016-10-06T00:17:13Z stdout F\n"
    )
    assert read("cri", text, ["stream", "message"]) == [("stdout", "abc"), ("stderr", "err"), ("stdout", "")]
    (raw, *_) = read("cri", text, ["_raw"])
    assert raw[0].startswith("2016-10-06T00:17:09Z")
    assert raw[0].endswith("F c")
    docker = (
        r'{"log":"a ","stream":"stdout","time":"2016-10-06T00:17:09Z"}' + "\n"
        r'{"log":"b\n","stream":"stdout","time":"2016-10-06T00:17:10Z"}' + "\n"
        r'{"log":"c\\n","stream":"stdout","time":"2016-10-06T00:17:10Z"}' + "\n"
    )
    assert read("docker", docker, ["message"]) == [("a b",), ("c\\n",)]


def test_the_journals_export_may_hold_any_bytes() -> None:
    binary = b"MESSAGE\n" + struct.pack("<Q", 6) + b"a\n\nb=c" + b"\n"
    text = b"__CURSOR=1\n__REALTIME_TIMESTAMP=1534860261221373\n" + binary + b"PRIORITY=6\n\n__CURSOR=2\nM\n"
    parsed = StreamFormat("journald_export").parser("f").parse(text, ["MESSAGE", "PRIORITY", "ts"])
    stamp = datetime(2018, 8, 21, 14, 4, 21, 221373, tzinfo=UTC)
    assert [tuple(row.values()) for row in parsed.batch.to_pylist()] == [("a\n\nb=c", "6", stamp)]
    assert (parsed.lines, parsed.errors) == (2, 1)


def test_raw_takes_any_line() -> None:
    assert read("raw", "a\nb c\n", ["_raw"]) == [("a",), ("b c",)]
