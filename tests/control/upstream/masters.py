"""The master of another job, whose answers a test gives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from elfmesh.control.answers import decode_body
from elfmesh.control.context import Context
from elfmesh.control.jobs.pages import encode_page
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.protocol.messages import Answered, Ask, unpack
from elfmesh.overlay.events import Route
from elfmesh.ql.values.row_json import encode_json

UPSTREAM = (b"p" * 20, b"q" * 20)
"""The ids that the other job may live under."""


def questions(context: Context) -> list[Ask]:
    """What is asked, by the id that it is routed to; it is taken out of the way."""
    routed = [effect for effect in context.out if isinstance(effect, Route)]
    context.out = [effect for effect in context.out if not isinstance(effect, Route)]
    found = []
    for effect in routed:
        message = unpack(effect.body)
        assert isinstance(message, Ask)
        assert message.job == effect.key
        found.append(message)
    return found


def body_of(ask: Ask) -> dict[str, Any]:
    return decode_body(ask.body)


def give(context: Context, ask: Ask, status: int, body: dict[str, Any], data: bytes = b"") -> None:
    """The answer to a question."""
    text = encode_json(body)
    context.on_answered(Answered(ask.token, status, len(text)), text + data)


def page_of(records: Iterable[tuple[ResultRecord, bytes]]) -> bytes:
    return encode_page(records)
