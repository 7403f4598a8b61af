"""From Kafka through a real agent to PostgreSQL, a webhook and Kafka: each message counts once in each."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Producer

from tests.agent.sinks.servers import kafka, postgres
from tests.agent.sinks.test_kafka import messages
from tests.e2e.fleet import Agent, Fleet, eventually
from tests.patience import PATIENCE_S

JOB = """CREATE JOB e2e.counted LATENESS '1 h' AS SELECT k, count(*) AS n FROM events
GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k"""
BEGIN, LATER, COUNTED = 1_431_857_100, 7200, 300
"""Event time: an agent reads one partition after the other, and no message is late for that."""


@contextmanager
def receiver() -> Iterator[tuple[int, dict[str, Any]]]:
    """A server that keeps the body of each key, and its port."""
    kept: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            kept[self.headers["Idempotency-Key"]] = body
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port, kept
    server.shutdown()
    thread.join()
    server.server_close()


def configuration(root: Path, brokers: str, conninfo: str, port: int) -> Path:
    path = root / "agent.toml"
    path.write_text(f"""
[streams.events]
kafka = {{ servers = ["{brokers}"], topic = "events" }}
format = "json"
idle = "1 h"
[sinks.rows]
type = "postgres"
jobs = ["e2e/*"]
conninfo = "{conninfo}"
[sinks.calls]
type = "webhook"
jobs = ["e2e/*"]
url = "http://127.0.0.1:{port}/"
allow = ["127.0.0.0/8"]
[sinks.stream]
type = "kafka"
jobs = ["e2e/*"]
servers = ["{brokers}"]
topic = "out"
""")
    return path


def total(bodies: list[dict[str, Any]]) -> int:
    return sum(row["n"] for body in bodies for row in body.get("rows", ()))


def stored(db: psycopg.Connection[Any]) -> int:
    try:
        (found,) = db.execute("SELECT coalesce(sum(n), 0)::bigint FROM elf.e2e_counted").fetchall()
    except psycopg.errors.UndefinedTable:
        return 0
    return int(found[0])


def test_every_message_is_counted_once_everywhere_though_the_agent_is_killed(tmp_path: Path) -> None:
    with kafka() as brokers, postgres() as conninfo, receiver() as (port, kept), Fleet(tmp_path) as fleet:
        extra = ["-c", str(configuration(tmp_path, brokers, conninfo, port))]
        agent = Agent(tmp_path / "agent-0", 0, [], extra)
        fleet.agents.append(agent)
        agent.environment = {"ELF_FAILPOINT": "kafka.spooled:2"}
        agent.start()
        agent.wait_ready()
        agent.apply(JOB)
        producer = Producer({"bootstrap.servers": brokers, "log_level": 0})
        for number in range(COUNTED):
            line = json.dumps({"ts": BEGIN + number / 100, "k": "ab"[number % 2]})
            producer.produce("events", line, partition=number % 4)
            assert producer.flush(PATIENCE_S) == 0
        assert agent.process is not None
        agent.process.wait(PATIENCE_S)
        assert agent.process.stdout is not None
        agent.process.stdout.close()
        agent.environment = {}
        agent.start()
        agent.wait_ready()
        spool = agent.directory / "data" / "spool" / "events" / "spool.log"
        eventually(lambda: spool.read_bytes().count(b"\n") >= COUNTED, what="the messages")
        producer.produce("events", json.dumps({"ts": BEGIN + LATER, "k": "later"}), partition=0)
        assert producer.flush(PATIENCE_S) == 0
        eventually(lambda: total(agent.results("e2e/counted")) == COUNTED, what="the count")
        eventually(lambda: total(list(kept.values())) == COUNTED, what="the calls")
        with psycopg.connect(conninfo, autocommit=True) as db:
            eventually(lambda: stored(db) == COUNTED, what="the rows")

        def sent() -> list[dict[str, Any]]:
            return [*{key: body for key, body, _ in messages(brokers)}.values()]

        eventually(lambda: total(sent()) == COUNTED, what="the messages of the sink")
        eventually(lambda: "sinks" not in agent.get("/v1/health"), what="health")
