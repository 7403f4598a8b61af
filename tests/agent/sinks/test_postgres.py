"""PostgreSQL, a real server: rows and position move together, and nothing of an old epoch gets in."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import make_conninfo

from elfmesh.agent.sinks import follow, postgres_connection
from elfmesh.agent.sinks.base import (
    LogName,
    LostIntervals,
    Position,
    RecordFenced,
    RecordRefused,
    Unavailable,
)
from elfmesh.agent.sinks.config import PostgresSink
from elfmesh.agent.sinks.postgres import PostgresTables
from elfmesh.storage import failpoints
from tests.agent.sinks.rig import HOSTILE, LOG, Died, Following, Master, die, item, rows, starve
from tests.agent.sinks.servers import postgres
from tests.patience import PATIENCE_S


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres() as conninfo:
        yield conninfo


@pytest.fixture
def db(server: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS elf CASCADE")
        yield connection


@pytest.fixture
def conninfo(db: psycopg.Connection[Any], server: str) -> str:
    return server


def sink(conninfo: str) -> PostgresTables:
    return PostgresTables("test", PostgresSink(jobs=("*",), conninfo=conninfo))


def counts(db: psycopg.Connection[Any]) -> dict[int, int]:
    return dict(db.execute("SELECT interval_index, count(*) FROM elf.shop_top GROUP BY 1").fetchall())


async def test_rows_record_and_position_are_there(conninfo: str, db: psycopg.Connection[Any]) -> None:
    out = sink(conninfo)
    assert await out.position(LOG) is None
    assert await out.write(LOG, item(57))
    assert await out.position(LOG) == Position(58, 1)
    found = db.execute("SELECT incarnation, interval_index, rev, row_number, path, hits FROM elf.shop_top")
    assert found.fetchall() == [("1a2b", 57, 1, 0, "/0", 57), ("1a2b", 57, 1, 1, "/1", 57)]
    state, record = db.execute("SELECT state, record FROM elf.elf_intervals").fetchall()[0]
    assert (state, record["interval"]["index"], record["completeness"]) == ("FINAL", 57, 1.0)


async def test_a_sink_that_is_closed_holds_no_connection(conninfo: str, db: psycopg.Connection[Any]) -> None:
    mine = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'elfmesh'"
    before = db.execute(mine).fetchone()
    out = sink(conninfo)
    assert await out.write(LOG, item(57))
    assert db.execute(mine).fetchone() != before
    await out.close()
    async with asyncio.timeout(PATIENCE_S):
        while db.execute(mine).fetchone() != before:  # noqa: ASYNC110 - the server sends no notice
            await asyncio.sleep(0.02)


async def test_a_crash_anywhere_leaves_every_row_once(
    conninfo: str, db: psycopg.Connection[Any], tmp_path: Path
) -> None:
    master = Master(tmp_path)
    master.append(*(item(index) for index in range(6)))
    for place in ("sink.write", "sink.written"):
        for nth in (1, 2):
            with failpoints.armed(f"{place}.postgres", die, n=nth), pytest.raises(Died):
                async with Following(sink(conninfo), master) as following:
                    await following.until(lambda: False)
    async with Following(sink(conninfo), master) as following:
        await following.until(lambda: following.progress.lag == 0)
    assert counts(db) == dict.fromkeys(range(6), 2)


async def test_a_server_that_restarts_is_waited_for(
    conninfo: str, db: psycopg.Connection[Any], tmp_path: Path
) -> None:
    master = Master(tmp_path)
    master.append(item(0))
    async with Following(sink(conninfo), master) as following:
        await following.until(lambda: following.progress.written == 1)
        others = "FROM pg_stat_activity WHERE application_name = 'elfmesh'"
        db.execute(f"SELECT pg_terminate_backend(pid) {others}")
        master.append(item(1))
        await following.until(lambda: following.progress.written == 2)
        assert following.progress.failures <= 1
    assert counts(db) == {0: 2, 1: 2}


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
    """Pass on bytes while the gate is open; they are taken from the sender in any case."""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            await gate.wait()
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def proxied(db: psycopg.Connection[Any], gate: asyncio.Event) -> AsyncIterator[str]:
    """The conninfo of a TCP proxy in front of the server."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = f"{db.info.host}/.s.PGSQL.{db.info.port}"
        if db.info.host.startswith("/"):
            there, back = await asyncio.open_unix_connection(path)
        else:
            there, back = await asyncio.open_connection(db.info.host, db.info.port)
        writers.extend((writer, back))
        await asyncio.gather(_pass_on(reader, back, gate), _pass_on(there, writer, gate))

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    try:
        yield f"host=127.0.0.1 port={port} user={db.info.user} dbname={db.info.dbname} sslmode=disable"
    finally:
        gate.set()
        listener.close()
        for writer in writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@pytest.mark.parametrize("rows_each", [2, 200_000], ids=["while it answers", "while it takes rows"])
async def test_a_server_that_falls_silent_is_a_problem_until_it_answers_again(
    db: psycopg.Connection[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_each: int
) -> None:
    monkeypatch.setattr(postgres_connection, "SILENT_S", 1.0)
    master, gate = Master(tmp_path), asyncio.Event()
    gate.set()
    master.append(item(0))
    async with proxied(db, gate) as conninfo, Following(sink(conninfo), master) as following:
        await following.until(lambda: following.progress.written == 1)
        gate.clear()
        master.append(item(1, rows(1, rows_each)))
        await following.until(lambda: "has not answered for" in following.progress.problem)
        assert following.progress.failures > 0
        # A busy machine takes the rows slowly, and then its server is silent for longer than a second.
        monkeypatch.setattr(postgres_connection, "SILENT_S", 300.0)
        monkeypatch.setattr(postgres_connection, "STATEMENT_MS", 290_000)
        gate.set()
        await following.until(lambda: following.progress.lag == 0 and not following.progress.problem)
    assert counts(db) == {0: 2, 1: rows_each}


def test_the_kernel_probes_a_silent_server_unless_the_conninfo_sets_another_time(
    conninfo: str,
) -> None:
    def parameters(conninfo: str) -> dict[str, str]:
        with postgres_connection.connect(conninfo) as connection:
            return connection.info.get_parameters()

    reported = parameters(conninfo)
    assert (reported["tcp_user_timeout"], reported["keepalives_idle"]) == ("30000", "15")
    assert parameters(psycopg.conninfo.make_conninfo(conninfo, tcp_user_timeout=7))["tcp_user_timeout"] == "7"


@pytest.mark.parametrize(
    "dropped",
    ["SCHEMA elf CASCADE", "TABLE elf.elf_positions", "TABLE elf.shop_top", "TABLE elf.elf_intervals"],
)
async def test_tables_that_are_dropped_come_back(
    conninfo: str, db: psycopg.Connection[Any], tmp_path: Path, dropped: str
) -> None:
    master = Master(tmp_path)
    master.append(*(item(index) for index in range(3)))
    async with Following(sink(conninfo), master) as following:
        await following.until(lambda: following.progress.written == 3)
        db.execute(f"DROP {dropped}")
        master.append(item(3))
        await following.until(lambda: following.progress.lag == 0 and following.progress.written > 3)
        assert not following.progress.problem
    kept = {"TABLE elf.shop_top": {3: 2}}
    assert counts(db) == kept.get(dropped, dict.fromkeys(range(4), 2))


@pytest.mark.parametrize("restart", [False, True], ids=["it goes on", "the agent is restarted"])
async def test_a_database_that_is_not_there_from_the_beginning_gets_each_lost_interval_declared(
    server: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, restart: bool
) -> None:
    """The results log drops intervals before the database is made: no position tells where it was."""
    name = f"later_{restart}".lower()
    later = make_conninfo(server, dbname=name)
    master = Master(tmp_path, intervals_max=20)
    master.append(item(5))

    async def declared(following: Following) -> int:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        await following.until(lambda: following.progress.lag == 0)
        return following.progress.lost

    async with Following(sink(later), master) as following:
        await following.until(lambda: following.progress.failures > 0)
        assert "does not exist" in following.progress.problem
        master.append(*(item(index) for index in range(6, 100)))
        lost = 0 if restart else await declared(following)
    if restart:
        async with Following(sink(later), master) as following:
            lost = await declared(following)
    with psycopg.connect(later) as connection:
        written = counts(connection)
        first = min(written)
        assert written == dict.fromkeys(range(first, 100), 2)
        asked = "SELECT first_index, interval_index, problem FROM elf.elf_intervals WHERE state = 'LOST'"
        why = "the results log did not keep them long enough"
        assert connection.execute(asked).fetchall() == [(5, first - 1, why)]
    assert lost == first - 5 > 0
    assert f"intervals 5 to {first - 1} are lost: {why}" in caplog.text


@pytest.mark.parametrize(
    "added",
    [
        "ALTER TABLE elf.shop_top ADD CHECK (hits <> 1)",
        "CREATE UNIQUE INDEX one ON elf.shop_top (hits) WHERE hits = 1",
        """CREATE FUNCTION elf.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.hits = 1 THEN RAISE 'not this one'; END IF; RETURN NEW; END $$;
        CREATE TRIGGER no BEFORE INSERT ON elf.shop_top FOR EACH ROW EXECUTE FUNCTION elf.no()""",
    ],
    ids=["check", "unique", "trigger"],
)
async def test_rows_that_a_constraint_of_others_refuses_become_a_dead_letter(
    conninfo: str, db: psycopg.Connection[Any], tmp_path: Path, added: str
) -> None:
    master = Master(tmp_path)
    master.append(item(0))
    async with Following(sink(conninfo), master) as following:
        await following.until(lambda: following.progress.written == 1)
        db.execute(added)
        master.append(item(1), item(2))
        await following.until(lambda: following.progress.written == 2)
        assert [index for index, _ in following.letters] == [1]
    assert counts(db) == {0: 2, 2: 2}
    lost = db.execute("SELECT interval_index, problem FROM elf.elf_intervals WHERE state = 'LOST'").fetchall()
    assert [index for index, _ in lost] == [1]


async def test_a_constraint_on_the_positions_is_a_problem_and_no_bug(
    conninfo: str, db: psycopg.Connection[Any], tmp_path: Path
) -> None:
    master = Master(tmp_path)
    master.append(item(0))
    async with Following(sink(conninfo), master) as following:
        await following.until(lambda: following.progress.written == 1)
        db.execute("ALTER TABLE elf.elf_positions ADD CONSTRAINT low CHECK (next_interval < 2)")
        master.append(item(1))
        await following.until(lambda: "low" in following.progress.problem)
        assert "bug" not in following.progress.problem
        db.execute("ALTER TABLE elf.elf_positions DROP CONSTRAINT low")
        await following.until(lambda: following.progress.lag == 0)


async def test_two_agents_and_a_master_that_wakes(conninfo: str, db: psycopg.Connection[Any]) -> None:
    here, there = sink(conninfo), sink(conninfo)
    assert await here.write(LOG, item(1, epoch=5))
    assert not await there.write(LOG, item(1, epoch=5))
    assert await there.write(LOG, item(2, epoch=6, state="TENTATIVE"))
    with pytest.raises(RecordFenced):
        await here.write(LOG, item(2, epoch=4))
    with pytest.raises(RecordFenced):
        await here.write(LOG, item(2, epoch=5, state="TENTATIVE", rev=8))
    assert await here.write(LOG, item(2, rows(2, 5), epoch=6, state="TENTATIVE", rev=2))
    assert await here.write(LOG, item(2, rows(2, 1), epoch=6, rev=3))
    assert counts(db) == {1: 2, 2: 1}


async def test_a_job_that_is_created_again_has_keys_of_its_own(
    conninfo: str, db: psycopg.Connection[Any]
) -> None:
    out = sink(conninfo)
    await out.write(LOG, item(1))
    await out.write(LogName(LOG.job, "3c4d"), item(1))
    assert counts(db) == {1: 4}


async def test_hostile_values(conninfo: str, db: psycopg.Connection[Any]) -> None:
    assert await sink(conninfo).write(LOG, item(1, HOSTILE))
    same = '"local" = to_timestamp(0.000001) AS same'
    cursor = db.execute(f"SELECT *, {same} FROM elf.shop_top ORDER BY row_number")
    names = [each.name for each in cursor.description or ()]
    found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    assert found[0]["text"] == HOSTILE.column("text")[0].as_py().replace("\0", "\ufffd")
    for name in ("whole", "exact", "sketch", "day", "flag", 'odd "name; --', "never"):
        assert [row[name] for row in found] == HOSTILE.column(name).to_pylist(), name
    assert math.isnan(found[0]["number"])
    assert found[1]["number"] == -math.inf
    assert len(found[1]["text"]) == 100_000
    assert found[0]["list"] == ["a\ufffd", None]
    assert [row["nested"] for row in found] == HOSTILE.column("nested").to_pylist()
    assert [row["map"] for row in found] == [{"k\ufffd": 1}, {}, None, {"k": None}]
    assert found[0]["same"]
    assert [row["at"] for row in found] == HOSTILE.column("at").to_pylist()


async def test_new_columns_are_added_and_other_types_refused(
    conninfo: str, db: psycopg.Connection[Any]
) -> None:
    out = sink(conninfo)
    await out.write(LOG, item(1, pa.table({"a": [1]})))
    await out.write(LOG, item(2, pa.table({"b": ["x"]})))
    with pytest.raises(RecordRefused, match="'a' is bigint"):
        await out.write(LOG, item(3, pa.table({"a": ["x"]})))
    await out.declare(LOG, LostIntervals(3, 3, "a\0b"))
    assert await out.write(LOG, item(4, pa.table({"a": [4]})))
    found = db.execute("SELECT interval_index, a, b FROM elf.shop_top ORDER BY 1").fetchall()
    assert found == [(1, 1, None), (2, None, "x"), (4, 4, None)]
    assert db.execute("SELECT problem FROM elf.elf_intervals WHERE state = 'LOST'").fetchall() == [
        ("a\ufffdb",)
    ]


@pytest.mark.parametrize("column", ["incarnation", "x" * 64, "", "state", "a\0b"])
async def test_columns_that_cannot_be_are_refused(conninfo: str, column: str) -> None:
    with pytest.raises(RecordRefused):
        await sink(conninfo).write(LOG, item(1, pa.table({column: [1]})))


@pytest.mark.parametrize(("columns", "why"), [(1593, "1600 columns"), (1100, "row is too big")])
async def test_rows_that_are_too_wide_are_refused_and_the_next_are_written(
    conninfo: str, columns: int, why: str
) -> None:
    out = sink(conninfo)
    wide = pa.table({f"c{number}": [2**40] for number in range(columns)})
    with pytest.raises(RecordRefused, match=why):
        await out.write(LOG, item(1, wide))
    assert await out.write(LOG, item(2))


async def test_a_table_that_is_not_ours_is_left_alone(conninfo: str, db: psycopg.Connection[Any]) -> None:
    db.execute("CREATE SCHEMA elf; CREATE TABLE elf.shop_top (incarnation text)")
    out = sink(conninfo)
    with pytest.raises(RecordRefused, match="does not belong to this job"):
        await out.write(LOG, item(1))
    await out.write(LogName("a/b_c", "1"), item(1))
    with pytest.raises(RecordRefused, match="does not belong to this job"):
        await out.write(LogName("a_b/c", "1"), item(1))
    assert db.execute("SELECT count(*) FROM elf.shop_top").fetchone() == (0,)


async def test_dates_that_no_calendar_has_are_refused(conninfo: str) -> None:
    with pytest.raises(RecordRefused):
        await sink(conninfo).write(LOG, item(1, pa.table({"day": pa.array([2**31 - 1], pa.date32())})))


async def test_an_unreachable_server_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        await sink(f"host={tmp_path} dbname=x password=secret").write(LOG, item(1))


async def test_a_conninfo_that_cannot_be_read_is_not_repeated() -> None:
    broken = sink("host=db hunter2sEcReT")
    with pytest.raises(Unavailable) as caught:
        await broken.write(LOG, item(57))
    assert "conninfo cannot be read" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    await broken.close()


async def test_a_sink_without_descriptors_reports_it_and_writes_all_rows_when_it_has_them(
    conninfo: str, db: psycopg.Connection[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libpq cannot say why it does not connect."""
    monkeypatch.setattr(follow, "PAUSE_S", 0.01)
    out = sink(conninfo)
    mine = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'elfmesh'"
    await starve(out, "postgres", tmp_path, lambda: db.execute(mine))
    await out.close()
    assert counts(db) == {0: 2, 1: 2, 2: 2}
