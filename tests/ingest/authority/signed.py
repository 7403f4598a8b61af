"""Signed manifests, gates that judge them, and what they say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from elfmesh import ql
from elfmesh.control.jobs import signing
from elfmesh.control.jobs.manifest import Manifest, new_manifest
from elfmesh.control.jobs.policy import OPEN
from elfmesh.control.jobs.terms import Stage
from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.authority.gate import AuthorityGate
from elfmesh.ingest.authority.signatures import Signatures, Signers, Trust
from elfmesh.ingest.functions.host import FunctionHost
from elfmesh.ingest.functions.of_job import JobFunctions
from elfmesh.ingest.functions.process import Limits
from elfmesh.storage.storage import MemoryStorage, Storage

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([at]) * 32) for at in range(4)]

PUBLIC = [key.public_key().public_bytes_raw() for key in KEYS]

TRUST = Trust("fleet", None, Signers((PUBLIC[0], PUBLIC[1])), {"bank": Signers((PUBLIC[2], PUBLIC[3]), 2)})

NOW_S = 1_000_000

TEXT = "CREATE JOB {job} EVERY '30 s' AS SELECT path, count(*) AS n FROM access WHERE {where} GROUP BY path"


def signed(text: str, keys: list[int], **other: Any) -> str:
    job = ql.parse(text).job
    assert job is not None
    reported: dict[str, Any] = {
        "cluster": "fleet", "job": job.qualified, "serial": 5, "undo_to": other.get("serial", 5),
        "expires": NOW_S + 10, "sha256": signing.text_digest(text),
    }  # fmt: skip
    payload = signing.Payload(**{**reported, **other})
    return signing.signed(payload, [KEYS[at] for at in keys]).encode().decode()


def manifest(
    where: str = "true", *, job: str = "shop.a", keys: tuple[int, ...] = (0,), version: int = 1, **other: Any
) -> Manifest:
    text = TEXT.format(job=job, where=where)
    clause = ql.parse(text).job
    assert clause is not None
    envelope = signed(text, list(keys), **other).encode()
    made = new_manifest(clause, text, "me", created=0, incarnation="i", signed=envelope)
    return msgspec.structs.replace(made, version=version)


def gate(storage: Storage | None = None, *, trust: Trust = TRUST, later_s: int = 0) -> AuthorityGate:
    def clock() -> int:
        return (NOW_S + later_s) * 1_000_000

    signatures = Signatures(trust, storage or MemoryStorage(), clock)
    return AuthorityGate(OPEN, FunctionHost(signatures, Limits(), clock), ["access"])


def start(agent: AuthorityGate, *versions: Manifest, later_s: int = 0) -> JobFunctions:
    """As the worker host does, with what the terms of a master say."""
    found = JobFunctions()
    stages = [Stage(at, each, each.version) for at, each in enumerate(versions)]
    found.admit(agent, stages, lambda: (NOW_S + later_s) * 1_000_000)
    return found


def refused(agent: AuthorityGate, *versions: Manifest) -> str:
    """The trial of the newest and the start of all say the same."""
    with pytest.raises(RuntimeFailure) as caught:
        start(agent, *versions)
    return caught.value.message
