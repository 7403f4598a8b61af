from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers import AutoParser, StreamFormat, known_columns, sniff
from elfmesh.ingest.parsers.base import LazyArrays
from elfmesh.ingest.parsers.lines import MARGIN, Lines, cut_by_index, cut_by_views

DATA = Path(__file__).parents[3].parent / "shared/data"
FORMATS = [
    "json",
    "combined",
    "common",
    "logfmt",
    "csv",
    "csv:a,b",
    r"regex:(?P<a>\w+)(?: (?P<b>.*))?",
    "auto",
    *(
        "syslog",
        "nginx_error",
        "apache_error",
        "glog",
        "raw",
        "vhost_combined",
        "nginx_timed",
        "cri",
        "docker",
    ),
    *("cef", "leef", "kv", "kv:k:v;k:v", "w3c", "tsv", "journald", "journald_export"),
    "grok:%{COMBINEDAPACHELOG}",
]
COLUMNS = ["ts", "a", "b.c", "_raw", "_source", "_host"]
ACCESS = b'h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5'

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not beside this checkout")


def real_logs() -> list[Path]:
    return sorted(p for room in ("lnav", "system_logs") for p in (DATA / room).glob("*") if p.is_file())


@needs_data
@pytest.mark.parametrize("spec", FORMATS)
def test_no_real_log_crashes_any_parser(spec: str) -> None:
    for path in real_logs():
        parsed = StreamFormat(spec).parser(str(path)).parse(path.read_bytes(), COLUMNS)
        assert parsed.batch.num_rows + parsed.errors == parsed.lines
        parsed.batch.validate(full=True)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.binary(max_size=120), max_size=3), st.sampled_from(FORMATS))
def test_no_bytes_crash_any_parser(blocks: list[bytes], spec: str) -> None:
    parser = StreamFormat(spec).parser("f")
    for block in blocks:
        parsed = parser.parse(block, COLUMNS)
        assert parsed.batch.num_rows + parsed.errors == parsed.lines
        assert parsed.batch.schema.names == COLUMNS
        parsed.batch.validate(full=True)


@pytest.mark.parametrize(
    ("block", "name"),
    [
        (b'{"a":1}\n{"b":2}\n', "json"),
        (b'# comment\n{"a":1}\n{"b":2}\n', "json"),
        (ACCESS + b"\n", "common"),
        (ACCESS + b' "-" "agent"\n', "combined"),
        (b"www.x.org:82 " + ACCESS + b"\n", "vhost_common"),
        (b"www.x.org:82 " + ACCESS + b' "-" "agent"\n', "vhost_combined"),
        (ACCESS.replace(b"- - ", b"- John Smith ") + b"\n", "common"),
        (b"2001:db8::1" + ACCESS.replace(b"- - ", b"- John Smith ")[1:] + b"\n", "common"),
        (b"Nov 22 06:01:00 web1 nginx: " + ACCESS + b"\n", "syslog"),
        (b"<134>Nov 22 06:01:00 web1 nginx[12]: " + ACCESS + b' "-" "agent"\n', "syslog"),
        (b"2026-11-22T06:01:00+00:00 web1 nginx: " + ACCESS + b"\n", "syslog"),
        (b"<134>1 2026-11-22T06:01:00Z web1 nginx - - - " + ACCESS + b"\n", "syslog"),
        (b"www.x.org " + ACCESS + b"\n", ""),
        (b"nginx-1 | " + ACCESS + b"\n", ""),
        (b'level=info msg="x y"\n', "logfmt"),
        (b"a,b,c\n1,2,3\n", "csv"),
        (b"Jul 10 12:00:01 host sshd[1]: hello\n", "syslog"),
        (b"\xfd7zXZ\0a=b c=d\n", ""),
        ((ACCESS + b"\n").decode().encode("utf-16-le"), ""),
        (b"\n\n", ""),
        (b"", ""),
    ],
)
def test_auto_recognises(block: bytes, name: str) -> None:
    assert sniff(block) == name


@pytest.mark.parametrize(
    ("block", "names"),
    [
        (b"www.x.org " + ACCESS + b"\n", ("vhost_common", "common")),
        (b"www.x.org " + ACCESS + b' "-" "agent"\n', ("vhost_combined", "combined")),
        ((ACCESS + b"\n") * 12 + (b"www.x.org:82 " + ACCESS + b"\n") * 8, ("vhost_common", "common")),
        ((ACCESS + b"\n") * 19 + b"Nov 22 06:01:00 web1 nginx: " + ACCESS + b"\n", ("syslog", "common")),
        (b"what is this\n", ()),
    ],
)
def test_where_two_formats_are_possible_auto_names_both(block: bytes, names: tuple[str, ...]) -> None:
    parser = StreamFormat("auto").parser("f")
    assert isinstance(parser, AutoParser)
    parsed = parser.parse(block, ["host"])
    assert parser.chosen == ""
    assert parser.candidates == names
    assert " or ".join(names) in parsed.samples[0]


def test_auto_decides_once_per_file_and_says_what() -> None:
    parser = StreamFormat("auto").parser("f")
    assert isinstance(parser, AutoParser)
    assert parser.parse(b"\n", ["a"]).lines == 0
    assert parser.chosen == ""
    assert parser.parse(b'{"a":1}\n', ["a"]).batch.num_rows == 1
    assert parser.chosen == "json"
    assert parser.parse(ACCESS, ["a"]).errors == 1


def test_lines_of_no_known_format_are_errors_with_a_sample() -> None:
    parsed = StreamFormat("auto").parser("f").parse(b"hello there\nmore\n", ["a"])
    assert (parsed.lines, parsed.errors) == (2, 2)
    assert parsed.samples == ["not in any known log format: hello there"]


def test_columns_are_known_only_where_the_format_says_them() -> None:
    assert known_columns("json") is None
    assert known_columns("csv") is None
    assert known_columns("csv:a,b") == ("a", "b", "ts", "_raw", "_source", "_host")
    assert "agent" in (known_columns("combined") or ())
    assert "agent" not in (known_columns("common") or ())
    assert known_columns("regex:(?P<x>a)") == ("x", "ts", "_raw", "_source", "_host")


@pytest.mark.parametrize("spec", ["jsn", "json:x", "", "combined:a"])
def test_an_unknown_format_is_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match="unknown format"):
        StreamFormat(spec)
    with pytest.raises(ConfigError, match="json"):
        StreamFormat("jsn")


def test_every_format_has_raw_source_and_host() -> None:
    parser = StreamFormat("json", host="web-1").parser("/var/log/x")
    (row,) = parser.parse(b'{"a": 1}\r\n', ["_raw", "_source", "_host"]).batch.to_pylist()
    assert row == {"_raw": '{"a": 1}', "_source": "/var/log/x", "_host": "web-1"}


def test_malformed_utf8_costs_no_line_and_no_neighbour() -> None:
    block = b'{"a":"x"}\n{"a":"\xff\xfe"}\n{"a":"\xc3"}\n{"a":"y"}\n'
    parsed = StreamFormat("json").parser().parse(block, ["a"])
    assert parsed.batch.column(0).to_pylist() == ["x", "��", "�", "y"]
    assert (parsed.errors, parsed.replaced) == (0, 2)


def test_blank_lines_carriage_returns_and_the_byte_order_mark_are_not_records() -> None:
    lines = Lines(b"\xef\xbb\xbfa\r\n\r\n  \t\n\nb\n\n c")
    assert lines.texts() == ["a", "b", " c"]
    assert lines.raw().to_pylist() == ["a", "b", " c"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(st.characters(blacklist_characters="\n", blacklist_categories=["Cs"]), max_size=9)))
def test_lines_are_what_splitting_says(texts: list[str]) -> None:
    lines = Lines("\n".join(texts).encode())
    trimmed = [text.removeprefix("\ufeff") if n == 0 else text for n, text in enumerate(texts)]
    trimmed = [text.removesuffix("\r") for text in trimmed]
    assert lines.texts() == [text for text in trimmed if text.strip(" \t")]
    assert lines.raw().to_pylist() == lines.texts()


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80), st.lists(st.tuples(st.integers(0, 80), st.integers(0, 30)), max_size=8))
def test_both_ways_to_cut_agree(text: str, spans: list[tuple[int, int]]) -> None:
    data = text.encode("ascii", "replace")
    buffer = np.frombuffer(data + bytes(MARGIN), np.uint8)
    pairs = [(start, min(start + length, len(data))) for start, length in spans if start <= len(data)]
    starts = np.array([start for start, _ in pairs], np.int64)
    ends = np.array([end for _, end in pairs], np.int64)
    by_views = cut_by_views(buffer, starts, ends)
    by_views.validate(full=True)
    assert by_views.equals(cut_by_index(buffer, starts, ends))
    assert by_views.to_pylist() == [data[start:end].decode() for start, end in pairs]


def test_only_the_selected_columns_are_made() -> None:
    parsed = StreamFormat("combined").parser("f").parse(ACCESS + b' "-" "x"\n', ["agent", "path", "_source"])
    assert isinstance(parsed.arrays, LazyArrays)
    assert parsed.select(["_source", "path"]).to_pylist() == [{"_source": "f", "path": "/"}]
    assert parsed.arrays.made == {"_source", "path"}
    assert parsed.select([]).num_rows == parsed.rows == 1
    assert parsed.batch.schema.names == ["agent", "path", "_source"]
    with pytest.raises(KeyError, match="host"):
        parsed.select(["host"])
