"""The chained digests of the records on which an acceptor has voted."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh.control.jobs.pages import encode_page
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.register.voted_chain import RECORDS_MAX, ROWS_BYTES_MAX, VotedChain
from elfmesh.errors import ProtocolError
from elfmesh.ql.values.plain_ipc import table_to_ipc

ROWS = table_to_ipc(pa.table({"n": [1, 2]}))


def record(index: int, reason: str = "") -> ResultRecord:
    return ResultRecord(job="shop/top", index=index, reason=reason)


def test_a_page_brings_the_same_chain_and_a_part_of_it_only_its_records() -> None:
    chain = VotedChain().extended(record(5), ROWS).extended(record(7), b"")
    assert VotedChain.of_page(chain.page()) == chain
    assert (chain.last, VotedChain().last) == (7, None)
    assert [each.index for each, _ in VotedChain.of_page(chain.page(1)).records] == [7]


def test_links_differ_if_a_record_its_rows_or_an_earlier_record_differ() -> None:
    first = VotedChain().extended(record(5), ROWS)
    assert VotedChain().extended(record(5, "another"), ROWS).links != first.links
    assert VotedChain().extended(record(5), b"").links != first.links
    other = VotedChain().extended(record(4), ROWS)
    assert first.extended(record(7), b"").links[1] != other.extended(record(7), b"").links[1]


def test_equal_rows_have_one_link_however_they_are_written() -> None:
    table = pa.table({"n": [1, 2]}).replace_schema_metadata({"written": "by another release"})
    assert VotedChain().extended(record(5), table_to_ipc(table)).links == (
        VotedChain().extended(record(5), ROWS).links
    )


def test_a_chain_has_room_for_so_many_records_and_damaged_ones_are_refused() -> None:
    chain = VotedChain()
    for index in range(RECORDS_MAX):
        assert chain.has_room
        chain = chain.extended(record(index), b"")
    assert not chain.has_room
    with pytest.raises(ProtocolError):
        VotedChain.of_page(b"damaged")


def test_a_page_that_no_acceptor_can_have_is_refused_before_its_digests_are_computed() -> None:
    many = encode_page((record(index), b"") for index in range(RECORDS_MAX + 1))
    large = encode_page([(record(5), bytes(ROWS_BYTES_MAX + 1))])
    for page in (many, large):
        with pytest.raises(ProtocolError, match="than an acceptor votes on"):
            VotedChain.of_page(page)
