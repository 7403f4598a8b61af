"""Interval source of an ordered topic: the master fixes one order of the posts of all agents as they arrive.

Owns the posts that wait for the register, and the newest position of each producer that a record contains.
The results log is the order: each record has the posts that arrived while the register closed the record
before it. The number of a record grows with it; it is about the time of its newest post, and at most
`AHEAD_US_MAX` after the clocks of the master and of most peers (D-13), because one wrong time would otherwise
move all later numbers.

Invariants: a post is in at most one record, because a record contains only posts above the newest position of
their producer, and positions of a producer arrive in order (`member.post_senders`). The positions are in the
record of the register (`ResultRecord.open`), so that a successor continues with them. One record is under
way at a time. A post is confirmed only after the register has closed its record.

Paper: Blazes III (M2: an order decided while running).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from elfmesh.control.closing.closing_term import ClosingTerm
from elfmesh.control.closing.decisions import Decision
from elfmesh.control.closing.interval_source import OpenIntervals
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.records import NOT_COUNTED, ResultRecord, counts_dict
from elfmesh.control.protocol.messages_order import Name, Ordered, OrderPosts, Post, decode_posts
from elfmesh.errors import ProtocolError
from elfmesh.lazy import lazy_module
from elfmesh.machine import Contact, Count, Id
from elfmesh.ql.plan.delivery import COLUMNS
from elfmesh.ql.values.plain_ipc import table_to_ipc
from elfmesh.safeguards import safeguard
from elfmesh.wire import UNREADABLE

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy_module("pyarrow")

RECORD_BYTES_MAX = 1 << 20
"""Size of the posts in one record beyond which no further one is added."""

WAITING_BYTES_MAX = 8 << 20
"""Size of the posts that wait for the register beyond which further ones are dropped; they come again."""

AHEAD_US_MAX = 60_000_000
"""How far a record may be ahead of this clock. Smaller differences of clocks change nothing."""

PRODUCERS_MAX = 4096
"""Producers whose positions are kept. The one that has posted least recently is forgotten; if its agent then
repeats its posts, they are in the order twice."""

Newest = dict[tuple[bytes, str], int]
"""Newest position by agent and producer, the most recent one last."""

_Positions = list[tuple[Id, Name, Count]]


@dataclass(frozen=True, slots=True)
class _Waiting:
    agent: Contact
    name: str
    post: Post


@dataclass(frozen=True, slots=True)
class _Made:
    """A record that the register has not closed yet, with the positions after it."""

    index: int
    newest: Newest
    agents: tuple[Contact, ...]


class OrderedPosts:
    """The `IntervalSource` of an ordered topic.

    Args:
        tail: tail of the register, with the positions that are in records.
    """

    def __init__(self, term: ClosingTerm, tail: bytes) -> None:
        self._term, self._plan, self._manifest = term, term.plan, term.stages[-1].manifest
        self._closed = restored(tail)
        self._newest = dict(self._closed)
        self._waiting: deque[_Waiting] = deque()
        self._nbytes = 0
        self._made: _Made | None = None
        self._closer: OpenIntervals | None = None

    # -- posts of agents -------------------------------------------------------------------------------

    def on_order_posts(self, sender: Contact, message: OrderPosts, payload: bytes) -> None:
        """Take the posts that are in no record, and confirm those that are in a closed one."""
        try:
            posts = decode_posts(payload)
        except ProtocolError:
            self._term.context.stats["control.malformed"] += 1
            return
        for post in posts:
            if self._nbytes > WAITING_BYTES_MAX:
                self._term.context.stats["control.order_dropped"] += 1
                break
            if self._is_new(sender.id, post):
                self._newest[sender.id, post.producer] = post.position
                self._waiting.append(_Waiting(sender, message.agent, post))
                self._nbytes += post.nbytes
        self._confirm(sender, dict.fromkeys(post.producer for post in posts))
        self._term.leader.close_ready()

    @safeguard("order-once")
    def _is_new(self, agent: bytes, post: Post) -> bool:
        """Whether a post is in no record and does not wait for one."""
        return post.position > self._newest.get((agent, post.producer), -1)

    def _confirm(self, agent: Contact, producers: dict[str, None]) -> None:
        known = [(each, self._closed.get((agent.id, each))) for each in producers]
        if found := tuple((producer, position) for producer, position in known if position is not None):
            message = Ordered(self._manifest.job_id, self._manifest.incarnation, found)
            self._term.context.send(agent, message)

    # -- records ---------------------------------------------------------------------------------------

    def begin(self, closer: OpenIntervals) -> None:
        self._closer = closer

    def decide(self, at: int, *, paused: bool) -> Decision | None:
        self._settle()
        if paused or not self._waiting or self._made is not None:
            return None
        newest_us = self._bounded(max(each.post.at_us for each in self._next()))
        index = max(at, newest_us // self._plan.slide_us)
        return Decision(at, index, False) if index > at else Decision(at, at + 1, True)

    def _bounded(self, newest_us: int) -> int:
        """Return the time of the next record; a host without a clock, 0, sets no bound."""
        context = self._term.context
        now_us = int(context.facts("clock").get("agreed_us", 0))
        if not 0 < now_us < newest_us - AHEAD_US_MAX:
            return newest_us
        context.stats["control.order_ahead"] += 1
        return now_us + AHEAD_US_MAX

    def make(self, decision: Decision, rev: int) -> tuple[ResultRecord, bytes]:
        inside = self._next()
        newest = dict(self._closed)
        for each in inside:
            self._waiting.popleft()
            self._nbytes -= each.post.nbytes
            newest.pop((each.agent.id, each.post.producer), None)
            newest[each.agent.id, each.post.producer] = each.post.position
        while len(newest) > PRODUCERS_MAX:
            gone = next(iter(newest))
            del newest[gone]
            self._newest.pop(gone, None)
        agents = {each.agent.id: each.agent for each in inside}
        self._made = _Made(decision.index, newest, tuple(agents.values()))
        start_us, end_us = self._plan.window(decision.index)
        manifest, counts = self._manifest, (len(inside), *NOT_COUNTED[1:])
        record = ResultRecord(
            job=manifest.qualified,
            index=decision.index,
            start_us=start_us,
            end_us=end_us,
            rev=rev,
            agents_in=len(agents),
            agents_expected=len(agents),
            version=manifest.version,
            epoch=self._term.epoch,
            counts=counts_dict(counts),
            open=encoded(newest),
        )
        return record, _rows(inside)

    def _next(self) -> list[_Waiting]:
        """Return the posts of the next record, in the order of their arrival."""
        found: list[_Waiting] = []
        size = 0
        for each in self._waiting:
            size += each.post.nbytes
            if found and size > RECORD_BYTES_MAX:
                break
            found.append(each)
        return found

    @safeguard("order-closed")
    def _is_closed(self, index: int) -> bool:
        """Whether the register has closed a record."""
        return self._closer is not None and self._closer.closed > index

    def _settle(self) -> None:
        """Confirm the posts of the record that was under way, if the register has closed it."""
        made = self._made
        if made is None or not self._is_closed(made.index):
            return
        self._made, self._closed = None, made.newest
        for agent in made.agents:
            self._confirm(agent, {producer: None for id_, producer in made.newest if id_ == agent.id})

    def wait(self, at: int, *, shows: bool) -> None:
        self._settle()

    def decided(self, at: int) -> None:
        """Do nothing, because `make` has taken the posts."""

    def resumed(self) -> None:
        """Do nothing, because no interval waits for a member."""

    def waits_for(self) -> list[str]:
        return []

    def stop(self) -> None:
        """Drop what waits: the agents send it again, to the next term."""
        self._made, self._closer = None, None
        self._waiting.clear()
        self._nbytes = 0


@safeguard("order-restored")
def restored(tail: bytes) -> Newest:
    """Return the newest positions that records contain, from the tail of the register."""
    for record, _ in decode_page(tail)[-1:]:
        if record.open:
            try:
                found = msgspec.msgpack.decode(record.open, type=_Positions)
            except UNREADABLE as error:
                raise ProtocolError(f"positions of a topic: {error}") from None
            return {(agent, producer): position for agent, producer, position in found}
    return {}


def encoded(newest: Newest) -> bytes:
    return msgspec.msgpack.encode([(*name, position) for name, position in newest.items()])


def _rows(inside: list[_Waiting]) -> bytes:
    columns = (
        pa.array([each.post.producer for each in inside], pa.string()),
        pa.array([each.post.position for each in inside], pa.int64()),
        pa.array([each.name for each in inside], pa.string()),
        pa.array([each.post.body for each in inside], pa.string()),
    )
    return table_to_ipc(pa.table(dict(zip(COLUMNS, columns, strict=True))))
