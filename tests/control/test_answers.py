"""Answers to clients: what an error looks like, and what fits in one message."""

from __future__ import annotations

import random
from typing import Any

import pytest

from elfmesh.control.answers import (
    NAMED_MAX,
    decode_body,
    error_of,
    read_answer,
    refusal_body,
    refuse,
    respond,
    seconds,
)
from elfmesh.control.context import Context
from elfmesh.control.protocol.messages import Answered
from elfmesh.errors import DataError, ElfError, ProtocolError, QueryError, Unreachable
from elfmesh.limits import DATA_FRAME_BYTES_MAX
from elfmesh.machine import Contact, Send

ME, OTHER = (Contact(bytes([at]) * 20, "10.0.0.1", 7400, 1) for at in (1, 2))


def sent(status: int, body: dict[str, Any], payload: bytes = b"") -> tuple[Send, Answered]:
    context = Context(ME, "me", random.Random(1), lambda topic: {})
    respond(context, OTHER, 5, status, body, payload)
    (effect,) = context.out
    assert isinstance(effect, Send)
    assert isinstance(effect.message, Answered)
    return effect, effect.message


@pytest.mark.parametrize(("payload", "lane"), [(b"", 0), (b"rows", 1)])
def test_an_answer_is_read_as_it_was_sent_and_data_take_the_other_lane(payload: bytes, lane: int) -> None:
    effect, message = sent(404, {"a": "\u00fc"}, payload)
    assert (message.token, message.status, effect.lane, effect.to) == (5, 404, lane, OTHER)
    assert read_answer(message, effect.payload) == ({"a": "\u00fc"}, payload)


@pytest.mark.parametrize("more", [0, 1])
def test_an_answer_that_does_not_fit_in_a_message_becomes_an_error(more: int) -> None:
    effect, message = sent(200, {}, bytes(DATA_FRAME_BYTES_MAX - len("{}") + more))
    assert (message.status, len(effect.payload) == DATA_FRAME_BYTES_MAX) == ((200, True), (500, False))[more]
    if more:
        assert read_answer(message, effect.payload)[0]["error"] == "the answer is larger than one message"


@pytest.mark.parametrize(
    ("status", "code", "hint"), [(404, 1, "`elf get jobs` lists the jobs."), (503, 69, ""), (409, 1, "")]
)
def test_a_refusal_has_its_exit_code_and_hint(status: int, code: int, hint: str) -> None:
    context = Context(ME, "me", random.Random(1), lambda topic: {})
    refuse(context, ME, 5, status, "no")
    ((message, payload),) = context.inbox
    assert isinstance(message, Answered)
    assert read_answer(message, payload)[0] == {"error": "no", "where": "", "hint": hint, "code": code}


@pytest.mark.parametrize(
    ("error", "place"),
    [
        (DataError("torn", where="a.gz", hint="Again."), {}),
        (QueryError("no such column", line=3, column=7), {"line": 3, "column": 7}),
        (Unreachable("gone"), {}),
    ],
)
def test_an_error_keeps_its_parts(error: ElfError, place: dict[str, int]) -> None:
    body = error_of(error)
    assert {key: body[key] for key in place} == place
    assert set(body) - set(place) == {"error", "where", "hint", "code"}
    assert (body["error"], body["hint"], body["code"]) == (error.message, error.hint, error.exit_code)


@pytest.mark.parametrize(
    ("errors", "error", "where", "hint", "place"),
    [
        (["web1: no memory"], "web1: no memory", "shop/top", "", {}),
        (
            ["web1: no memory", "web2: off", "web3: query:1:2: bad"],
            "web1: no memory",
            "shop/top",
            "Refused by it, web2 and web3.",
            {},
        ),
        (
            [f"w{number}: no" for number in range(NAMED_MAX + 3)],
            "w0: no",
            "shop/top",
            "Refused by it, w1, w2, w3, w4, w5, w6, w7, w8 and 2 more agents.",
            {},
        ),
        (
            ["web1: query:3:7: no column x\n  Did you mean y?", "web2: the same"],
            "no column x",
            "query:3:7",
            "Did you mean y? Refused by web1 and web2.",
            {"line": 3, "column": 7},
        ),
        (["w: query:1:2: bad"], "bad", "query:1:2", "Refused by w.", {"line": 1, "column": 2}),
    ],
)
def test_a_refusal_of_an_agent_keeps_its_place_in_the_text(
    errors: list[str], error: str, where: str, hint: str, place: dict[str, int]
) -> None:
    found = refusal_body(errors, "shop/top")
    wanted = {"error": error, "where": where, "hint": hint, "code": QueryError.exit_code} | place
    assert found == wanted


@pytest.mark.parametrize(
    ("text", "place", "is_older"),
    [
        ("CREATE JOB shop.top PATHS 3 AS SELECT x FROM s", "1:21", True),
        ("CREATE JOB shop.top PATHS 3 AS SELECT x FROM s", "1:39", False),
        ("CREATE JOB shop.top\n  PATHS 3\nAS SELECT x FROM s", "2:3", True),
        ("CREATE JOB shop.top\n  PATHS 3\nAS SELECT x FROM s", "3:11", False),
        ("", "1:1", False),
    ],
)
def test_an_agent_that_refuses_a_clause_which_its_master_reads_is_to_be_updated(
    text: str, place: str, is_older: bool
) -> None:
    found = refusal_body([f"web1: query:{place}: no such clause"], text=text)
    assert ("update elfmesh on web1" in found["hint"]) == is_older


@pytest.mark.parametrize("data", [b"", b"[1]", b"{", b"\xff", b"7"])
def test_what_is_no_object_is_malformed(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="malformed JSON"):
        decode_body(data)


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [
        (None, 0.0),
        (0, 0.0),
        ("", 0.0),
        (-1, 0.0),
        (2.5, 2.5),
        ("2.5", 2.5),
        (30, 30.0),
        (31, 30.0),
        ("inf", 30.0),
    ],
)
def test_a_wait_is_a_number_of_seconds_up_to_a_limit(value: object, wait_s: float) -> None:
    assert seconds(value, 30.0) == wait_s


@pytest.mark.parametrize("value", ["nan", float("nan"), "-nan", "soon", [1]])
def test_what_is_no_number_of_seconds_is_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        seconds(value, 30.0)
