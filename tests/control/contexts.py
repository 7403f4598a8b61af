"""An office of its own, for tests of the control machine's parts."""

from __future__ import annotations

import random

from elfmesh.control.context import Office
from elfmesh.control.machine import no_facts
from elfmesh.machine import Contact
from tests.control.member.support import agent_id


def new_office(number: int, rack: str = "") -> Office:
    me = Contact(agent_id(number), "sim", number, 1, rack)
    return Office(me, f"agent-{number}", random.Random(number), no_facts)
