"""Policy of an agent: what the jobs of a namespace may use, according to the agent's own configuration.

Owns the rules and the messages of a refusal; reads no file. The agent's control machine checks a text before
it prepares a job, the worker host before it evaluates one, and so do the tap and a future master. The rules
depend on the text and not on its sender. No message changes a `Policy`.

If the configuration names no namespace, every namespace may use everything. Otherwise a namespace without an
entry may use nothing, and one with an entry only what the entry grants. Hidden fields are refused to all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING

from elfmesh import ql
from elfmesh.control.jobs.hidden_fields import FieldRules
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.errors import QueryError
from elfmesh.srt.residency import ANYWHERE, Rule

if TYPE_CHECKING:
    from elfmesh.ql.plan.statement import Statement


RAW = "_raw"
META = (RAW, "_source", "_host")
OTHERS = "*"
"""Entry for namespaces that have no entry of their own."""

STATEMENTS_MAX = 256

LABEL_NAMES = ("Async", "Run", "Inst", "Diverge")
"""Labels of outputs, from the one that differs least; see docs/coordination.md."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What the jobs of one namespace may use at this agent; patterns with `*`.

    Attributes:
        streams: streams that they may read.
        lookups: tables that they may join.
        columns: fields that they may read, as dotted paths, together with the fields below.
        deny: exceptions from `columns`, without patterns; with any, whole lines are refused, too.
        reads: other namespaces whose results they may read.
        jobs: maximum number of jobs at a time; None: no limit of its own.
        groups: maximum number of PAO rows in the open intervals of one job; None: no limit.
        sketch: maximum size of a sketch or collected list; None: the limit of ELF-QL.
    """

    streams: tuple[str, ...] = (OTHERS,)
    lookups: tuple[str, ...] = (OTHERS,)
    columns: tuple[str, ...] = (OTHERS,)
    deny: tuple[str, ...] = ()
    reads: tuple[str, ...] = (OTHERS,)
    jobs: int | None = None
    groups: int | None = None
    sketch: int | None = None


@dataclass(frozen=True)
class Policy:
    """The rules of one agent.

    Attributes:
        hidden: fields that no job may read.
        namespaces: grants by name of namespace; empty: all may use everything.
        signed: whether each version and the end of a job need signatures.
        require: the highest label of a job's output, by names of jobs or patterns.
        queries: maximum number of leased jobs (`elf query`) at a time.
        standby_bytes: maximum size of the open windows that the agent holds for others; 0: it holds none.
        keep_in: which agents may get data of this host.
        query_bytes: bytes of logs above which a leased job is refused; None: no limit.
    """

    hidden: FieldRules = field(default_factory=FieldRules)
    namespaces: Mapping[str, Grant] = field(default_factory=dict)
    signed: bool = False
    require: Mapping[str, str] = field(default_factory=dict)
    queries: int = 4
    standby_bytes: int = 64_000_000
    keep_in: Rule = ANYWHERE
    query_bytes: int | None = None

    def grant(self, namespace: str) -> Grant | None:
        if not self.namespaces:
            return Grant()
        return self.namespaces.get(namespace, self.namespaces.get(OTHERS))

    def refusal(self, manifest: Manifest, carried: Collection[str]) -> str:
        """Return why an agent with these streams refuses a job; "" if it accepts the job."""
        try:
            statement = _parsed(manifest.text)
        except QueryError as error:
            return str(error)
        return self.refusal_of(statement, manifest.namespace, carried)

    def hidden_of(self, statement: Statement, carried: Collection[str]) -> str:
        """Return the refusal of a hidden field in a statement, without other rules; "" if there is none."""
        return self._field_refused(statement, Grant(), "", carried)

    def refusal_of(
        self, statement: Statement, namespace: str, carried: Collection[str], *, raw: bool = False
    ) -> str:
        """Return why an agent refuses a statement; `raw`: whether it also reads whole lines."""
        grant = self.grant(namespace)
        if grant is None:
            return f"the namespace {namespace} may use nothing here: there is no [namespaces.{namespace}]"
        streams = [name for name in statement.streams if name in carried]
        tables = statement.tables_read if streams else ()
        return (
            _not_granted("stream", streams, grant.streams, namespace)
            or _not_granted("lookup table", tables, grant.lookups, namespace)
            or _foreign(statement, grant, namespace)
            or self._field_refused(statement, grant, namespace, carried, (RAW,) if raw else ())
            or _too_large(statement, grant, namespace)
        )

    def _field_refused(
        self,
        statement: Statement,
        grant: Grant,
        namespace: str,
        carried: Collection[str],
        more: tuple[str, ...] = (),
    ) -> str:
        for stream in statement.streams:
            if stream not in carried:
                continue
            for path in (*statement.fields_of(stream), *more):
                if path.startswith(ql.LOOKED_UP) or path in META[1:]:
                    continue
                if statement.window is not None and path == statement.time_of(stream):
                    continue
                if path != RAW and self.hidden.hides_path(path):
                    return f"the field {path} is hidden here: see [fields] of the agent's configuration"
                if not _column_granted(path, grant):
                    return f"the field {path} is not granted to {namespace} by [namespaces.{namespace}]"
        return ""


OPEN = Policy(FieldRules(()))
"""Policy of an agent without configuration, which refuses nothing."""


def required_label(require: Mapping[str, str], job: str) -> str | None:
    """Return the lowest label that the patterns of a job, "namespace/name", require; None without any."""
    found = [label for pattern, label in require.items() if fnmatchcase(job, pattern)]
    return min(found, key=LABEL_NAMES.index) if found else None


def _column_granted(path: str, grant: Grant) -> bool:
    above = [path[: at if at >= 0 else None] for at in _ends(path)]
    granted = any(fnmatchcase(each, pattern) for each in above for pattern in grant.columns)
    denied = any(each in grant.deny for each in above)
    holds = any(each.startswith(f"{path}.") for each in grant.deny)
    return granted and not denied and not holds and not (path == RAW and grant.deny)


def _ends(path: str) -> list[int]:
    return [at for at, letter in enumerate(path) if letter == "."] + [-1]


def _not_granted(what: str, names: Collection[str], patterns: Collection[str], namespace: str) -> str:
    for name in names:
        if not any(fnmatchcase(name, pattern) for pattern in patterns):
            return f"the {what} {name} is not granted to {namespace} by [namespaces.{namespace}]"
    return ""


def _foreign(statement: Statement, grant: Grant, namespace: str) -> str:
    for job in filter(None, map(ql.job_read, statement.streams)):
        other = job.partition("/")[0]
        if other != namespace and not any(fnmatchcase(other, pattern) for pattern in grant.reads):
            return f"results of {job} are not granted to {namespace} by reads of [namespaces.{namespace}]"
    return ""


def _too_large(statement: Statement, grant: Grant, namespace: str) -> str:
    if grant.sketch is None:
        return ""
    for part in statement.over_records:
        for table in part.tables:
            for kind, _ in table.aggregates.values():
                name, _, size = kind.partition(":")
                if size.isdecimal() and int(size) > grant.sketch:
                    return (
                        f"a state of size {size} ({name}) is more than the {grant.sketch} that "
                        f"[namespaces.{namespace}] allows"
                    )
    return ""


@lru_cache(maxsize=STATEMENTS_MAX)
def _parsed(text: str) -> Statement:
    return ql.parse(text)
