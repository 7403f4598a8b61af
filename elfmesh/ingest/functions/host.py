"""Python functions of one agent: tested before a version is prepared, evaluated after its admission.

Functions that `authority.signatures` has not admitted are never evaluated. Neither are any on a kernel that
cannot confine a worker, unless the configuration accepts that.
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
    """Python functions of one agent. Thread-safe.

    `off` is the reason why no functions run on this host, even with signatures; "" if they do.
    """

    def __init__(self, signatures: Signatures, limits: Limits, wall_us: Callable[[], int]) -> None:
        self.signatures, self._limits, self._wall_us = signatures, limits, wall_us
        self._absent = confinement.absent()
        self.off = confinement.off_here(self._absent) if limits.confined else ""
        self._lock = threading.Lock()
        self._open: dict[str, list[Evaluator]] = {}

    def trial(self, manifest: Manifest) -> None:
        """Load an admitted version's functions and evaluate them once.

        Starts a process; call it in a thread.
        """
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
        """Return evaluators for the versions of a job, by version; versions without functions have none.

        For revoked or expired versions, and for all if `off` is set, the evaluator is off: it counts records
        and does not evaluate them. `note` is called with a description of each fault.
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
        """Return an evaluator for recomputing an interval of an admitted version; None if it needs none."""
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
        """Return, for display, whose functions run here and the state of their workers by job."""
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
        """Return the risk that `dangerously_without_sandbox` accepts, as one line; "" if none."""
        if self.off or not self._absent or self.signatures.trust.functions is None:
            return ""
        return f"functions are not confined: {self._absent} (dangerously_without_sandbox)"

    @property
    def problem(self) -> str:
        """Return which functions are off, as one line; "" if none. All are off if `off` is set."""
        if self.off and self.signatures.trust.functions is not None:
            return self.off
        found = [
            f"{job}: {each['problem']}"
            for job, all_ in self._workers().items()
            for each in all_
            if each["problem"]
        ]
        return "; ".join(found)
