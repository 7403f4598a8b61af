"""What a report of log files shows, as texts and tables: the terminal and the HTML page draw the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from elfmesh.cli.local.describe_log import plain_value

if TYPE_CHECKING:
    from elfmesh.local.log_report import LogSummary


def head_of(found: LogSummary) -> Iterator[tuple[str, str]]:
    """Yield the facts about all files: names and texts."""
    for each in found.files:
        bad = f", {each.bad:,} bad" if each.bad else ""
        yield each.path, f"{each.format}, {each.records:,} lines{bad}"
        yield from (("", sample) for sample in each.bad_samples)
    if found.bad and len(found.files) > 1:
        yield "all files", f"{found.lines:,} lines, {found.bad:,} bad"
    if found.first is None or found.last is None:
        yield "time", "none"
    else:
        rate = found.lines_per_second
        rated = "" if rate is None else f", {rate:.3g} lines per second"
        yield "time", f"{plain_value(found.first)} .. {plain_value(found.last)}{rated}"


def tables_of(found: LogSummary) -> Iterator[tuple[str, Sequence[str], list[list[Any]], Sequence[int]]]:
    """Yield title, columns, rows, and for each row the count of which a bar is drawn."""
    if found.times:
        has_bytes = any(each.bytes is not None for each in found.times)
        rows = [
            [plain_value(each.start), each.lines, *([each.bytes] if has_bytes else [])]
            for each in found.times
        ]
        columns = ("start", "lines", *(("bytes",) if has_bytes else ()))
        yield f"lines per {found.unit.lower()}", columns, rows, [each.lines for each in found.times]
    total = found.lines - found.bad
    for top in found.frequent:
        counted = [[value, count, f"{count / total:.1%}"] for value, count in top.values]
        title = f"{top.column}: {top.distinct:,} different value{'s' if top.distinct != 1 else ''}"
        if not top.is_exact:
            title = f"{top.column}: about {top.distinct:,} different values; counts may be too low"
        yield title, (top.column, "lines", "share"), counted, [count for _, count in top.values]
    if found.numbers:
        rows = [
            [each.column, each.least, each.largest, _rounded(each.mean), each.sum] for each in found.numbers
        ]
        yield "numbers", ("column", "min", "max", "mean", "sum"), rows, ()


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
