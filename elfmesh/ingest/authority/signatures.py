"""Which signed texts this agent admits: its memory of serials, on disk before anything they allow happens.

One mechanism serves all jobs: a job with functions on an agent that wants all manifests signed satisfies both
sets of keys by one envelope. The rules of admission are in `control.signing`. A version that cannot be
admitted is refused as a whole, with the reason.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from elfmesh import ql
from elfmesh.control.jobs import signing
from elfmesh.control.jobs.manifest import Manifest, canary_name
from elfmesh.control.jobs.terms import Stage
from elfmesh.errors import DataError, ProtocolError, RuntimeFailure, StorageError
from elfmesh.storage.storage import Storage
from elfmesh.sums import json_checked, json_with_sum
from elfmesh.wire import UNREADABLE

FILE = "functions"
"""Where serials are remembered: first only those of functions were."""

JOBS_MAX = 4096
"""Jobs whose serials are remembered; beyond that new ones are refused rather than old ones forgotten."""


@dataclass(frozen=True, slots=True)
class Signers:
    """Whose signatures count (raw public keys), and how many there must be."""

    keys: tuple[bytes, ...]
    needed: int = 1


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose texts may run here.

    Attributes:
        functions: who signs Python functions; None: none run here.
        manifests: who signs jobs; None: they need no signature.
        namespaces: who signs instead of `manifests` in a namespace.
    """

    cluster: str = ""
    functions: Signers | None = None
    manifests: Signers | None = None
    namespaces: Mapping[str, Signers] = field(default_factory=dict)

    def of_job(self, namespace: str) -> Signers | None:
        if self.manifests is None:
            return None
        others = self.namespaces.get("*", self.manifests)
        return self.namespaces.get(namespace, others)


class _Memory(msgspec.Struct):
    """What is on disk: jobs by the name of their texts, and the versions admitted last by job id.

    A version is (version, incarnation, SHA-256 of the payload).
    """

    jobs: dict[str, signing.Remembered] = {}
    accepted: dict[str, tuple[tuple[int, str, str], ...]] = {}


def decode_memory(raw: bytes) -> _Memory:
    return msgspec.json.decode(json_checked(raw), type=_Memory)


@dataclass(slots=True)
class Admission:
    """A version that may run until `expires_us` (None: of what has ended); `ended` says why it may not."""

    expires_us: int | None = None
    ended: str = ""

    def over(self, now_us: int) -> str:
        """Why it may not run any more at this moment, "" if it may."""
        expired = self.expires_us is not None and now_us >= self.expires_us
        return self.ended or (signing.EXPIRED if expired else "")


class EndedHere(RuntimeFailure):
    """A version was revoked or has expired, after it was good."""

    def __init__(self, message: str, why: str) -> None:
        super().__init__(message)
        self.why = why


class Signatures:
    """The admissions of one agent. May be used by several threads."""

    def __init__(self, trust: Trust, storage: Storage, wall_us: Callable[[], int]) -> None:
        self.trust, self._storage, self._wall_us = trust, storage, wall_us
        self._lock = threading.Lock()
        self._memory = _Memory()
        self._open: dict[str, dict[int, Admission]] = {}
        if trust.functions is not None or trust.manifests is not None:
            signing.check_cryptography()
            raw = storage.read(FILE)
            try:
                self._memory = _Memory() if raw is None else decode_memory(raw)
            except (*UNREADABLE, ProtocolError) as error:
                raise StorageError(f"is damaged: {error}", where=storage.where(FILE)) from None

    def needs(self, manifest: Manifest) -> bool:
        return self.trust.of_job(manifest.namespace) is not None or bool(ql.parse(manifest.text).functions)

    def believes(self, manifest: Manifest) -> bool:
        """Whether a signature of such a version by any key counts here."""
        functions = bool(ql.parse(manifest.text).functions) and self.trust.functions is not None
        return functions or self.trust.of_job(manifest.namespace) is not None

    def check(self, manifest: Manifest) -> None:
        """Verify a version, and change nothing. RuntimeFailure has the reason of a refusal."""
        with self._lock:
            self._admitted(manifest, self._memory)

    def admit(self, stages: Sequence[Stage]) -> dict[int, Admission]:
        """Verify all versions of a job that need signatures, by the version that evaluates them."""
        wanted = [stage for stage in stages if self.needs(stage.manifest)]
        if not wanted:
            return {}
        found: dict[int, Admission] = {}
        with self._lock:
            memory = msgspec.json.decode(msgspec.json.encode(self._memory), type=_Memory)
            accepted: list[tuple[int, str, str]] = []
            for stage in wanted:
                manifest = stage.manifest
                try:
                    envelope, remembered = self._admitted(manifest, memory)
                except EndedHere as error:
                    found[stage.evaluated] = Admission(None, error.why)
                    accepted += _of_version(memory, manifest)
                    continue
                reported = envelope.reported
                if reported.job not in memory.jobs and len(memory.jobs) >= JOBS_MAX:
                    raise RuntimeFailure(f"the agent already stores serials of {JOBS_MAX} jobs, the maximum")
                memory.jobs[reported.job] = remembered
                accepted.append((manifest.version, manifest.incarnation, signing.payload_digest(envelope)))
                found[stage.evaluated] = Admission(reported.expires * 1_000_000)
            memory.accepted[wanted[0].manifest.job_id.hex()] = tuple(accepted)
            self._remember(memory)
            self._open[wanted[0].manifest.qualified] = found
        return found

    def bury(self, manifest: Manifest) -> None:
        """Take the tombstone of a job: on disk first, then what it ends is over."""
        signers = self._signers(manifest)
        job = own_name(manifest)
        with self._lock:
            try:
                envelope = signing.decode_envelope(manifest.signed)
                for each in signers:
                    after = signing.bury(
                        envelope,
                        job=job,
                        cluster=self.trust.cluster,
                        keys=each.keys,
                        needed=each.needed,
                        remembered=self._memory.jobs.get(job, signing.Remembered()),
                    )
            except (signing.Refused, DataError) as error:
                raise RuntimeFailure(f"{_what(manifest)} cannot be revoked here: {error}") from None
            self._remember(_Memory({**self._memory.jobs, job: after}, self._memory.accepted))
            namespace, _, name = job.partition("/")
            for running in (job, f"{namespace}/{canary_name(name)}"):
                for admission in self._open.get(running, {}).values():
                    admission.ended = admission.ended or signing.REVOKED

    def _remember(self, memory: _Memory) -> None:
        data = msgspec.json.encode(memory)
        if data != msgspec.json.encode(self._memory):
            self._storage.write(FILE, json_with_sum(data))
        self._memory = memory

    def _admitted(self, manifest: Manifest, memory: _Memory) -> tuple[signing.Envelope, signing.Remembered]:
        """The envelope, and what to remember of it; RuntimeFailure with the reason if refused."""
        signers = self._signers(manifest)
        if not manifest.signed:
            verb = "are" if ql.parse(manifest.text).functions else "is"
            raise RuntimeFailure(f"{_what(manifest)} {verb} not signed")
        job = own_name(manifest)
        if signing.is_tombstone(manifest.signed):
            raise EndedHere(signing.REVOKED, signing.REVOKED)
        mine = {digest for _, _, digest in _of_version(memory, manifest)}
        try:
            envelope = signing.decode_envelope(manifest.signed)
            for each in signers:
                remembered = signing.admit(
                    envelope,
                    manifest.text,
                    job=job,
                    cluster=self.trust.cluster,
                    keys=each.keys,
                    needed=each.needed,
                    now_s=self._wall_us() / 1e6,
                    remembered=memory.jobs.get(job, signing.Remembered()),
                    accepted=mine,
                )
        except signing.Ended as error:
            raise EndedHere(f"{_what(manifest)} may not run here: {error}", error.why) from None
        except (signing.Refused, DataError) as error:
            raise RuntimeFailure(f"{_what(manifest)} may not run here: {error}") from None
        return envelope, remembered

    def _signers(self, manifest: Manifest) -> list[Signers]:
        found = [self.trust.of_job(manifest.namespace)]
        if ql.parse(manifest.text).functions:
            if self.trust.functions is None:
                raise RuntimeFailure('Python functions are off here ([functions] python = "off")')
            found.append(self.trust.functions)
        return [each for each in found if each is not None]


def own_name(manifest: Manifest) -> str:
    job = ql.parse(manifest.text).job
    assert job is not None, "a manifest is of a job"
    names = ((job.namespace, job.name), (job.namespace, canary_name(job.name)))
    if (manifest.namespace, manifest.name) not in names:
        raise RuntimeFailure(f"its text is of {job.qualified}, not of {manifest.qualified}")
    if manifest.partitions != job.partitions:
        raise RuntimeFailure(f"its text says PARTITIONS {job.partitions}, not {manifest.partitions}")
    return job.qualified


def _what(manifest: Manifest) -> str:
    return "its Python functions" if ql.parse(manifest.text).functions else "its manifest"


def _of_version(memory: _Memory, manifest: Manifest) -> list[tuple[int, str, str]]:
    kept = memory.accepted.get(manifest.job_id.hex(), ())
    return [each for each in kept if each[:2] == (manifest.version, manifest.incarnation)]
