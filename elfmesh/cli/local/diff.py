"""`elf diff`: compares the published results of a job with Spark over the archived or raw lines.

The exit code is 1 if rows differ.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import click

from elfmesh.cli.common import api_option, job_argument, output_option, print_json, print_rows, say
from elfmesh.cli.local.spark import named_inputs, spark_options
from elfmesh.control.protocol.replies import Description, ResultOffsets, read_reply
from elfmesh.errors import RuntimeFailure, UsageError

EXIT_DIFFERENT = 1
_RANGE = re.compile(r"(-?\d+)(?:\.\.(-?\d+))?")


@click.command("diff")
@job_argument
@click.option(
    "--interval", "interval", metavar="I[..J]", help="Intervals to compare. [default: all that are kept]"
)
@spark_options
@output_option
@api_option
def diff_command(
    job: str,
    interval: str | None,
    streams: tuple[str, ...],
    lookups: tuple[str, ...],
    python: bool,
    master: str | None,
    output: str,
    api: str | None,
) -> None:
    """Compare the published intervals of JOB with what Spark computes from the logs of its streams.

    The exit code is 0 if all rows are equal, and 1 if any row differs.
    """
    from elfmesh.api.client.client import Client
    from elfmesh.api.line_parts import whole
    from elfmesh.spark_bridge.history.compare import Totals, compare

    inputs, tables = named_inputs(streams, "--stream"), named_inputs(lookups, "--lookup")
    client = Client(api)
    found = read_reply(Description, client.describe(job))
    first, last = asked_range(interval, read_reply(ResultOffsets, client.offsets(job)))
    lines = client.lines(job, start=first, limit=None, state="final")
    published = {each["interval"]["index"]: each for each in whole(map(parse, lines))}
    if not any(first <= index <= last for index in published):
        raise RuntimeFailure(f"no interval from {first} to {last} is kept", where=job)
    history = _history(found.text, job, inputs, tables, client.address, (first, last), python, master)
    compared = compare(published, history, first, last, found.version)
    totals = Totals()
    for one in compared:
        totals.add(one)
        if output == "json":
            print_json(one.to_json())
        elif output == "table":
            _show(one)
    if output == "csv":
        names = ("interval", "state", "equal", "note")
        print_rows("csv", names, [one.to_json() for one in compared])
    say(
        f"{totals.intervals} intervals: {totals.equal} rows equal, {totals.different} different"
        + (f", {totals.left_out} intervals not compared" if totals.left_out else "")
    )
    if any(one.differs for one in compared):
        raise click.exceptions.Exit(EXIT_DIFFERENT)
    if totals.left_out == totals.intervals:
        raise RuntimeFailure("no interval could be compared", where=job)


def asked_range(text: str | None, held: ResultOffsets) -> tuple[int, int]:
    """Parse the first and the last interval to compare. Raises UsageError if it is not a range."""
    if text is None:
        return held.earliest, held.latest
    found = _RANGE.fullmatch(text.strip())
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if first > last:
        raise UsageError(
            f"--interval: {text!r} is not a range", hint="Write --interval 57 or --interval 57..90"
        )
    return first, last


def parse(line: bytes) -> Any:
    """Parse a line of JSON without loss of digits."""
    return json.loads(line, parse_float=Decimal)


def _history(
    text: str,
    job: str,
    inputs: Any,
    tables: Any,
    address: str,
    only: tuple[int, int],
    python: bool,
    master: str | None,
) -> dict[int, list[dict[str, Any]]]:
    from elfmesh.cli.local.spark import answered
    from elfmesh.ql import parse as parse_query
    from elfmesh.ql.plan.statement import job_read
    from elfmesh.ql.values.row_json import encode_json, rows_to_json
    from elfmesh.spark_bridge.history.inputs import given_inputs

    jobs = {found for name in parse_query(text, source=job).streams if (found := job_read(name))}
    read = given_inputs(dict.fromkeys(jobs - set(inputs), (address, "elf")))
    rows: dict[int, list[dict[str, Any]]] = {}
    given = {**read, **inputs}
    for _, answers in answered(text, job, given, tables, python=python, master=master, only=only):
        for answer in answers:
            # converted to JSON, as the published rows were
            reported = map(encode_json, rows_to_json(answer.table))
            rows[answer.record.index] = [parse(line) for line in reported]
    return rows


def _show(one: Any) -> None:
    from elfmesh.spark_bridge.history.compare import EQUAL, SHOWN_MAX

    note = f"  ({one.note})" if one.note else ""
    colour = "red" if one.differs else None
    click.secho(f"interval {one.index}: {one.state}, {one.equal} rows equal{note}", fg=colour)
    for sign, rows in (("-", one.live), ("+", one.history)) if one.state != EQUAL else ():
        for row in rows[:SHOWN_MAX]:
            click.echo(f"  {sign} {row}")
        if len(rows) > SHOWN_MAX:
            click.echo(f"  {sign} ... {len(rows) - SHOWN_MAX} more")
