"""Positions of vertices in topics: stored by their agent, and kept through restarts of both."""

from __future__ import annotations

import pytest

from elfmesh.control.jobs.manifest import split_name
from elfmesh.control.programs import topic_positions
from elfmesh.control.programs.topic_positions import TOPICS_MAX
from elfmesh.control.protocol import program_frames
from elfmesh.errors import ProtocolError
from tests.control.programs.support import Program, ProgramWorld
from tests.control.programs.worlds import KEY


def followed(program: Program, topic: str) -> str:
    program.say(program_frames.Follow(topic))
    program.world.run(0.1)
    answers = [each for each in program.got if isinstance(each, program_frames.TopicPosition)]
    assert answers[-1].topic == topic
    return answers[-1].text


def test_a_vertex_goes_on_where_the_last_process_ended() -> None:
    world = ProgramWorld(2)
    first = world.attach(0)
    assert followed(first, "ads/clicks") == "", "a new vertex begins with the oldest record"
    first.say(program_frames.PostsHandled("ads/clicks", "i:7"))
    first.die()
    assert followed(world.attach(0), "ads/clicks") == "i:7"
    assert followed(world.attach(1), "ads/clicks") == "", "the vertex of another agent"
    assert followed(world.attach(0, "shop/other"), "ads/clicks") == "", "another program"


def test_a_topic_with_the_longest_names_can_be_followed() -> None:
    topic = "n" * 128 + "/" + "t" * 128
    assert split_name(topic) == ("n" * 128, "t" * 128)
    for frame in (program_frames.Follow(topic), program_frames.PostsHandled(topic, "i:1")):
        assert program_frames.from_program(program_frames.encode(frame)) == frame
    with pytest.raises(ProtocolError):
        program_frames.from_program(program_frames.encode(program_frames.Follow(topic + "x")))


def test_positions_are_restored_and_damaged_ones_are_not() -> None:
    world = ProgramWorld(2)
    topics = world[0].control.programs.topics
    topics.restored(KEY, program_frames.encode({"ads/clicks": "i:3"}))
    topics.restored(KEY[::-1], b"\xc1")
    assert followed(world.attach(0), "ads/clicks") == "i:3"


def test_the_topic_that_was_used_least_recently_is_forgotten() -> None:
    world = ProgramWorld(1)
    program = world.attach(0)
    for number in range(TOPICS_MAX + 1):
        program.say(program_frames.PostsHandled(f"t/{number}", "i:1"))
    assert followed(program, "t/0") == ""
    assert followed(program, "t/1") == "i:1"
    assert topic_positions.KIND == "posts", "a name on disk"
