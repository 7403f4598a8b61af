"""What a restarted agent gets back from its disk, kind by kind (D-5, D-8).

Owns which part of the agent each stored kind belongs to. The parts read their own state.

Invariant: an item that cannot be read, or whose kind is not known here, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from elfmesh.control.context import Context
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.member import admission, member_host, post_senders
from elfmesh.control.member.accounts import ledger_state
from elfmesh.control.member.copy_store import KIND as COPY
from elfmesh.control.programs import beside, topic_positions
from elfmesh.control.protocol.events import Left, Restored
from elfmesh.control.protocol.messages import Roster
from elfmesh.control.protocol.messages_succession import Replica
from elfmesh.control.register import acceptor, ended, lost_votes, vote_counts
from elfmesh.control.replicas import known_peers
from elfmesh.control.requests import dead_agents
from elfmesh.overlay.events import Remember

SEEN_AGAIN_S = 60.0
"""Time after its start at which an agent counts known peers as dead that the overlay has not reported
again."""


def restore(
    event: Restored,
    context: Context,
    leadership: Leadership,
    host: member_host.MemberHost,
    programs: beside.Programs,
    dead: dead_agents.DeadAgents,
) -> None:
    """Give the parts of an agent what an earlier boot stored, and find out which known peers are dead."""
    epochs: dict[bytes, int] = {}
    terms: list[Terms] = []
    copies: list[bytes] = []
    peers = leadership.first.known_peers
    others = _others(leadership, host, programs, dead)
    for kind, key, data in event.items:
        if kind == "epoch":
            epochs[key] = int.from_bytes(data)
        elif kind == "job":
            message = context.unpacked(data)
            if isinstance(message, Replica) and message.terms.manifest.job_id == key:
                terms.append(message.terms)
        elif kind == "member":
            message = context.unpacked(data)
            if isinstance(message, Roster) and message.terms.manifest.job_id == key:
                host.remember(message.terms)
        elif kind == member_host.LEAVING:
            host.was_leaving(lambda jobs: context.emit(Left()), data)
        elif kind == COPY:
            copies.append(data)
        elif kind in others:
            others[kind](key, data)
    if known := peers.known():
        context.emit(Remember(known))
        context.after(SEEN_AGAIN_S, partial(_missed, peers, dead))
    leadership.registers.acceptors.lost_since()
    host.restored(copies)
    leadership.restored(epochs, terms, event.logs)


def _missed(peers: known_peers.KnownPeers, dead: dead_agents.DeadAgents) -> None:
    for contact in peers.away():
        dead.lost(contact)


def _others(
    leadership: Leadership,
    host: member_host.MemberHost,
    programs: beside.Programs,
    dead: dead_agents.DeadAgents,
) -> dict[str, Callable[[bytes, bytes], None]]:
    """By kind, the part that takes a key and what was stored under it."""
    acceptors, counts = leadership.registers.acceptors, leadership.registers.counts
    return {
        "vote": acceptors.restored,
        acceptor.COUNT: lambda _, data: acceptors.counted(data),
        ended.KIND: lambda _, data: acceptors.ended.restored(data),
        lost_votes.KIND: lambda _, data: acceptors.lost.restored(data),
        vote_counts.KIND: counts.restored,
        known_peers.KIND: leadership.first.known_peers.restored,
        admission.KIND: lambda job, data: host.admission.end(job, data.decode(errors="replace")),
        ledger_state.KIND: host.ledgers.keep,
        post_senders.KIND: host.post_senders.restored,
        dead_agents.KIND: dead.restored,
        beside.KIND: programs.restored,
        topic_positions.KIND: programs.topics.restored,
    }
