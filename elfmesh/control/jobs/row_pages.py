"""Pages of rows that are too large to be sent with their record, and the table of these pages.

Each page is an Arrow IPC stream with all columns. The record has the table of its pages in place of its rows,
with the digest and the size of each page (see pages.py), so that votes, the state log and the results log
contain a few hundred bytes. A page is a file named by its digest (see page_files.py). Owns the bytes of the
table, and the conversions between rows and pages.

Invariants: a caller that reads the table as rows gets a `ProtocolError`. A page that does not agree with the
table is refused (`RowPage.check`). Joined pages are the rows in their order.

Paper: none. See guarantees D-4, D-17.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import msgspec

from elfmesh.control.jobs.kept_partials import partials_of
from elfmesh.errors import DataError, ProtocolError, ResultTooLarge
from elfmesh.lazy import lazy_module
from elfmesh.limits import CONTROL_FRAME_BYTES_MAX, DATA_FRAME_BYTES_MAX
from elfmesh.ql.values.plain_ipc import ipc_schema, table_to_ipc
from elfmesh.wire import UNREADABLE

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy_module("pyarrow")

log = logging.getLogger("elf.results")
ROWS_BYTES_MAX = DATA_FRAME_BYTES_MAX - CONTROL_FRAME_BYTES_MAX
"""Maximum size of rows in a message, because a record with its header must fit into one data frame."""

PAGE_BYTES = 4 << 20
"""Approximate size of a page; agents read, send or convert one page at a time."""

PAGES_MAX = 4096
DIGEST_BYTES = 16
MAGIC = b"elf.row-pages\n"
_END_BYTES = 8
"""Size of the end of an Arrow IPC stream, a message without a length."""

Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]


class RowPage(msgspec.Struct, frozen=True, array_like=True):
    """Entry of the table for one page.

    Attributes:
        digest: digest of its bytes.
        nbytes: size in bytes.
        rows: number of rows; 0 for a page of partial aggregates.
    """

    digest: Annotated[bytes, msgspec.Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
    nbytes: Annotated[int, msgspec.Meta(ge=0, le=DATA_FRAME_BYTES_MAX)]
    rows: Size = 0

    def check(self, data: bytes) -> None:
        """Raise `ProtocolError` unless `data` is the page."""
        if len(data) != self.nbytes or digest_of(data) != self.digest:
            raise ProtocolError(f"a page of rows that is not {self.digest.hex()}")


class PageTable(msgspec.Struct, frozen=True, array_like=True):
    """The pages of one record.

    Attributes:
        columns: an Arrow IPC stream with the columns and without rows.
        pages: pages of the rows, in their order; at least one.
        partials: pages of the bytes of partial aggregates after the rows.
        partial_columns: an Arrow IPC stream with their columns and without rows; b"" if there are none.
    """

    columns: bytes
    pages: Annotated[tuple[RowPage, ...], msgspec.Meta(min_length=1, max_length=PAGES_MAX)]
    partials: Annotated[tuple[RowPage, ...], msgspec.Meta(max_length=PAGES_MAX)] = ()
    partial_columns: bytes = b""

    @property
    def all(self) -> tuple[RowPage, ...]:
        return (*self.pages, *self.partials)

    @property
    def nbytes(self) -> int:
        return sum(page.nbytes for page in self.all)


_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(PageTable)


def digest_of(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:DIGEST_BYTES]


def is_paged(rows: bytes) -> bool:
    """Return whether the rows of a record are a table of pages."""
    return rows.startswith(MAGIC)


def table_of(rows: bytes) -> PageTable | None:
    """Return the table of pages that replaces rows; None if these are rows.

    Raises:
        ProtocolError: the table is damaged.
    """
    if not is_paged(rows):
        return None
    try:
        return _UNPACK.decode(rows[len(MAGIC) :])
    except UNREADABLE as error:
        raise ProtocolError(f"a damaged table of pages: {error}") from None


def columns_of(rows: bytes) -> tuple[bytes, bytes]:
    """Return Arrow IPC streams that begin with the columns of rows, and of their partial aggregates."""
    table = table_of(rows)
    return (rows, partials_of(rows)) if table is None else (table.columns, table.partial_columns)


NEAR = 0.8
"""Share of the limit above which the size of a result is logged."""


@dataclass(frozen=True, slots=True)
class RowLimits:
    """Limits of the rows of one record.

    Attributes:
        inline: maximum size of rows in the record; larger ones become pages.
        page: approximate size of a page.
        most: maximum size of the rows and partial aggregates of one record; None: no limit.
    """

    inline: int = ROWS_BYTES_MAX
    page: int = PAGE_BYTES
    most: int | None = None

    def admit(self, size: int, what: str) -> None:
        """Log a size near the limit.

        Raises:
            DataError: the size is above the limit.
        """
        if self.most is None or size <= NEAR * self.most:
            return
        log.warning("%s has %d bytes; limits.memory of this agent allows %d", what, size, self.most)
        if size > self.most:
            raise ResultTooLarge(size, self.most)


def packed(
    rows: pa.Table, tail: bytes, open_bytes: int, limits: RowLimits
) -> tuple[bytes, tuple[bytes, ...]]:
    """Return the rows of a record as bytes, or the table of their pages; and these pages.

    Args:
        rows: rows of the record.
        tail: bytes of their partial aggregates; b"" if there are none.
        open_bytes: size of the groups that are open after the interval, which the record contains, too.
        limits: limits of the rows.

    Raises:
        DataError: a row is too large for a page, or there are too many pages.

    Cost: a copy of the rows.
    """
    if rows.nbytes + len(tail) + open_bytes <= limits.inline:  # approximately; the stream has the exact size
        data = table_to_ipc(rows) + tail
        if len(data) + open_bytes <= limits.inline or not rows.num_rows:
            return data, ()
    found = [*_streams(rows, limits.page)]
    behind = [tail[at : at + limits.page] for at in range(0, len(tail), limits.page)]
    if max(len(found), len(behind)) > PAGES_MAX:
        raise DataError(f"the result has {max(len(found), len(behind))} pages; {PAGES_MAX} are kept")
    partials = partials_of(tail)
    table = PageTable(
        table_to_ipc(rows.schema.empty_table()),
        tuple(RowPage(digest_of(each), len(each), count) for each, count in found),
        tuple(RowPage(digest_of(each), len(each)) for each in behind),
        table_to_ipc(ipc_schema(partials).empty_table()) if partials else b"",
    )
    return MAGIC + _PACK.encode(table), (*(each for each, _ in found), *behind)


def _streams(rows: pa.Table, page_bytes: int) -> Iterator[tuple[bytes, int]]:
    step = max(1, page_bytes * rows.num_rows // max(1, rows.nbytes))
    waiting = [(at, min(at + step, rows.num_rows)) for at in range(0, rows.num_rows, step)][::-1]
    while waiting:
        start, stop = waiting.pop()
        data = table_to_ipc(rows.slice(start, stop - start).combine_chunks())
        if len(data) <= max(page_bytes, _SMALL) or (stop - start == 1 and len(data) <= ROWS_BYTES_MAX):
            yield data, stop - start
        elif stop - start == 1:
            raise DataError(f"a row has {len(data)} bytes, more than {ROWS_BYTES_MAX}")
        else:
            middle = (start + stop) // 2
            waiting += [(middle, stop), (start, middle)]


_SMALL = 4096
"""Size that a page may always have, because the columns alone need a part of it."""


def joined(pages: Sequence[bytes]) -> bytes:
    """Return one Arrow IPC stream with a record batch of each page. Cost: one copy.

    Raises:
        ProtocolError: the pages have different columns.
    """
    head = _head(pages[0])
    if any(_head(page) != head for page in pages):
        raise ProtocolError("pages of one record with different columns")
    return b"".join((head, *(page[len(head) : -_END_BYTES] for page in pages), pages[0][-_END_BYTES:]))


def _head(page: bytes) -> bytes:
    return page[: 8 + int.from_bytes(page[4:8], "little")]
