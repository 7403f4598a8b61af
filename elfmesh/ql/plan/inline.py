"""Tables in the text of a job: `TABLE name(column TYPE, ...) AS $$ data $$` before AS SELECT.

A query joins such a table as `lookup.name`, like a lookup table in a file. The data is Arrow IPC, compressed
by zstd, in base64. It is checked against the columns when the text is parsed. It takes effect on all agents
with the job's version. Without AS the table is empty. `elf publish` writes new texts.

Paper: ELF 2.4, 4.1 (offline results are fed back into the running job).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

import pyarrow as pa
import zstandard
from sqlglot.tokenizer_core import Token

from elfmesh.arrow_kernels import pc
from elfmesh.errors import DataError, ProtocolError, QueryError
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.plan.declared import TYPES, is_fenced
from elfmesh.ql.values.compared import PartlyCompared
from elfmesh.ql.values.plain_ipc import check_plain, unfold
from elfmesh.text import suggest

WORD = "TABLE"
DATA_CHARS_MAX = 96 << 10
"""Maximum number of characters of all tables of a text, because every agent receives the text, and often
repeatedly."""

BYTES_MAX = 16 << 20
"""Maximum number of bytes of an unpacked table, because every agent holds it and hashes it for every block of
records."""

COLUMNS_MAX = 64
KEPT_MAX = 32
LEVEL = 19
"""Level of zstd: the table is compressed once and transferred often."""

_SHAPE = "Write TABLE name(column STRING, ...) before AS SELECT; `elf publish` fills it."


class InlineTable(PartlyCompared, frozen=True):
    """Table of a text.

    `data` is base64, and `span` is the position of ` AS $$ data $$`, or where it would be.
    """

    aside: ClassVar[frozenset[str]] = frozenset({"span"})
    name: str
    columns: tuple[tuple[str, pa.DataType], ...]
    data: str
    span: tuple[int, int] = (0, 0)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.data.encode()).hexdigest()[:16]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(list(self.columns))

    def table(self) -> pa.Table:
        """Return the rows. Cost: unpacked at the first call, then cached."""
        return unpacked(self.data, self.columns)


def packed(table: pa.Table) -> str:
    """Encode a table; equal rows give equal text. Raises DataError if it exceeds the limit of a text."""
    if table.nbytes > BYTES_MAX:
        raise DataError(f"the table has {table.nbytes} bytes; every agent can hold at most {BYTES_MAX}")
    sink = pa.BufferOutputStream()
    plain = table.replace_schema_metadata(None).combine_chunks()
    with pa.ipc.new_stream(sink, plain.schema) as writer:
        writer.write_table(plain)
    data = base64.b64encode(zstandard.ZstdCompressor(level=LEVEL).compress(sink.getvalue())).decode()
    if len(data) > DATA_CHARS_MAX:
        raise DataError(
            f"the table has {table.num_rows} rows, {len(data)} bytes packed; a job carries at most"
            f" {DATA_CHARS_MAX}",
            hint="Publish fewer rows or columns, or a file beside each agent: [lookups.NAME] in agent.toml.",
        )
    return data


@lru_cache(maxsize=KEPT_MAX)
def unpacked(data: str, columns: tuple[tuple[str, pa.DataType], ...]) -> pa.Table:
    schema = pa.schema(list(columns))
    if not data:
        return schema.empty_table()
    try:
        raw = base64.b64decode(data, validate=True)
        plain = unfold(raw, BYTES_MAX + (1 << 16))
        check_plain(plain)
        with pa.ipc.open_stream(plain) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (binascii.Error, ProtocolError, pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"is damaged: {error}") from None
    if table.schema != schema:
        raise DataError("has columns that differ from its declaration")
    return table


def check_uses(table: InlineTable, columns: Sequence[str], keys: Sequence[str]) -> str:
    """Return the reason why a query cannot join a table on unique `keys`; "" if it can."""
    known = [name for name, _ in table.columns]
    for column in columns:
        if column not in known:
            hint = suggest(column, known) or f"It has {', '.join(known)}."
            return f"lookup.{table.name} has no column {column}. {hint}"
    held = table.table().select(list(keys))
    for key in keys:
        held = held.filter(pc.is_valid(held[key]))
    if held.num_rows and held.group_by(list(keys)).aggregate([]).num_rows < held.num_rows:
        return f"lookup.{table.name} has a key ({', '.join(keys)}) twice. Keep one row for each key."
    return ""


def read_table(source: SourceText, tokens: Sequence[Token], at: int) -> tuple[InlineTable, int]:
    """Parse the table declared after the word TABLE. Returns it and the next token's position."""
    reader = _Reader(source, tokens, at)
    return reader.table(), reader.at


class _Reader:
    def __init__(self, source: SourceText, tokens: Sequence[Token], at: int) -> None:
        self._source, self._tokens, self.at = source, tokens, at

    def table(self) -> InlineTable:
        begin = self._token().start
        name = self._take()
        if not name.isidentifier():
            raise self._error(begin, f"`{name}` is not a valid table name")
        self._expect("(")
        columns: dict[str, pa.DataType] = {}
        while True:
            place = self._token().start
            column, kind = self._take(), TYPES.get(self._take().upper())
            if not column.isidentifier() or column in columns or kind is None or len(columns) == COLUMNS_MAX:
                text = f"`{column}` is not a valid column: write a unique name and one of {', '.join(TYPES)}"
                raise self._error(place, text)
            columns[column] = kind
            if self._take() == ")":
                break
            self.at -= 1
            self._expect(",")
        start = end = self._tokens[self.at - 1].end + 1
        data = ""
        fence = self._tokens[self.at + 1] if self.at + 1 < len(self._tokens) else None
        if self._token().text.upper() == "AS" and fence is not None and is_fenced(self._source, fence):
            data = "".join(self._source.text[fence.start + 2 : fence.end - 1].split())
            end = fence.end + 1
            self.at += 2
        found = InlineTable(name, tuple(columns.items()), data, (start, end))
        if len(data) > DATA_CHARS_MAX:
            raise self._error(begin, f"the data of {name} is longer than {DATA_CHARS_MAX} characters")
        try:
            found.table()
        except DataError as error:
            raise self._error(begin, f"the data of table {name} {error.message}") from None
        return found

    def _token(self) -> Token:
        if self.at >= len(self._tokens):
            raise self._error(self._tokens[-1].end + 1, "the declaration of a table ends too early")
        return self._tokens[self.at]

    def _take(self) -> str:
        token = self._token()
        self.at += 1
        return token.text

    def _expect(self, word: str) -> None:
        token = self._token()
        if token.text != word:
            raise self._error(token.start, f"expected `{word}`, found `{token.text[:40]}`")
        self.at += 1

    def _error(self, place: int, message: str) -> QueryError:
        return self._source.error(message, place, _SHAPE)
