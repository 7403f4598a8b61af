"""What members report beside the exact path: early states at a master, and posts of an ordered topic.

An input is a script of messages of several members. None may raise, or make the states of a job larger than
their limit; a payload is taken, or the outcome states why it is not.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec

from elfmesh import ql
from elfmesh.control.protocol.events import EarlyMerged, MemberStates, MergeEarly
from elfmesh.control.protocol.messages_early import PAYLOAD_BYTES_MAX
from elfmesh.control.protocol.messages_order import Post, decode_posts, encode_posts
from elfmesh.errors import ProtocolError
from elfmesh.ingest.early_rows import EarlyTables
from elfmesh.ql.values.plain_ipc import ipc_to_table
from tests.cbt.partial.test_partial_wire import take_apart
from tests.fuzz.engine import DEAR, Harness
from tests.fuzz.examples import examples
from tests.fuzz.mutate import BYTES, PACKED, changed, mutated, of
from tests.fuzz.state_targets import resealed
from tests.fuzz.wire_targets import packed
from tests.ingest import test_early_partitions as sealed
from tests.ingest.test_early_rows import BOTH, COUNTED, JOB, sides, states
from tests.ql.sessions import manifest

GROUPS_MAX = 50
SCRIPT_MAX = 6
DISTINCT = JOB.format("k, count(DISTINCT u) AS n", " HAVING count(DISTINCT u) >= 2")

Script = list[tuple[int, int, int, int, bytes]]
"""Member, boot, number, interval and payload."""


def _payloads() -> dict[str, list[bytes]]:
    """Valid states by text."""
    member = sealed.Member("m0", sealed.ONE)
    member.read(sealed.at(0.1), sealed.at(0.2, "b"), sealed.ended(0.3, 1), sealed.ended(1.2, 1, "b"))
    return {
        COUNTED: [states([*"aabbbb"]), states(list(range(40)))],
        DISTINCT: [states([*"aab"], DISTINCT, [1, 2, 3]), states([None, 0.5, float("nan")], DISTINCT)],
        BOTH: [sides([*"aaaab"], "log"), sides(["a", "b"], "other")],
        sealed.ONE: [each[-1] for each in member.take()],
    }


def early_states() -> Harness:
    """Scripts of early states for the master of a job."""
    corpus = _payloads()
    texts = list(corpus)
    apart = {text: [take_apart(data) for data in found] for text, found in corpus.items()}
    about = {text: (ql.parse(text), manifest(text)) for text in texts}

    def payload(rng: random.Random, text: str) -> bytes:
        draw, whose = rng.random(), text if rng.random() < 0.9 else rng.choice(texts)
        if draw < 0.4:
            return rng.choice(corpus[whose])
        if draw < 0.55:
            return mutated(rng, rng.choice(corpus[whose]), (*BYTES, *PACKED))
        return resealed(rng, *rng.choice(apart[whose]), in_header=draw < 0.8) or rng.choice(corpus[whose])

    def generate(rng: random.Random) -> bytes:
        which = rng.randrange(len(texts))
        script: Script = []
        for _ in range(rng.randrange(1, SCRIPT_MAX)):
            number, boot = (rng.choice((0, 1, 2, 2**62)) for _ in "nb")
            place = rng.randrange(3), boot, number, rng.choice((0, 0, 1, 2, 2**40))
            script.append((*place, payload(rng, texts[which])))
        return packed((which, script))

    def run(data: bytes) -> None:
        which, script = msgspec.msgpack.decode(data, type=tuple[int, Script])
        tables, (statement, signed) = EarlyTables(GROUPS_MAX), about[texts[which]]
        members = (bytes(20).hex(), (bytes([1]) * 20).hex())
        for member, boot, number, interval, states_ in script:
            sent = MemberStates(bytes([member]) * 20, boot, number, states_[:PAYLOAD_BYTES_MAX])
            order = MergeEarly(signed.job_id, 1, signed, interval, (sent,), 0, b"", members)
            _check(tables.merged(order), statement)
            assert all(job.groups <= 2 * GROUPS_MAX for job in tables._jobs.values())

    about_it = "scripts of early states for the master of a job"
    return Harness("early-states", about_it, generate, run, inputs=DEAR, refusals=())


def _check(merged: EarlyMerged, statement: ql.Statement) -> None:
    for each in (merged, *merged.others):
        assert not (each.error and each.count)
        if each.count:
            table = ipc_to_table(each.rows)
            assert (table.num_rows, table.column_names) == (each.count, [*statement.columns])
            assert each.members, "rows of no member"


def posts() -> Harness:
    """Payloads of posts: broken bytes, and other values in their places."""
    valid: list[Any] = [examples(random.Random(seed), (Post,), 5) for seed in range(20)]
    noise = of([msgspec.msgpack.encode(each) for each in valid], (*BYTES, *PACKED))

    def generate(rng: random.Random) -> bytes:
        return noise(rng) if rng.random() < 0.4 else packed(changed(rng, rng.choice(valid)))

    def run(data: bytes) -> None:
        found = decode_posts(data)
        assert decode_posts(encode_posts([*found])) == found
        assert all(post.position >= 0 and post.at_us >= 0 for post in found)

    return Harness("posts", "posts of an ordered topic", generate, run, refusals=(ProtocolError,))
