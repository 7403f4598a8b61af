"""Describes the plan of a statement: stages, columns, aggregates and their laws, windows, determinism.

The module owns the text of `elf explain`. It obtains the facts from the components that do the work (`Panes`,
`LAWS`, the plan). It is pure; the command adds what a sample measures.

The labels of determinism come from `elfmesh.control.coordination`, as those of `elf blazes` do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from elfmesh.cbt import Panes
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.laws.merging import Merging
from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.drawing import values
from elfmesh.control.coordination.statements import dataflow, shown
from elfmesh.control.jobs.graph import job_graph
from elfmesh.errors import DataError
from elfmesh.ql.expressions.nodes import Call, FieldRef, Literal, SealClause, walk
from elfmesh.ql.plan.relation import (
    Counted,
    Derived,
    Exploded,
    Framed,
    JoinRelation,
    OneRow,
    Prefixed,
    Ranked,
    Resampled,
    StatementPart,
    Union,
)
from elfmesh.ql.plan.relation_base import Relation
from elfmesh.ql.plan.render import full_text, text_of
from elfmesh.ql.plan.statement import (
    ALL,
    LATEST,
    LOOKED_UP,
    ONE,
    ROWS,
    SEALED,
    WITHIN,
    Statement,
    TableSpec,
    job_read,
)
from elfmesh.units import format_duration

SAMPLE_GROUPS = 64
_SKETCHES = {
    "hll": "up to 384 values exact, then 1.6 % standard error",
    "kll": "up to {0} values exact, then ranks within {1:.3g} % with 99 % confidence",
    "theta": "up to {0} values exact, then within {2:.3g} % with 95 % confidence",
    "frequent": "up to {0} values exact, then counts too low by less than n / {0}",
    "top": "up to {0} values exact, then counts too low by less than n / {0}",
}
_PARAMETERS = ("k", "entries", "counters")


KEPT_AT_ROOT = {
    SEALED: "a pane is as wide as EVERY; the root keeps open partitions",
    ROWS: "a pane is as wide as EVERY; the root counts records, and keeps those of windows that are not full",
    WITHIN: "each window is one pane; the root keeps the records that later ones may be joined to",
}
"""How the root joins panes, by kind of window."""


def explain(statement: Statement, beside: Sequence[Statement] = ()) -> dict[str, Any]:
    """Return the plan of a statement as plain values, as `elf explain -o json` prints it.

    Args:
        statement: what to explain.
        beside: statements whose jobs it may read, such as the others of its file.
    """
    job = statement.job
    parts = statement.over_records
    found = {
        "job": None if job is None else job.qualified,
        "columns": list(statement.columns),
        "window": _window(statement),
        "inputs": [_input(part) for part in parts],
    }
    agents = [line for part in parts for line in _agent_steps(part)]
    if job is not None and job.replicas:
        peers = "1 peer" if job.replicas == 1 else f"{job.replicas} peers"
        others = f"other {job.replicas_across or 'rack'}s"
        agents.append(f"store each contribution also on {peers}, in {others} first")
    if job is not None and job.standby_us is not None:
        lag = format_duration(job.standby_us)
        which = "" if job.standbys.unit == "all" else f", of the members that STANDBY {job.standbys} chooses,"
        agents.append(f"ship the open windows{which} to a standby, which lacks at most the newest {lag}")
    found["stages"] = [
        {"at": "agents", "does": agents},
        {"at": "reducers", "does": _reducer_steps(statement)},
        {"at": "master", "does": [*_relation(statement.relation), *_end(statement)]},
    ]
    return found | {"determinism": _determinism(statement, beside)}


def _determinism(statement: Statement, beside: Sequence[Statement]) -> dict[str, Any]:
    others = {each.job.qualified: each for each in beside if each.job and each.name != statement.name}
    jobs = job_graph([statement, *others.values()])
    return values(analyse(dataflow(jobs)), group=shown(jobs.jobs[0].name))


def law_of(kind: str) -> dict[str, Any]:
    """Return what the law of an aggregate guarantees: whether it has an inverse, and its error."""
    law, name = LAWS[kind], kind.partition(":")[0]
    error = None
    if isinstance(law, Merging):
        error = f"{law_of(law.inner.kind)['error']}; at least that of the merged sketches"
    elif name in _SKETCHES:
        size = next((getattr(law, each) for each in _PARAMETERS if hasattr(law, each)), 0)
        error = _SKETCHES[name].format(size, 330 / (size or 1), 200 / (size or 1) ** 0.5)
    return {"law": kind, "invertible": law.invertible, "exact": error is None, "error": error}


# -- agents


def _input(part: Statement) -> dict[str, Any]:
    plan = part.plan
    return {
        "stream": part.stream,
        "labels": dict(part.labels),
        "columns": [name for name in part.fields if not name.startswith(LOOKED_UP)],
        "lookups": [{"table": join.name, "kind": "inner" if join.inner else "left"} for join in part.lookups],
        "filter": None if plan.where is None else text_of(plan.where),
        **({} if plan.seal is None else {"sealed": _seal(plan.seal)}),
        "keys": _keys(part),
        "tables": [_table(part, table) for table in part.tables],
    }


def _keys(part: Statement) -> list[str]:
    """Return the keys of a part as text, without the constant in whose place the root counts windows."""
    return [text_of(key) for key in part.plan.keys if not isinstance(key, Literal)]


def _seal(seal: SealClause) -> dict[str, Any]:
    return {
        "keys": [text_of(key) for key in seal.keys],
        "when": text_of(seal.when),
        "producers": seal.how if seal.producers is None else text_of(seal.producers),
        "by": "member" if seal.by is None else text_of(seal.by),
        "records": None if seal.records is None else text_of(seal.records),
        "after": format_duration(seal.after_us),
    }


def _table(part: Statement, table: TableSpec) -> dict[str, Any]:
    values = part.plan.values
    aggregates = []
    for name, (kind, given) in table.aggregates.items():
        columns = () if given is None else (given,) if isinstance(given, str) else given
        texts = [text_of(values[int(c[1:])]) if c[:1] == "v" and c[1:].isdigit() else c for c in columns]
        aggregates.append({"name": name, "of": texts or ["*"], **law_of(kind), **_kept(part, table, kind)})
    distinct = next((one for one in part.plan.distincts if one.name == table.name), None)
    return {
        "name": table.name,
        "distinct_values_of": None if distinct is None else [text_of(arg) for arg in distinct.args],
        "aggregates": aggregates,
        "bytes_per_group": _bytes_per_group(table),
    }


def _kept(part: Statement, table: TableSpec, kind: str) -> dict[str, str]:
    window = part.window
    if window is not None and window.spans_intervals:
        return {"window": "joined at the root"}
    if window is None or window.size_us <= window.slide_us:
        return {"window": "one pane"}
    panes = window.size_us // window.pane_us
    if not Panes((table,), window.size_us, window.slide_us).slides:
        return {"window": f"merge of {panes} panes"}
    return {"window": "inverse" if LAWS[kind].invertible else "two stacks"}


def _bytes_per_group(table: TableSpec) -> dict[str, Any]:
    total, unknown = 0.0, []
    column, ids = pa.array(range(SAMPLE_GROUPS), pa.int64()), pa.array(range(SAMPLE_GROUPS)).to_numpy()
    for name, (kind, given) in table.aggregates.items():
        law = LAWS[kind]
        inputs = 0 if given is None else 1 if isinstance(given, str) else len(given)
        values = None if inputs == 0 else column if inputs == 1 else (column,) * inputs
        try:
            total += law.lift(values, ids, SAMPLE_GROUPS).nbytes / SAMPLE_GROUPS
        except DataError:  # the aggregate takes no numbers
            unknown.append(name)
    return {"states": round(total, 1), "not_estimated": unknown}


def _agent_steps(part: Statement) -> Iterator[str]:
    labels = ", ".join(f"{key} = '{value}'" for key, value in part.labels)
    where = f" on agents with {labels}" if labels else ""
    columns = _listed(_input(part)["columns"])
    if job := job_read(part.stream):
        newest = "the newest result" if part.stream.startswith(LATEST) else "the results"
        yield f"the agents read nothing; the master reads {newest} of {job.replace('/', '.')}: {columns}"
        return
    yield f"read {part.stream}{where}: {columns}"
    for join in part.lookups:
        yield f"{'inner' if join.inner else 'left'} join of table {join.name} where records are read"
    if part.plan.where is not None:
        yield f"filter: {text_of(part.plan.where)}"
    if (seal := part.plan.seal) is not None:
        sealed = _listed([text_of(key) for key in seal.keys])
        yield f"punctuations: {text_of(seal.when)}; each seals {sealed} for one producer"
    keys = _keys(part)
    yield f"group by {_listed(keys)}" if keys else "one group"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words) or "no column"


# -- windows, reducers, master


def _window(statement: Statement) -> dict[str, Any] | None:
    window = statement.window
    if window is None:
        return None
    panes = window.size_us // window.pane_us
    slides = Panes(statement.tables, window.size_us, window.slide_us).slides
    how = (
        "state is kept between windows: a slide costs the panes that enter and leave" if slides
        else "a pane is as wide as the gap; the root joins them and keeps open sessions" if window.is_session
        else KEPT_AT_ROOT[window.kind] if window.spans_intervals
        else "each window is one pane" if panes == 1
        else f"each window is a merge of its {panes} panes, too few to keep state between windows"
    )  # fmt: skip
    return {
        "kind": window.kind,
        "column": window.column,
        "size": format_duration(window.size_us),
        "slide": format_duration(window.slide_us),
        "pane": format_duration(window.pane_us),
        "panes": panes,
        "incremental": slides,
        "how": how,
    }


def _reducer_steps(statement: Statement) -> list[str]:
    trees = statement.job.partitions if statement.job else 1
    across = f" in {trees} trees, by a hash of the group keys" if trees > 1 else ""
    inside: tuple[str, ...] = ()
    if statement.job is not None and statement.job.paths:
        job, domain = statement.job, statement.job.across or "region or rack"
        many = f"{job.copies} gateways send" if job.copies > 1 else "gateway sends"
        to = "each site" if job.paths > 1 else "the master"
        cost = "" if job.cost is None else f", at no more than {job.cost:g} times the cost of PATHS 1"
        inside = (f"merge inside each {domain}, whose {many} one part to {to}{cost}",)
    return [
        *inside,
        f"merge the partials of equal groups{across}",
        "pass an interval on when all children have sealed it, or its deadline has passed",
    ]


def _relation(relation: Relation | None) -> Iterator[str]:
    match relation:
        case JoinRelation():
            yield from (*_relation(relation.left), *_relation(relation.right))
            keys = " AND ".join(f"{text_of(key.left)} = {text_of(key.right)}" for key in relation.keys)
            apart = f", less than {format_duration(relation.within_us)} apart" if relation.within_us else ""
            if (near := relation.nearest) is not None:
                near_text = f"{text_of(near.left)} {near.compare} {text_of(near.right)}"
                yield f"asof {relation.kind} join on {keys or 'no key'}, the nearest row with {near_text}"
                return
            yield f"{relation.kind} join on {keys or 'no key: all pairs'}{apart}"
        case Union():
            for source in relation.sources:
                yield from _relation(source)
            yield f"union of {len(relation.sources)} queries"
        case Ranked():
            yield from _relation(relation.source)
            yield from (f"over the rows: {full_text(over)}" for _, over in relation.functions)
        case Framed():
            yield from _relation(relation.source)
            yield f"over frames: {full_text(relation.over)}"
        case Exploded():
            yield from _relation(relation.source)
            yield f"a row for each element of {text_of(relation.values)}"
        case Counted():
            yield from _relation(relation.source)
            groups = _listed([text_of(key) for key in relation.groups]) if relation.groups else "all records"
            every = f"every {relation.step} records, in the order of the event time and of the fields"
            yield f"windows of {relation.rows} records of {groups}, {every}"
        case Resampled():
            yield from _relation(relation.source)
            yield _resampling(relation)
        case Prefixed():
            yield from _relation(relation.source)
        case Derived():
            yield from _relation(relation.source)
            yield f"select {_listed(relation.columns)}"
            yield from _end(relation.statement)
        case OneRow():
            yield "one row, without a record"
        case StatementPart():
            yield f"finish the rows of input {relation.index + 1}: {_listed(relation.columns)}"


def _end(statement: Statement) -> Iterator[str]:
    if statement.relation is not None:
        return
    plan, names = statement.plan, _names(statement)
    if plan.seal is not None:
        yield _ends(plan.seal)
    yield from _by_time(statement)
    if plan.having is not None:
        yield f"having: {text_of(plan.having, names)}"
    if plan.distinct:
        yield "distinct rows"
    if plan.order:
        items = (text_of(item.expr, names) + (" desc" if item.descending else "") for item in plan.order)
        yield f"order by {', '.join(items)}"
    if plan.limit is not None:
        yield f"limit {plan.limit}, exact over the whole interval"
    yield f"publish {_listed(statement.columns)}"


def _ends(seal: SealClause) -> str:
    who = {ONE: "one producer has", ALL: "all members have"}.get(seal.how, "")
    if seal.producers is not None:
        who = f"{text_of(seal.producers)} producers have"
    behind = f"without a record for {format_duration(seal.after_us)} it ends as FINAL_PARTIAL"
    counted = "" if seal.records is None else f"; its records are compared with {text_of(seal.records)}"
    return f"a partition ends when {who} sealed it; {behind}{counted}"


def _by_time(statement: Statement) -> Iterator[str]:
    nodes = [node for value in statement.plan.values for node in walk(value)]
    times = [node.args[0] for node in nodes if isinstance(node, Call) and node.name == "event time"]
    for path in sorted({time.path for time in times if isinstance(time, FieldRef)}):
        if path in statement.fields:
            shown = "the event time" if path.startswith("#") else path
            yield f"first and last by {shown}, then by value; records without a time come after all others"
        else:
            yield f"first and last of rows without {path}: an arbitrary row, by value, the same in every run"


def _names(statement: Statement) -> dict[str, str]:
    plan = statement.plan
    names = {f"k{at}": text_of(key) for at, key in enumerate(plan.keys)}
    names |= {one.name: f"distinct {_listed([text_of(arg) for arg in one.args])}" for one in plan.distincts}
    names |= {fold.name: f"{fold.how} of {names[fold.table]}" for fold in plan.folds}
    for table in (_table(statement, table) for table in statement.tables):
        names |= {each["name"]: f"{each['law']}({_listed(each['of'])})" for each in table["aggregates"]}
    return names


def _resampling(relation: Resampled) -> str:
    clause = relation.clause
    each = f" of each {_listed(list(clause.partition))}" if clause.partition else ""
    back = f", which look back {format_duration(clause.gap_us)}" if relation.shown_us else ""
    return f"a row{each} at every {format_duration(clause.every_us)} of {clause.column}{back}"
