"""A follower loses nothing without saying so, doubles nothing, and holds up no other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from elfmesh.agent.sinks import follow
from elfmesh.agent.sinks.base import (
    LogName,
    LostIntervals,
    Position,
    RecordRefused,
    SinkItem,
    Unavailable,
    admit,
    behind,
    past,
)
from tests.agent.sinks.rig import LOG, Following, Master, item
from tests.patience import PATIENCE_S


class Memory:
    """A sink that keeps what it gets, and can be made to fail."""

    def __init__(self) -> None:
        self.places: dict[LogName, Position | None] = {}
        self.taken: list[tuple[str, int, str, int]] = []
        self.lost: list[LostIntervals] = []
        self.refuses: set[int] = set()
        self.down = False
        self.gone: list[LogName] = []

    async def position(self, log: LogName) -> Position | None:
        return self.places.get(log)

    async def write(self, log: LogName, each: SinkItem) -> bool:
        if self.down:
            raise Unavailable("it is down")
        if each.record.index in self.refuses:
            raise RecordRefused("not this one")
        if not admit(self.places.get(log), None, each):
            return False
        record = each.record
        self.taken.append((log.incarnation, record.index, record.state, record.rev))
        self.places[log] = behind(self.places.get(log), each)
        return True

    async def declare(self, log: LogName, lost: LostIntervals) -> None:
        self.lost.append(lost)
        self.places[log] = past(self.places.get(log), lost)

    def ended(self, log: LogName) -> None:
        self.gone.append(log)

    async def close(self) -> None: ...

    def describe(self) -> Mapping[str, Any]:
        return {}

    @property
    def indices(self) -> list[int]:
        return [index for _, index, state, _ in self.taken if state != "TENTATIVE"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PAUSE_S", "MASTER_S", "EMPTY_S"):
        monkeypatch.setattr(follow, name, 0.002)


async def test_each_interval_comes_once_and_in_order_also_those_that_come_later(tmp_path: Path) -> None:
    sink, master = Memory(), Master(tmp_path)
    master.append(*(item(index) for index in range(250)))
    async with Following(sink, master) as following:
        await following.until(lambda: len(sink.taken) == 250)
        master.append(item(300))
        await following.until(lambda: len(sink.taken) == 251)
    async with Following(sink, master) as following:
        master.append(item(301))
        await following.until(lambda: len(sink.taken) == 252)
    assert sink.indices == [*range(250), 300, 301]


async def test_a_sink_that_is_down_is_reported_and_gets_everything_later(tmp_path: Path) -> None:
    sink, master = Memory(), Master(tmp_path)
    sink.down = True
    master.append(*(item(index) for index in range(9)))
    async with Following(sink, master) as following:
        await following.until(lambda: following.progress.failures > 2)
        assert following.progress.problem == "it is down"
        assert following.progress.lag == 9
        sink.down = False
        await following.until(lambda: following.progress.lag == 0)
        assert following.progress.problem == ""
    assert sink.indices == list(range(9))


@pytest.mark.parametrize("knows", [True, False], ids=["the log knows", "a copied log does not"])
async def test_what_the_log_has_dropped_is_declared(tmp_path: Path, knows: bool) -> None:
    sink, master = Memory(), Master(tmp_path, intervals_max=20)
    sink.places[LOG] = Position(3, 1)
    master.append(*(item(index) for index in range(100)))
    if not knows:
        master.expired = None
    async with Following(sink, master) as following:
        await following.until(lambda: following.progress.lag == 0)
        first = sink.indices[0]
        assert sink.lost == [LostIntervals(3, first - 1, "the results log did not keep them long enough")]
        assert following.progress.lost == first - 3
    assert sink.indices == list(range(first, 100))
    assert 70 < first <= 80


@pytest.mark.parametrize("knows", [True, False], ids=["the log knows", "a copied log does not"])
async def test_a_sink_that_was_down_from_the_beginning_declares_all_that_it_missed(
    tmp_path: Path, knows: bool, caplog: pytest.LogCaptureFixture
) -> None:
    sink, master = Memory(), Master(tmp_path, intervals_max=20)
    sink.down = True
    master.append(item(5))
    async with Following(sink, master) as following:
        await following.until(lambda: following.progress.failures > 0)
    master.append(*(item(index) for index in range(6, 100)))
    if not knows:
        master.expired = None
    sink.down = False
    async with Following(sink, master) as following:  # another process by now: nothing of it is in memory
        await following.until(lambda: following.progress.lag == 0)
        first = sink.indices[0]
        assert sink.lost == [LostIntervals(5, first - 1, "the results log did not keep them long enough")]
        assert following.progress.lost == first - 5
    assert sink.indices == list(range(first, 100))
    assert f"intervals 5 to {first - 1} are lost" in caplog.text


async def test_a_sink_of_the_newest_interval_alone_declares_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink, master = Memory(), Master(tmp_path, intervals_max=20)
    async with Following(sink, master, newest=True) as following:
        await following.until(lambda: master.asked > 2)  # of a job without results
        master.append(item(29_000_000))
        await following.until(lambda: sink.indices == [29_000_000])
        sink.down = True
        master.append(*(item(29_000_000 + index) for index in range(1, 100)))
        await following.until(lambda: following.progress.failures > 0)
        sink.down = False
        await following.until(lambda: sink.indices[-1] == 29_000_099)
        assert following.progress.lost == 0
    assert sink.lost == []
    assert "lost" not in caplog.text


async def test_what_a_record_declares_lost_is_declared_and_not_written(tmp_path: Path) -> None:
    sink, master = Memory(), Master(tmp_path)
    sink.places[LOG] = Position(3, 1)
    lost = item(5, since=2, state="SKIPPED", completeness=0.0, reason="lost: damaged")
    master.append(item(1), SinkItem(lost.record, b""), item(6))
    async with Following(sink, master) as following:
        await following.until(lambda: following.progress.lag == 0)
        assert sink.lost == [LostIntervals(3, 5, "lost: damaged")]
        assert following.progress.lost == 3
    assert sink.indices == [6]


@pytest.mark.parametrize("expired", [None, 40])
async def test_quiet_times_are_no_loss(tmp_path: Path, expired: int | None) -> None:
    sink, master = Memory(), Master(tmp_path)
    sink.places[LOG] = Position(51, 1)
    master.append(item(50), item(1000))
    master.expired = expired
    async with Following(sink, master) as following:
        await following.until(lambda: sink.indices == [1000])
    assert sink.lost == []


async def test_a_refused_interval_becomes_a_dead_letter_and_the_next_one_is_written(tmp_path: Path) -> None:
    sink, master = Memory(), Master(tmp_path)
    sink.refuses = {2}
    master.append(*(item(index) for index in range(4)))
    master.append(item(5, since=4))
    async with Following(sink, master) as following:
        await following.until(lambda: following.progress.lag == 0)
        assert following.progress.refused == 1
        assert following.letters == [(2, "not this one")]
    assert sink.indices == [0, 1, 3, 5]
    assert sink.lost == [LostIntervals(2, 2, "not this one")]


async def test_damaged_rows_are_refused_not_tried_for_ever(tmp_path: Path) -> None:
    from elfmesh.agent.sinks.config import ParquetSink
    from elfmesh.agent.sinks.parquet import ParquetFiles

    sink = ParquetFiles("test", ParquetSink(jobs=("*",), path=str(tmp_path / "out")))
    good = item(1)
    with pytest.raises(Exception, match="malformed Arrow"):
        await sink.write(LOG, SinkItem(good.record, b"garbage"))


async def test_a_master_that_was_replaced_is_refused_until_the_right_one_answers(tmp_path: Path) -> None:
    sink, stale, right = Memory(), Master(tmp_path / "stale"), Master(tmp_path / "right")
    sink.places[LOG] = Position(1, 7)
    stale.append(item(1, epoch=6))
    right.append(item(1, epoch=7), item(2, epoch=8))
    async with Following(sink, stale) as following:
        await following.until(lambda: following.progress.fenced > 1)
        assert sink.taken == []
        stale.logs = right.logs
        await following.until(lambda: sink.indices == [1, 2])


async def test_while_a_job_has_no_master_its_sinks_wait(tmp_path: Path) -> None:
    sink, master = Memory(), Master(tmp_path)
    master.append(item(0))
    async with Following(sink, master) as following:
        await following.until(lambda: sink.indices == [0])
        master.away = True
        await following.until(lambda: following.progress.problem == "no master")
        master.append(item(1))
        master.away = False
        await following.until(lambda: sink.indices == [0, 1] and not following.progress.problem)


async def test_a_job_that_is_gone_ends_its_follower_and_one_created_again_is_another_log(
    tmp_path: Path,
) -> None:
    sink, master = Memory(), Master(tmp_path)
    master.append(item(8))
    async with Following(sink, master) as following:
        await following.until(lambda: len(sink.taken) == 1)
        master.logs.drop(b"j" * 20)
        master.incarnation = "3c4d"
        master.append(item(2))
        await following.until(lambda: len(sink.taken) == 2)
        master.incarnation = None
        await asyncio.wait_for(following.task, PATIENCE_S)
    assert [taken[:2] for taken in sink.taken] == [("1a2b", 8), ("3c4d", 2)]
    assert sink.gone == [LOG, LogName("shop/top", "3c4d")]


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_sink_that_is_behind_gets_the_numbering_before_an_update_first(
    tmp_path: Path, restarted: bool
) -> None:
    sink, master = Memory(), Master(tmp_path)
    master.append(item(0))
    async with Following(sink, master) as following:
        await following.until(lambda: sink.indices == [0])
        sink.down = True
        master.append(*(item(index) for index in range(1, 250)))
        await following.until(lambda: following.progress.failures > 0)
        if not restarted:
            master.renumber("3c4d")
            master.append(item(7))
            sink.down = False
            await following.until(lambda: following.progress.lag == 0 and len(sink.taken) == 251)
    if restarted:
        master.renumber("3c4d")
        master.append(item(7))
        sink.down = False
        async with Following(sink, master) as following:
            await following.until(lambda: following.progress.lag == 0 and len(sink.taken) == 251)
    assert [taken[:2] for taken in sink.taken] == [*(("1a2b", index) for index in range(250)), ("3c4d", 7)]
    assert sink.lost == []


async def test_the_rest_of_a_numbering_that_no_agent_holds_is_declared(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink, master = Memory(), Master(tmp_path, intervals_max=20)
    sink.places[LOG] = Position(3, 1)
    master.append(*(item(index) for index in range(9)))
    master.renumber("3c4d", kept=False)
    master.append(*(item(index) for index in range(100)))
    master.renumber("5e6f")
    master.append(item(1000))
    async with Following(sink, master) as following:
        await following.until(lambda: sink.indices[-1:] == [1000])
        kept = sink.indices[0]
        assert following.progress.lost == 6 + kept
    assert [(lost.first, lost.last) for lost in sink.lost] == [(3, 8), (0, kept - 1)]
    assert "no results of the earlier ones" in sink.lost[0].why
    assert sink.indices == [*range(kept, 100), 1000]
    assert "intervals 3 to 8 are lost" in caplog.text
    assert sink.gone == [LogName("shop/top", "1a2b"), LogName("shop/top", "3c4d")]
    async with Following(sink, master) as following:
        master.append(item(1001))
        await following.until(lambda: sink.indices[-1] == 1001)
    assert len(sink.lost) == 2, "declared once"


@pytest.mark.parametrize("after", ["3c4d", None])
async def test_a_sink_learns_that_a_job_is_gone_also_if_it_was_down_then(
    tmp_path: Path, after: str | None
) -> None:
    class Away(Memory):
        async def position(self, log: LogName) -> Position | None:
            if self.down:
                raise Unavailable("it is down")
            return await super().position(log)

    sink, master = Away(), Master(tmp_path)
    master.append(item(8))
    async with Following(sink, master) as following:
        await following.until(lambda: len(sink.taken) == 1)
        sink.down = True
        master.append(item(9))
        await following.until(lambda: following.progress.failures > 0)
        master.logs.drop(b"j" * 20)
        master.incarnation = after
        await following.until(lambda: bool(sink.gone))
    assert sink.gone == [LOG]


async def test_open_intervals_are_shown_and_then_closed(tmp_path: Path) -> None:
    sink, master = Memory(), Master(tmp_path)
    master.append(item(0))
    master.tentative = [item(1, state="TENTATIVE")]
    async with Following(sink, master, state="all") as following:
        await following.until(lambda: len(sink.taken) > 1)
        master.append(item(1, rev=2))
        master.tentative = []
        await following.until(lambda: sink.indices == [0, 1])
    assert sink.taken[1][1:] == (1, "TENTATIVE", 1)


async def test_a_bug_in_a_sink_is_a_problem_of_this_sink_alone(tmp_path: Path) -> None:
    sink, master = Memory(), Master(tmp_path)
    sink.refuses = 3  # type: ignore[assignment]  # the bug
    master.append(item(0))
    async with Following(sink, master) as following:
        await following.until(lambda: "bug in elfmesh" in following.progress.problem)
        sink.refuses = set()
        await following.until(lambda: sink.indices == [0])
