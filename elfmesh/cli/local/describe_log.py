"""`elf describe log`: shows what `elf run` and the agents read in a log."""

from __future__ import annotations

import datetime
import socket
import sys
from typing import TYPE_CHECKING, Any

import click

from elfmesh.cli.common import print_json, print_rows, text_of
from elfmesh.ql.values.row_json import iso_us

if TYPE_CHECKING:
    from elfmesh.local.log_profile import LogProfile

COLUMNS = ("column", "type", "values", "least", "largest", "samples")
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
CELL = 40
"""Characters of a value in a table."""


def describe_logs(
    paths: list[str], spec: str, sample: int | None, output: str, *, ts: str = "", ts_format: str = ""
) -> None:
    """Print the profile of each log. Raises as `LogRun`."""
    from elfmesh.ingest.stream_formats import run_format
    from elfmesh.local.log_profile import profile

    formats = run_format(
        spec, multiline="", timezone="UTC", year=None, patterns={}, host=socket.gethostname(), ts=ts,
        ts_format=ts_format,
    )  # fmt: skip
    for number, path in enumerate(paths):
        found = profile(path, formats, sample=sample, stdin=getattr(sys.stdin, "buffer", None))
        if output == "json":
            print_json(_object(found))
            continue
        if output == "table":
            if number:
                click.echo()
            _print_head(found, given=spec != "auto")
        print_rows(output, COLUMNS, [_row(each) for each in _object(found)["columns"]])


def _print_head(found: LogProfile, *, given: bool) -> None:
    click.secho(text_of(found.path), bold=True)
    why = "given" if given else "recognised"
    if found.fitting is not None:
        why += f"; {found.fitting[0]} of the first {found.fitting[1]} lines are of this format"
    click.echo(text_of(f"format: {found.format} ({why})"))
    share = f" ({found.bad / found.records:.2%})" if found.bad else ""
    click.echo(f"lines: {found.records:,}, {found.bad:,} bad{share}")
    for line in found.bad_samples:
        click.echo(text_of(f"  {line}"))
    if found.first is None or found.last is None:
        way = "--ts names its field, --ts-format its pattern"
        if found.is_parquet:
            way = "name its column, as in TUMBLE(x, INTERVAL '1' HOUR)"
        click.echo(f"time: none; a window needs an event time: {way}")
    else:
        rate = found.lines_per_second
        rated = "" if rate is None else f", {rate:.3g} lines per second"
        click.echo(f"time: {plain_value(found.first)} .. {plain_value(found.last)}{rated}")
    click.echo()


def _object(found: LogProfile) -> dict[str, Any]:
    return {
        "path": found.path,
        "format": found.format,
        "fitting": None if found.fitting is None else dict(zip(("lines", "of"), found.fitting, strict=True)),
        "lines": found.records,
        "bad": found.bad,
        "bad_samples": found.bad_samples,
        "first": plain_value(found.first),
        "last": plain_value(found.last),
        "lines_per_second": found.lines_per_second,
        "columns": [
            {
                "column": each.name,
                "type": " or ".join(each.types) or "VOID",
                "values": each.values,
                "least": plain_value(each.least),
                "largest": plain_value(each.largest),
                "samples": [plain_value(value) for value in each.samples],
            }
            for each in found.columns
        ],
    }


def plain_value(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return iso_us((value - EPOCH) // datetime.timedelta(microseconds=1))
    return value if isinstance(value, int | float | str | list | dict | None) else str(value)


def _row(column: dict[str, Any]) -> dict[str, Any]:
    cut = {name: cut_cell(column[name]) for name in ("least", "largest")}
    return {**column, **cut, "samples": ", ".join(str(cut_cell(value)) for value in column["samples"])}


def cut_cell(value: Any) -> Any:
    text = text_of(value)
    return text[: CELL - 1] + "…" if len(text) > CELL else value
