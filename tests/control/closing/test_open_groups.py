"""The sessions that are open between two intervals of a job, and what they do to the records of these."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from elfmesh import ql
from elfmesh.cbt import decode_partial
from elfmesh.cbt.rows import from_table
from elfmesh.control.closing.open_groups import OpenGroups
from elfmesh.control.closing.ports import Closing
from elfmesh.control.jobs.pages import encode_page
from elfmesh.control.jobs.records import ResultRecord, State, counts_dict
from elfmesh.control.jobs.row_pages import ROWS_BYTES_MAX
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol.events import Finalised
from elfmesh.errors import ProtocolError
from elfmesh.ql.engine.open_groups import AT_ONCE_US, Open, write_open
from elfmesh.ql.plan.statement import SESSION
from tests.control.closing.rig import START, manifest_of
from tests.control.member.support import SECOND, SESSIONS, TEXT
from tests.ql.sessions import partials

JOB = manifest_of(SESSIONS).job_id
WINDOW_US = 10 * SECOND


def sessions(*stages: tuple[int, str], since_us: int | None = None) -> OpenGroups:
    made = [Stage(start, replace(manifest_of(text), since_us=since_us), 1) for start, text in stages]
    return OpenGroups(tuple(made) or (Stage(0, replace(manifest_of(SESSIONS), since_us=since_us), 1),))


def closing(index: int = START, state: State = "FINAL", completeness: float = 1.0) -> Closing:
    start_us = index * WINDOW_US
    end_us = start_us + WINDOW_US
    record = ResultRecord(
        job="j", index=index, start_us=start_us, end_us=end_us, state=state, completeness=completeness
    )
    return Closing(record, None)


def made(rows: bytes = b"rows", opened: bytes = b"open", *, error: str = "", share: float = 1.0) -> Finalised:
    return Finalised(JOB, 3, START, rows, error, open=opened, completeness=share)


def due(opened: OpenGroups, start: int = START + 1, *, joined: bool = False) -> int | None:
    return opened.due(start, start + 5, 0b111 if joined else 0b11, 0b11)


def test_of_a_job_without_sessions_nothing_is_kept() -> None:
    opened, one = sessions((0, TEXT)), closing()
    assert opened.made(one, made()) == ""
    assert (one.rows, one.record.open) == (b"rows", b"")
    assert (opened.at(START), opened.before(START + 1), due(opened)) == (False, None, None)


def test_what_an_interval_leaves_open_goes_into_its_record_and_to_the_next_one() -> None:
    opened, one = sessions(), closing()
    assert (opened.before(START), due(opened, START)) == (b"", None)
    opened.made(one, made())
    assert (one.rows, one.record.open, one.record.state) == (b"rows", b"open", "FINAL")
    assert (opened.before(START + 1), due(opened)) == (b"open", START + 1)


@pytest.mark.parametrize(
    ("state", "completeness", "share", "became", "complete"),
    [
        ("FINAL", 1.0, 1.0, "FINAL", 1.0),
        ("FINAL", 1.0, 0.5, "FINAL_PARTIAL", 0.5),
        ("FINAL_PARTIAL", 0.75, 1.0, "FINAL_PARTIAL", 0.75),
        ("FINAL_PARTIAL", 0.75, 0.5, "FINAL_PARTIAL", 0.5),
    ],
)
def test_a_record_is_as_complete_as_the_least_complete_interval_of_its_sessions(
    state: State, completeness: float, share: float, became: State, complete: float
) -> None:
    one = closing(state=state, completeness=completeness)
    sessions().made(one, made(share=share))
    assert (one.record.state, one.record.completeness) == (became, complete)


def test_an_interval_whose_rows_cannot_be_made_is_skipped_with_the_reason() -> None:
    opened, before, one = sessions(), closing(), closing(START + 1)
    opened.made(before, made(opened=b""))
    assert opened.made(one, made(error="no memory")) == "no memory"
    assert (one.rows, one.record.state, one.record.reason) == (b"", "SKIPPED", "no memory")
    assert (one.record.completeness, one.record.fidelity) == (0.0, 0.0)


@pytest.mark.parametrize("more", [0, 1])
def test_an_interval_is_skipped_where_its_rows_and_open_sessions_are_more_than_is_kept(more: int) -> None:
    opened, one = sessions(), closing()
    left = ql.lacking_after(b"", SESSIONS, "session", one.record.end_us or 0)
    problem = opened.made(one, made(b"r" * 10, b"o" * (ROWS_BYTES_MAX - 10 + more)))
    assert bool(problem) == bool(more)
    assert (one.record.state, one.rows) == (("SKIPPED", b"") if more else ("FINAL", b"r" * 10))
    if more:
        assert str(ROWS_BYTES_MAX - 10 + more) in problem
        assert (one.record.open, opened.before(START + 1)) == (left, left)


def test_behind_a_skipped_interval_its_predecessors_sessions_stay_open() -> None:
    opened = sessions()
    skipped = opened.skipped(closing(state="SKIPPED").record)
    assert skipped.open == ql.lacking_after(b"", SESSIONS, "session", skipped.end_us or 0)
    assert opened.before(START + 1) == skipped.open
    final = closing().record
    assert opened.skipped(final) is final


def test_a_skipped_interval_of_a_job_without_sessions_is_as_it_was() -> None:
    record = closing(state="SKIPPED").record
    assert sessions((0, TEXT)).skipped(record) is record


def test_an_interval_waits_while_the_rows_of_the_one_before_it_are_being_made() -> None:
    opened, being_made, is_made = sessions(), closing(), closing()
    is_made.rows = b""
    assert opened.waits(START + 1, [is_made, being_made])
    assert not opened.waits(START + 1, [being_made, is_made]), "they are made in order"
    assert not opened.waits(START + 1, [])
    assert not sessions((0, TEXT)).waits(START + 1, [being_made])


def written(number: int, due_us: int = AT_ONCE_US) -> bytes:
    (part,) = partials(SESSIONS, [(number * SECOND, "a", 1)])[0]
    tables = {name: from_table(table) for name, table in decode_partial(part).items()}
    return write_open(Open({1.0: tables}, due_us=due_us), SESSIONS, SESSION)


def test_groups_that_end_later_give_no_earlier_interval_a_record() -> None:
    end_us = (START + 3) * WINDOW_US
    for due_us, at in ((end_us, START + 2), (end_us + 1, START + 3), (end_us + 9 * WINDOW_US, None)):
        opened, restored = sessions(), sessions()
        opened.made(closing(), replace_due(made(), due_us))
        record = ResultRecord(job="j", index=START, open=written(5, due_us))
        restored.restore(encode_page([(record, b"")]))
        assert due(opened) == due(restored) == at
        assert due(opened, joined=True) == START + 1, "groups may end with a member that they waited for"


def replace_due(event: Finalised, due_us: int) -> Finalised:
    return dataclasses.replace(event, due_us=due_us)


def test_records_of_ended_groups_are_late_in_the_record() -> None:
    opened, one = sessions(), closing()
    one.record = replace(one.record, counts=counts_dict((5, 0, 0, 1, 0, 0, 0, 0, 0)))
    opened.made(one, dataclasses.replace(made(), late=2))
    assert (one.record.counts["contributed"], one.record.counts["late_dropped"]) == (3, 3)


def test_a_successor_goes_on_with_the_newest_record_of_the_register() -> None:
    opened = sessions()
    states = [written(at) for at in (5, 6)]
    records = [ResultRecord(job="j", index=index, open=states[index - 5]) for index in (5, 6)]
    opened.restore(encode_page([(record, b"") for record in records]))
    assert opened.before(START) == states[1]
    assert due(opened) == START + 1


def test_a_successor_without_records_begins_without_sessions() -> None:
    opened = sessions()
    opened.restore(b"")
    assert opened.before(START) == b""
    with pytest.raises(ProtocolError):
        opened.restore(b"rubbish")


@pytest.mark.parametrize(("since", "kept"), [(None, True), (START, True), (START + 1, False)])
def test_sessions_from_before_the_job_was_emptied_are_gone(since: int | None, kept: bool) -> None:
    opened = sessions(since_us=None if since is None else since * WINDOW_US)
    opened.made(closing(), made())
    assert opened.before(START + 1) == (b"open" if kept else b"")
    assert (due(opened) == START + 1) is kept


def test_each_interval_goes_by_the_version_that_it_belongs_to() -> None:
    opened = sessions((0, TEXT), (START, SESSIONS))
    assert [opened.at(START - 1), opened.at(START)] == [False, True]
    assert [opened.before(START - 1), opened.before(START)] == [None, b""]
