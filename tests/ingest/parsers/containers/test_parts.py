"""Parts of container lines are joined however the bytes come."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.containers import CRI_PARTS
from tests.ingest.parsers.cutting import cut

PARTS = st.tuples(st.sampled_from(["stdout", "stderr"]), st.sampled_from("PF"), st.sampled_from("abc"))


@settings(max_examples=200, deadline=None)
@given(st.lists(PARTS, max_size=15), st.lists(st.integers(1, 60), max_size=10))
def test_parts_are_joined_by_stream_however_the_bytes_come(
    parts: list[tuple[str, str, str]], sizes: list[int]
) -> None:
    data = "".join(f"2016-10-06T00:17:09Z {s} {tag} {text}\n" for s, tag, text in parts).encode()
    records: list[tuple[str, str]] = []
    opened: dict[str, int] = {}
    for stream, tag, text in parts:
        at = opened.pop(stream, len(records))
        if at == len(records):
            records.append((stream, ""))
        records[at] = stream, records[at][1] + text
        if tag == "P":
            opened[stream] = at
    parser = StreamFormat("cri").parser("f")
    found = [
        (row["stream"], row["message"])
        for block in cut(CRI_PARTS, data, sizes)
        for row in parser.parse(block, ["stream", "message"]).batch.to_pylist()
    ]
    assert found == records
