"""Where a revision of a member's contribution goes: up, or into the pending corrections (D-1, D-12).

Owns the order of the questions; everything it asks keeps its own state.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from elfmesh.control.member.accounting import Accounting
from elfmesh.control.member.contributions import Contributions
from elfmesh.control.protocol.events import Revised, Sealed


def take_revision(
    event: Revised, contributions: Contributions, pending: deque[Sealed], accounting: Accounting
) -> None:
    """Records came late for what the worker has sealed.

    Args:
        event: the revision.
        contributions: what is open.
        pending: sealed ranges that have no number yet.
        accounting: what is closed.
    """
    if accounting.is_decided(event.interval):
        accounting.too_late(event)
        return
    if event.again:
        accounting.added(event)
        return
    counted, *others = event.parts
    placed = replace(event, parts=(accounting.place(counted, again=True), *others))
    if (
        contributions.revise(placed)
        or _revise_pending(event, pending)  # what is placed with it is added when it goes up
        or accounting.revise(placed, had_nothing=counted[0].counts == event.added)
    ):
        accounting.added(event)
    else:
        accounting.too_late(event)


def _revise_pending(event: Revised, pending: deque[Sealed]) -> bool:
    for place, waiting in enumerate(pending):
        if waiting.start <= event.interval < waiting.stop:
            pending[place] = waiting.revised(event)
            return True
    return False
