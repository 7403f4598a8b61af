"""An context of its own, for tests of the control machine's parts."""

from __future__ import annotations

import random

from elfmesh.control.context import Context
from elfmesh.control.machine import no_facts
from elfmesh.machine import Contact
from tests.control.member.support import agent_id


def new_context(number: int, rack: str = "") -> Context:
    me = Contact(agent_id(number), "sim", number, 1, rack)
    return Context(me, f"agent-{number}", random.Random(number), no_facts)
