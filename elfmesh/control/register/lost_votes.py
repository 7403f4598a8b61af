"""Lost votes: an acceptor whose file of votes was damaged, and when it votes again.

Owns the loss, and the rule by which such an acceptor votes again. Does not vote.

Invariants: an acceptor that has lost its votes takes part in no round of a register until a value makes it a
new member: the value's old group does not contain it, its new group does, and its contact there has a boot
since the loss. Values that it accepted before do not count in any later quorum, because the register left
that group by a joint value that a majority without it has chosen. Promises that it gave before do not count
for a value that has it as a member again (`rules.Round.prepared`). One exception: an agent may create a
register of which it is the only acceptor if no agent knows the job.

The model (`tests/control/register/register_model.py`) shows that each part of the rule is needed: two values
can be chosen if the acceptor votes again in its old group, or because of a change from before the loss, or if
a promise from before the loss counts.

Paper: protocol-aware recovery (Alagappan et al., FAST 2018): a damaged log is not an empty one.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from elfmesh.control.jobs.register_value import RegisterValue
from elfmesh.control.protocol.replies_agents import VotesReport
from elfmesh.errors import ProtocolError

KIND = "votes-lost"
"""Kind of the stored loss; the state log writes it when it finds that its file is damaged."""

SHOWN_MAX = 5
"""Maximum number of jobs in a message."""

REFUSED_MAX = 1024
"""Maximum number of stored jobs whose register has asked for a lost vote."""

ASKED_S = 30.0
"""Time for which a register that has asked for a lost vote is shown; proposers repeat requests sooner."""

DIRECTORY = "the data directory"


class Loss(msgspec.Struct, frozen=True, omit_defaults=True):
    """A loss of votes, as stored on disk.

    Attributes:
        boot: boot of the agent that has found it.
        path: the damaged file.
        reason: description of the damage.
        kept: where the damaged file is stored now.
    """

    boot: int
    path: str
    reason: str
    kept: str = ""


_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(Loss)


def found_loss(boot: int, votes: int, incarnation: int, count: int) -> Loss | None:
    """Return the loss that an answer of this agent proves which another agent has seen; None: it proves none.

    Args:
        boot: boot of this agent that has given the answer.
        votes: number of its votes then.
        incarnation: the present boot.
        count: number of votes that it knows.
    """
    if boot <= incarnation and votes <= count:
        return None
    reason = f"has gone back in time: {votes} of its votes were seen, and it knows {count}"
    if boot > incarnation:
        is_twice = f"an agent of this id has answered in start {boot}, and this is start {incarnation}"
        reason = f"is an old copy, or one of two: {is_twice}"
    return Loss(incarnation + 1, DIRECTORY, reason)


def encode_loss(loss: Loss) -> bytes:
    return _PACK.encode(loss)


def decode_loss(data: bytes) -> Loss:
    """Decode a stored loss.

    Raises:
        msgspec.MsgspecError: the data is no loss.
    """
    return _UNPACK.decode(data)


def begins_membership(value: RegisterValue, agent: bytes, boot: int) -> bool:
    if not value.former or any(contact.id == agent for contact in value.former):
        return False
    return any(contact.id == agent and contact.incarnation >= boot for contact in value.acceptors)


def voting_text(votes: VotesReport) -> str:
    """Return what is wrong with the votes of this agent, or with those on its jobs, as a sentence."""
    lost, stuck, text = votes.lost, votes.without_majority, []
    if lost is not None and lost.jobs:
        text.append(
            f"{lost.file} {lost.reason}: the agent has lost its votes, and does not vote on"
            f" {_shown(lost.jobs)} until its vote there is replaced"
        )
    if stuck:
        text.append(f"no majority of the agents that vote on {_shown(stuck)} answers (`elf why` names them)")
    return "; ".join(text)


def _shown(jobs: list[str]) -> str:
    more = f" and {len(jobs) - SHOWN_MAX} more" if len(jobs) > SHOWN_MAX else ""
    return ", ".join(jobs[:SHOWN_MAX]) + more


class LostVotes:
    """The loss of this agent's votes, and the registers that have asked for a lost vote.

    Attributes:
        loss: the last loss; None if there was none.
    """

    def __init__(self) -> None:
        self.loss: Loss | None = None
        self._refused: OrderedDict[bytes, float] = OrderedDict()

    def restored(self, data: bytes) -> None:
        """Restore a loss that the state log has found in this boot or an earlier one.

        Raises:
            ProtocolError: the loss cannot be read; without it the agent could break a promise.
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
