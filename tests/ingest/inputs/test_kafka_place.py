"""Up to where a topic has been read, told by the spool that its messages went to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elfmesh.ingest.inputs.kafka_place import BatchPosition


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=12), st.integers(0, 120))
def test_a_spool_cut_anywhere_shows_where_to_go_on(batch: list[tuple[int, int]], cut: int) -> None:
    following = {partition: 100 * partition for partition in range(4)}
    noted, kept, end = [], [], 50
    for partition, nbytes in batch:
        noted.append((partition, following[partition], nbytes))
        following[partition] += 1
        end += nbytes
        kept.append((end, noted[-1]))
    place = BatchPosition("in", {partition: 100 * partition for partition in range(4)}, 7, 50, tuple(noted))
    reached = place.reached(7, 50 + cut)
    there = [each for begin, each in kept if begin <= 50 + cut]
    assert all(offset < reached[partition] for partition, offset, _ in there)
    missing = noted[len(there) :]
    assert all(offset >= reached[partition] for partition, offset, _ in missing)
    assert place.reached(8, 0) == following, "the spool went on to another file behind the batch"
