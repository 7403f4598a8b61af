"""Results as a job's master has them, on a real results log, and followers of them that can be watched."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from elfmesh.agent.sinks.base import LogName, Sink, SinkItem
from elfmesh.agent.sinks.follow import Follower, Progress
from elfmesh.control.answers import NOT_FOUND, OK, UNAVAILABLE
from elfmesh.control.jobs.pages import encode_frame
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.protocol.events import Append, ReadLog, Reply
from elfmesh.ql.values.plain_ipc import table_to_ipc
from elfmesh.storage import failpoints
from elfmesh.storage.results.logs import ResultsLogs
from tests.agent.sinks.servers import EXHAUSTED, starved
from tests.patience import PATIENCE_S

JOB, ID, INCARNATION = "shop/top", b"j" * 20, "1a2b"
LOG = LogName(JOB, INCARNATION)
START_US = 1_431_857_100_000_000
UTC = pa.timestamp("us", tz="UTC")

HOSTILE = pa.table(
    {
        "text": ["NUL \x00, quote ' \" \\ \n ⌘", "x" * 100_000, None, ""],
        "number": pa.array([float("nan"), float("-inf"), None, -0.0]),
        "whole": pa.array([2**63 - 1, -(2**63), None, 0], pa.int64()),
        "exact": pa.array([Decimal("99999999999999999999999999999999.999999"), Decimal("-0.000001"), None,
                           Decimal(0)], pa.decimal128(38, 6)),
        "at": pa.array([0, -62_135_596_800_000_000, None, 253_402_300_799_999_999], UTC),
        "local": pa.array([1, 2, None, 3], pa.timestamp("us", tz="Asia/Kathmandu")),
        "day": pa.array([0, -719_162, None, 2_932_896], pa.date32()),
        "sketch": [b"\x00\xff\x80", b"", None, b"x"],
        "list": [["a\x00", None], [], None, ["b"]],
        "nested": pa.array([{"a": 1, "b": ["x"]}, {"a": None, "b": None}, None, {"a": 2, "b": []}],
                           pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])),
        "map": pa.array([[("k\x00", 1)], [], None, [("k", None)]], pa.map_(pa.string(), pa.int64())),
        "flag": [True, False, None, True],
        'odd "name; --': [1, 2, None, 3],
        "never": pa.nulls(4),
    }
)  # fmt: skip
"""What a query can produce and a sink would rather not see."""


def rows(index: int, count: int = 2) -> pa.Table:
    return pa.table({"path": [f"/{number}" for number in range(count)], "hits": [index] * count})


def item(index: int, table: pa.Table | None = None, **changes: Any) -> SinkItem:
    fields: dict[str, Any] = {
        "job": JOB, "index": index, "epoch": 1, "start_us": START_US + index * 1_000_000,
        "end_us": START_US + (index + 1) * 1_000_000,
    } | changes  # fmt: skip
    return SinkItem(ResultRecord(**fields), table_to_ipc(rows(index) if table is None else table))


class Master:
    """Answers as a job's master does: from a results log, and what is tentative behind it.

    Attributes:
        incarnation: of the results; None: there is no such job.
        away: as long as there is no master.
        tentative: shown behind the log.
    """

    def __init__(self, directory: Path, **limits: int) -> None:
        self.logs = ResultsLogs(directory, **limits)
        self.incarnation: str | None = INCARNATION
        self.away = False
        self.expired: int | None = -1
        self.tentative: list[SinkItem] = []
        self.asked = 0
        self.earlier: list[dict[str, Any]] = []

    def renumber(self, incarnation: str, *, kept: bool = True) -> None:
        """As an update of EVERY does; `kept`: this master has led the job before it."""
        read = self.logs.read(ReadLog(0, ID, None, None, 1))
        numbering = {"incarnation": self.incarnation, "first": read.first, "latest": read.latest}
        self.earlier.append(numbering)
        self.logs.drop(ID, retire=kept)
        self.incarnation = incarnation

    def append(self, *items: SinkItem) -> None:
        for each in items:
            self.logs.append(Append(ID, self.incarnation or "", each.record, each.rows))

    async def ask(self, verb: str, body: dict[str, Any]) -> Reply:
        await asyncio.sleep(0.001)
        self.asked += 1
        if self.incarnation is None:
            return Reply(0, NOT_FOUND, {"error": "no such job"})
        if self.away:
            return Reply(0, UNAVAILABLE, {"error": "no master"})
        limit, numbering = int(body.get("limit", 0)), body.get("incarnation", "")
        read = self.logs.read(ReadLog(0, ID, body.get("from"), None, limit, numbering))
        earliest = read.earliest if read.earliest is not None else 0
        latest = read.latest if read.latest is not None else earliest - 1
        expired = read.expired if self.expired == -1 else self.expired
        answer: dict[str, Any] = {"earliest": earliest, "latest": latest, "expired": expired}
        answer |= {"incarnation": body.get("incarnation", self.incarnation), "first": read.first}
        if verb == "offsets" and self.earlier:
            answer["earlier"] = self.earlier
        page, answer["next"] = read.page, latest + 1 if read.next is None else read.next
        if body.get("state") in ("all", "early"):
            page += b"".join(encode_frame(each.record, each.rows) for each in self.tentative)
            answer["revision"] = len(self.tentative)
        return Reply(0, OK, answer, page)


class Following:
    """A follower while it runs; leaving stops it, as the end of an agent does."""

    def __init__(self, sink: Sink, master: Master, *, state: str = "final", newest: bool = False) -> None:
        self.letters: list[tuple[int, str]] = []
        self._follower = Follower(
            sink, "test", {"job": JOB, "creator": "me"}, state, master.ask, self._keep, newest=newest
        )

    async def __aenter__(self) -> Following:
        self.task = asyncio.create_task(self._follower.run())
        return self

    async def __aexit__(self, *error: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    @property
    def progress(self) -> Progress:
        return self._follower.progress

    async def until(self, condition: Callable[[], Any], timeout_s: float = PATIENCE_S) -> None:
        async with asyncio.timeout(timeout_s):
            while not condition():
                if self.task.done():
                    self.task.result()
                await asyncio.sleep(0.005)

    async def _keep(self, log: LogName, refused: SinkItem, reason: str) -> None:
        self.letters.append((refused.record.index, reason))


async def starve(sink: Sink, kind: str, directory: Path, cut: Callable[[], Any] = lambda: None) -> None:
    """A sink loses its connection and all descriptors in its second write, and has all records in the end.

    Args:
        sink: the sink.
        kind: its name at the failpoints.
        directory: of the results.
        cut: ends the connection.
    """
    master, without = Master(directory), contextlib.ExitStack()
    master.append(item(0), item(1), item(2))

    def lose() -> None:
        cut()
        without.enter_context(starved())

    async with Following(sink, master) as following:
        with failpoints.armed(f"sink.write.{kind}", lose, n=2), without:
            await following.until(lambda: EXHAUSTED in following.progress.problem)
        await following.until(lambda: following.progress.written == 3)
        assert (following.progress.refused, following.progress.lost, following.letters) == (0, 0, [])


class Died(BaseException):
    """Stands for the end of the process: no code catches it, and nothing is given back."""


def die() -> None:
    raise Died
