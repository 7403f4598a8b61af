"""Admission of versions on this host: the agent's policy, then signatures, then a trial run.

All three are checked when a version is prepared (D-16) and again before any of it is evaluated, because the
master only relays versions.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from elfmesh.control.jobs import signing
from elfmesh.control.jobs.manifest import Manifest, canary_name
from elfmesh.control.jobs.policy import OPEN, Policy
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol.events_functions import FunctionsTried, TryFunctions
from elfmesh.errors import ElfError, RuntimeFailure, StorageError
from elfmesh.ingest.authority.audit import AuditLog
from elfmesh.ingest.authority.signatures import Admission, Signatures, Trust, own_name
from elfmesh.ingest.functions.host import FunctionHost
from elfmesh.ingest.functions.process import Limits
from elfmesh.storage.storage import Storage

if TYPE_CHECKING:
    from elfmesh.ingest.functions.evaluator import Evaluator

log = logging.getLogger("elf.functions")
WRITTEN_MAX = 4096
"""Versions whose lines in the audit log are not repeated when their worker starts again."""


class AuthorityGate:
    """Admission of one agent. Thread-safe. `audit` records the versions that run here (None: no record)."""

    def __init__(
        self,
        policy: Policy,
        functions: FunctionHost,
        streams: Collection[str] = (),
        audit: AuditLog | None = None,
    ) -> None:
        self.policy, self.functions, self._streams = policy, functions, frozenset(streams)
        self._audit = audit
        self._written: dict[tuple[bytes, str, int], None] = {}

    @property
    def signatures(self) -> Signatures:
        return self.functions.signatures

    def tried(self, effect: TryFunctions) -> FunctionsTried:
        try:
            return FunctionsTried(effect.token, self.trial(effect.manifest))
        except Exception as error:  # no fault of a version may end the agent
            log.exception("%s cannot be tried out", effect.manifest.qualified)
            return FunctionsTried(effect.token, str(error) or type(error).__name__)

    def trial(self, manifest: Manifest) -> str:
        """Return why a version of a job cannot run here, "" if it can.

        Checks permission and signatures, loads the functions and tries them. A tombstone takes effect
        immediately: before this call returns "", its jobs are ended and recorded on disk as revoked. May
        start a process; call it in a thread.
        """
        try:
            self._allowed(manifest)
            if not self.signatures.needs(manifest):
                return ""
            if signing.is_tombstone(manifest.signed):
                self._bury(manifest)
                return ""
            self.signatures.check(manifest)
            self.functions.trial(manifest)
        except ElfError as error:
            with contextlib.suppress(StorageError):  # the version is refused in any case
                self._write(manifest, "prepare", error.message)
            return error.message
        return ""

    def admit(self, stages: Sequence[Stage]) -> dict[int, Admission]:
        """Check all versions of a job that may be evaluated, and record the admission durably."""
        for stage in stages:
            self._allowed(stage.manifest)
            if signing.is_tombstone(stage.manifest.signed) and self.signatures.needs(stage.manifest):
                self._bury(stage.manifest)
        admitted = self.signatures.admit(stages)
        for stage in stages:
            try:
                self._write(stage.manifest, "run", "")
            except StorageError as error:
                raise RuntimeFailure(f"the audit log cannot be written: {error.message}") from None
        return admitted

    def again(self, manifest: Manifest) -> Evaluator | None:
        """Return the evaluator for recomputing an interval of an admitted version; None without functions."""
        self._allowed(manifest)
        if self.signatures.needs(manifest):
            self.signatures.check(manifest)
        return self.functions.again(manifest)

    def _write(self, manifest: Manifest, what: str, why: str) -> None:
        """Write the decision on a version to the audit log; an admission once per boot."""
        key = (manifest.job_id, manifest.incarnation, manifest.version)
        if self._audit is None or (not why and key in self._written):
            return
        self._audit.write(
            manifest.creator, "overlay", what, allowed=not why, job=manifest.qualified,
            version=manifest.version, digest=signing.text_digest(manifest.text), why=why,
        )  # fmt: skip
        if not why:
            self._written[key] = None
            while len(self._written) > WRITTEN_MAX:
                del self._written[next(iter(self._written))]

    def _allowed(self, manifest: Manifest) -> None:
        if problem := self.policy.refusal(manifest, self._streams):
            raise RuntimeFailure(problem)

    def _bury(self, manifest: Manifest) -> None:
        if not self.signatures.believes(manifest):
            return  # no signed version ever ran here
        self.signatures.bury(manifest)
        namespace, _, name = own_name(manifest).partition("/")
        jobs = (f"{namespace}/{name}", f"{namespace}/{canary_name(name)}")
        self.functions.end(jobs, signing.REVOKED)

    def describe(self) -> dict[str, Any]:
        trust = self.signatures.trust
        signed = "off"
        if trust.manifests is not None:
            signed = f"signed by {trust.manifests.needed} of {len(trust.manifests.keys)} keys"
        return {
            "manifests": signed,
            "namespaces": sorted(self.policy.namespaces),
            "hidden_fields": len(self.policy.hidden.deny),
            "keep_in": [label for clause in self.policy.keep_in for label in clause],
            "audit": None if self._audit is None else self._audit.describe(),
        }


def open_gate(storage: Storage, wall_us: Callable[[], int], policy: Policy = OPEN) -> AuthorityGate:
    """Return the gate of an agent that checks no signatures: all jobs may run, but no Python functions."""
    return AuthorityGate(policy, FunctionHost(Signatures(Trust(), storage, wall_us), Limits(), wall_us))
