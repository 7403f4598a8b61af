"""Records that an agent lacks of a job."""

from __future__ import annotations

from elfmesh.control.master.successors import on_fetch
from elfmesh.control.protocol.events import ReadLog
from elfmesh.control.protocol.messages_succession import Fetch
from tests.control.harness import World
from tests.storage.results.records import JOB


def test_an_agent_that_lacks_records_of_a_job_gets_none_of_an_earlier_incarnation() -> None:
    context = World(1)[0].control.context
    on_fetch(context, context.me, Fetch(JOB, "b", 3, 1))
    (read,) = (each for each in context.out if isinstance(each, ReadLog))
    assert (read.job, read.incarnation, read.start) == (JOB, "b", 4)
