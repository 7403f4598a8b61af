"""Sink for tables of a PostgreSQL database: rows, record and position in one transaction.

  SCHEMA.NAMESPACE_NAME   incarnation, interval_index, rev, row_number: the key; then the interval's columns
                          and the query's
  SCHEMA.elf_intervals    a row per interval of every job: its newest record; lost ones with the reason
  SCHEMA.elf_positions    position and table of each job

The sink writes only to tables that it has created. A revision replaces the previous one in its transaction.
New columns are added; a column whose type no longer fits is refused. The sink locks the row of the position
while it writes to a log, so that a writer with records of an older epoch is refused (D-5, D-17).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.types.json import Jsonb

from elfmesh.agent.sinks.base import (
    LogName,
    LostIntervals,
    Position,
    RecordRefused,
    SinkItem,
    Unavailable,
    admit,
    behind,
    past,
)
from elfmesh.agent.sinks.config import PostgresSink
from elfmesh.agent.sinks.postgres_connection import SILENT, PostgresConnection, connect
from elfmesh.agent.sinks.postgres_values import KEY, column_type, rows_of, storable, without_nul
from elfmesh.control.jobs.records import to_json
from elfmesh.ingest.worker_thread import WorkerThread
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.ql.values.row_json import encode_json
from elfmesh.storage.failpoints import reach

T = TypeVar("T")
NAME_BYTES_MAX = 63
"""Maximum length of an identifier. PostgreSQL truncates longer ones, so that two could become equal."""

OF_THE_DATA = ("22", "23", "54", "P0")
"""Classes of SQLSTATE for errors in the rows of an interval: a value that does not fit a column, a constraint
that a user has added, a program limit, and an error raised by a trigger."""

GONE = ("3F000", "42P01")
"""SQLSTATEs of a missing schema or table. Connecting again creates them."""

ALONE = "SELECT pg_advisory_xact_lock(7306074)"
"""Serialises the creation of tables, because concurrent CREATE TABLE IF NOT EXISTS statements can fail."""

_TABLES = """
CREATE TABLE IF NOT EXISTS {positions} (
    job text NOT NULL, incarnation text NOT NULL, table_name text NOT NULL,
    next_interval bigint, epoch bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (job, incarnation));
CREATE TABLE IF NOT EXISTS {intervals} (
    job text NOT NULL, incarnation text NOT NULL, interval_index bigint NOT NULL, first_index bigint NOT NULL,
    state text NOT NULL, rev bigint NOT NULL, epoch bigint NOT NULL, record jsonb, problem text,
    PRIMARY KEY (job, incarnation, interval_index));
"""


class PostgresTables:
    """Sink for a PostgreSQL database."""

    def __init__(self, name: str, config: PostgresSink) -> None:
        self._config = config
        self._thread = WorkerThread(name)
        self._connection: PostgresConnection | None = None
        self._columns: dict[str, dict[str, str]] = {}

    async def position(self, log: LogName) -> Position | None:
        return await self._run(partial(self._position, log))

    async def write(self, log: LogName, item: SinkItem) -> bool:
        """Write a record in one transaction. Cost: a round trip per statement; one COPY for all rows."""
        return await self._run(partial(self._write, log, item), writes=True)

    async def declare(self, log: LogName, lost: LostIntervals) -> None:
        await self._run(partial(self._declare, log, lost))

    def ended(self, log: LogName) -> None: ...

    async def close(self) -> None:
        self._thread.close(self._disconnect)

    def describe(self) -> Mapping[str, Any]:
        """Describe the schema. The address of the database may be a secret."""
        return {"schema": self._config.schema}

    # -- in the thread -----------------------------------------------------------------------------------

    async def _run(self, call: Callable[[], T], *, writes: bool = False) -> T:
        """Run a call in the thread. With `writes`, an error of the server may concern the rows."""

        def guarded() -> T:
            try:
                return call()
            except RecordRefused:
                self._columns.clear()  # tables and columns that were created were rolled back
                raise
            except psycopg.Error as error:
                self._columns.clear()
                if writes and (error.sqlstate or "")[:2] in OF_THE_DATA:
                    raise RecordRefused(_reason(error)) from None
                if error.sqlstate in GONE:
                    self._disconnect()
                if self._connection is not None and self._connection.silent:
                    raise Unavailable(SILENT) from None
                raise Unavailable(_reason(error)) from None

        return await self._thread.run(guarded)

    def _connected(self) -> PostgresConnection:
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._connection = None
            try:
                connection = connect(self._config.conninfo)
            except psycopg.ProgrammingError:  # the message would repeat the connection string
                raise Unavailable("conninfo cannot be read (not shown: it may hold a password)") from None
            named = {"positions": self._named("elf_positions"), "intervals": self._named("elf_intervals")}
            with connection.transaction():
                connection.execute(ALONE)
                schema = self._config.schema
                known = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,))
                if not known.rowcount:
                    connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
                connection.execute(sql.SQL(_TABLES).format(**named))
            self._connection = connection
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _named(self, table: str) -> sql.Identifier:
        return sql.Identifier(self._config.schema, table)

    def _locked(self, log: LogName) -> Position | None:
        """Return the position of a log, locked for the transaction. RecordRefused: invalid table name."""
        connection, positions = self._connected(), self._named("elf_positions")
        name = _table_name(log.job)
        connection.execute(
            sql.SQL("INSERT INTO {} (job, incarnation, table_name) VALUES (%s, %s, %s) ON CONFLICT DO "
                    "NOTHING").format(positions), (log.job, log.incarnation, name),
        )  # fmt: skip
        found = connection.execute(
            sql.SQL("SELECT next_interval, epoch FROM {} WHERE (job, incarnation) = (%s, %s) FOR UPDATE")
            .format(positions), (log.job, log.incarnation),
        ).fetchone()  # fmt: skip
        assert found is not None
        return None if found[0] is None else Position(found[0], found[1])

    def _position(self, log: LogName) -> Position | None:
        connection = self._connected()
        found = connection.execute(
            sql.SQL("SELECT next_interval, epoch FROM {} WHERE (job, incarnation) = (%s, %s)")
            .format(self._named("elf_positions")), (log.job, log.incarnation),
        ).fetchone()  # fmt: skip
        return None if found is None or found[0] is None else Position(found[0], found[1])

    def _move(self, log: LogName, position: Position | None) -> None:
        if position is None:
            return
        self._connected().execute(
            sql.SQL("UPDATE {} SET next_interval = %s, epoch = %s WHERE (job, incarnation) = (%s, %s)")
            .format(self._named("elf_positions")),
            (position.next, position.epoch, log.job, log.incarnation),
        )  # fmt: skip

    def _declare(self, log: LogName, lost: LostIntervals) -> None:
        with self._connected().transaction():
            position = self._locked(log)
            if position is None or lost.last >= position.next:
                self._note(log, (lost.last, lost.first, "LOST", 0, 0, None, without_nul(lost.why)))
                self._move(log, past(position, lost))

    def _note(self, log: LogName, values: Sequence[Any]) -> None:
        self._connected().execute(
            sql.SQL("""INSERT INTO {} (job, incarnation, interval_index, first_index, state, rev, epoch,
                record, problem) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
                ON CONFLICT (job, incarnation, interval_index) DO UPDATE SET
                first_index = excluded.first_index, state = excluded.state, rev = excluded.rev,
                epoch = excluded.epoch, record = excluded.record, problem = excluded.problem""")
            .format(self._named("elf_intervals")),
            (log.job, log.incarnation, *values),
        )  # fmt: skip

    def _write(self, log: LogName, item: SinkItem) -> bool:
        record, table = item.record, item.table()
        reported = to_json(record, ipc_to_table(b""))
        del reported["rows"]
        with self._connected().transaction():
            position = self._locked(log)
            shown = self._connected().execute(
                sql.SQL("""SELECT epoch, rev FROM {} WHERE state = 'TENTATIVE'
                    AND (job, incarnation, interval_index) = (%s, %s, %s)""")
                .format(self._named("elf_intervals")), (log.job, log.incarnation, record.index),
            ).fetchone()  # fmt: skip
            if not admit(position, (shown[0], shown[1]) if shown else None, item):
                return False
            reach("sink.write", "postgres")
            self._replace(log, item, table)
            text = Jsonb(reported, dumps=lambda value: storable(encode_json(value).decode()))
            self._note(log, (record.index, record.first, record.state, record.rev, record.epoch, text, None))
            reach("sink.written", "postgres")
            self._move(log, behind(position, item))
        return True

    def _replace(self, log: LogName, item: SinkItem, table: pa.Table) -> None:
        name = _table_name(log.job)
        columns = self._table(log, name, table.schema)
        connection, named = self._connected(), self._named(name)
        connection.execute(
            sql.SQL("DELETE FROM {} WHERE (incarnation, interval_index) = (%s, %s)").format(named),
            (log.incarnation, item.record.index),
        )
        if not table.num_rows:
            return
        names = [*KEY, *columns]
        into = sql.SQL("COPY {} ({}) FROM STDIN").format(
            named, sql.SQL(", ").join(map(sql.Identifier, names))
        )
        with connection.cursor() as cursor, cursor.copy(into) as copy:
            try:
                for row in rows_of(table, log.incarnation):
                    copy.write_row(row)
            except (OverflowError, ValueError) as error:
                raise RecordRefused(f"a value cannot be written to PostgreSQL: {error}") from None

    def _table(self, log: LogName, name: str, schema: pa.Schema) -> list[str]:
        """Create the job's table or its new columns, and return the columns.

        Raises RecordRefused if the table is foreign or a column does not fit.
        """
        wanted = {field.name: column_type(field.type) for field in schema}
        for column in wanted:
            if len(column.encode()) > NAME_BYTES_MAX or "\0" in column or not column:
                raise RecordRefused(f"{column!r} cannot be the name of a column: rename it with AS")
            if column in KEY:
                raise RecordRefused(f"a column is called {column!r}, as one of the key is: rename it with AS")
        if any(self._columns.get(log.job, {}).get(column) != kind for column, kind in wanted.items()):
            self._columns[log.job] = self._prepared(log, name, wanted)
        return list(wanted)

    def _prepared(self, log: LogName, name: str, wanted: Mapping[str, str]) -> dict[str, str]:
        connection, named = self._connected(), self._named(name)
        known = _columns_of(connection, self._config.schema, name)
        if known and not self._ours(log, name):
            raise RecordRefused(f"table {name!r} already exists and does not belong to this job")
        if not known:
            parts: list[sql.Composable] = [sql.SQL("incarnation text NOT NULL, row_number integer NOT NULL")]
            parts += _definitions(wanted)
            key = sql.SQL("PRIMARY KEY (incarnation, interval_index, rev, row_number)")
            connection.execute(
                sql.SQL("CREATE TABLE {} ({})").format(named, sql.SQL(", ").join([*parts, key]))
            )
            connection.execute(
                sql.SQL("COMMENT ON TABLE {} IS {}").format(named, sql.Literal(f"elfmesh: {log.job}"))
            )
            return dict(wanted)
        for column, kind in wanted.items():
            if column in known and known[column] != kind:
                raise RecordRefused(f"column {column!r} is {known[column]} in the table, and {kind} now")
        added = {column: kind for column, kind in wanted.items() if column not in known}
        for definition in _definitions(added):
            connection.execute(sql.SQL("ALTER TABLE {} ADD COLUMN {}").format(named, definition))
        return {**known, **added}

    def _ours(self, log: LogName, name: str) -> bool:
        found = self._connected().execute(
            "SELECT obj_description(format('%%I.%%I', %s::text, %s::text)::regclass, 'pg_class')",
            (self._config.schema, name),
        ).fetchone()  # fmt: skip
        return found is not None and found[0] == f"elfmesh: {log.job}"


def _definitions(columns: Mapping[str, str]) -> Iterator[sql.Composable]:
    for column, kind in columns.items():
        yield sql.SQL("{} {}").format(sql.Identifier(column), sql.SQL(kind))


def _columns_of(connection: psycopg.Connection[tuple[Any, ...]], schema: str, table: str) -> dict[str, str]:
    found = connection.execute(
        """SELECT attname, format_type(atttypid, NULL)
        FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid
        JOIN pg_namespace ON relnamespace = pg_namespace.oid
        WHERE nspname = %s AND relname = %s AND attnum > 0 AND NOT attisdropped""",
        (schema, table),
    )
    return {str(name): str(kind) for name, kind in found}


def _table_name(job: str) -> str:
    name = job.replace("/", "_", 1)
    if len(name) > NAME_BYTES_MAX or name in ("elf_positions", "elf_intervals"):
        raise RecordRefused(f"{name!r} cannot be the name of a table")
    return name


def _reason(error: psycopg.Error) -> str:
    text = error.diag.message_primary or str(error) or type(error).__name__
    return text.splitlines()[0]
