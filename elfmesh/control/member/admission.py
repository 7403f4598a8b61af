"""Whether a job is for this agent, and why the agent refuses it.

Owns what the agent carries (streams, labels, lookup tables), the checks of a version against it, and the
incarnations that have ended here. Begins and ends no member.

Invariant: an incarnation that has ended here stays ended, also after a restart, because an agent that has
missed its end may announce it for a long time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

from elfmesh import ids
from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import JobPlan, check_columns, read_plan
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.member.preflight import Preflight
from elfmesh.control.member.read_cost import too_costly
from elfmesh.control.member.required_label import label_refusal
from elfmesh.control.paths.layout import gateways_of
from elfmesh.control.protocol.events import LocalStreams, Persist, StreamInfo
from elfmesh.machine import Contact
from elfmesh.srt.residency import ANYWHERE, Rule, allows

JOBS_MAX = 1000
"""Jobs one agent works on: it must not hurt the web server."""

STOPPED_MAX = 4096
KIND = "stopped"
"""Kind of the stored state that names, for each job, the last incarnation that ended at this agent.

A message of an earlier incarnation has a lower epoch, so one name is enough.
"""


class JobAdmission:
    """The checks of one agent.

    Attributes:
        streams: that the agent reads, by name.
        labels: of the agent.
        lookups: names of its lookup tables.
        preflight: the trials of versions on this host.
    """

    def __init__(self, context: Context) -> None:
        self._context, self.preflight = context, Preflight(context)
        self.streams: dict[str, StreamInfo] = {}
        self.labels: dict[str, str] = {}
        self.lookups: tuple[str, ...] = ()
        self._stopped: OrderedDict[tuple[bytes, str], None] = OrderedDict()

    def carries(self, event: LocalStreams) -> None:
        self.labels, self.lookups = dict(event.labels), event.lookups
        self.streams = {stream.name: stream for stream in event.streams}

    @property
    def stream_ids(self) -> set[bytes]:
        return {ids.stream_id(name) for name in self.streams}

    # -- versions --------------------------------------------------------------------------------------

    def is_meant(self, manifest: Manifest) -> bool:
        """Whether a version reads streams of this agent, and has not left the agent out.

        Raises:
            QueryError: the text cannot be read.
        """
        mine, plan = self.labels.items(), read_plan(manifest.text)
        reads = plan.read_at(self.streams, self.labels)
        return bool(reads) and all(label in mine for label in manifest.narrowed)

    def excluded(self, manifest: Manifest, master: Contact, terms: Terms | None) -> tuple[Rule, str]:
        """Return why this host takes no part, "" if it does: what its rule excludes, or a limit and no rule.

        A limit counts before the host takes part, because logs grow afterwards.
        """
        rule = self._context.policy.keep_in
        if rule and (why := self._kept_out(rule, manifest, master, terms)):
            return rule, why
        if terms is not None or not manifest.leased:
            return ANYWHERE, ""
        streams = read_plan(manifest.text).read_at(self.streams, self.labels)
        return ANYWHERE, too_costly(self._context, streams, manifest)

    def _kept_out(self, rule: Rule, manifest: Manifest, master: Contact, terms: Terms | None) -> str:
        """Return which agent would get data of this host against its rule, "" if none would.

        Without a layout, the roots of partitions may be any agents.
        """
        if not allows(rule, master):
            return "the master"
        layout = None if terms is None else terms.layout or None
        for gateway in gateways_of(self._context.me, layout):
            if not allows(rule, gateway.contact):
                return f"the gateway of {gateway.group or 'its group'}"
        has_gateways = read_plan(manifest.text).paths if terms is None else layout
        if manifest.partitions > 1 and not has_gateways:
            return "the roots of PARTITIONS, which only PATHS places"
        return ""

    def error(self, manifest: Manifest, plan: JobPlan, *, is_new: bool = False) -> str:
        """Why this agent cannot evaluate a version of a job, "" if it can."""
        if error := self.preflight.error(manifest) or self._context.policy.refusal(manifest, self.streams):
            return error
        require = self._context.policy.require if is_new else {}
        if error := label_refusal(require, f"{manifest.namespace}/{manifest.name}", manifest.text):
            return error
        unknown = [name for name in plan.lookups if name not in self.lookups]
        if unknown:
            return f"there is no lookup table {unknown[0]} here"
        names = plan.read_at(self.streams, self.labels)
        texts = ((manifest.text, self.streams[name].schema, name) for name in names)
        errors = (check_columns(*each, is_new=is_new) for each in texts)
        return next(filter(None, errors), "")

    def no_room(self, manifest: Manifest, others: Collection[Manifest]) -> str:
        """Why this agent cannot work on another job beside these, "" if it can."""
        namespace, queries = manifest.namespace, self._context.policy.queries
        if manifest.leased and sum(each.leased for each in others) >= queries:
            return f"this agent works on {queries} queries already: its limits.adhoc_jobs allows no more"
        if len(others) >= JOBS_MAX:
            return f"this agent works on {JOBS_MAX} jobs already"
        grant = self._context.policy.grant(namespace)
        mine = sum(each.namespace == namespace for each in others)
        if grant is not None and grant.jobs is not None and mine >= grant.jobs:
            return f"this agent works on {mine} jobs of {namespace} already: its configuration allows no more"
        return ""

    # -- incarnations that have ended ------------------------------------------------------------------

    def has_ended(self, job: bytes, incarnation: str) -> bool:
        return (job, incarnation) in self._stopped

    def stop(self, job: bytes, incarnation: str) -> None:
        """Remember that an incarnation is over, also after a restart."""
        if not self.has_ended(job, incarnation):
            self._context.emit(Persist(KIND, job, incarnation.encode()))

    def end(self, job: bytes, incarnation: str) -> None:
        """Remember that an incarnation has ended here."""
        self._stopped[job, incarnation] = None
        while len(self._stopped) > STOPPED_MAX:
            (oldest, _), _ = self._stopped.popitem(last=False)
            if all(other != oldest for other, _ in self._stopped):
                self._context.emit(Persist(KIND, oldest, b""))
