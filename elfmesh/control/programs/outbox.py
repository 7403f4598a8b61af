"""Outbox: parcels of the programs beside this agent, which are repeated until an agent acknowledges them.

Owns the parcels of the local programs. A parcel is repeated under its name (process, number) until a receipt
arrives or its time-out is over. A receiver recognises a repeated parcel by its name, so that a process
handles a message once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from elfmesh import ids
from elfmesh.control.context import Context, Timer
from elfmesh.control.protocol.messages_programs import Parcel, Receipt
from elfmesh.control.protocol.program_frames import Answer
from elfmesh.machine import Contact

AGAIN_S = 0.4
AGAIN_MAX_S = 3.0
"""First and longest pause between repetitions, which doubles; agents find new parents and masters in
seconds."""

OPEN_MAX = 512
OPEN_BYTES_MAX = 32 << 20
"""Maximum number and size of the parcels of one program under way; further ones are refused."""

_Name = tuple[bytes, int]


@dataclass(slots=True)
class _Open:
    session: int
    parcel: Parcel
    payload: bytes
    over: Timer
    again_s: float = AGAIN_S
    again: Timer | None = None


class Outbox:
    """The parcels of the programs at this agent.

    Args:
        parents: this agent's parent by tree.
        answer: sends a session the result of its message.
    """

    def __init__(
        self, context: Context, parents: dict[bytes, Contact], answer: Callable[[int, Answer], None]
    ) -> None:
        self._context, self._parents, self._answer = context, parents, answer
        self._open: dict[_Name, _Open] = {}

    def put(self, session: int, parcel: Parcel, payload: bytes, timeout_s: float) -> None:
        """Send a parcel until it is acknowledged; a repeated name changes nothing."""
        name = (parcel.process, parcel.number)
        if name in self._open:
            return
        sizes = [len(waiting.payload) for waiting in self._open.values() if waiting.session == session]
        if len(sizes) >= OPEN_MAX or sum(sizes) + len(payload) > OPEN_BYTES_MAX:
            self._answer(session, Answer(parcel.number, "busy"))
            return
        over = self._context.after(timeout_s, lambda: self._end(name, Answer(parcel.number, "silent")))
        self._open[name] = _Open(session, parcel, payload, over)
        self._send(name)

    def on_receipt(self, message: Receipt, payload: bytes) -> None:
        """End a parcel; late and repeated receipts are ignored."""
        answer = Answer(
            message.number, message.status, payload, message.error, message.acknowledged, message.expected
        )
        self._end((message.process, message.number), answer)

    def drop(self, session: int) -> None:
        """Drop the parcels of a process that has ended."""
        for name, waiting in list(self._open.items()):
            if waiting.session == session:
                self._close(name)

    def _send(self, name: _Name) -> None:
        waiting = self._open[name]
        parcel = waiting.parcel
        if parcel.verb == "send_to":
            tree = ids.program_tree(parcel.program, parcel.group)
            if tree in self._context.roots:
                self._end(name, Answer(parcel.number, "root"))
                return
            parent = self._parents.get(tree)
            if parent is not None:
                self._context.send(parent, parcel, waiting.payload)
        else:
            self._context.route(ids.program_tree(parcel.program), parcel, waiting.payload)
        waiting.again = self._context.after(self._context.jittered(waiting.again_s), lambda: self._send(name))
        waiting.again_s = min(2 * waiting.again_s, AGAIN_MAX_S)

    def _end(self, name: _Name, answer: Answer) -> None:
        waiting = self._open.get(name)
        if waiting is not None:
            self._close(name)
            self._answer(waiting.session, answer)

    def _close(self, name: _Name) -> None:
        waiting = self._open.pop(name)
        waiting.over.cancel()
        if waiting.again is not None:
            waiting.again.cancel()
