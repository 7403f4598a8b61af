"""Verification of signed versions; the serials that were seen are on disk before an admission takes effect.

The same mechanism serves all jobs. If an agent requires signatures of functions and of manifests, a job with
functions satisfies both sets of keys with one envelope. `control.signing` has the rules. An invalid version
is refused as a whole, with the reason.
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
"""File of the serials. The name is historical: at first only functions had serials."""

JOBS_MAX = 4096
"""Maximum number of jobs whose serials are stored. Beyond it, new jobs are refused, because a forgotten
serial could be replayed."""


@dataclass(frozen=True, slots=True)
class Signers:
    """Accepted raw public keys, and the number of required signatures."""

    keys: tuple[bytes, ...]
    needed: int = 1


@dataclass(frozen=True, slots=True)
class Trust:
    """Keys that are trusted here.

    Attributes:
        functions: keys for Python functions; None: none run here.
        manifests: keys for jobs; None: jobs need no signature.
        namespaces: keys that replace `manifests` in a namespace.
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
    """Content of the file: jobs by the name in their texts, and the versions admitted last by job id.

    A version is (version, incarnation, SHA-256 of the payload).
    """

    jobs: dict[str, signing.Remembered] = {}
    accepted: dict[str, tuple[tuple[int, str, str], ...]] = {}


def decode_memory(raw: bytes) -> _Memory:
    return msgspec.json.decode(json_checked(raw), type=_Memory)


@dataclass(slots=True)
class Admission:
    """Admission of a version until `expires_us` (None: already ended).

    `ended` is the reason if it may not run.
    """

    expires_us: int | None = None
    ended: str = ""

    def over(self, now_us: int) -> str:
        """Return why the version may not run at this time, "" if it may."""
        expired = self.expires_us is not None and now_us >= self.expires_us
        return self.ended or (signing.EXPIRED if expired else "")


class EndedHere(RuntimeFailure):
    """An admitted version was revoked or has expired."""

    def __init__(self, message: str, why: str) -> None:
        super().__init__(message)
        self.why = why


class Signatures:
    """Admissions of one agent. Thread-safe."""

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
        """Return whether a signature of such a version by any key is valid here."""
        functions = bool(ql.parse(manifest.text).functions) and self.trust.functions is not None
        return functions or self.trust.of_job(manifest.namespace) is not None

    def check(self, manifest: Manifest) -> None:
        """Verify a version without changing any state. Raises RuntimeFailure with the reason of a refusal."""
        with self._lock:
            self._admitted(manifest, self._memory)

    def admit(self, stages: Sequence[Stage]) -> dict[int, Admission]:
        """Verify all versions of a job that need signatures.

        Returns admissions by the version that evaluates them.
        """
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
            except (signing.EnvelopeRefused, DataError) as error:
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
        """Return the envelope and the data to store for it.

        Raises RuntimeFailure with the reason of a refusal.
        """
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
        except signing.EnvelopeEnded as error:
            raise EndedHere(f"{_what(manifest)} may not run here: {error}", error.why) from None
        except (signing.EnvelopeRefused, DataError) as error:
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
