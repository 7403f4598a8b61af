"""Where a revision of one member's contribution goes: up behind it, or into what is owed (D-1, D-12).

Owns the order of the questions; everything it asks keeps its own state.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from elfmesh.control.member.accounting import Accounting
from elfmesh.control.member.contributions import Contributions, revised
from elfmesh.control.protocol.events import Revised, Sealed


def take_revision(
    event: Revised, contributions: Contributions, pending: deque[Sealed], settlement: Accounting
) -> None:
    """Records came late for what the worker has sealed.

    Args:
        event: the revision.
        contributions: what is open.
        pending: sealed ranges that have no number yet.
        settlement: what is closed.
    """
    if settlement.is_decided(event.interval):
        settlement.too_late(event)
        return
    if event.again:
        settlement.added(event)
        return
    counted, *others = event.parts
    placed = replace(event, parts=(settlement.place(counted, again=True), *others))
    if (
        contributions.revise(placed)
        or _revise_pending(placed, pending)
        or settlement.revise(placed, had_nothing=counted.entries[0].counts == event.added)
    ):
        settlement.added(event)
    else:
        settlement.too_late(event)


def _revise_pending(event: Revised, pending: deque[Sealed]) -> bool:
    for place, waiting in enumerate(pending):
        if waiting.start <= event.interval < waiting.stop:
            pending[place] = revised(waiting, event)
            return True
    return False
