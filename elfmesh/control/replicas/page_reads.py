"""Reads the row pages of a record from this agent's own results log, one after the other."""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.control.context import Context
from elfmesh.control.jobs.row_pages import joined, table_of
from elfmesh.control.protocol.events import LogRead


def read_rows(
    context: Context,
    job: bytes,
    incarnation: str,
    index: int,
    rows: bytes,
    then: Callable[[bytes | None], None],
) -> None:
    """Call `then` with the rows of a record as one Arrow stream, or None if a page cannot be read."""
    table = table_of(rows)
    if table is None:
        then(rows)
        return
    found: list[bytes] = []

    def ask() -> None:
        digest = table.pages[len(found)].digest
        context.read_log(job, incarnation, index, None, 0, read, digest=digest)

    def read(answer: LogRead | None) -> None:
        if answer is None or answer.error:
            then(None)
            return
        found.append(answer.page)
        if len(found) < len(table.pages):
            ask()
        else:
            then(joined(found))

    ask()
