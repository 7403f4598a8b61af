"""What a member computes again for its master: one closed interval at a time, from the raw logs.

Owns the order of these requests and the way back to the agent that asked. Reads no log itself.

Invariant: one interval is computed at a time; of those that wait, the newest is next.
"""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.control.context import Context
from elfmesh.control.protocol.events import Recompute, Recomputed
from elfmesh.control.protocol.lanes import BULK_LANE
from elfmesh.control.protocol.messages_safety import Verified, Verify
from elfmesh.limits import DATA_FRAME_BYTES_MAX
from elfmesh.machine import Contact


@dataclass(frozen=True, slots=True)
class _Recheck:
    """Who wants what computed again, and for which number of ours."""

    token: int
    asker: Contact
    message: Verify
    number: int


class Rechecks:
    """The verifications that one member takes part in."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._running: _Recheck | None = None
        self._next: _Recheck | None = None

    def on_verify(self, asker: Contact, message: Verify, number: int) -> None:
        """The master wants an interval computed again; one at a time, of those that wait the newest."""
        asked = _Recheck(self._context.token(), asker, message, number)
        if self._running is None:
            self._recompute(asked)
        elif (self._running.asker.id, self._running.message.token) != (asker.id, message.token):
            self._next = asked

    def _recompute(self, asked: _Recheck) -> None:
        self._running = asked
        self._context.emit(Recompute(asked.token, asked.message.manifest, asked.message.interval))

    def recomputed(self, event: Recomputed) -> bool:
        """The interval was computed again; False if it was not for us."""
        asked, following = self._running, self._next
        if asked is None or event.token != asked.token:
            return False
        self._running = self._next = None
        if following is not None:
            self._recompute(following)
        sizes, payload, error = tuple(map(len, event.payloads)), b"".join(event.payloads), event.error
        if len(payload) > DATA_FRAME_BYTES_MAX:
            sizes, payload, error = (), b"", f"{len(payload)} bytes are more than one message holds"
        job, token = asked.message.manifest.job_id, asked.message.token
        answer = Verified(job, token, asked.number, event.counts, sizes, error)
        self._context.send(asked.asker, answer, payload, lane=BULK_LANE if payload else 0)
        return True
