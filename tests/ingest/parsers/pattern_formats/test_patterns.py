"""Formats that are patterns: blocks against one line at a time, and against RE2 called line by line."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers import Parsed, StreamFormat
from elfmesh.ingest.parsers.pairs import KvParser
from elfmesh.ingest.parsers.pattern_formats.patterns import PatternParser
from elfmesh.ingest.parsers.sniff import sniff

NGINX_LINE = (
    '2021/04/01 13:02:31 [error] 31#31: *1 open() "/x" failed (2: No such file), client: 172.17.0.1, '
    'server: localhost, request: "POST /x HTTP/1.1", host: "localhost:8081"'
)
ACCESS = '1.2.3.4 - bob [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.0" 200 12 "-" "Mozilla"'
GOOD = {
    "syslog": [
        '<13>1 2020-03-13T20:45:38.119Z web non 2426 ID931 [a@1 iut="3"] Try',
        "<34>Oct 11 22:14:15 mymachine su[12]: fail: x",
        "Jun 14 15:16:01 combo sshd(pam_unix)[19939]: authentication failure",
        "Jun 14 15:16:01 su: hi",
        "<13>hello",
    ],
    "nginx_error": [NGINX_LINE, "2021/04/01 13:02:31 [notice] 1#1: signal process started"],
    "apache_error": [
        "[Sun Dec 04 04:47:44 2005] [notice] workerEnv.init() ok /etc",
        "[01/Mar/2021:12:00:19 +0000] [ab:alert] [pid 4803:tid 3814] [client 147.159.108.175:24259] I will",
    ],
    "glog": ["E0517 15:04:22.619632 1952452992 logging_unittest.cc:253] Log every 3"],
    "vhost_combined": ["www.x.de:443 " + ACCESS],
    "nginx_timed": [ACCESS + " 0.120 0.1, 0.02", ACCESS + " 0.120 -"],
    "apache:%h %>s %D": ["1.2.3.4 200 17 more", "1.2.3.4 - -"],
    "grok:%{IPORHOST:a} (?:%{INT:n:int}|%{WORD:w})": ["1.2.3.4 5", "host word"],
    "cri": ["2016-10-06T00:17:09.669794202Z stdout F x"],
}
PARSERS = {spec: StreamFormat(spec).parser("f") for spec in GOOD}


def rows(parsed: Parsed) -> list[dict[str, Any]]:
    """The rows; times are numbers, because Python's datetime does not have each year that a line may have."""
    parsed.batch.validate(full=True)
    columns = [
        each.cast(pa.int64()) if pa.types.is_timestamp(each.type) else each for each in parsed.batch.columns
    ]
    found: list[dict[str, Any]] = pa.record_batch(columns, names=parsed.batch.schema.names).to_pylist()
    return found


def mutated(draw: st.DrawFn, line: str) -> str:
    at = draw(st.integers(0, len(line)))
    extra = draw(st.sampled_from(["", " ", '"', "\\", "[", "]", "-", ":", "é", "\t", ",", "=", "0"]))
    return line[:at] + extra + line[at + draw(st.integers(0, 3)) :]


@st.composite
def blocks(draw: st.DrawFn) -> tuple[str, list[str]]:
    spec = draw(st.sampled_from(sorted(GOOD)))
    lines = draw(st.lists(st.sampled_from(GOOD[spec]), min_size=1, max_size=6))
    return spec, [mutated(draw, line) for line in lines]


@settings(max_examples=80, deadline=None)
@given(blocks())
def test_a_line_means_the_same_whatever_stands_beside_it(case: tuple[str, list[str]]) -> None:
    spec, lines = case
    parser = PARSERS[spec]
    columns = [*(parser.known_columns() or ()), "_raw"]
    whole = parser.parse("\n".join(lines).encode(), columns)
    each = [parser.parse(line.encode(), columns) for line in lines]
    assert rows(whole) == [row for one in each for row in rows(one)]
    assert (whole.lines, whole.errors) == (sum(o.lines for o in each), sum(o.errors for o in each))


@settings(max_examples=80, deadline=None)
@given(blocks())
def test_blocks_agree_with_re2_line_by_line(case: tuple[str, list[str]]) -> None:
    spec, lines = case
    parser = PARSERS[spec]
    if type(parser) is not PatternParser:
        return
    names = [name for name in parser.names if name != "ts" and name not in parser._declared]
    expected = []
    for line in lines:
        if not line.strip(" \t"):
            continue
        for pattern in parser._patterns:
            match = re2.search(pattern.text, line)
            if match:
                groups = pattern.groups
                found = {n: [match[g] for g in groups.get(n, ()) if match[g]] for n in names}
                expected.append({n: values[0] if values else None for n, values in found.items()})
                break
    got = rows(parser.parse("\n".join(lines).encode(), names))
    assert got == expected


PIECES = st.lists(
    st.sampled_from(["a", "b", "ab", "=", ";", ":", ",", " ", "  ", '"', "\\", "1", "x y", "\t"]), max_size=12
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["kv", "kv:k=v;k=v", "kv:k:v, k:v", "kv:k=v -- k=v"]), st.lists(PIECES, max_size=3))
def test_pairs_found_by_pattern_are_those_found_one_by_one(spec: str, lines: list[list[str]]) -> None:
    parser = StreamFormat(spec).parser("f")
    assert isinstance(parser, KvParser)
    texts = ["".join(line).replace('"', "") for line in lines]
    names = ["a", "b", "ab", "x"]
    parsed = parser.parse("\n".join(texts).encode(), names)
    records = [parser.fields(text) for text in texts if text.strip(" \t")]
    assert rows(parsed) == [{n: record.get(n) for n in names} for record in records if record is not None]
    quoted = [*texts, 'q="1"' if "=" in parser._assign else 'q:"1"']
    assert rows(parser.parse("\n".join(quoted).encode(), names))[: parsed.rows] == rows(parsed)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("grok:%{NOPE:a}", "not a pattern"),
        ("grok:%{WORD}", "names no column"),
        ("grok:%{WORD:a:thing}", "not a type"),
        ("grok:(?=x)%{WORD:a}", "not valid"),
        ("grok", "needs an argument"),
        ("kv:a=b", "does not show two pairs"),
        ("nginx:nothing", "names no value"),
        ("nginx:$a$b", "no separator between"),
        ("apache:%Z", "not known"),
        ("syslog:x", "unknown format"),
    ],
)
def test_what_cannot_be_a_format_is_refused_when_it_is_declared(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StreamFormat(spec)


def test_a_ring_of_own_patterns_is_refused_and_a_bomb_is_not_unfolded() -> None:
    with pytest.raises(ConfigError, match="refers to itself"):
        StreamFormat("grok:%{A:x}", patterns={"A": "%{B}", "B": "%{A}"})
    bomb = {f"P{n}": f"%{{P{n + 1}}}%{{P{n + 1}}}%{{P{n + 1}}}" for n in range(30)} | {"P30": "abcdefgh"}
    with pytest.raises(ConfigError, match="too large"):
        StreamFormat("grok:%{P0:x}", patterns=bomb)


def test_own_patterns_come_before_ours_and_types_are_cast() -> None:
    parser = StreamFormat("grok:%{WORD:w} %{NUMBER:n:int}", patterns={"WORD": "[xy]+"}).parser("f")
    parsed = parser.parse(b"xyx 12\nabc 12\ny 1.5\n", ["w", "n"])
    assert rows(parsed) == [{"w": "xyx", "n": 12}, {"w": "y", "n": None}]
    assert (parsed.errors, parsed.field_errors) == (1, 1)


@pytest.mark.parametrize("spec", [spec for spec in GOOD if ":" not in spec])
def test_hostile_lines_take_linear_time(spec: str) -> None:
    for piece in ('"\\', "[a[", "a=", "<1", ", client: ", "%", " - "):
        parsed = StreamFormat(spec).parser("f").parse((piece * 60_000).encode() + b"\n", ["ts", "message"])
        assert parsed.rows + parsed.errors == 1


@pytest.mark.parametrize(
    ("line", "name"),
    [
        *((GOOD[spec][0], spec) for spec in GOOD if ":" not in spec and spec != "nginx_timed"),
        ("CEF:0|a|b|1|2|n|3|src=1.1.1.1", "cef"),
        ("LEEF:2.0|a|b|1|2|^|src=1.1.1.1", "leef"),
        ("#Fields: date time c-ip\n2020-01-01 00:00:00 1.1.1.1", "w3c"),
        ('{"log":"x\\n","stream":"stdout","time":"2016-10-06T00:17:09Z"}', "docker"),
        ('{"__CURSOR":"s=1","__REALTIME_TIMESTAMP":"1534860261221373"}', "journald"),
        ("__CURSOR=s=1\n__REALTIME_TIMESTAMP=1534860261221373\nMESSAGE=x\n", "journald_export"),
        ("a\tb\n1\t2", "tsv"),
        ("hello there", ""),
        ("a: b, c", ""),
        ("[x] [y] z", ""),
    ],
)
def test_auto_recognises_what_is_certain(line: str, name: str) -> None:
    assert sniff(line.encode() + b"\n") == name
