"""Widens the schemas of a results log by those of new rows, so that readers know the columns of all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from elfmesh.lazy import lazy_module
from elfmesh.ql.values.plain_ipc import ipc_schema
from elfmesh.storage.results.segment import Meta

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy_module("pyarrow")


def widened(meta: Meta, what: str, rows: bytes) -> Meta:
    new, before = ipc_schema(rows), getattr(meta, what)
    known = pa.ipc.read_schema(pa.py_buffer(before)) if before else None
    try:
        merged = new if known is None else pa.unify_schemas([known, new], promote_options="permissive")
    except pa.ArrowException:
        return meta  # no schema fits both; readers cast the rows and report what does not fit
    if known is not None and merged.equals(known):
        return meta
    return msgspec.structs.replace(meta, **{what: merged.remove_metadata().serialize().to_pybytes()})


def schema_message(rows: bytes) -> bytes:
    """Return the first message of an Arrow IPC stream. Equal messages mean equal schemas."""
    return rows[: 8 + int.from_bytes(rows[4:8], "little")]
