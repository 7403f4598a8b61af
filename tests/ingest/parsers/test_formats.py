from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.ingest.parsers import StreamFormat
from tests.tooling.shared_data import DATA

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
    *("aws_alb", "aws_vpc_flow"),
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


def test_lines_of_no_known_format_are_errors_with_a_sample() -> None:
    parsed = StreamFormat("auto").parser("f").parse(b"hello there\nmore\n", ["a"])
    assert (parsed.lines, parsed.errors) == (2, 2)
    assert parsed.samples == ["not in any known log format: hello there"]
