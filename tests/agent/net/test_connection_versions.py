"""Agents of two versions of the protocol on real sockets: what they agree on, and when they refuse."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import pytest

from elfmesh.agent.net.connection import OLDEST, PROTOCOL, Connection, Hello, HelloRefused
from elfmesh.agent.net.tcp import TcpTransport
from elfmesh.agent.runtime.core import MESSAGES
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.machine import Contact, Message
from elfmesh.wire import Codec
from tests.agent.net.test_tcp import Peer, Say
from tests.agent.transports import fleet, until

VERSION_1 = {
    "ctl": (
        "accept accepted announce announced ask ask_all ask_fates conflict enroll fates fenced "
        "fetch handover inquire keep kept kept_copy known leaving mark page part part_ack "
        "part_fault part_root prepare program_appointed program_broadcast program_parcel "
        "program_present program_receipt promised question rate rehearse rehearsed replica reply "
        "report resign resigned roster roster_ack running stop submit surrender tree_order verdict "
        "verified verify waiting what_runs withdraw"
    ),
    "ov": ("beat beatback bye find found hop ping pong relay relayed rows taken"),
    "srt": (
        "fault frontier join joined leave multicast multicast_ack overlap pull redirect reparent "
        "segment segment_ack"
    ),
}
"""Every kind of message that agents of version 1 know, by room."""


class New(Message, frozen=True, tag="test.new"):
    since: ClassVar[int] = 2
    number: int


class Versioned(Peer):
    """A peer that speaks some versions."""

    def __init__(self, number: int, oldest: int, newest: int) -> None:
        super().__init__(number)
        kinds: list[type[Message]] = [Say, New] if newest > 1 else [Say]
        self.transport = TcpTransport("127.0.0.1", 0, Codec(kinds), versions=(oldest, newest))

    def received(self, sender: Contact, message: Message, payload: bytes) -> None:
        assert isinstance(message, Say | New)
        self.arrived.append((sender, message.number, payload))


@pytest.mark.parametrize("dials_first", [0, 1])
async def test_what_the_earlier_version_does_not_know_is_not_sent_to_it(dials_first: int) -> None:
    earlier, later, newest = Versioned(1, 1, 1), Versioned(2, 1, 2), Versioned(3, 2, 3)
    async with fleet(earlier, later, newest):
        first, second = (earlier, later) if dials_first == 0 else (later, earlier)
        first.say(second.contact, 1)
        await until(lambda: second.numbers() == [1])
        later.transport.send(earlier.contact, New(2))
        later.say(earlier.contact, 3)
        await until(lambda: earlier.numbers()[-1:] == [3])
        assert 2 not in earlier.numbers()
        assert later.transport.stats()["not_sent_to_earlier_version"] == 1
        assert later.transport.stats()["connections_of_earlier_version"] == 1
        assert not earlier.transport.stats().get("protocol_errors")
        later.say(newest.contact, 4)
        await until(lambda: newest.numbers() == [4])
        later.transport.send(newest.contact, New(5))
        await until(lambda: newest.numbers() == [4, 5])


async def test_agents_two_versions_apart_refuse_each_other() -> None:
    earlier, newest = Versioned(1, 1, 1), Versioned(3, 2, 3)
    async with fleet(earlier, newest):
        earlier.say(newest.contact, 1)
        await until(lambda: any(each.transport.stats().get("refused_hello") for each in (earlier, newest)))
        assert newest.arrived == earlier.arrived == []


@pytest.mark.parametrize(
    ("theirs", "ours", "agreed"),
    [((1, 0), (1, 2), 1), ((1, 1), (1, 2), 1), ((1, 2), (1, 2), 2), ((2, 3), (1, 2), 2), ((1, 9), (1, 2), 2),
     ((3, 4), (1, 2), "this agent"), ((1, 0), (2, 3), "the peer"), ((0, 0), (1, 2), "the peer")],
)  # fmt: skip
def test_the_newest_common_version_counts(theirs: Any, ours: Any, agreed: Any) -> None:
    hello = Hello("elf", Contact(b"x" * 20, "h", 1), 0, *theirs)
    if isinstance(agreed, int):
        assert hello.agree(*ours) == agreed
        return
    with pytest.raises(HelloRefused, match=f"upgrade {agreed}"):
        hello.agree(*ours)


def test_the_first_version_reads_our_hello_and_we_read_its() -> None:
    """Bytes as version 1 writes them, and what it looks at in ours."""
    contact = [b"x" * 20, "h", 1, 0, ""]
    first = {"t": "tp.hello", "cluster": "elf", "contact": contact, "serial": 7, "protocol": 1}
    read = msgspec.convert(first, Hello)
    assert read.agree(OLDEST, PROTOCOL) == 1
    ours = Connection.HELLO_CODEC.encode(Hello("elf", read.contact, 7, OLDEST, PROTOCOL))
    reported = msgspec.msgpack.decode(ours[8:])
    reported["contact"] = reported["contact"][: len(contact)]  # it ignores what a list has besides
    assert {key: reported[key] for key in first} == first


def test_manifests_of_the_first_version_keep_their_bytes() -> None:
    """Registers hold the digest of these bytes: with others, a job has no master after an upgrade."""
    recorded = bytes.fromhex(
        "8ca96e616d657370616365a161a46e616d65a162a763726561746f72a163a474657874a174a776657273696f6e03a66a6f625f"
        "6964c4146a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6aaa706172746974696f6e7302a76372656174656405ab696e636172"
        "6e6174696f6ea26162a873696e63655f7573f9a86e6172726f7765649192a178a179a67369676e6564c40173"
    )
    manifest = msgspec.msgpack.decode(recorded, type=Manifest)
    assert manifest.since_us == -7
    assert manifest.canonical() == recorded
    asked = msgspec.structs.replace(manifest, asked=(b"word",))
    assert msgspec.msgpack.decode(asked.canonical(), type=Manifest) == asked


def test_a_message_type_that_version_1_does_not_know_names_its_first_version() -> None:
    """An agent that is sent a kind it does not know takes the connection for broken."""
    known = {f"{room}.{kind}" for room, kinds in VERSION_1.items() for kind in kinds.split()}
    assert {str(kind.__struct_config__.tag) for kind in MESSAGES if kind.since == 1} == known
    assert max(kind.since for kind in MESSAGES) <= PROTOCOL
