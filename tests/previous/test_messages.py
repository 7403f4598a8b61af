"""Messages between agents of this release and of the one before: each reads all that the other sends."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import msgpack
import msgspec
import pytest

from elfmesh.agent.runtime.core import MESSAGES, codec
from elfmesh.control.machine import Control
from elfmesh.control.protocol.messages import Roster
from elfmesh.machine import Contact, Message
from elfmesh.overlay.events import Joined, RouteDelivered
from elfmesh.srt.events import Delivered, MulticastAnswer
from tests.fuzz.examples import examples
from tests.previous import release

WRITTEN: dict[str, dict[str, Any]] = json.loads(release.MESSAGES.read_text())
GONE = {"ctl.coming"}
"""Kinds that this release does not know. The release before puts them only into routes and multicasts."""

RECORDED = {tag: written for tag, written in WRITTEN.items() if tag not in GONE}
BY_TAG = {str(kind.__struct_config__.tag): kind for kind in MESSAGES}
VERSION = 2
"""Of the wire, as the release before speaks it."""

DECODE = """
import sys
from elfmesh.agent.core import codec
read = codec()
for line in sys.stdin.read().split():
    read.decode(bytes.fromhex(line))
"""


def test_no_other_kind_of_message_has_gone() -> None:
    assert WRITTEN.keys() - BY_TAG.keys() == GONE


@pytest.mark.parametrize("tag", sorted(GONE))
def test_a_kind_that_has_gone_is_counted_and_ignored_in_a_route_and_in_a_multicast(tag: str) -> None:
    frame = base64.b64decode(WRITTEN[tag]["frame"])
    body = frame[8 : 8 + int.from_bytes(frame[4:8])]
    assert msgpack.unpackb(body)["t"] == tag
    me, peer = (Contact(bytes([number]) * 20, "host", number, 1) for number in (1, 2))
    control = Control(me, "me", rng=random.Random(1))
    control.step(Joined(), 0.0)
    assert control.step(RouteDelivered(peer.id, body, b"", peer), 1.0) == []
    assert control.step(Delivered(peer.id, 1, body), 1.0) == [MulticastAnswer(peer.id, 1, b"")]
    assert control.stats()["control.malformed"] == 2


def test_kinds_that_the_release_before_does_not_know_are_not_sent_to_it() -> None:
    """It takes an unknown kind for a breach of the protocol, and ends the connection."""
    new = [kind.__name__ for tag, kind in BY_TAG.items() if tag not in RECORDED and kind.since <= VERSION]
    assert new == []


@pytest.mark.parametrize("tag", sorted(RECORDED))
def test_a_message_of_the_release_before_is_read(tag: str) -> None:
    message, payload = codec().decode(base64.b64decode(RECORDED[tag]["frame"]))
    assert type(message) is BY_TAG[tag]
    assert payload == b"payload"


@pytest.mark.parametrize("tag", sorted(RECORDED))
def test_a_message_has_all_fields_that_the_release_before_requires(tag: str) -> None:
    required = {name for name, needed in RECORDED[tag]["fields"].items() if needed}
    for message in some(BY_TAG[tag]):
        sent = msgpack.unpackb(msgspec.msgpack.encode(message), raw=False)
        assert required - sent.keys() == set()


@pytest.mark.parametrize("tag", sorted(RECORDED))
def test_a_field_that_the_release_before_does_not_send_is_optional(tag: str) -> None:
    fields = {each.encode_name: each for each in msgspec.structs.fields(BY_TAG[tag])}
    assert [name for name in fields.keys() - RECORDED[tag]["fields"].keys() if fields[name].required] == []


@pytest.mark.parametrize("tag", ["ctl.part_root", "ctl.tree_order", "ctl.roster"])
def test_a_message_without_a_roster_epoch_means_its_epoch_and_none_states_an_equal_one(tag: str) -> None:
    message, _ = codec().decode(base64.b64decode(RECORDED[tag]["frame"]))
    about: Any = message.terms if isinstance(message, Roster) else message
    assert about.roster_epoch == about.epoch
    sent = msgpack.unpackb(msgspec.msgpack.encode(about), raw=False)
    assert "roster_epoch" not in sent
    assert sent["epoch"] == about.epoch


def some(kind: type[Message]) -> list[Message]:
    """Examples of a kind, the longest and the shortest among them."""
    return [msgspec.convert(value, kind) for value in examples(random.Random(2), [kind], 20)]


@pytest.mark.exhaustive
def test_the_release_before_reads_each_message(tmp_path: Path) -> None:
    place = release.code(tmp_path)
    frames = [codec().encode(message).hex() for tag in sorted(RECORDED) for message in some(BY_TAG[tag])]
    release.run(place, DECODE, stdin="\n".join(frames))
