"""What programs are given and what they give: messages, results, records, and their bytes.

Paper: ELF 2.4, Tables 1 and 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from elfmesh.control.protocol import program_frames
from elfmesh.errors import RuntimeFailure, UsageError


class NotMaster(RuntimeFailure):
    """Another process is the program's master side now, or none is yet."""


class Message(msgspec.Struct, frozen=True):
    """Something another process of a program, or another program, has sent.

    Attributes:
        body: what it said.
        sender: name of the agent beside which it is.
        group: the tree it came up, of a `send_to`; else "".
        order: of multicasts: grows with each, through all master sides. They may arrive in another order.
    """

    body: Any
    sender: str
    group: str = ""
    order: tuple[int, int] = (0, 0)


class Result(msgspec.Struct, frozen=True):
    """One interval of the job.

    Attributes:
        index: number of the interval.
        start, end: in event time; None of a job without windows.
        rows: as `elf results -o json` has them.
        state: FINAL, FINAL_PARTIAL, SKIPPED, or TENTATIVE where that was asked for.
        completeness: share of the expected agents that are in it.
        version: of the job's text that it was made by.
        counts: records by what became of them: contributed, filtered, late_dropped, ...
    """

    index: int
    start: str | None
    end: str | None
    rows: list[dict[str, Any]]
    state: str
    completeness: float
    version: int
    counts: dict[str, int]


class Delivery(msgspec.Struct, frozen=True):
    """Who has handled a multicast: `acknowledged` programs of `expected` agents."""

    acknowledged: int
    expected: int


def result_of(each: dict[str, Any]) -> Result:
    """A result as the API's JSON has it."""
    interval = each["interval"]
    return Result(
        interval["index"],
        interval["start"],
        interval["end"],
        each["rows"],
        each["state"],
        each["completeness"],
        each["version"],
        each["counts"],
    )


def lines_of(records: Iterable[tuple[str, Any] | Mapping[str, Any]]) -> list[bytes]:
    """Records as JSON lines.

    Raises:
        UsageError: a value that JSON has no word for.
    """
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    lines = []
    for record in records:
        if isinstance(record, Mapping):
            value = {"ts": now, **record}
        else:
            value = {"ts": now, "key": record[0], "value": record[1]}
        try:
            lines.append(msgspec.json.encode(value))
        except TypeError as error:
            raise UsageError(f"a record cannot be written as JSON: {error}") from None
    return lines


def packed(message: Any) -> bytes:
    """The bytes of a message: None, numbers, texts, bytes, lists and dicts.

    Raises:
        UsageError: anything else, or too much.
    """
    try:
        data = msgspec.msgpack.encode(message)
    except (TypeError, OverflowError) as error:
        raise UsageError(f"a message is made of plain values: {error}") from None
    if len(data) > program_frames.MESSAGE_BYTES_MAX:
        raise UsageError(
            f"a message of {len(data)} bytes is over {program_frames.MESSAGE_BYTES_MAX}",
            hint="Send it in parts, or insert the data as records.",
        )
    return data


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that ended the program, out of the group that the loop has put it in."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
