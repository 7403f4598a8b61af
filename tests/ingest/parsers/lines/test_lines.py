"""Lines without a format, read as the page of formats says."""

from __future__ import annotations

from tests.ingest.parsers.reading import read


def test_raw_takes_any_line() -> None:
    assert read("raw", "a\nb c\n", ["_raw"]) == [("a",), ("b c",)]
