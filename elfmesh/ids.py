"""Identifiers: who an agent is, what a job's tree is called, and how far apart two ids are.

Owns the 160-bit identifier space and every way an id is made from a name. An id is 20 raw bytes wherever
it crosses a module boundary (messages, events, files); the distance metric is Kademlia's XOR.

Paper: ELF 2.3 ("the appId is the hash of the application's textual name concatenated with its creator's
name", SHA-1). Deviation: 160-bit ids and the XOR metric instead of Pastry's 128-bit ring (docs/paper-map.md).
"""

from __future__ import annotations

import hashlib
import re

ID_BITS = 160
ID_BYTES = ID_BITS // 8
DIGIT_BITS = 4
SEPARATOR = b"\x00"
"""Between the hashed parts, so that ("ab", "c") and ("a", "bc") never share an id."""
GATEWAY_BYTES = 4
"""Bytes of the id of a gateway with which the ids of its trees begin."""
JOB_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,127}")
"""A job's name, and its namespace: parts of file names, of keys of requests and of lines of logs."""


def _sha1(*parts: bytes) -> bytes:
    return hashlib.sha1(SEPARATOR.join(parts), usedforsecurity=False).digest()


def job_id(name: str, creator: str) -> bytes:
    """The first id of a job, key of its tree: SHA-1 of name and creator (the paper's appId)."""
    return _sha1(b"job", name.encode(), creator.encode())


def job_placements(name: str, creator: str) -> tuple[bytes, bytes]:
    """Both ids that a job may live under, its home first (`control/requests/placement.py`)."""
    return job_id(name, creator), _sha1(b"job", name.encode(), creator.encode(), b"second seat")


def partition_tree(job: bytes, partition: int) -> bytes:
    """The tree that reduces one hash range of a partitioned job; partition 0 is the job's own tree."""
    return job if partition == 0 else _sha1(b"partition", job, str(partition).encode())


def group_tree(gateway: bytes, job: bytes, partition: int, group: str) -> bytes:
    """The tree that reduces one partition for one group of members; its gateway is the closest agent to it.

    The first bytes are the gateway's, so the root of the tree follows from the rule for all roots.
    """
    rest = _sha1(b"group tree", gateway, job, str(partition).encode(), group.encode())
    return gateway[:GATEWAY_BYTES] + rest[: ID_BYTES - GATEWAY_BYTES]


def named_agent_id(cluster: str, name: str) -> bytes:
    """The id of an agent whose certificate has a name but no id of ours: the issuer of the name chose it."""
    return _sha1(b"agent", cluster.encode(), name.encode())


def stream_id(name: str) -> bytes:
    """The group of all agents that carry a stream."""
    return _sha1(b"stream", name.encode())


def program_tree(program: bytes, group: str = "") -> bytes:
    """The tree of the agents with a program of this id beside them, or of those in one of its groups."""
    return _sha1(b"program", program, group.encode())


ALL_AGENTS = _sha1(b"group", b"all")
"""The group every agent belongs to; questions about the whole overlay are multicast on its tree."""


def check_id(value: bytes) -> bytes:
    """Return `value`; raise ValueError unless it is an id."""
    if not isinstance(value, bytes) or len(value) != ID_BYTES:
        raise ValueError(f"an id is {ID_BYTES} bytes, not {value!r}")
    return value


def distance(a: bytes, b: bytes) -> int:
    """XOR distance of two ids; 0 only for equal ids. Cost: one allocation per operand."""
    return int.from_bytes(a) ^ int.from_bytes(b)
