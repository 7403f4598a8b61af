"""Posts of programs: the record of a message, and its time, also of inserted records that have none.

A post is a record with the message as JSON text, its producer and its position; top-level fields of a mapping
are columns too, so that jobs can read them. The agent gives a post its time when it queues it. The time of
the program could be late by then, because a program may wait before an insert arrives. Times of a stream do
not decrease in the spool, also if the clock steps back while the agent is restarted: posts then have the time
of the newest one, and the interval of that time stays open until the clock has passed it.

Invariant: while a post waits to be written, `waiting` is true. The reader then keeps the watermark at the
posts that it has read, so that no post is late, however slow the disk is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from elfmesh.errors import UsageError
from elfmesh.limits import POST_BYTES_MAX
from elfmesh.ql.plan.delivery import BODY, POSITION, PRODUCER
from elfmesh.safeguards import safeguard
from elfmesh.wire import UNREADABLE

STAMP_BYTES_MAX = 32
"""Size of a time in the spool."""

_OWN = (PRODUCER, POSITION, BODY, "ts")


class _Line(msgspec.Struct):
    producer: str
    position: int
    body: str
    ts: str


def now_us() -> int:
    return time.time_ns() // 1_000


class PostTimes:
    """Times of the posts of one stream; `newest_us` is that of the newest post before this boot."""

    def __init__(self, clock_us: Callable[[], int] = now_us, newest_us: int = 0) -> None:
        self._clock_us, self._newest_us = clock_us, newest_us
        self.waiting = 0

    def next_us(self) -> int:
        """Return the time of the next post. No other post may be queued before it."""
        self._newest_us = max(self._newest_us, self._clock_us())
        return self._newest_us


def read_post(data: bytes) -> dict[str, Any]:
    """Return the columns of a message. Raises UsageError if it is no JSON or too large."""
    if len(data) > POST_BYTES_MAX:
        hint = "Insert the data as records, and post a reference to them."
        raise UsageError(f"a post of {len(data)} bytes is over {POST_BYTES_MAX}", hint=hint)
    try:
        message, text = msgspec.json.decode(data), data.decode()
        fields = message if isinstance(message, dict) else {}
        plain = {
            name: value
            for name, value in fields.items()
            if name not in _OWN and not isinstance(value, dict | list)
        }
        msgspec.json.encode(plain)
    except (*UNREADABLE, OverflowError) as error:
        raise UsageError(f"a post is one JSON value: {error}") from None
    return {**plain, BODY: text}


@safeguard("post-times")
def newest_us(lines: Iterable[bytes]) -> int:
    """Return the newest time of the posts among the lines of a spool; 0 if no line is a post."""
    newest = 0
    for line in lines:
        try:
            post = msgspec.json.decode(line, type=_Line)
            newest = max(newest, round(datetime.fromisoformat(post.ts).timestamp() * 1e6))
        except (*UNREADABLE, ValueError, OverflowError):  # another record
            continue
    return newest


def post_line(fields: dict[str, Any], at_us: int, producer: str, position: int) -> bytes:
    """Return the line of a post in the spool."""
    return msgspec.json.encode({**fields, "ts": _text(at_us), PRODUCER: producer, POSITION: position})


def stamped(lines: list[bytes], stamp: str, at_us: int) -> list[bytes]:
    """Return inserted lines; those that begin with the time `stamp` of their program get `at_us` instead."""
    old, new = (b'{"ts":' + msgspec.json.encode(each) for each in (stamp, _text(at_us)))
    return [new + line.removeprefix(old) if line.startswith(old) else line for line in lines]


def _text(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).isoformat(timespec="microseconds")
