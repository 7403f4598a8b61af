"""Values that programs send and receive: messages, results and records, and their encoding.

Paper: ELF 2.4, Tables 1 and 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from elfmesh.control.jobs.manifest import split_name
from elfmesh.control.protocol import program_frames
from elfmesh.errors import RuntimeFailure, Unreachable, UsageError

MESSAGE_S = 30.0
"""How long a message is repeated before its sender gets the error that no agent has acknowledged it."""


class NotMaster(RuntimeFailure):
    """Raised if another process is the master side of the program, or no process is."""


class Message(msgspec.Struct, frozen=True):
    """Message from another process of a program or from another program.

    Attributes:
        body: content.
        sender: name of the agent beside which the sender runs.
        group: group in whose tree it was sent, for `send_to`; otherwise "".
        order: increases with each multicast, across all master sides. Multicasts may arrive in another order.
    """

    body: Any
    sender: str
    group: str = ""
    order: tuple[int, int] = (0, 0)


class Result(msgspec.Struct, frozen=True):
    """Record of one interval of the job.

    Attributes:
        index: number of the interval.
        start, end: range of event time; None for a job without windows.
        rows: rows as `elf results -o json` prints them.
        state: FINAL, FINAL_PARTIAL, SKIPPED, or TENTATIVE if that was requested.
        completeness: share of the expected agents that contributed.
        version: version of the job that computed it.
        counts: number of records by bucket: contributed, filtered, late_dropped, ...
    """

    index: int
    start: str | None
    end: str | None
    rows: list[dict[str, Any]]
    state: str
    completeness: float
    version: int
    counts: dict[str, int]


class EarlyResult(msgspec.Struct, frozen=True):
    """Rows of an open window that further records do not remove.

    Attributes:
        index: number of the interval.
        start, end: range of event time.
        rows: the new rows. A program may receive a row again; equal `index` and row mean the same row.
        growing: columns whose values are lower bounds.
        agents: names of the agents that the rows count.
        version: version of the job that computed them.
    """

    index: int
    start: str | None
    end: str | None
    rows: list[dict[str, Any]]
    growing: list[str]
    agents: list[str]
    version: int


class Delivery(msgspec.Struct, frozen=True):
    """Result of a multicast: `acknowledged` programs of `expected` agents have handled it."""

    acknowledged: int
    expected: int


def result_of(each: dict[str, Any]) -> Result:
    """Convert a record of the API's JSON to a `Result`."""
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


def early_of(each: dict[str, Any]) -> EarlyResult:
    """Convert an EARLY line of the API's JSON to an `EarlyResult`."""
    interval, agents = each["interval"], each["agents"]["from"]
    about = (interval["index"], interval["start"], interval["end"], each["rows"], each["growing"])
    return EarlyResult(*about, agents, each["version"])


def time_text() -> str:
    """Return the current time as records have it."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def lines_of(records: Iterable[tuple[str, Any] | Mapping[str, Any]], now: str) -> list[bytes]:
    """Encode records as JSON lines, with the time `now` at the beginning of those that have none.

    Raises UsageError if JSON cannot represent a value.
    """
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
    """Encode a message of None, numbers, strings, bytes, lists and dicts.

    Raises:
        UsageError: the message contains other values, or is too large.
    """
    try:
        data = msgspec.msgpack.encode(message)
    except (TypeError, OverflowError) as error:
        raise UsageError(f"a message must consist of plain values: {error}") from None
    if len(data) > program_frames.MESSAGE_BYTES_MAX:
        raise UsageError(
            f"a message of {len(data)} bytes is over {program_frames.MESSAGE_BYTES_MAX}",
            hint="Send it in parts, or insert the data as records.",
        )
    return data


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error that ended the program from the exception group in which the event loop wrapped it."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def program_name(program: str, query: str, name: str) -> str:
    """Return a program's own name or its query's. Raises UsageError if both differ or are missing."""
    names = []
    if query:
        from elfmesh.control.jobs.plan import read_job  # imported only if there is a query to parse

        found, _ = read_job(query, source=program)
        names.append(f"{found.namespace}/{found.name}")
    if name:
        try:
            names.append("/".join(split_name(name)))
        except ValueError as error:
            raise UsageError(str(error)) from None
    if not names:
        raise UsageError(f"{program} has neither a query nor a name", hint='name = "shop/mine"')
    if names[0] != names[-1]:
        raise UsageError(f"{program} is named {names[-1]}, but its query is named {names[0]}")
    return names[0]


def checked(answer: program_frames.Answer, what: str, timeout_s: float) -> program_frames.Answer:
    """Return the answer to a message. Raises the error that it states."""
    match answer.status:
        case "ok" | "root":
            return answer
        case "failed":
            raise RuntimeFailure(answer.error, where=what)
        case "fenced":
            raise NotMaster("another process is the master side", where=what)
        case "busy":
            raise Unreachable("too many messages are under way", where=what)
        case "silent":
            raise Unreachable(f"no agent acknowledged it within {timeout_s:g} s", where=what)
