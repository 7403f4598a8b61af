"""CEF and LEEF: lines of pairs, read as the page of formats says."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from elfmesh.ingest.parsers.clock import LocalClock
from tests.ingest.parsers.reading import read


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
