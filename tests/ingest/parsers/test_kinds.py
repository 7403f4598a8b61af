"""The table of formats: which have arguments, and which say their columns."""

from __future__ import annotations

import pytest

from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers import StreamFormat, known_columns


def test_columns_are_known_only_where_the_format_declares_them() -> None:
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


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("csv:a,b,a", "the column 'a' is named twice"),
        ("grok", "grok"),
        ("regex", "regex"),
        ("w3c:x", "unknown format"),
    ],
)
def test_arguments_that_a_format_does_not_take_are_refused(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        known_columns(spec)


def test_a_file_that_is_read_from_its_middle_takes_its_header_from_its_beginning() -> None:
    parser = StreamFormat("csv").parser("f", head=b"b,a\n1,2\n")
    assert parser.parse(b"3,4\n", ["a", "b"]).batch.to_pylist() == [{"a": "4", "b": "3"}]
