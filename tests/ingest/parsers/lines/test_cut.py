"""Cutting bytes into lines."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.ingest.parsers.lines import MARGIN, Lines, cut_by_index, cut_by_views


def test_blank_lines_carriage_returns_and_the_byte_order_mark_are_not_records() -> None:
    lines = Lines(b"\xef\xbb\xbfa\r\n\r\n  \t\n\nb\n\n c")
    assert lines.texts() == ["a", "b", " c"]
    assert lines.raw().to_pylist() == ["a", "b", " c"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(st.characters(blacklist_characters="\n", blacklist_categories=["Cs"]), max_size=9)))
def test_lines_equal_those_of_splitting(texts: list[str]) -> None:
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
