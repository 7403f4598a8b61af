"""What other agents may send about parts: requests to a site, and the answers to a master.

An input is a script of messages for an agent that is a site of a job, and master of another term of it. None
may raise out of the agent, exceed its bounds, be answered with what it does not hold, or make the master
collect contributions of members that it has not numbered.
"""

from __future__ import annotations

import random
from contextlib import suppress

import msgspec

from elfmesh.agent.runtime.core import codec
from elfmesh.control.paths.site_parts import HELD_BYTES_MAX, PART_BYTES, REQUESTS_MAX
from elfmesh.control.protocol.messages_parts import Part, PartRequest, SitePart
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact, Send
from elfmesh.srt.coverage import bitmap_of, bits_of
from elfmesh.srt.messages import Segment, SegmentEntry
from tests.control.paths.test_part_requests import NEXT, SITES
from tests.control.paths.test_part_requests import Rig as MasterRig
from tests.control.paths.test_site_parts import Rig as SiteRig
from tests.control.register.support import JOB, A, B, run
from tests.fuzz.engine import DEAR, Harness
from tests.fuzz.mutate import mutated
from tests.fuzz.wire_targets import packed, repacked

SCRIPT_MAX = 12
SENDERS = (*SITES, A, B, Contact(b"\x77" * 20, "10.9.9.9", 1))

Script = list[tuple[int, bytes, bytes]]
"""Number of the sender, header, payload."""


def _segment(rng: random.Random, payload: bytes) -> Segment:
    start = NEXT + rng.randrange(-3, 4)
    sizes = [len(payload)] if rng.random() < 0.8 else [rng.randrange(9), rng.randrange(9)]
    entries = tuple(SegmentEntry(start + at, (1,), size) for at, size in enumerate(sizes))
    coverage = bitmap_of(rng.choice((1, 2, 3, 4, 1 << 40)))
    return Segment(rng.choice((1, 7)), rng.randrange(2), start, start + len(sizes), coverage, entries)


def parts() -> Harness:
    """Scripts of parts, requests and answers for an agent that is a site, and for a master."""
    wire = codec()

    def generate(rng: random.Random) -> bytes:
        script: Script = []
        for _ in range(rng.randrange(1, SCRIPT_MAX)):
            payload = bytes(rng.randrange(9))
            partition, members = rng.choice((0, 0, 0, 1, 1 << 40)), rng.choice((b"", b"\x02", b"\xff"))
            message = rng.choice(
                (
                    Part(JOB, partition, rng.randrange(3), _segment(rng, payload)),
                    PartRequest(JOB, rng.choice(("i", "j")), 2, rng.choice((1, 7)), NEXT - 2, members),
                    SitePart(JOB, 7, partition, _segment(rng, payload)),
                )
            )
            header, chance = wire.encode(message)[8:], rng.random()
            if chance < 0.2:
                header = repacked(rng, msgspec.msgpack.decode(header))
            elif chance < 0.3:
                header = mutated(rng, header)
            elif chance < 0.4:
                payload = mutated(rng, payload)
            script.append((rng.randrange(len(SENDERS)), header, payload))
        return packed(script)

    def execute(data: bytes) -> None:
        site, master = SiteRig(), MasterRig()
        held: set[tuple[int, Segment]] = set()
        for number, header, payload in msgspec.msgpack.decode(data, type=Script):
            with suppress(ProtocolError):  # then no such message reaches a handler
                message, sender = wire.decode_header(header), SENDERS[number]
                if isinstance(message, Part):
                    site.sites.take(message, payload)
                    held |= {(message.partition, message.segment)} if message.job == JOB else set()
                elif isinstance(message, PartRequest):
                    site.sites.on_part_request(sender, message, payload)
                elif isinstance(message, SitePart):
                    _answered(master, sender, message, payload)
            _check_site(site, held)
            run(site.context, site.context.now + 0.1)

    about = "scripts of parts, requests and answers"
    return Harness("parts", about, generate, execute, inputs=DEAR)


def _answered(master: MasterRig, sender: Contact, message: SitePart, payload: bytes) -> None:
    """Let a master take an answer: only of a site, of members that it has numbered, and whole."""
    before, stats = len(master.term.collected), master.context.stats
    refused = stats["control.misplaced"] + stats["control.malformed"]
    master.requests.on_site_part(sender, message, payload)
    taken = len(master.term.collected) - before
    assert taken + stats["control.misplaced"] + stats["control.malformed"] - refused == 1, "counted once"
    if taken:
        assert sender in SITES, "an answer of an agent that is no site"
        assert not bits_of(message.segment.coverage) & ~master.term.book.given, "of a member without a number"
        assert sum(each.size for each in message.segment.entries) == len(payload), "torn"


def _check_site(site: SiteRig, held: set[tuple[int, Segment]]) -> None:
    parts, jobs = site.sites.of(JOB), site.sites._jobs.values()
    assert site.sites.nbytes == sum(
        PART_BYTES + len(payload) for each in jobs for payload in each.parts.values()
    )
    assert site.sites.nbytes <= HELD_BYTES_MAX
    assert all((part.partition, part.segment) in held for part, _ in parts)
    assert all(len(each.requests) <= REQUESTS_MAX for each in jobs)
    sent, site.context.out = site.context.out, []
    for effect in sent:
        if isinstance(effect, Send) and isinstance(effect.message, SitePart):
            key = effect.message.partition, effect.message.segment
            assert effect.message.job != JOB or key in held, "an answer with what is not held"
