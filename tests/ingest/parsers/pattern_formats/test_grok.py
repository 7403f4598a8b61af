"""Grok patterns, read as the page of formats says."""

from __future__ import annotations

from tests.ingest.parsers.reading import read


def test_an_empty_group_is_null_as_in_grok() -> None:
    text = "a1\nb\n"
    for words in (
        r"regex:(?P<k>[a-z])(?P<n>\d*)",
        r"regex:(?P<k>[a-z])(?P<n>\d*)(x)?",
        r"grok:(?<k>[a-z])(?<n>\d*)",
    ):
        assert read(words, text, ["k", "n"]) == [("a", "1"), ("b", None)]
