"""Creates the gate of an agent from its configuration: which texts and functions run on this host."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from elfmesh.agent.settings.config import AgentConfig
from elfmesh.control.jobs import signing
from elfmesh.ingest.authority.audit import AuditLog
from elfmesh.ingest.authority.gate import AuthorityGate
from elfmesh.ingest.authority.settings import policy_of
from elfmesh.ingest.authority.signatures import Signatures, Signers, Trust
from elfmesh.ingest.functions.host import FunctionHost
from elfmesh.ingest.functions.process import Limits
from elfmesh.storage.storage import Storage

log = logging.getLogger("elf.functions")


def gate_of(
    config: AgentConfig, storage: Storage, wall_us: Callable[[], int], audit: AuditLog | None = None
) -> AuthorityGate:
    """Return the gate for a checked configuration. Raises the same errors as `Signatures`."""
    functions = config.functions
    limits = Limits(functions.time_s, functions.memory_bytes, not functions.dangerously_without_sandbox)
    signed = config.manifests.require == "signed"
    namespaces = {
        name: Signers(_keys(each.keys), each.signatures)
        for name, each in config.namespaces.items()
        if each.keys
    }
    trust = Trust(
        config.cluster,
        Signers(_keys(functions.keys), functions.signatures) if functions.python == "signed" else None,
        Signers(_keys(config.manifests.keys), config.manifests.signatures) if signed else None,
        namespaces,
    )
    limited = config.limits.adhoc_jobs, config.limits.standby_bytes
    policy = policy_of(
        config.fields,
        config.namespaces,
        signed,
        config.coordination.require,
        *limited,
        keep_in=config.placement.rule,
        query_bytes=config.limits.query_bytes_max,
    )
    host = FunctionHost(Signatures(trust, storage, wall_us), limits, wall_us)
    if host.problem or host.risk:
        log.error("%s", host.problem or host.risk)
    return AuthorityGate(policy, host, config.streams, audit)


def _keys(keys: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(signing.read_key(key, where="keys") for key in keys)
