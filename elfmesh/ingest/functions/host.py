"""The Python functions of one agent: tried out before a version is prepared, evaluated once it is admitted.

Nothing is evaluated that `authority.signatures` has not admitted, and nothing where the kernel lacks what
confines a worker, unless the configuration accepts that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from elfmesh import ql
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.terms import Stage
from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.authority.signatures import Admission, Signatures
from elfmesh.ingest.functions import confinement
from elfmesh.ingest.functions.process import Limits, WorkerFailed
from elfmesh.lazy import lazy_module

if TYPE_CHECKING:
    from elfmesh.ingest.functions import evaluator as evaluating
    from elfmesh.ingest.functions.evaluator import Evaluator
else:
    evaluating = lazy_module("elfmesh.ingest.functions.evaluator")

log = logging.getLogger("elf.functions")


class FunctionHost:
    """The functions of one agent. May be used by several threads.

    `off` says why no functions run on this host, with any signature; "" if they do.
    """

    def __init__(self, signatures: Signatures, limits: Limits, wall_us: Callable[[], int]) -> None:
        self.signatures, self._limits, self._wall_us = signatures, limits, wall_us
        self._absent = confinement.absent()
        self.off = confinement.off_here(self._absent) if limits.confined else ""
        self._lock = threading.Lock()
        self._open: dict[str, list[Evaluator]] = {}

    def trial(self, manifest: Manifest) -> None:
        """Load an admitted version's functions and evaluate them once. Starts a process; for a thread."""
        functions = ql.parse(manifest.text).functions
        if not functions:
            return
        if self.off:
            raise RuntimeFailure(self.off)
        evaluator = evaluating.Evaluator(functions, self._limits)
        try:
            evaluator.check()
        except WorkerFailed as error:
            raise RuntimeFailure(f"its functions do not work here: {error}") from None
        finally:
            evaluator.close()

    def open(
        self,
        stages: Sequence[Stage],
        admissions: Mapping[int, Admission],
        note: Callable[[str], None] = lambda _text: None,
    ) -> dict[int, Evaluator]:
        """Evaluators for the versions of a job, by version; those without functions have none.

        What was revoked or has expired, and everything where `off` says why, has an evaluator that is off:
        records are counted, not evaluated. `note` is told in a line what goes wrong.
        """
        found: dict[int, Evaluator] = {}
        for stage in stages:
            functions = ql.parse(stage.manifest.text).functions
            if not functions:
                continue
            admission = admissions[stage.evaluated]
            found[stage.evaluated] = evaluator = evaluating.Evaluator(
                functions, self._limits, note=note, expires_us=admission.expires_us, wall_us=self._wall_us
            )
            if why := admission.ended or (self._absent if self.off else ""):
                evaluator.end(why)
        if found:
            with self._lock:
                self._open[stages[0].manifest.qualified] = list(found.values())
        return found

    def again(self, manifest: Manifest) -> Evaluator | None:
        """An evaluator for an admitted version that computes an interval again; None: it needs none."""
        functions = ql.parse(manifest.text).functions
        if functions and self.off:
            raise RuntimeFailure(self.off)
        return evaluating.Evaluator(functions, self._limits) if functions else None

    def end(self, jobs: Sequence[str], why: str) -> None:
        with self._lock:
            running = [evaluator for job in jobs for evaluator in self._open.get(job, ())]
        for evaluator in running:
            if not evaluator.problem:
                evaluator.end(why)

    def describe(self) -> dict[str, Any]:
        """For people: whose functions run here, and by job the state of their workers."""
        signers = self.signatures.trust.functions
        if signers is None:
            return {"python": "off by configuration", "jobs": {}}
        reported = self.off or f"signed by {signers.needed} of {len(signers.keys)} keys"
        return {"python": "; ".join(filter(None, (reported, self.risk))), "jobs": self._workers()}

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
    def risk(self) -> str:
        """What the configuration accepts by `dangerously_without_sandbox`, in a line; "" if nothing."""
        if self.off or not self._absent or self.signatures.trust.functions is None:
            return ""
        return f"functions are not held in: {self._absent} (dangerously_without_sandbox)"

    @property
    def problem(self) -> str:
        """Which functions are off, in a line; "" if none: all of them, where `off` says why."""
        if self.off and self.signatures.trust.functions is not None:
            return self.off
        found = [
            f"{job}: {each['problem']}"
            for job, all_ in self._workers().items()
            for each in all_
            if each["problem"]
        ]
        return "; ".join(found)
