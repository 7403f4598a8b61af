"""One golden query as `elf run` answers it: the same input, worker, query and intervals, over typed columns.

The views stand for logs whose format declares its columns and their types. A nested field is asked for by its
dotted path, as of a JSON log.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from elfmesh.ingest.parsers import Parsed, Parser, StreamFormat
from elfmesh.ingest.parsers.base import META_COLUMNS, TIMESTAMP, TIMESTAMP_FIELDS, ParsedColumns
from elfmesh.ingest.parsers.lines import Lines
from elfmesh.ingest.sources.blocks import Block
from elfmesh.local.embedded import LogRun
from elfmesh.local.log_input import read_block
from elfmesh.local.log_source import ReadBlock
from elfmesh.local.named_logs import declared_columns
from elfmesh.ql import Statement, parse
from tests.compat.golden.data import Golden


class TypedParser(Parser):
    """The parser of a format that declares its columns."""

    name = "typed"

    def __init__(self, table: pa.Table) -> None:
        super().__init__()
        self._table = table

    def known_columns(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(self._table.column_names)

    def columns(self, lines: Lines, wanted: Sequence[str]) -> ParsedColumns:
        """Not asked for."""
        raise AssertionError("the records are there already")


class TypedFormat(StreamFormat):
    """A format that declares its columns and their types."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__("raw")
        self.table = table
        fields = [*table.schema, *(pa.field(name, pa.string()) for name in META_COLUMNS)]
        if "ts" not in table.column_names:
            fields.append(pa.field("ts", TIMESTAMP))
        self.static_schema = pa.schema(fields)

    def parser(self, source: str = "", *, head: bytes | None = None) -> Parser:
        """The one there is."""
        return TypedParser(self.table)


class TypedRun(LogRun):
    """One statement over typed columns."""

    def __init__(self, statement: Statement, tables: Mapping[str, pa.Table]) -> None:
        streams = {name: ((), TypedFormat(tables[name])) for name in statement.streams if name in tables}
        super().__init__(statement, [], streams=streams or {"": ((), StreamFormat("raw"))})

    def _parse_all(self, *, prepare: bool = False) -> Generator[ReadBlock]:
        for name, (_, formats) in self._logs.items():
            assert isinstance(formats, TypedFormat)
            table, wanted = formats.table, self.statement.fields_of(name)
            arrays = {path: column_of(table, path) for path in wanted}
            parsed = Parsed(arrays, table.num_rows, table.num_rows, 0, [])
            yield read_block(parsed, Block(b"", name, stream=name))


def column_of(table: pa.Table, path: str) -> pa.Array:
    """A column, a part of a column of structs, or nulls."""
    if path in table.column_names:
        return table.column(path).combine_chunks()
    if path == "ts":
        times = [table.column(name) for name in TIMESTAMP_FIELDS if name in table.column_names]
        return next((each.combine_chunks() for each in times if each.type == TIMESTAMP), pa.nulls(len(table)))
    name, _, rest = path.partition(".")
    array = table.column(name).combine_chunks() if name in table.column_names else pa.nulls(len(table))
    for part in rest.split(".") if rest else ():
        if pa.types.is_map(array.type) and not pa.types.is_string(array.type.key_type):
            return pa.nulls(len(table))
        if pa.types.is_map(array.type):
            array = pc.map_lookup(array, part, "first")
            continue
        if not pa.types.is_struct(array.type) or array.type.get_field_index(part) < 0:
            return pa.nulls(len(table))
        array = pc.struct_field(array, part)
    return array if rest else pa.nulls(len(table))


def answer(case: Golden) -> pa.Table:
    """The rows of a case in the query's order.

    Raises:
        ElfError: it is refused. Anything else that is raised is a crash.
    """
    tables = {name: view.table() for name, view in case.views.items()}
    return answer_of(case.text, tables)


def parsed(text: str, given: Mapping[str, pa.Table]) -> Statement:
    """A statement over streams that declare the columns of tables; names of streams are in any letters."""
    known = {name.lower(): table for name, table in given.items()}
    words = [word for word in re.findall(r"\w+", text) if word.lower() in known]
    return parse(
        text, declared=declared_columns({word: ((), TypedFormat(known[word.lower()])) for word in words})
    )


def answer_of(text: str, given: Mapping[str, pa.Table]) -> pa.Table:
    """The rows of a statement over typed columns, as `answer`."""
    known = {name.lower(): table for name, table in given.items()}
    statement = parsed(text, given)
    found = TypedRun(
        statement, {name: known[name.lower()] for name in statement.streams if name.lower() in known}
    ).answers()
    # What is null in a whole interval has no type there.
    tables = [each.table for each in found]
    return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
