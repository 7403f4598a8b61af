"""`elf explain`: shows the plan of a job as a tree or as JSON, and measures its bytes on a sample."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import click

from elfmesh.cli.common import api_option, with_caret
from elfmesh.cli.local.cost import print_cost, range_of
from elfmesh.cli.local.log_options import (
    given_lookups,
    given_streams,
    log_paths,
    lookup_option,
    option_of,
    stream_option,
)
from elfmesh.errors import QueryError, UsageError
from elfmesh.local.text_input import read_text
from elfmesh.text import printable

Node = tuple[str, "list[Node]"]


@click.command("explain")
@click.argument("text", required=False)
@click.option("-f", "--file", "path", metavar="FILE", help="ELF-QL file; - reads standard input.")
@click.option(
    "--sample", "samples", multiple=True, metavar="LOG", help="Log with which to measure; repeatable."
)
@click.option(
    "--format",
    "log_format",
    default="auto",
    show_default=True,
    help="Log format of --sample, as in `elf run`.",
)
@stream_option("Sample log of a stream")
@lookup_option
@click.option(
    "--update-of",
    "old",
    metavar="FILE",
    help=("Text of the running version. The output then shows what an update does to its state."),
)
@click.option(
    "--cost",
    is_flag=True,
    help="Show what each agent would read: files, bytes, lines and the expected time. Asks an agent.",
)
@click.option("--history", metavar="DURATION", help="With --cost, as in `elf query`.")
@click.option("--until", metavar="DURATION", help="With --cost, as in `elf query`.")
@click.option("--from", "begin", metavar="T", help="With --cost, as in `elf query`.")
@click.option("--to", "end", metavar="T", help="With --cost, as in `elf query`.")
@api_option
@click.option(
    "-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True,
    help="Output format; json prints one object per statement.",
)  # fmt: skip
def explain_command(
    text: str | None,
    path: str | None,
    samples: tuple[str, ...],
    log_format: str,
    streams: tuple[str, ...],
    lookups: tuple[str, ...],
    old: str | None,
    cost: bool,
    history: str | None,
    until: str | None,
    begin: str | None,
    end: str | None,
    api: str | None,
    output: str,
) -> None:
    """Show the plan of a query or job before it runs.

    The plan contains the stages, columns and filters, the aggregates and their laws, how windows slide,
    what is deterministic and why, and the bytes per interval. With --sample the bytes are measured,
    otherwise they are estimated.

    With --cost, the agents of the fleet state what they would read at most. They pass over the parts of their
    logs that by the time index have no record of a range of time:
    elf explain --cost "SELECT count(*) AS n FROM access" --history '10 min'
    """
    if (text is None) == (path is None):
        raise UsageError("no query" if text is None else "two queries", hint="Give a query or -f FILE.")
    source = "query"
    if path is not None:
        text, source = read_text(path)
    assert text is not None
    times = {"history": history, "until": until, "begin": begin, "end": end}
    if cost:
        if samples or streams or lookups or old is not None:
            raise UsageError("--cost excludes --sample, --stream, --lookup and --update-of")
        clause = range_of(times)
        try:
            print_cost(api, text, clause, output)
        except QueryError as error:
            raise with_caret(error, text) from None
        return
    if any(value is not None for value in times.values()):
        raise UsageError("--history, --until, --from and --to need --cost")
    try:
        found = list(_explained(text, source, samples, log_format, streams, lookups))
    except QueryError as error:
        raise with_caret(error, text) from None
    for number, each in enumerate(found):
        if old is not None:
            each["update"] = _update(old, text, len(found))
        if output == "json":
            click.echo(json.dumps(each, ensure_ascii=False))
            continue
        if number:
            click.echo()
        for line in drawn(tree_of(each)):
            click.echo(printable(line))


def _explained(
    text: str, source: str, samples: tuple[str, ...], log_format: str, streams: tuple[str, ...],
    lookups: tuple[str, ...],
) -> Iterator[dict[str, Any]]:  # fmt: skip
    from elfmesh.api.explain import explain
    from elfmesh.ingest.stream_formats import run_format
    from elfmesh.local.explain_sample import measure
    from elfmesh.local.named_logs import declared_columns
    from elfmesh.ql import parse_many

    named = given_streams(streams, samples)
    statements = parse_many(text, source=source, declared=declared_columns(named))
    for statement in statements:
        found = explain(statement, statements)
        found["measured"] = None
        if samples or named:
            with option_of("--format"):
                form = run_format(
                    log_format,
                    multiline="",
                    timezone="UTC",
                    year=None,
                    patterns={},
                    host=socket.gethostname(),
                )
            paths = log_paths(samples) if samples else []
            found["measured"] = measure(statement, paths, form, streams=named, lookups=given_lookups(lookups))
        yield found


def _update(old: str, text: str, statements: int) -> dict[str, Any]:
    from elfmesh.ql.engine.changes import compare

    if statements > 1:
        raise UsageError(
            "--update-of needs exactly one statement in each text", hint="Explain a file of one job."
        )
    before, source = read_text(old)
    try:
        found = compare(before, text)
    except QueryError as error:
        raise with_caret(error, before if error.source == source else text) from None
    columns = dict(found.columns)
    return {"state": found.state, "in_place": found.in_place, "reasons": found.reasons, "columns": columns}


# -- the tree


def tree_of(found: dict[str, Any]) -> Node:
    stages: list[Node] = []
    for stage in found["stages"]:
        lines: list[Node] = [(line, []) for line in stage["does"]]
        if stage["at"] == "agents":
            lines += _aggregates(found)
        stages.append((stage["at"], lines))
    name = f"job {found['job'].replace('/', '.')}" if found["job"] else "query"
    return name, [
        *_window(found["window"]),
        *stages,
        *_determinism(found["determinism"]),
        *_bytes(found),
        *_state(found),
    ]


def _aggregates(found: dict[str, Any]) -> Iterator[Node]:
    for each in found["inputs"]:
        for table in each["tables"]:
            if table["distinct_values_of"]:
                yield f"keep the distinct values of {', '.join(table['distinct_values_of'])}: exact", []
            for one in table["aggregates"]:
                words = ["exact" if one["exact"] else one["error"]]
                words.append("invertible" if one["invertible"] else "no inverse")
                if one["window"] != "one pane":
                    words.append(f"window by {one['window']}")
                yield f"{one['law']}({', '.join(one['of'])}): {'; '.join(words)}", []


def _window(window: dict[str, Any] | None) -> Iterator[Node]:
    if window is None:
        yield "no window: one interval that contains all records", []
        return
    size, slide = window["size"], window["slide"]
    every = f" every {slide}" if slide != size else ""
    yield f"window of {size}{every} over {window['column']}", [(window["how"], [])]


def _determinism(found: dict[str, Any]) -> Iterator[Node]:
    """Yield the labels of the outputs, as `elf blazes` derives them."""
    for output in found["outputs"]:
        if output["provisional"]:
            kind = output["name"].rpartition(" ")[2]
            yield f"determinism of {kind} rows: {output['label']}, {output['until']}", []
            continue
        both = f" | {output['otherwise']}" if output["otherwise"] else ""
        conditions = f", if {', '.join(output['conditions'])}" if output["conditions"] else ""
        steps: list[Node] = [
            (f"{each['path']}: {each['annotation']}: {each['why']}", []) for each in output["derivation"]
        ]
        steps += [(f"repair: {each}", []) for each in output["remedies"]]
        yield f"determinism: {output['label']}{both}{conditions}", steps


def _bytes(found: dict[str, Any]) -> Iterator[Node]:
    measured = found["measured"]
    if measured is None:
        lines = [_formula(each["keys"], table) for each in found["inputs"] for table in each["tables"]]
        yield "bytes per interval and agent before compression, as a formula; --sample measures them", lines
        return
    mean, most = measured["bytes_per_interval"], measured["bytes_of_largest_interval"]
    read = f"{measured['records']} records ({measured['bytes_read']} bytes) read"
    sent = f"{measured['intervals']} intervals, {measured['groups']} groups, {measured['bytes']} bytes sent"
    yield (
        f"bytes per interval and agent, measured: {mean} on average, {most} at most",
        [(read, []), (sent, [])],
    )


def _formula(keys: list[str], table: dict[str, Any]) -> Node:
    names = [*keys, *(table["distinct_values_of"] or ())]
    parts = [f"bytes of {', '.join(names)}"] if names else []
    states = table["bytes_per_group"]
    if states["states"] or not names:
        parts.append(f"{states['states']:g}")
    unknown = f", without {', '.join(states['not_estimated'])}" if states["not_estimated"] else ""
    return f"{table['name']}: groups x ({' + '.join(parts)}){unknown}", []


def _state(found: dict[str, Any]) -> Iterator[Node]:
    update = found.get("update")
    if update is not None:
        place = "in place" if update["in_place"] else "results restart"
        columns: list[Node] = [(f"{name}: {effect}", []) for name, effect in update["columns"].items()]
        yield f"update: {update['state']}, {place} ({', '.join(update['reasons'])})", columns


def drawn(node: Node) -> Iterator[str]:
    name, children = node
    yield name
    for number, child in enumerate(children):
        last = number == len(children) - 1
        first, *rest = drawn(child)
        yield ("└─ " if last else "├─ ") + first
        yield from (("   " if last else "│  ") + line for line in rest)
