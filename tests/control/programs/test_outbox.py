"""Messages of programs until an agent has acknowledged them."""

from __future__ import annotations

import random

from elfmesh.control.programs.outbox import OPEN_BYTES_MAX
from elfmesh.control.protocol import program_frames
from elfmesh.control.protocol.messages_programs import Appointed, Parcel, Present, Receipt
from elfmesh.machine import Message
from tests.control.member.support import Agent
from tests.control.programs.support import ProgramWorld
from tests.control.programs.worlds import master_of, three


def test_a_message_that_the_master_side_did_not_handle_goes_to_its_successor() -> None:
    world, _ = three()
    old = master_of(world)
    old.deaf = True
    asker = world.attach(1, "shop/sales")
    number = asker.send("route", "shop/top", b"q", timeout_s=60.0)
    world.run(0.5)
    assert old.bodies("route") == [b"q"]
    old.die()
    world.run(10.0)
    assert asker.answers[number].status == "ok"


def test_messages_and_receipts_may_be_lost_and_doubled() -> None:
    """Each is handled, under its one name; a program that knows names handles it once."""
    world, programs = three()
    asker = world.attach(1, "shop/sales")
    dice = random.Random(5)

    def lost(source: Agent, target: Agent, message: Message) -> bool:
        return isinstance(message, Parcel | Receipt | Appointed | Present) and dice.random() < 0.6

    world.lost = lost
    numbers = [asker.send("route", "shop/top", b"%d" % each, timeout_s=120.0) for each in range(12)]
    world.run(60.0)
    assert [asker.answers[number].body for number in numbers] == [b"re:%d" % each for each in range(12)]
    names = {name for program in programs for name in program.handled}
    assert names == {(asker.process, number) for number in numbers}


def test_what_is_too_much_is_refused_or_left_to_be_sent_again() -> None:
    world, _ = three()
    master = master_of(world)
    master.deaf = True
    asker = world.attach(1, "shop/sales")
    numbers = [asker.send("route", "shop/top", timeout_s=9.0) for _ in range(600)]
    world.run(1.0)
    busy = [number for number in numbers if number in asker.answers]
    assert {asker.answers[number].status for number in busy} == {"busy"}
    assert len(busy) == 600 - 512
    world.run(20.0)
    assert len(asker.answers) == 600


def test_what_a_program_has_under_way_is_bounded_in_bytes() -> None:
    world = ProgramWorld(1)
    asker = world.attach(0, "shop/sales")
    numbers = [asker.send("route", "no/body", bytes(program_frames.MESSAGE_BYTES_MAX)) for _ in range(70)]
    world.run(1.0)
    assert {answer.status for answer in asker.answers.values()} == {"busy"}
    assert len(numbers) - len(asker.answers) == OPEN_BYTES_MAX // program_frames.MESSAGE_BYTES_MAX
