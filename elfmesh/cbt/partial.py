"""Partial aggregates as bytes: what agents send each other, self-describing, so that merging needs no plan.

    magic "EPAO" | version u8 | crc32 u32 of the rest | header length u32 | zstd frame of (header, columns)

Owns: encode, decode, merge, split, finish, subtract of whole partials (a partial is a set of named tables).
Refuses to know: who sends, what an interval is, what the query computes from it.

Invariants:
    - `decode_partial` of any bytes gives tables or raises ProtocolError, within bounded memory.
    - `merge_partials` is associative and commutative up to the order of rows.
    - `split_partial` sends a key to the same part on every agent, whatever the batches, order and promotions
      were.
    - b"" is the partial without rows: it decodes to no tables, and merging ignores it.

Paper: ELF 2.2, 2.3 (PAOs "roll up" along the tree).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import zstandard

from elfmesh.cbt.rows_codec import BlockHeader, BlockReader, unfolded_bytes, write_rows
from elfmesh.cbt.errors import PartialTooLarge
from elfmesh.cbt.kernel import grouping, placement
from elfmesh.cbt.rows import Rows, combine, finish_rows, from_table, subtract_rows, to_table
from elfmesh.errors import ProtocolError
from elfmesh.limits import DECOMPRESSED_BYTES_MAX

MAGIC = b"EPAO"
VERSION = 1
TABLES_MAX = 64
"""Tables of one partial: one, and one more per distinct aggregate of the query."""

SPLIT_SEED = 0x656C666D657368
"""Seed of the hash that splits keys over trees: one for all agents, part of the protocol."""

COMPRESSION_LEVEL = 1
"""zstd level: partials are small and the merge path is about latency."""

_PREFIX = struct.Struct(">4sBI")
_HEADER_LENGTH = struct.Struct(">I")
_ONE_SHOT_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 20


class _Table(msgspec.Struct, array_like=True, frozen=True):
    name: str
    block: BlockHeader


_encode_header = msgspec.msgpack.Encoder().encode
_decode_header = msgspec.msgpack.Decoder(tuple[_Table, ...]).decode


def encode_partial(tables: Mapping[str, pa.Table]) -> bytes:
    """Named tables of PAO columns as compressed, checksummed bytes.

    Raises:
        ProtocolError: a table's metadata does not say what its columns are.
        PartialTooLarge: the receiver would refuse it.
    """
    return _encode({name: from_table(table) for name, table in tables.items()})


def decode_partial(data: bytes) -> dict[str, pa.Table]:
    """The inverse of `encode_partial`.

    Raises:
        ProtocolError: the bytes are damaged, of another version, or unfold to more than the limit.
    """
    return {name: to_table(rows) for name, rows in _decode(data).items()}


def merge_partials(parts: Sequence[bytes]) -> bytes:
    """One partial of several, key by key. Cost: one decode each, one combine over all, one encode.

    Raises:
        ProtocolError: a part is damaged, or the parts are of different plans.
        TypeConflict: a column has types without a common one.
        PartialTooLarge: the receiver would refuse the result.
    """
    present = [part for part in parts if part]
    if len(present) <= 1:
        return present[0] if present else b""
    return _encode(_merge([_decode(part) for part in present]))


def merge_tables(parts: Sequence[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
    """The same for partials that are already decoded."""
    rows = [{name: from_table(table) for name, table in part.items()} for part in parts]
    return {name: to_table(merged) for name, merged in _merge(rows).items()}


def split_partial(data: bytes, parts: int) -> list[bytes]:
    """Cut a partial into `parts` by a hash of the group keys; a part without rows is b"".

    The group keys are the keys that all tables have: a table keyed by more (for a distinct count) follows its
    group.
    """
    if parts < 1:
        raise ValueError("a partial splits into at least one part")
    if parts == 1 or not data:
        return [data] + [b""] * (parts - 1)
    tables = _decode(data)
    out: list[dict[str, Rows]] = [{} for _ in range(parts)]
    shared = _shared_keys(tables)
    # Part j holds the hashes in [ceil(j * 2**64 / parts), ceil((j + 1) * 2**64 / parts)).
    bounds = np.array([-(-(part << 64) // parts) for part in range(1, parts)], np.uint64)
    for name, rows in tables.items():
        keys = [rows.keys[rows.layout.keys.index(key)] for key in shared]
        hashes = placement.hash_rows(keys, rows.count, SPLIT_SEED)
        order, cuts = grouping.partition(hashes, bounds)
        ordered = rows.take(order)
        for part in range(parts):
            out[part][name] = ordered.slice(int(cuts[part]), int(cuts[part + 1]))
    return [_encode(part) if any(rows.count for rows in part.values()) else b"" for part in out]


def finish(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """PAO columns to finalised columns: keys, then one column per aggregate."""
    return {name: finish_rows(from_table(table)) for name, table in tables.items()}


def subtract(whole: Mapping[str, pa.Table], part: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The inverse reduce: `whole` without the records of `part`, which it contains.

    Raises:
        NotInvertible: an aggregate declares no inverse, or a table has no count(*).
        ValueError: `part` is not contained in `whole`.

    Paper: ELF 2.2: "it can simply perform one single operation PAO15 - PAO5".
    """
    out = {}
    for name, table in whole.items():
        left = from_table(table)
        out[name] = to_table(subtract_rows(left, from_table(part[name]))) if name in part else table
    return out


def _shared_keys(tables: Mapping[str, Rows]) -> list[str]:
    layouts = [rows.layout for rows in tables.values()]
    return [key for key in layouts[0].keys if all(key in layout.keys for layout in layouts[1:])]


def _merge(parts: Sequence[Mapping[str, Rows]]) -> dict[str, Rows]:
    blocks: dict[str, list[Rows]] = {}
    for part in parts:
        for name, rows in part.items():
            blocks.setdefault(name, []).append(rows)
    for name, same in blocks.items():
        shapes = {(rows.layout, _count_parts(rows)) for rows in same}
        if len(shapes) > 1:
            raise ProtocolError(f"partial aggregates of table {name!r} come from different plans")
    return {name: combine(same) for name, same in blocks.items()}


def _count_parts(rows: Rows) -> tuple[str, ...]:
    """Which counts are of rows and which of values: a layout does not say."""
    return tuple(part for state in rows.states if state.kind == "count" for part in state.parts)


def _encode(tables: Mapping[str, Rows]) -> bytes:
    if not 1 <= len(tables) <= TABLES_MAX:
        raise ProtocolError(f"a partial of {len(tables)} tables")
    chunks: list[bytes] = []
    headers = tuple(_Table(name, write_rows(rows, chunks)) for name, rows in tables.items())
    size = sum(unfolded_bytes(table.block) for table in headers)
    if size > DECOMPRESSED_BYTES_MAX:
        raise PartialTooLarge(
            f"a partial result of {size} bytes is over the limit of {DECOMPRESSED_BYTES_MAX}",
            hint="Give the job more PARTITIONS, so that its keys are split over several trees.",
        )
    header = _encode_header(headers)
    raw = b"".join((_HEADER_LENGTH.pack(len(header)), header, *chunks))
    body = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL).compress(raw)
    return _PREFIX.pack(MAGIC, VERSION, zlib.crc32(body)) + body


def _decode(data: bytes) -> dict[str, Rows]:
    if not data:
        return {}
    if len(data) < _PREFIX.size:
        raise ProtocolError("a partial aggregate is cut off")
    magic, version, checksum = _PREFIX.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise ProtocolError(f"not a partial aggregate of version {VERSION}")
    body = memoryview(data)[_PREFIX.size :]
    if zlib.crc32(body) != checksum:
        raise ProtocolError("a partial aggregate has a wrong checksum")
    raw = _decompress(body)
    try:
        (length,) = _HEADER_LENGTH.unpack_from(raw)
        headers = _decode_header(memoryview(raw)[_HEADER_LENGTH.size : _HEADER_LENGTH.size + length])
        names = {table.name for table in headers}
    except (ValueError, struct.error, msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(f"malformed partial aggregate: {error}") from None
    if not headers or len(headers) > TABLES_MAX or len(names) != len(headers):
        raise ProtocolError("malformed partial aggregate: its tables")
    reader = BlockReader(raw[_HEADER_LENGTH.size + length :], DECOMPRESSED_BYTES_MAX)
    tables = {table.name: reader.read_rows(table.block) for table in headers}
    reader.finish()
    return tables


def _decompress(body: memoryview) -> bytes:
    """Unfold a frame, counting what comes out: the size in its header is a claim, not a bound."""
    try:
        frame = zstandard.get_frame_parameters(body)
        stated = frame.content_size
        known = stated != zstandard.CONTENTSIZE_UNKNOWN
        if (known and stated > DECOMPRESSED_BYTES_MAX) or frame.window_size > DECOMPRESSED_BYTES_MAX:
            raise ProtocolError("a partial aggregate states a size over the limit")
        decompressor = zstandard.ZstdDecompressor(max_window_size=DECOMPRESSED_BYTES_MAX)
        if known and stated <= _ONE_SHOT_BYTES:
            return decompressor.decompress(body, allow_extra_data=False)
        chunks, produced = [], 0
        with decompressor.stream_reader(body) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                produced += len(chunk)
                if produced > DECOMPRESSED_BYTES_MAX:
                    raise ProtocolError("a partial aggregate unfolds to more than the limit")
                chunks.append(chunk)
    except zstandard.ZstdError as error:
        raise ProtocolError(f"a partial aggregate does not decompress: {error}") from None
    if known and produced != stated:
        raise ProtocolError("a partial aggregate is cut off")
    return b"".join(chunks)
