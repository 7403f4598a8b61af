"""The records on which an acceptor has voted under one ballot, with their chained digests.

Owns the digest of a record. The digest covers all fields and the rows as the API prints them, and not the
bytes of the rows, because releases of the Arrow library may write equal rows differently.

Invariant: two chains with equal links at one position have equal records up to it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import msgspec

from elfmesh.control.jobs.pages import decode_page, encode_page
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.errors import ProtocolError
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.ql.values.row_json import encode_json, rows_to_json

RECORDS_MAX = 16
"""Maximum number of records of a chain; the acceptor then waits until the master folds them."""

BYTES_MAX = 1 << 20
ROWS_BYTES_MAX = 64 << 10
"""Maximum size of the rows of one record; the master closes an interval with more rows."""

_PACK = msgspec.msgpack.Encoder()


@dataclass(frozen=True, slots=True)
class VotedChain:
    """Consecutive records with their rows, and a link for each."""

    records: tuple[tuple[ResultRecord, bytes], ...] = ()
    links: tuple[bytes, ...] = ()

    @classmethod
    def of_page(cls, page: bytes, begin: VotedChain | None = None) -> VotedChain:
        """Return the chain of a page, behind the records of another one.

        Raises:
            ProtocolError: the page is damaged, or has more than an acceptor votes on.
        """
        chain, records = begin or cls(), decode_page(page)
        if len(chain.records) + len(records) > RECORDS_MAX or any(
            len(rows) > ROWS_BYTES_MAX for _, rows in records
        ):
            raise ProtocolError("more records, or rows of one, than an acceptor votes on")
        for record, rows in records:
            chain = chain.extended(record, rows)
        return chain

    @property
    def last(self) -> int | None:
        return self.records[-1][0].index if self.records else None

    @property
    def has_room(self) -> bool:
        return len(self.records) < RECORDS_MAX and sum(len(rows) for _, rows in self.records) < BYTES_MAX

    def first(self, count: int) -> VotedChain:
        """Return the chain of the first records."""
        return VotedChain(self.records[:count], self.links[:count])

    def page(self, since: int = 0) -> bytes:
        """Return the records from a position on."""
        return encode_page(self.records[since:])

    def extended(self, record: ResultRecord, rows: bytes) -> VotedChain:
        """Return the chain with another record. Cost: its rows as JSON.

        Raises:
            ProtocolError: the rows are damaged.
        """
        head = hashlib.sha256(self.links[-1] if self.links else b"")
        head.update(_PACK.encode(record))
        head.update(encode_json(rows_to_json(ipc_to_table(rows))))
        return VotedChain((*self.records, (record, rows)), (*self.links, head.digest()))
