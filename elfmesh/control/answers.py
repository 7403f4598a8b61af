"""Answers to clients, which agents send to each other: an HTTP status, JSON values, raw data.

Owns the bytes of an `Answered` and the JSON of an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from elfmesh.control.context import Context
from elfmesh.control.protocol.messages import Answered
from elfmesh.errors import ElfError, ProtocolError, QueryError
from elfmesh.limits import DATA_FRAME_BYTES_MAX
from elfmesh.machine import Contact
from elfmesh.ql.values.row_json import encode_json
from elfmesh.wire import UNREADABLE

OK, BAD_REQUEST, NOT_FOUND, CONFLICT, GONE = 200, 400, 404, 409, 410
FAILED, NOT_IMPLEMENTED, UNAVAILABLE = 500, 501, 503
AGAIN = 425
"""Status for agents only: the agent repeats the request with the state in the answer
(`requests.precondition`)."""

NAMED_MAX = 8
"""Number of agents that a refusal names beside the one whose reason it shows."""

ENDED = "ended"
"""Member of a NOT_FOUND between agents; see `no_such_job`."""

NO_MASTER = "the job has no master now; ask again soon"
NEW_MASTER = "the job has another master since a moment ago; ask again"

Body = msgspec.Struct | dict[str, Any]
"""A reply of `protocol.replies`, or a JSON object of an error or between agents."""

_PLACED = re.compile(r"(?s)([^:\s]+): query:(\d+):(\d+): (.+)")
_QUERY = re.compile(r"(?i)\bAS\s+(?:SELECT|WITH)\b")
_DECODE = msgspec.json.Decoder(dict[str, Any])


def error_body(message: str, *, where: str = "", hint: str = "", code: int = 1) -> dict[str, Any]:
    """Return the JSON of an error; `code` is the exit code of the command line."""
    return {"error": message, "where": where, "hint": hint, "code": code}


def error_of(error: ElfError) -> dict[str, Any]:
    """Return the JSON of an error; that of a `QueryError` has its line and column."""
    body = error_body(error.message, where=error.where, hint=error.hint, code=error.exit_code)
    if isinstance(error, QueryError):
        body |= {"line": error.line, "column": error.column}
    return body


def refusal_body(errors: Sequence[str], where: str = "", text: str = "") -> dict[str, Any]:
    """Return the JSON of the refusals of a job's text, each "AGENT: error".

    It shows the first one and names the other agents. An error in the text keeps its line and column. Its
    master has read the `text`, so an agent that refuses a clause of the job has an earlier release.
    """
    first, *others = errors
    more = _and_others([each.partition(":")[0] for each in others])
    placed = _PLACED.fullmatch(first)
    if placed is None:
        hint = f"Refused by it{more}." if more else ""
        return error_body(first, where=where, hint=hint, code=QueryError.exit_code)
    agent, line, column, reported = placed.groups()
    what, _, hint = reported.partition("\n  ")
    hint = f"{hint} Refused by {agent}{more}.".lstrip()
    if _is_in_clauses(text, int(line), int(column)):
        hint += f" This release has the clause: update elfmesh on {agent}."
    body = error_body(what, where=f"query:{line}:{column}", hint=hint, code=QueryError.exit_code)
    return body | {"line": int(line), "column": int(column)}


def _and_others(agents: Sequence[str]) -> str:
    """Return names as the end of a list, ", web2 and web3"; further ones are counted."""
    if len(agents) > NAMED_MAX:
        count = len(agents) - NAMED_MAX
        agents = [*agents[:NAMED_MAX], f"{count} more agent{'s' * (count > 1)}"]
    return "".join(f", {each}" for each in agents[:-1]) + "".join(f" and {each}" for each in agents[-1:])


def _is_in_clauses(text: str, line: int, column: int) -> bool:
    """Whether a place lies between the name of a job and its query."""
    query = _QUERY.search(text)
    lines = "" if query is None else text[: query.start()]
    return (line, column) <= (lines.count("\n") + 1, len(lines) - lines.rfind("\n") - 1)


def respond(
    context: Context, origin: Contact, token: int, status: int, body: Body, payload: bytes = b""
) -> None:
    """Send an answer to the agent of the client."""
    text = encode_json(body)
    if len(text) + len(payload) > DATA_FRAME_BYTES_MAX:
        status, payload = FAILED, b""
        text = encode_json(error_body("the answer is larger than one message", hint="Ask for less at once."))
    context.send(origin, Answered(token, status, len(text)), text + payload, lane=1 if payload else 0)


def refuse(context: Context, origin: Contact, token: int, status: int, text: str) -> None:
    """Send a refusal to the agent of the client."""
    hint = "`elf get jobs` lists the jobs." if status == NOT_FOUND else ""
    code = 69 if status == UNAVAILABLE else 1
    respond(context, origin, token, status, error_body(text, hint=hint, code=code))


def no_such_job(context: Context, origin: Contact, token: int, text: str, *, ended: str) -> None:
    """Refuse a request about a job that is not led here.

    `ended`: the incarnation of the last job with its id if that has ended, else "". Earlier releases send and
    read only whether there is one.
    """
    body = error_body(text, hint="`elf get jobs` lists the jobs.")
    respond(context, origin, token, NOT_FOUND, body | {ENDED: ended} if ended else body)


def read_answer(message: Answered, payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the JSON values and the data of an answer.

    Raises:
        ProtocolError: the payload is no answer.
    """
    return decode_body(payload[: message.body_size]), payload[message.body_size :]


def seconds(value: Any, most_s: float) -> float:
    """How long a client wants to wait, from 0 to `most_s`; without a value it does not.

    NaN is refused, because a timer that is due at NaN is never due and keeps back all other timers.

    Raises:
        TypeError, ValueError: not a number.
    """
    wait_s = float(value or 0)
    if math.isnan(wait_s):
        raise ValueError("not a number of seconds")
    return min(max(wait_s, 0.0), most_s)


def decode_body(text: bytes) -> dict[str, Any]:
    """Return the JSON object of a request or an answer.

    Raises:
        ProtocolError: the text is no JSON object.
    """
    try:
        return _DECODE.decode(text)
    except UNREADABLE as error:
        raise ProtocolError(f"malformed JSON: {error}") from None
