from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.ingest.parsers.access import COMBINED_COLUMNS, COMMON_COLUMNS, AccessParser
from elfmesh.ingest.parsers.lines import Lines

LINE = '1.2.3.4 - frank [17/May/2015:10:05:03 +0200] "GET /a?b HTTP/1.1" 200 12 "http://r/" "Agent (X; Y)"'


def rows(*lines: str, combined: bool = True) -> list[dict[str, object]]:
    columns = COMBINED_COLUMNS if combined else COMMON_COLUMNS
    parsed = AccessParser(combined=combined).parse("\n".join(lines).encode(), columns)
    return list(parsed.batch.to_pylist())


def test_every_field_of_a_combined_line() -> None:
    assert rows(LINE) == [
        {
            "host": "1.2.3.4",
            "ident": "-",
            "user": "frank",
            "ts": datetime(2015, 5, 17, 8, 5, 3, tzinfo=UTC),
            "method": "GET",
            "path": "/a?b",
            "protocol": "HTTP/1.1",
            "status": 200,
            "bytes": 12,
            "referer": "http://r/",
            "agent": "Agent (X; Y)",
            "request": "GET /a?b HTTP/1.1",
        }
    ]


@pytest.mark.parametrize(
    ("request_text", "method", "path", "protocol"),
    [
        ("GET /", "GET", "/", None),
        ("-", "", "-", None),
        ("", "", "", None),
        ("GET /with space HTTP/1.0", "GET", "/with", "HTTP/1.0"),
        (r"GET /\"q\" HTTP/1.0", "GET", r"/\"q\"", "HTTP/1.0"),
        (r"\x16\x03\x01", "", r"\x16\x03\x01", None),
        ('GET /shuttle.html" HTTP/1.0', "GET", '/shuttle.html"', "HTTP/1.0"),
    ],
)
def test_the_request_is_split_on_spaces(
    request_text: str, method: str, path: str, protocol: str | None
) -> None:
    (row,) = rows(f'h - - [17/May/2015:10:05:03 +0000] "{request_text}" 404 -', combined=False)
    assert (row["method"], row["path"], row["protocol"]) == (method, path, protocol)
    assert row["request"] == request_text
    assert row["bytes"] is None


def test_a_logged_quote_cannot_forge_status_and_bytes() -> None:
    (row,) = rows(r'h - - [17/May/2015:10:05:03 +0000] "GET /\" 200 5 \" x" 404 7 "-" "-"')
    assert (row["status"], row["bytes"]) == (404, 7)


def test_a_line_cut_off_in_its_agent_still_counts() -> None:
    (row,) = rows('h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5 "-" "Mozilla/5.0 (comp')
    assert row["agent"] == "Mozilla/5.0 (comp"


def test_more_fields_may_follow_and_users_may_have_spaces() -> None:
    (row,) = rows(LINE.replace("frank", "Frank N. Furter") + ' "-" 0.003')
    assert row["user"] == "Frank N. Furter"
    assert row["agent"] == "Agent (X; Y)"


def test_one_bad_line_costs_one_line_and_order_is_kept() -> None:
    parsed = AccessParser().parse(
        "\n".join([LINE, "garbage", LINE.replace("GET /a?b HTTP/1.1", "-"), LINE]).encode(), ["path"]
    )
    assert parsed.batch.column(0).to_pylist() == ["/a?b", "-", "/a?b"]
    assert (parsed.lines, parsed.errors) == (4, 1)
    assert parsed.samples == ["not a line of the combined log format: garbage"]


def test_a_time_that_is_none_is_null_and_the_record_stays() -> None:
    (row,) = rows(LINE.replace("17/May/2015", "17/Foo/2015"))
    assert row["ts"] is None
    assert row["status"] == 200


def test_absurd_byte_counts_are_errors_not_wrong_numbers() -> None:
    assert rows(LINE.replace(" 12 ", " " + "9" * 30 + " ")) == []
    assert rows(LINE.replace(" 12 ", " " + "9" * 18 + " "))[0]["bytes"] == 10**18 - 1


word = st.text(st.sampled_from('ab/"\\[]- é'), max_size=6)
exact = st.sampled_from(
    [
        LINE,
        LINE + ' "-"',
        LINE.replace('"GET', '"GET \\"'),
        LINE.replace("200", "2x0"),
        LINE.replace("12", "-"),
        'h - - [x y] "GET / HTTP/1.0" 200 1',
    ]
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    line = draw(exact)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(line)))
        line = line[:at] + draw(word) + line[at + draw(st.integers(0, 3)) :]
    return line


@settings(max_examples=400, deadline=None)
@given(st.lists(mutated(), max_size=6), st.booleans(), st.booleans())
def test_the_fast_way_equals_the_definition(texts: list[str], combined: bool, newline: bool) -> None:
    block = "\n".join(texts).encode() + (b"\n" if newline else b"")
    columns = COMBINED_COLUMNS if combined else COMMON_COLUMNS
    lines = Lines(block)
    parser = AccessParser(combined=combined)
    fast = parser.columns(lines, columns)
    rows, arrays, _ = parser._slow(lines, np.arange(len(lines)), columns)
    good = list(range(len(lines))) if fast.rows is None else fast.rows.tolist()
    assert good == rows.tolist()
    for name in columns:
        assert fast.arrays[name].equals(arrays[name]), name


def test_no_columns_still_count_rows() -> None:
    parsed = AccessParser().parse((LINE + "\n").encode() * 3, [])
    assert (parsed.batch.num_rows, parsed.batch.num_columns) == (3, 0)


def test_types_do_not_depend_on_the_block() -> None:
    columns = [*COMBINED_COLUMNS, "_raw", "_source", "_host"]
    parser = AccessParser("f", "h")
    empty, full = parser.parse(b"", columns).batch, parser.parse(LINE.encode(), columns).batch
    assert empty.schema == full.schema
    assert full.schema.field("ts").type == pa.timestamp("us", tz="UTC")
