"""Which Python functions run on this host: none, or those of texts that enough trusted keys have signed.

Owns this agent's memory of signed serials, its checks before a version of a job is prepared and again before
it is evaluated, and the evaluators that are open. The control plane may ask beforehand (`trial`); nothing
runs that `open` has not admitted itself, whoever wants it.

Invariants: what must be remembered of an envelope is on disk before its functions are evaluated; a version
that cannot be admitted is refused as a whole, and names the reason.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from elfmesh.agent.disk.storage import Storage
from elfmesh.agent.functions.evaluator import Evaluator
from elfmesh.agent.functions.process import Limits, WorkerFailed
from elfmesh.agent.functions.settings import FunctionsConfig
from elfmesh.control import ql, signing
from elfmesh.control.events_functions import FunctionsTried, TryFunctions
from elfmesh.control.manifest import Manifest, canary_name
from elfmesh.control.terms import Stage
from elfmesh.errors import DataError, ElfError, RuntimeFailure, StorageError

log = logging.getLogger("elf.functions")
FILE = "functions"
JOBS_MAX = 4096
"""Jobs whose serials are remembered; beyond that new ones are refused rather than old ones forgotten."""


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose functions may run here.

    Attributes:
        cluster: of this agent.
        keys: raw public keys.
        needed: how many of them must have signed.
        limits: of each worker.
    """

    cluster: str = ""
    keys: tuple[bytes, ...] = ()
    needed: int = 1
    limits: Limits = field(default_factory=Limits)


def trust_of(functions: FunctionsConfig, cluster: str) -> Trust | None:
    """What a checked configuration says; None: functions are off."""
    if functions.python == "off":
        return None
    keys = tuple(signing.read_key(key, where="functions.keys") for key in functions.keys)
    return Trust(cluster, keys, functions.signatures, Limits(functions.time_s, functions.memory_bytes))


class _Memory(msgspec.Struct):
    """What is on disk.

    Attributes:
        jobs: by "namespace/name" of the texts.
        accepted: by job id, (version, incarnation, SHA-256 of the payload) of what was opened last.
    """

    jobs: dict[str, signing.Remembered] = {}
    accepted: dict[str, tuple[tuple[int, str, str], ...]] = {}


class _EndedHere(RuntimeFailure):
    """A version's functions were revoked or have expired: its records are counted, no fault of the job."""

    def __init__(self, message: str, why: str) -> None:
        super().__init__(message)
        self.why = why


class FunctionHost:
    """The functions of one agent. May be used by several threads.

    Args:
        trust: None: no Python runs here.
        storage: where serials are remembered.
        wall_us: wall clock.

    Raises:
        StorageError: the memory is damaged.
        RuntimeFailure: signatures cannot be checked on this host.
    """

    def __init__(self, trust: Trust | None, storage: Storage, wall_us: Callable[[], int]) -> None:
        self._trust, self._storage, self._wall_us = trust, storage, wall_us
        self._lock = threading.Lock()
        self._open: dict[str, list[Evaluator]] = {}
        self._memory = _Memory()
        if trust is not None:
            signing.check_cryptography()
            raw = storage.read(FILE)
            try:
                self._memory = msgspec.json.decode(raw, type=_Memory) if raw else _Memory()
            except msgspec.MsgspecError as error:
                raise StorageError(f"is damaged: {error}", where=FILE) from None

    def tried(self, effect: TryFunctions) -> FunctionsTried:
        """`trial`, as the control plane asks for it."""
        try:
            return FunctionsTried(effect.token, self.trial(effect.manifest))
        except Exception as error:  # whatever it is, it must not cost the agent
            log.exception("the functions of %s cannot be tried out", effect.manifest.qualified)
            return FunctionsTried(effect.token, str(error) or type(error).__name__)

    def trial(self, manifest: Manifest) -> str:
        """Why a version of a job could not be evaluated here, "" if it can: verified, loaded, tried out.

        A tombstone is obeyed at once: what it ends is off, and on disk as revoked, before this returns "".

        Cost: starts a process; for a thread.
        """
        statement = ql.parse(manifest.text)
        if not statement.functions:
            return ""
        try:
            if signing.is_tombstone(manifest.signed):
                if self._trust is not None:
                    self._bury(manifest)
                return ""
            with self._lock:
                trust, _, _ = self._admitted(manifest, self._memory)
            evaluator = Evaluator(statement.functions, trust.limits)
            try:
                evaluator.check()
            finally:
                evaluator.close()
        except WorkerFailed as error:
            return f"its functions do not work here: {error}"
        except ElfError as error:
            return error.message
        return ""

    def open(
        self, stages: Sequence[Stage], note: Callable[[str], None] = lambda _text: None
    ) -> dict[int, Evaluator]:
        """Evaluators for the versions of a job, by version; those without functions have none.

        What was revoked or has expired has an evaluator that is off: its records are counted, not evaluated.

        Raises:
            RuntimeFailure: a version is not admitted here.
            StorageError: what must be remembered cannot be written.
        """
        wanted = [stage for stage in stages if ql.parse(stage.manifest.text).functions]
        if not wanted:
            return {}
        for stage in wanted:
            if signing.is_tombstone(stage.manifest.signed):
                self._bury(stage.manifest)
        found: dict[int, Evaluator] = {}
        with self._lock:
            memory = msgspec.json.decode(msgspec.json.encode(self._memory), type=_Memory)
            accepted: list[tuple[int, str, str]] = []
            for stage in wanted:
                manifest = stage.manifest
                try:
                    trust, envelope, remembered = self._admitted(manifest, memory)
                except _EndedHere as error:
                    found[stage.evaluated] = _ended(manifest, error.why, note)
                    accepted += _of_version(memory, manifest)
                    continue
                said = envelope.said
                if said.job not in memory.jobs and len(memory.jobs) >= JOBS_MAX:
                    raise RuntimeFailure(f"serials of {JOBS_MAX} jobs are remembered here already")
                memory.jobs[said.job] = remembered
                accepted.append((manifest.version, manifest.incarnation, signing.payload_digest(envelope)))
                found[stage.evaluated] = Evaluator(
                    ql.parse(manifest.text).functions,
                    trust.limits,
                    note=note,
                    expires_us=said.expires * 1_000_000,
                    wall_us=self._wall_us,
                )
            memory.accepted[wanted[0].manifest.job_id.hex()] = tuple(accepted)
            self._remember(memory)
            self._open[wanted[0].manifest.qualified] = list(found.values())
        return found

    def again(self, manifest: Manifest) -> Evaluator | None:
        """An evaluator for a version that is admitted here already, for who computes an interval again.

        Raises:
            RuntimeFailure: it is not admitted.
        """
        functions = ql.parse(manifest.text).functions
        if not functions:
            return None
        with self._lock:
            trust, _, _ = self._admitted(manifest, self._memory)
        return Evaluator(functions, trust.limits)

    def _bury(self, manifest: Manifest) -> None:
        """Take the tombstone of a job: on disk first, then everything that it ends is off.

        Raises:
            RuntimeFailure: it is not admitted here.
            StorageError: it cannot be written down.
        """
        trust = self._required()
        job = _own_name(manifest)
        with self._lock:
            try:
                after = signing.bury(
                    signing.decode_envelope(manifest.signed),
                    job=job,
                    cluster=trust.cluster,
                    keys=trust.keys,
                    needed=trust.needed,
                    remembered=self._memory.jobs.get(job, signing.Remembered()),
                )
            except (signing.Refused, DataError) as error:
                raise RuntimeFailure(f"its functions cannot be revoked here: {error}") from None
            self._remember(_Memory({**self._memory.jobs, job: after}, self._memory.accepted))
            running = [*self._open.get(job, ()), *self._open.get(canary_name(job), ())]
        for evaluator in running:
            if not evaluator.problem:
                evaluator.end(signing.REVOKED)

    def describe(self) -> dict[str, Any]:
        """For people: whose functions run here, and by job the state of their workers."""
        trust = self._trust
        if trust is None:
            return {"python": "off by configuration", "jobs": {}}
        return {"python": f"signed by {trust.needed} of {len(trust.keys)} keys", "jobs": self._workers()}

    def _workers(self) -> dict[str, list[dict[str, Any]]]:
        with self._lock:
            return {
                job: [
                    {"pid": each.pid, "restarts": each.restarts, "problem": each.problem or None}
                    for each in evaluators
                    if not each.closed
                ]
                for job, evaluators in self._open.items()
                if any(not each.closed for each in evaluators)
            }

    @property
    def problem(self) -> str:
        """Which functions are off, in a line; "" if none."""
        found = [
            f"{job}: {each['problem']}"
            for job, all_ in self._workers().items()
            for each in all_
            if each["problem"]
        ]
        return "; ".join(found)

    def _remember(self, memory: _Memory) -> None:
        data = msgspec.json.encode(memory)
        if data != msgspec.json.encode(self._memory):
            self._storage.write(FILE, data)
        self._memory = memory

    def _admitted(
        self, manifest: Manifest, memory: _Memory
    ) -> tuple[Trust, signing.Envelope, signing.Remembered]:
        """Whose limits, the envelope, and what to remember of it.

        Raises:
            RuntimeFailure: it is not admitted, with the reason.
        """
        trust = self._required()
        if not manifest.signed:
            raise RuntimeFailure("its Python functions are not signed")
        job = _own_name(manifest)
        if signing.is_tombstone(manifest.signed):
            raise _EndedHere(signing.REVOKED, signing.REVOKED)
        mine = {digest for _, _, digest in _of_version(memory, manifest)}
        try:
            envelope = signing.decode_envelope(manifest.signed)
            remembered = signing.admit(
                envelope,
                manifest.text,
                job=job,
                cluster=trust.cluster,
                keys=trust.keys,
                needed=trust.needed,
                now_s=self._wall_us() / 1e6,
                remembered=memory.jobs.get(job, signing.Remembered()),
                accepted=mine,
            )
        except signing.Ended as error:
            raise _EndedHere(f"its Python functions may not run here: {error}", error.why) from None
        except (signing.Refused, DataError) as error:
            raise RuntimeFailure(f"its Python functions may not run here: {error}") from None
        return trust, envelope, remembered

    def _required(self) -> Trust:
        if self._trust is None:
            raise RuntimeFailure('Python functions are off here ([functions] python = "off")')
        return self._trust


def _own_name(manifest: Manifest) -> str:
    """The name of the job that a manifest's text is of.

    Raises:
        RuntimeFailure: the manifest is of another one.
    """
    job = ql.parse(manifest.text).job
    assert job is not None, "a manifest is of a job"
    names = ((job.namespace, job.name), (job.namespace, canary_name(job.name)))
    if (manifest.namespace, manifest.name) not in names:
        raise RuntimeFailure(f"its text is of {job.qualified}, not of {manifest.qualified}")
    return job.qualified


def _of_version(memory: _Memory, manifest: Manifest) -> list[tuple[int, str, str]]:
    """What was accepted of one version of a job."""
    kept = memory.accepted.get(manifest.job_id.hex(), ())
    return [each for each in kept if each[:2] == (manifest.version, manifest.incarnation)]


def _ended(manifest: Manifest, why: str, note: Callable[[str], None]) -> Evaluator:
    """For a version that was revoked or has expired: no process, no value."""
    evaluator = Evaluator(ql.parse(manifest.text).functions, Limits(), note=note)
    evaluator.end(why)
    return evaluator
