"""Groups that are open between two intervals: their encoding, their limits, their completeness."""

from __future__ import annotations

import pytest

from elfmesh import ql
from elfmesh.cbt import decode_partial
from elfmesh.errors import DataError, ProtocolError
from elfmesh.ql.engine import open_groups, sessions
from elfmesh.ql.engine.open_groups import NONE, ClosedPane, lacking_after, read_open, with_lacking, write_open
from elfmesh.ql.plan.statement import SESSION
from tests.ql.engine.test_sessions import GAP, TEXT
from tests.ql.sessions import SECOND, close_all, content, partials


def test_behind_a_skipped_interval_sessions_are_open_and_incomplete() -> None:
    before = ql.parse(TEXT)
    (part,) = partials(TEXT, [(SECOND, "a", 1), (SECOND, "b", 2)])[0]
    fresh = {name: content(table) for name, table in decode_partial(part).items()}
    data = write_open(sessions.step(before, NONE, ClosedPane(fresh)).open, TEXT, SESSION)
    after = read_open(lacking_after(data, TEXT, SESSION, 2 * GAP), TEXT, SESSION)
    step = sessions.step(before, after, ClosedPane(start_us=2 * GAP, end_us=3 * GAP))
    assert step.completeness == 0.0
    assert step.ended["main"].rows_max == 2
    assert step.open.is_empty


def test_shares_are_kept_apart_up_to_a_number_and_lowered_beyond() -> None:
    statement, open_ = ql.parse(TEXT), NONE
    for number in range(open_groups.SHARES_MAX + 4):
        # Every key goes on in every pane, and one comes that is new.
        records = [(number * GAP, str(old), 1) for old in range(number + 1)]
        (part,) = partials(TEXT, records)[number]
        fresh = {name: content(table) for name, table in decode_partial(part).items()}
        open_ = sessions.step(statement, open_, ClosedPane(fresh, (number + 1) / 100)).open
        assert len(open_.shares) <= open_groups.SHARES_MAX
    assert sum(tables["main"].count for tables in open_.shares.values()) == open_groups.SHARES_MAX + 4
    assert min(open_.shares) == 0.01


def test_intervals_that_lack_records_are_kept_up_to_a_number() -> None:
    lacking: tuple[tuple[int, float], ...] = ()
    for end in range(open_groups.LACKING_MAX + 4):
        lacking = with_lacking(lacking, end, 0.5 if end else 0.25)
    assert len(lacking) == open_groups.LACKING_MAX
    assert lacking[0] == (4, 0.25), "the oldest ones became one, with the least completeness"
    assert with_lacking((), 7, 1.0) == ()


def test_sessions_of_another_reduction_are_not_gone_on_with() -> None:
    (part,) = partials(TEXT, [(SECOND, "a", 1)])[0]
    fresh = {name: content(table) for name, table in decode_partial(part).items()}
    data = write_open(sessions.step(ql.parse(TEXT), NONE, ClosedPane(fresh)).open, TEXT, SESSION)
    assert not read_open(data, TEXT.replace("sum(v) AS total", "sum(v) + 1 AS total"), SESSION).is_empty
    assert not read_open(
        data, TEXT.replace("JOB shop.visits", "JOB shop.visits LATENESS '9 s'"), SESSION
    ).is_empty
    assert read_open(data, TEXT.replace("sum(v) AS total", "max(v) AS total"), SESSION).is_empty
    assert read_open(data, TEXT.replace("clicks GROUP", "clicks WHERE v > 1 GROUP"), SESSION).is_empty
    with pytest.raises(ProtocolError):
        read_open(data[:-3], TEXT, SESSION)


@pytest.mark.parametrize("bound", ["OPEN_BYTES_MAX", "OPEN_ROWS_MAX"])
def test_too_many_open_sessions_are_an_error(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_groups, bound, 1)
    with pytest.raises(DataError, match="open sessions"):
        list(close_all(TEXT, [[(SECOND, "a", 1), (SECOND, "b", 2)]]))
