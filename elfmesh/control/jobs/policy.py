"""What the jobs of a namespace may use at one agent, as its own configuration says.

Owns the rules and the words of a refusal; reads no file. It is asked by the agent's control machine before
anything is prepared, by its worker host before anything is evaluated, by the tap and by who is to lead a job:
always about a text, never about who sent it. Nothing that comes over the network changes a `Policy`.

With no namespace named, every namespace may use everything; with one named, those that are not may use
nothing, and a named one only what it is granted. Hidden fields are kept from all.
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

if TYPE_CHECKING:
    from elfmesh.ql.plan.statement import Statement


RAW = "_raw"
META = (RAW, "_source", "_host")
OTHERS = "*"
"""The entry for namespaces that have none of their own."""

STATEMENTS_MAX = 256


@dataclass(frozen=True, slots=True)
class Grant:
    """What one namespace may use here; patterns with `*`.

    Attributes:
        streams: whose records its jobs may read.
        lookups: tables that they may join.
        columns: fields that they may read, as dotted paths; a field's own fields go with it.
        deny: fields among them that they may not; no patterns, and then no whole lines either.
        reads: other namespaces whose results they may read.
        jobs: how many may work here at a time; None: no limit of its own.
        groups: rows of partial aggregates that open intervals of one job may hold here; None: no limit.
        sketch: the largest size of a sketch or collected list that a job may ask for; None: ELF-QL's own.
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
        namespaces: by name; empty: all may use everything.
        signed: whether every version of a job needs signatures, and its end, too.
    """

    hidden: FieldRules = field(default_factory=FieldRules)
    namespaces: Mapping[str, Grant] = field(default_factory=dict)
    signed: bool = False

    def grant(self, namespace: str) -> Grant | None:
        if not self.namespaces:
            return Grant()
        return self.namespaces.get(namespace, self.namespaces.get(OTHERS))

    def refusal(self, manifest: Manifest, carried: Collection[str]) -> str:
        """Why an agent with these streams does not work on a job, "" if it does."""
        try:
            statement = _parsed(manifest.text)
        except QueryError as error:
            return str(error)
        return self.refusal_of(statement, manifest.namespace, carried)

    def hidden_of(self, statement: Statement, carried: Collection[str]) -> str:
        """Which hidden field a statement names, for who may read everything else; "" if none."""
        return self._field_refused(statement, Grant(), "", carried)

    def refusal_of(
        self, statement: Statement, namespace: str, carried: Collection[str], *, raw: bool = False
    ) -> str:
        """The same for a statement; `raw`: its whole lines are wanted, too."""
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
"""Of an agent without configuration: allows everything, hides nothing."""


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
    for part in statement.parts or (statement,):
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
