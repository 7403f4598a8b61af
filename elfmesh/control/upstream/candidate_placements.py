"""Requests to the master of a job that is known by name; the job has one of two ids (`placement.py`)."""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.control.answers import NOT_FOUND
from elfmesh.control.context import Context
from elfmesh.control.protocol.messages import Answered


def ask_named(
    context: Context,
    candidates: tuple[bytes, ...],
    verb: str,
    body: bytes,
    timeout_s: float,
    then: Callable[[Answered | None, bytes], None],
) -> None:
    """Send a request to each candidate placement until one has the job; `then` receives the answer.

    `then` receives None after the time-out.
    """
    first, *others = candidates

    def answered(message: Answered | None, payload: bytes) -> None:
        if others and message is not None and message.status == NOT_FOUND:
            ask_named(context, tuple(others), verb, body, timeout_s, then)
        else:
            then(message, payload)

    context.ask_job(first, verb, body, timeout_s, answered)
