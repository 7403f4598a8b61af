"""A local Spark session, and an agent's results routes over an in-memory log."""

from __future__ import annotations

import base64
import io
import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlparse

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from elfmesh import spark_bridge

UTC = pa.timestamp("us", tz="UTC")
SLIDE_US = 5_000_000
HEAD = pa.schema(
    [
        ("interval_index", pa.int64()),
        ("interval_start", UTC),
        ("interval_end", UTC),
        ("state", pa.string()),
        ("rev", pa.int32()),
        ("completeness", pa.float64()),
    ]
)
HEAD_DDL = (
    "interval_index BIGINT, interval_start TIMESTAMP, interval_end TIMESTAMP, state STRING, rev INT, "
    "completeness DOUBLE"
)


class FakeJob:
    """A results log: `publish` appends, `expire` forgets, readers wait on `changed`.

    As in the real one, numbers begin where they begin: offsets say earliest 0, latest -1 until there is one,
    and an interval that never was is no error, only one that has expired.
    """

    def __init__(self, ddl: str, incarnation: str, first: int) -> None:
        self.ddl, self.incarnation = ddl, incarnation
        self.next, self.expired, self.first = first, -1, first
        self.numbering: dict[str, Any] = {}
        self.lost: int | None = None
        self.tables: dict[int, pa.Table] = {}
        self.tentative: dict[int, tuple[int, pa.Table]] = {}
        self.revision = 0

    @property
    def earliest(self) -> int:
        return min(self.tables, default=0)

    @property
    def latest(self) -> int:
        return max(self.tables, default=-1)

    def table(self, after: int, upto: int) -> pa.Table | None:
        tables = [table for index, table in sorted(self.tables.items()) if after < index <= upto]
        return pa.concat_tables(tables, promote_options="permissive") if tables else None


class FakeAgent:
    def __init__(self) -> None:
        self.jobs: dict[str, FakeJob] = {}
        self.earlier: dict[str, list[FakeJob]] = {}
        self.requests: list[str] = []
        self.broken = self.breaks_off = False
        self.changed = threading.Condition()
        agent = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlparse(self.path)
                agent.requests.append(self.path)
                query = {name: values[0] for name, values in parse_qs(url.query).items()}
                status, body = agent.answer(url.path, query)
                self.send_response(status)
                if url.path.endswith("/results"):
                    self.send_header("X-Elf-Next", body.decode())
                if url.path.endswith("/arrow") and status == 200:
                    job = agent.jobs["/".join(url.path.split("/")[3:5])]
                    self.send_header("X-Elf-Incarnation", query.get("incarnation", job.incarnation))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if agent.breaks_off else body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.api = f"127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def create(
        self,
        job: str,
        columns: str = "product STRING, clicks BIGINT",
        *,
        incarnation: str = "a1",
        first: int = 0,
    ) -> None:
        with self.changed:
            self.jobs[job] = FakeJob(f"{HEAD_DDL}, {columns}", incarnation, first)
            self.changed.notify_all()

    def renumber(self, job: str, incarnation: str, *, first: int, kept: bool = True) -> None:
        """As an update of EVERY does; `kept`: its master has led it before."""
        with self.changed:
            old = self.jobs[job]
            self.jobs[job] = FakeJob(old.ddl, incarnation, first)
            self.earlier.setdefault(job, []).append(old)
            old.numbering = {"incarnation": old.incarnation, "first": old.first, "latest": old.latest}
            if not kept:
                old.tables.clear()
            self.changed.notify_all()

    def show(self, job: str, name: str, clicks: int) -> None:
        """A new tentative revision of the interval that is open."""
        with self.changed:
            log = self.jobs[job]
            log.revision += 1
            rev = log.tentative[log.next][1]["rev"][0].as_py() + 1 if log.next in log.tentative else 1
            head: dict[str, list[Any]] = {
                "interval_index": [log.next],
                "interval_start": [log.next * SLIDE_US],
            }
            head |= {"interval_end": [(log.next + 1) * SLIDE_US], "state": ["TENTATIVE"], "rev": [rev]}
            columns = pa.table(head | {"completeness": [0.5]}).cast(HEAD)
            columns = columns.append_column("product", pa.array([name]))
            table = columns.append_column("clicks", pa.array([clicks]))
            log.tentative[log.next] = (log.revision, table)
            self.changed.notify_all()

    def publish(
        self, job: str, rows: pa.Table | list[tuple[str, int]], *, completeness: float = 1.0, skip: int = 0
    ) -> int:
        """Append the next interval, or one after a gap; returns its index."""
        if isinstance(rows, list):
            rows = pa.table(
                {
                    "product": pa.array([name for name, _ in rows], pa.string()),
                    "clicks": pa.array([count for _, count in rows], pa.int64()),
                }
            )
        with self.changed:
            log = self.jobs[job]
            log.next += 1 + skip
            index, count = log.next - 1, rows.num_rows
            state = "FINAL" if completeness == 1.0 else "FINAL_PARTIAL"
            head = pa.table(
                [
                    [index] * count,
                    pa.array([index * SLIDE_US] * count, UTC),
                    pa.array([(index + 1) * SLIDE_US] * count, UTC),
                    [state] * count,
                    pa.array([1] * count, pa.int32()),
                    pa.array([completeness] * count, pa.float64()),
                ],
                schema=HEAD,
            )
            for position, field in enumerate(rows.schema):
                head = head.append_column(field, rows.column(position))
            log.tables[index] = head
            log.tentative.pop(index, None)
            self.changed.notify_all()
        return index

    def lose(self, job: str, index: int) -> None:
        """A record is damaged wherever it was kept."""
        with self.changed:
            self.jobs[job].lost = index

    def expire(self, job: str, below: int) -> None:
        with self.changed:
            log = self.jobs[job]
            log.expired = below - 1
            log.tables = {index: table for index, table in log.tables.items() if index >= below}

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        _, version, noun, namespace, name, route = path.split("/")
        assert (version, noun) == ("v1", "jobs")
        job = self.jobs.get(f"{namespace}/{name}")
        if self.broken:
            return 503, error("the overlay has no quorum", "unreachable")
        if job is None:
            return 404, error(f"no job {namespace}/{name}", "no_job")
        earlier = {each.incarnation: each for each in self.earlier.get(f"{namespace}/{name}", [])}
        wanted = query.get("incarnation", job.incarnation)
        if wanted != job.incarnation:
            if wanted not in earlier:
                return 410, error("the job has no such numbering of intervals", "1")
            job = earlier[wanted]
            if route == "arrow" and not job.tables:
                latest = job.numbering["latest"]
                reported = (
                    f"intervals {int(query['from']) + 1} to {latest} of the numbering before are not kept"
                )
                return 410, error(reported, "1")
        if route == "schema":
            with self.changed:
                if not self.changed.wait_for(lambda: job.tables, float(query.get("wait", 0))):
                    return 409, error("this job has no result yet", "1")
            names = [column.split()[0] for column in re.split(r",(?![^(<]*[)>])", job.ddl)]
            schema = pa.schema([(name, pa.null()) for name in names]).serialize().to_pybytes()
            return 200, json.dumps({"ddl": job.ddl, "arrow": base64.b64encode(schema).decode()}).encode()
        if route == "offsets":
            with self.changed:
                if "after" in query:
                    known = int(query.get("revision", 2**62))
                    self.changed.wait_for(
                        lambda: job.latest > int(query["after"]) or job.revision > known, float(query["wait"])
                    )
                held: dict[str, Any] = {"revision": job.revision} if query.get("state") == "all" else {}
                held |= {"earliest": job.earliest, "latest": job.latest, "incarnation": job.incarnation}
                held |= {"first": job.first if job.tables else None}
                held |= {"earlier": [each.numbering for each in earlier.values()]} if earlier else {}
            return 200, json.dumps(held).encode()
        if route == "results":  # only what the bridge asks: the header
            published = [index for index in sorted(job.tables) if index >= int(query["from"])]
            last = [int(query["from"]) - 1, *published[: int(query["limit"])]][-1]
            return 200, str(last + 1).encode()
        assert route == "arrow"
        after, upto = int(query["from"]), int(query["to"])
        if job.lost is not None:
            return 410, error(f"interval {job.lost} is lost: damaged on disk at every agent", "lost")
        if after + 1 <= job.expired:
            return 410, error(f"interval {after + 1} is gone", "expired")
        sink = io.BytesIO()
        table = job.table(after, upto)
        if query.get("state") == "all":
            known = int(query.get("revision", 0))
            news = [
                each
                for index, (revision, each) in job.tentative.items()
                if revision > known and after < index <= upto
            ]
            table = pa.concat_tables([*([] if table is None else [table]), *news]) if news else table
        if table is None:
            table = HEAD.empty_table()
        if "only" in query:
            table = table.filter(pc.is_in(table["state"], pa.array(query["only"].split(","))))
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=1000)
        return 200, sink.getvalue()


def error(message: str, code: str) -> bytes:
    return json.dumps({"error": message, "where": "", "hint": "", "code": code}).encode()


@pytest.fixture
def agent() -> Iterator[FakeAgent]:
    server = FakeAgent()
    yield server
    server.close()


@pytest.fixture
def elf(spark: Any, agent: FakeAgent) -> Callable[..., Any]:
    """Read a job of the fake agent in batch."""

    def read(job: str = "shop/top", **options: Any) -> Any:
        return spark_bridge.results(spark, job, api=agent.api, **options)

    return read
