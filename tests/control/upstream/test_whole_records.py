"""Records of another job with all their rows, whose pages are asked of its master one after the other."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh.control.answers import GONE, NOT_FOUND, OK, UNAVAILABLE
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.protocol.messages import Ask
from elfmesh.control.upstream.whole_records import PAGE_S, Records, WholeRecords
from elfmesh.ql.values.plain_ipc import ipc_to_table, table_to_ipc
from tests.control.contexts import new_context
from tests.control.paging import table_of_pages
from tests.control.register.support import run
from tests.control.upstream.masters import UPSTREAM, body_of, give, questions


def page(*values: int) -> bytes:
    return table_to_ipc(pa.table({"v": pa.array(values, pa.int64())}))


ONE, TWO = page(1, 2), page(3)
INLINE = page(9)


class Rig:
    """The records of one answer, and what came of them."""

    def __init__(self, *rows: bytes, bytes_max: int = 10_000) -> None:
        self.context = new_context(1)
        self.given: list[Records | None] = []
        records = [(ResultRecord(job="shop/top", index=5 + at), each) for at, each in enumerate(rows)]
        self.whole = WholeRecords(self.context, UPSTREAM, records, bytes_max, self.given.append)
        self.whole.go_on()

    def asked(self) -> Ask:
        """The one question that is under way."""
        (ask,) = questions(self.context)
        return ask

    def states(self) -> list[tuple[int, str]]:
        (records,) = self.given
        assert records is not None
        return [(record.index, record.state) for record, _ in records]

    def values(self) -> list[list[int]]:
        (records,) = self.given
        assert records is not None
        return [ipc_to_table(rows).to_pydict().get("v", []) for _, rows in records]


def test_rows_that_stand_in_their_record_need_no_question() -> None:
    rig = Rig(INLINE, b"")
    assert questions(rig.context) == []
    assert rig.values() == [[9], []]


def test_pages_are_asked_for_one_by_one_and_joined_in_their_order() -> None:
    rig = Rig(INLINE, table_of_pages(ONE, TWO), INLINE)
    for index, data in ((6, ONE), (6, TWO)):
        assert rig.given == []
        ask = rig.asked()
        assert (ask.verb, ask.job, body_of(ask)["index"]) == ("rows", UPSTREAM[0], index)
        give(rig.context, ask, OK, {}, data)
    assert rig.values() == [[9], [1, 2, 3], [9]]
    assert rig.states() == [(5, "FINAL"), (6, "FINAL"), (7, "FINAL")]


def test_each_record_gets_its_own_pages() -> None:
    rig = Rig(table_of_pages(ONE), table_of_pages(TWO))
    for data in (ONE, TWO):
        give(rig.context, rig.asked(), OK, {}, data)
    assert rig.values() == [[1, 2], [3]]


def test_the_other_placement_of_the_job_is_asked_where_the_first_does_not_know_it() -> None:
    rig = Rig(table_of_pages(ONE))
    give(rig.context, rig.asked(), NOT_FOUND, {})
    ask = rig.asked()
    assert ask.job == UPSTREAM[1]
    give(rig.context, ask, OK, {}, ONE)
    assert rig.values() == [[1, 2]]


def test_a_record_whose_rows_are_gone_is_given_as_a_skipped_one() -> None:
    rig = Rig(table_of_pages(ONE, TWO), table_of_pages(TWO))
    give(rig.context, rig.asked(), OK, {}, ONE)
    give(rig.context, rig.asked(), GONE, {})
    give(rig.context, rig.asked(), OK, {}, TWO)
    assert rig.states() == [(5, "SKIPPED"), (6, "FINAL")]
    assert rig.values() == [[], [3]], "nothing of the first one's pages is left"
    assert rig.context.stats["control.rows_not_read"] == 1
    (records,) = rig.given
    assert records is not None
    assert (records[0][0].completeness, records[0][0].fidelity) == (0.0, 0.0)


@pytest.mark.parametrize("more", [0, 1])
def test_a_record_with_more_rows_than_a_reader_holds_is_given_as_a_skipped_one(more: int) -> None:
    rig = Rig(table_of_pages(ONE, TWO), bytes_max=len(ONE) + len(TWO) - more)
    assert len(questions(rig.context)) == 1 - more
    assert len(rig.given) == more
    if more:
        assert rig.states() == [(5, "SKIPPED")]


@pytest.mark.parametrize(
    ("status", "data"), [(UNAVAILABLE, b""), (NOT_FOUND, b""), (OK, TWO), (OK, b"rubbish"), (OK, b"")]
)
def test_a_master_that_does_not_give_a_page_gives_none_of_the_records(status: int, data: bytes) -> None:
    rig = Rig(INLINE, table_of_pages(ONE))
    give(rig.context, rig.asked(), status, {}, data)
    for ask in questions(rig.context):
        give(rig.context, ask, status, {}, data)
    assert rig.given == [None]


def test_a_master_that_is_silent_gives_none_of_the_records() -> None:
    rig = Rig(table_of_pages(ONE))
    run(rig.context, PAGE_S - 0.01)
    assert rig.given == []
    run(rig.context, PAGE_S)
    assert rig.given == [None]
