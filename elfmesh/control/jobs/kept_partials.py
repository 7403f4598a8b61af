"""Partial aggregates of an interval behind the rows of its record (KEEP PARTIALS)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zstandard

from elfmesh.errors import DataError
from elfmesh.ql.values.plain_ipc import table_to_ipc, unfold

if TYPE_CHECKING:
    import pyarrow as pa

PARTIALS_BYTES_MAX = 128 << 20
"""Maximum size of the uncompressed partial aggregates of one interval."""

_PARTIALS = b"elf.pao\n"


def packed_partials(partials: pa.Table) -> bytes:
    """Return the bytes of partial aggregates that follow the rows of a result; readers of rows ignore them.

    They are a zstandard frame with a second Arrow IPC stream, then `_PARTIALS` and its length in 8 bytes.

    Raises:
        DataError: the partial aggregates are larger than `PARTIALS_BYTES_MAX`.
    """
    plain = table_to_ipc(partials)
    if len(plain) > PARTIALS_BYTES_MAX:
        raise DataError(
            f"the partial aggregates have {len(plain)} bytes; {PARTIALS_BYTES_MAX} are kept",
            hint="Group by fewer keys, or leave KEEP PARTIALS out.",
        )
    data = zstandard.ZstdCompressor(level=3).compress(plain)
    return b"".join((data, _PARTIALS, len(data).to_bytes(8)))


def behind_rows(data: bytes) -> bytes:
    """Return the bytes that `packed_partials` has made, from the end of rows; b"" if there are none."""
    return data[-16 - int.from_bytes(data[-8:]) :] if data[-16:-8] == _PARTIALS else b""


def partials_of(data: bytes) -> bytes:
    """Return the Arrow IPC stream of partial aggregates after rows; b"" if there is none.

    Raises:
        ProtocolError: it is damaged or larger than `PARTIALS_BYTES_MAX`.
    """
    behind = behind_rows(data)
    return unfold(behind[:-16], PARTIALS_BYTES_MAX) if behind else b""
