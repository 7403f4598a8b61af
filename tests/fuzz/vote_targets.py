"""What another voter may say under a grant: cumulative votes, changed, foreign, repeated and contradicting.

An input is a script of votes for one acceptor. None may raise out of the acceptor, or make it vote on a
record that is not the next one, or whose link is not its digest.
"""

from __future__ import annotations

import random
from contextlib import suppress

import msgspec
import pyarrow as pa

from elfmesh.agent.runtime.core import codec
from elfmesh.control.consensus.rules import Ballot
from elfmesh.control.jobs.pages import encode_page
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.protocol.messages_register import Accept, CumulativeVote
from elfmesh.control.register.voted_chain import RECORDS_MAX, VotedChain
from elfmesh.control.register.votes import Records
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact
from elfmesh.ql.values.plain_ipc import table_to_ipc
from tests.control.register.support import GRANT, GRANTED, JOB, ME, A, B, Voter
from tests.fuzz.engine import DEAR, Harness
from tests.fuzz.mutate import mutated
from tests.fuzz.wire_targets import packed, repacked

SCRIPT_MAX = 8
SENDERS = (A, B, ME, Contact(b"\x77" * 20, "10.9.9.9", 1))
BALLOT = Ballot(1, A.id, 1)
BEFORE = 4
"""The interval of the last record before the votes."""

Script = list[tuple[int, bytes, bytes]]
"""Number of the sender, header, payload."""


def _chain(rng: random.Random, rows: bytes) -> VotedChain:
    """Consecutive records; some are of another epoch, leave intervals out, or differ from those of others."""
    chain, index = VotedChain(), BEFORE
    for _ in range(rng.randrange(RECORDS_MAX if rng.random() < 0.1 else 4)):
        before, index = index, index + rng.choice((1, 1, 1, 2))
        epoch, reason = rng.choice((1,) * 9 + (2,)), rng.choice(("",) * 9 + ("other",))
        record = ResultRecord(job="shop/top", index=index, before=before, epoch=epoch, reason=reason)
        chain = chain.extended(record, rng.choice((b"", rows)))
    return chain


def votes() -> Harness:
    """Scripts of votes for an acceptor whose value has a grant."""
    rows, wire = table_to_ipc(pa.table({"n": [1, 2]})), codec()

    def generate(rng: random.Random) -> bytes:
        script: Script = []
        for _ in range(rng.randrange(1, SCRIPT_MAX)):
            chain = _chain(rng, rows)
            begin = rng.randrange(len(chain.links) + 1) if rng.random() < 0.3 else 0
            message = CumulativeVote(JOB, "i", BALLOT, chain.links, begin, rng.randrange(9))
            header, payload = wire.encode(message)[8:], chain.page(begin)
            chance = rng.random()
            if chance < 0.2:
                header = repacked(rng, msgspec.msgpack.decode(header))
            elif chance < 0.3:
                header = mutated(rng, header)
            elif chance < 0.45:
                payload = mutated(rng, payload)
            elif chance < 0.5:
                payload = encode_page(chain.records * rng.choice((2, 9)))
            script.append((rng.choice((0, 0, 1, 1, 2, 3)), header, payload))
        return packed(script)

    def run(data: bytes) -> None:
        voter = Voter(ME)
        voter.registers.on_accept(A, Accept(JOB, BALLOT, GRANTED), b"")
        closed: list[int] = []

        def note(job: bytes, records: Records) -> None:
            closed.extend(record.index for record, _ in records)

        voter.registers.votes.closed = note
        for number, header, payload in msgspec.msgpack.decode(data, type=Script):
            with suppress(ProtocolError):  # then no such message reaches an acceptor
                message = wire.decode_header(header)
                if isinstance(message, CumulativeVote):
                    voter.registers.votes.on_cumulative_vote(SENDERS[number], message, payload)
            _check(voter.registers.acceptors.chain(JOB), closed)

    about = "scripts of votes for an acceptor under a grant"
    return Harness("votes", about, generate, run, inputs=DEAR)


def _check(chain: VotedChain, closed: list[int]) -> None:
    last = BEFORE
    for record, _ in chain.records:
        assert record.before == last, "a vote on a record that is not the next one"
        assert record.epoch == GRANT.epoch, "a vote on a record of another epoch"
        last = record.index
    assert VotedChain.of_page(chain.page()).links == chain.links, "links that are no digests"
    assert closed == [record.index for record, _ in chain.records][: len(closed)], "closed without its record"
