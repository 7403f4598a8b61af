"""What an acceptor that has lost its votes may do: the file that held them was damaged.

Owns the fact, and the rule by which such an acceptor votes again. Votes for nothing itself.

Invariants: an acceptor that has lost its votes takes part in no round of a register until a value makes it a
member that it was not before: the value's old group is without it, its new group has it, and the contact that
stands there is of a boot since the loss. What it accepted before then counts in no quorum that still matters,
because that group was left by a joint value which a majority without its votes has chosen; what it promised
before then counts for no value that has it as a member again (`rules.Round.prepared`). One exception: an
agent may found a register of which it is the only acceptor, where no agent knows the job.

The check of the model (`tests/control/register/register_model.py`) shows why all of this is needed: an
acceptor that votes again in its old group, or by a change from before the loss, and a promise from before it,
each let two values be chosen side by side.

Paper: protocol-aware recovery (Alagappan et al., FAST 2018): a damaged log is not an empty one.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import msgspec

from elfmesh.control.jobs.register_value import RegisterValue
from elfmesh.errors import ProtocolError

KIND = "votes-lost"
"""Of what is kept on disk; the state log writes it when it finds its file damaged."""

SHOWN_MAX = 5
"""Jobs named to people."""

REFUSED_MAX = 1024
"""Jobs remembered whose register has asked for a vote that is lost."""

ASKED_S = 30.0
"""How long a register that has asked for a lost vote is taken to count on it: longer than any asks again."""


class Loss(msgspec.Struct, frozen=True, omit_defaults=True):
    """A loss of votes, as it is kept on disk.

    Attributes:
        boot: the start of the agent that has found it.
        path: the file that was damaged.
        reason: how.
        kept: where the damaged file lies now.
    """

    boot: int
    path: str
    reason: str
    kept: str = ""


_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(Loss)


def encode_loss(loss: Loss) -> bytes:
    """As it is kept on disk."""
    return _PACK.encode(loss)


def decode_loss(data: bytes) -> Loss:
    """As it was kept on disk.

    Raises:
        msgspec.MsgspecError: it is none.
    """
    return _UNPACK.decode(data)


def begins_membership(value: RegisterValue, agent: bytes, boot: int) -> bool:
    if not value.former or any(contact.id == agent for contact in value.former):
        return False
    return any(contact.id == agent and contact.incarnation >= boot for contact in value.acceptors)


def voting_text(voting: dict[str, Any]) -> str:
    """What is wrong with this agent's votes, or those on its jobs, for people; see `control.voting`."""
    lost, stuck = voting["lost"], voting["without_majority"]
    text = []
    if lost and lost["jobs"]:
        text.append(
            f"{lost['file']} {lost['reason']}: the agent has lost its votes, and does not vote on"
            f" {_shown(lost['jobs'])} until its vote there is replaced"
        )
    if stuck:
        text.append(f"no majority of the agents that vote on {_shown(stuck)} answers (`elf why` names them)")
    return "; ".join(text)


def _shown(jobs: list[str]) -> str:
    more = f" and {len(jobs) - SHOWN_MAX} more" if len(jobs) > SHOWN_MAX else ""
    return ", ".join(jobs[:SHOWN_MAX]) + more


class LostVotes:
    """Whether this agent has lost its votes, and which registers have asked for one since.

    Attributes:
        loss: the last one, None if there was none.
    """

    def __init__(self) -> None:
        self.loss: Loss | None = None
        self._refused: OrderedDict[bytes, float] = OrderedDict()

    def restored(self, data: bytes) -> None:
        """A loss that the state log has found, now or at an earlier start.

        Raises:
            ProtocolError: it cannot be read: voting on without it could break a promise.
        """
        try:
            self.loss = decode_loss(data)
        except msgspec.MsgspecError as error:
            raise ProtocolError(f"the loss of votes cannot be read: {error}") from None

    @property
    def boot(self) -> int | None:
        return None if self.loss is None else self.loss.boot

    def asked(self, now: float) -> list[bytes]:
        return [job for job, at in self._refused.items() if now - at < ASKED_S]

    def refuses(self, job: bytes, now: float) -> None:
        self._refused[job] = now
        self._refused.move_to_end(job)
        while len(self._refused) > REFUSED_MAX:
            self._refused.popitem(last=False)

    def replaced(self, job: bytes) -> None:
        self._refused.pop(job, None)
