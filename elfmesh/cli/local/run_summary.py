"""What `elf run` says of its input on standard error, and its refusal of an input without a usable record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from elfmesh.errors import DataError
from elfmesh.text import printable

if TYPE_CHECKING:
    from elfmesh.local.embedded import LogRun
    from elfmesh.local.run_stats import RunStats


def refuse_unused(job: LogRun) -> None:
    """Raise DataError if there are records and all of them are parse errors."""
    from elfmesh.cli import entry as cli

    if job.stats.records and job.stats.parse_errors == job.stats.records and not job.stats.outside:
        summarise(job, cli.verbosity)
        hint = "Specify another --format or time column; -v shows the detected formats."
        raise DataError("no record could be used, so there is no result", hint=hint)


def summarise(job: LogRun, verbosity: int, *, live: bool = False) -> None:
    """Print what was read to standard error, if something was wrong, if asked to, or if the run is live."""
    stats = job.stats
    errors = stats.parse_errors + stats.function_errors + stats.field_errors + stats.undated
    troubled = errors or stats.broken or stats.unseen or stats.untaken or stats.doubts or stats.gaps or live
    if verbosity >= 0 and not stats.records and job.statement.streams:
        empty = "no record is in the range of times" if stats.outside else "the logs are empty"
        click.echo(f"elf: {empty}", err=True)
    if verbosity < 0 or not (troubled or verbosity > 0):
        return
    late = job.live.late if live else None
    for line in summary(stats, late, verbose=verbosity > 0):
        click.echo(printable(line), err=True)


def summary(stats: RunStats, late: int | None = None, *, verbose: bool) -> Iterator[str]:
    """Return lines about what was read and what was wrong with it; `late` is the count of a live run."""
    counts = [_plural(stats.records, "record"), _plural(stats.parse_errors, "parse error")]
    counts += [f"{stats.filtered} filtered"]
    if stats.outside:
        counts.append(f"{stats.outside} outside of the range of times")
    if late is not None:
        counts.append(f"{late} late")
    if stats.function_errors:
        counts.append(_plural(stats.function_errors, "function error"))
    if stats.broken:
        counts.append(f"{_plural(stats.broken, 'violation')} of ASSUME")
    if stats.field_errors:
        counts.append(f"{_plural(stats.field_errors, 'value')} of another type than the column, read as null")
    if stats.undated:
        counts.append(f"{_plural(stats.undated, 'record')} without a time that can be read")
    if stats.replaced:
        counts.append(f"{_plural(stats.replaced, 'line')} with malformed UTF-8")
    yield f"elf: {', '.join(counts)}, {stats.seconds:.2f} s"
    yield from (f"  {sample}" for sample in stats.samples)
    for name, hint in stats.unseen.items():
        yield f"  no record has a value in {name}: it is null everywhere. {hint}".rstrip()
    yield from (f"  {line}" for line in (*stats.untaken, *stats.doubts, *stats.gaps))
    if verbose:
        yield from (f"  {path}: {name}" for path, name in stats.formats.items())


def _plural(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
