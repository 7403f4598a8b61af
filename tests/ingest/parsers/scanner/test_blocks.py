"""Where blocks, lines and texts begin and end."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elfmesh.ingest.parsers import StreamFormat, scanner
from elfmesh.ingest.parsers.access import COMBINED_COLUMNS
from elfmesh.ingest.parsers.cells import spans
from elfmesh.ingest.parsers.json_lines import JsonParser
from elfmesh.ingest.parsers.lines import Lines, valid_utf8
from tests.ingest.parsers.agreement import compare, using
from tests.ingest.parsers.scanner.grammar import ACCESS


def test_a_block_may_end_anywhere() -> None:
    """Under a sanitizer this also shows that nothing behind the block is looked at."""
    texts = [
        '{"a":"\\u00e9\\ud83d\\ude00\\n","b":{"c":-12.5e+10},"x":[true,false,null,{"y":1}],"ts":"2015-05-17T10:00:00Z"}',
        ' { "x" : 1 , "a" : 7 } ',
    ]
    blocks = [text.encode()[:end] for text in texts for end in range(len(text) + 1)]
    compare(JsonParser, blocks, ["a", "b.c", "ts"])
    for line in ACCESS:
        data = line.encode()
        compare(
            StreamFormat("combined").parser, [data[:end] for end in range(len(data) + 1)], COMBINED_COLUMNS
        )


def test_no_lines_at_all() -> None:
    for block in (b"", b"\n", b"\r\n \t\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"):
        compare(JsonParser, [block], ["a", "ts", "_raw"])
        compare(StreamFormat("combined").parser, [block], ["path", "ts", "_raw"])


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=300), st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass"))
    )
)
@example(b"\xf4\x90\x80\x80")
@example(b"\xe0\x80\x80")
@example(b"\xc0\x80\xc1\xbf")
@example(b"\xed\xa0\x80\xf5\x80\x80\x80")
@example(b"a\n \t \nb")
@example(b"\xf0\x80\x80\x80")
@example(b"a" * 64 + b"\xe2\x82")
@example(b"\r")
@example(b"a\r\r\n\r\n\r")
def test_lines_and_their_repair_agree(block: bytes) -> None:
    with using("native"):
        fast = Lines(block)
        raw = fast.raw()
    with using("python"):
        slow = Lines(block)
        assert raw.equals(slow.raw())
    assert (fast.data, fast.replaced) == (slow.data, slow.replaced)
    assert (fast.starts.tolist(), fast.ends.tolist()) == (slow.starts.tolist(), slow.ends.tolist())
    assert scanner.active.valid(block) == (valid_utf8(block)[0] == block)


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=200).map(lambda b: b.hex().encode()),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 90))),
)
def test_texts_are_cut_at_any_distance_from_the_blocks_end(data: bytes, pairs: list[tuple[int, int]]) -> None:
    starts = np.array([min(start, len(data)) for start, _ in pairs], np.int64)
    ends = np.minimum(starts + np.array([length for _, length in pairs], np.int64), len(data))
    found = spans(scanner.active, data, starts, ends)
    found.validate(full=True)
    assert found.to_pylist() == [
        data[s:e].decode() for s, e in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
