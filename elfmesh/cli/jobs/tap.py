"""`elf tap`: shows live lines of a stream at an agent, or those that pass a job's WHERE condition."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from elfmesh.api.client.client import Client
from elfmesh.cli.common import api_option, complete_jobs, end_with_reader, say, with_caret
from elfmesh.control.protocol.replies import Description, read_reply
from elfmesh.errors import QueryError, RuntimeFailure
from elfmesh.text import printable, suggest


@click.command("tap")
@click.argument("name", metavar="JOB|STREAM", shell_complete=complete_jobs)
@click.option(
    "--filter", "where", metavar="'WHERE EXPR'", help="Show only lines that satisfy this condition."
)
@click.option("--limit", type=click.IntRange(1, 100_000), metavar="N", help="Stop after N lines.")
@click.option(
    "--rate", type=click.IntRange(1, 200), default=20, show_default=True, metavar="N",
    help="Maximum number of lines per second; if there are more, a sample is shown.",
)  # fmt: skip
@click.option(
    "--seconds", type=click.FloatRange(0.1, 3600), metavar="S", help="Stop after S seconds. [default: 3600]"
)
@click.option("--beginning", is_flag=True, help="Start with the lines that the log already contains.")
@click.option(
    "-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True,
    help="Output format; json prints one object per log line.",
)  # fmt: skip
@api_option
def tap_command(
    name: str,
    where: str | None,
    limit: int | None,
    rate: int,
    seconds: float | None,
    beginning: bool,
    output: str,
    api: str | None,
) -> None:
    """Show lines of STREAM as they are written on the host of the agent at --api.

    For a JOB, the command shows the lines of its stream that pass its WHERE condition. The load on the
    agent is small at any rate of the stream, because the agent samples the lines and limits their number
    and length.
    """
    end_with_reader()
    client = Client(api)
    texts = [_text(client, name)]
    if where is not None:
        texts.append(_filter(where, texts[0]))
    given = {"limit": limit, "seconds": seconds}
    options = {key: value for key, value in given.items() if value is not None}
    counts: dict[str, Any] = {}
    noted = False
    try:
        for each in client.tap(texts, rate=rate, beginning=beginning, **options):
            if "line" in each:
                line = json.dumps(each, ensure_ascii=False) if output == "json" else printable(each["line"])
                sys.stdout.write(line + "\n")
                sys.stdout.flush()
            elif "read" in each:
                if each.get("unseen") and not noted and each["read"] > each["parse_errors"]:
                    noted = True
                    say(f"no line so far has a value in {', '.join(map(printable, each['unseen']))}")
                counts = each
    except QueryError as error:
        raise with_caret(error, texts[-1]) from None
    except KeyboardInterrupt:
        pass
    if counts and output == "table":
        jumps = f", {counts['jumps']} jumps over lines that arrived too fast" if counts["jumps"] else ""
        lines = "line" if counts["shown"] == 1 else "lines"
        say(
            f"{counts['shown']} {lines} shown of {counts['matched']} that pass, {counts['read']} read, "
            f"{counts['parse_errors']} parse errors{jumps}"
        )


def _text(client: Client, name: str) -> str:
    streams = [str(row["stream"]) for row in client.get("streams")]
    if name in streams:
        return _select(name)
    try:
        return read_reply(Description, client.describe(name)).text
    except RuntimeFailure:
        jobs = [str(row["job"]) for row in client.get("jobs")]
        raise RuntimeFailure(
            f"there is no stream or job {name!r}",
            hint=suggest(name, [*streams, *jobs]) or "`elf get` lists both.",
        ) from None


def _filter(where: str, text: str) -> str:
    """Apply the condition to the stream of `text`. Raises QueryError for more than a condition."""
    from elfmesh.ql import parse

    words = where.strip()
    clause = words if words[:5].upper() == "WHERE" else f"WHERE {words}"
    whole = f"{_select(parse(text).streams[0])} {clause}"
    try:
        found = parse(whole, source="--filter")
        plan = found.plan
        more = found.parts or found.window or plan.order or plan.distinct or not plan.repeat
        if more or plan.limit is not None or plan.offset:
            raise found.origin.error("a filter must be WHERE and a condition", len(whole) - len(clause))
    except QueryError as error:
        raise with_caret(error, whole) from None
    return whole


def _select(stream: str) -> str:
    return f"SELECT _raw FROM `{stream}`"
