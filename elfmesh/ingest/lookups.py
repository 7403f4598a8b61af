"""Lookup tables of one host: files that are joined to the records where they are read.

Files are checked for changes when an interval was sealed; a new version applies to later records. If a file
cannot be read, the last version stays in use, with a warning.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from elfmesh.errors import DataError, ElfError
from elfmesh.ingest.sources import read_blocks
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.lazy import lazy_module
from elfmesh.text import suggest

if TYPE_CHECKING:
    import pyarrow as pa

    from elfmesh.ingest.parsers import Parsed, Parser
else:
    pa = lazy_module("pyarrow")


log = logging.getLogger("elf.worker")

ROWS_MAX = 1 << 20
"""Maximum number of rows of a lookup table, because it is in memory and is hashed for every block of
records."""

BYTES_MAX = 64 << 20

Version = tuple[int, int, int]
"""Inode, size and modification time of a file."""


class LookupTables:
    """Lookup tables by name. Thread-safe."""

    def __init__(self, configs: Mapping[str, StreamConfig]) -> None:
        self._configs = configs
        self._lock = threading.Lock()
        self._versions: dict[str, Version | None] = {}
        self._tables: dict[tuple[str, tuple[str, ...]], pa.Table] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._configs))

    def __call__(self, name: str, columns: tuple[str, ...]) -> pa.Table:
        """Return some columns of the version of a table that the last refresh found."""
        config = self._configs.get(name)
        if config is None:
            known = suggest(name, self._configs) or f"There are {', '.join(self.names) or 'none'}."
            raise DataError(f"there is no lookup table {name} here", hint=known)
        with self._lock:
            table = self._tables.get((name, columns))
            if table is None:
                self._versions.setdefault(name, _version(config.path))
                table = self._tables[name, columns] = load(name, config, columns)
            return table

    def refresh(self) -> None:
        """Read changed tables again. Cost: one stat per table in use."""
        with self._lock:
            for name, before in self._versions.items():
                config = self._configs[name]
                now = _version(config.path)
                if now == before:
                    continue
                try:
                    fresh = {key: load(name, config, key[1]) for key in self._tables if key[0] == name}
                except ElfError as error:
                    log.warning("lookup %s stays as it was: %s", name, error)
                else:
                    self._tables.update(fresh)
                    log.info("lookup %s was read again", name)
                self._versions[name] = now


def load(name: str, config: StreamConfig, columns: tuple[str, ...]) -> pa.Table:
    """Read some columns of a table. Raises DataError for bad lines, a missing column, or too many rows."""
    from elfmesh.ingest.sources.parsing import parse_block
    from elfmesh.ingest.sources.records import cutter_for
    from elfmesh.ingest.stream_formats import format_of

    formats = format_of(config, name=name)
    parser = formats.parser(config.path)
    batches: list[pa.Table] = []
    rows = nbytes = 0
    for block in read_blocks(config.path, new_cutter=cutter_for(formats.framing)):
        parsed = parse_block(parser, block, columns)
        _check(name, parser, parsed, columns)
        batches.append(pa.table({column: parsed.arrays[column] for column in columns}))
        rows, nbytes = rows + parsed.rows, nbytes + batches[-1].nbytes
        if rows > ROWS_MAX or nbytes > BYTES_MAX:
            raise DataError(
                f"is larger than {ROWS_MAX} rows or {BYTES_MAX >> 20} MB", where=f"lookup {name}",
                hint="Join it as a stream, or make it smaller.",
            )  # fmt: skip
    if not batches:
        return pa.table({column: pa.nulls(0) for column in columns})
    return pa.concat_tables(batches, promote_options="permissive").combine_chunks()


def _check(name: str, parser: Parser, parsed: Parsed, columns: tuple[str, ...]) -> None:
    if parsed.errors:
        sample = parsed.samples[0] if parsed.samples else ""
        raise DataError(f"{parsed.errors} lines cannot be read ({sample})", where=f"lookup {name}")
    from elfmesh.ingest.parsers import found_columns

    known = found_columns(parser)
    for column in columns if known is not None else ():
        if column not in (known or ()):
            hint = suggest(column, known or ()) or f"There are {', '.join(known or ())}."
            raise DataError(f"has no column {column}", where=f"lookup {name}", hint=hint)


def _version(path: str) -> Version | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
