"""The HTTP API of a real agent process: broken requests, odd parameters, hostile bodies.

Time and memory are the agent's own: processor time of its loop's thread, and the growth of its resident set.
"""

from __future__ import annotations

import json
import random
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from elfmesh.errors import ProtocolError
from tests.e2e.fleet import Fleet
from tests.fuzz.engine import BYTES_MAX, HANG_S, Harness
from tests.fuzz.mutate import BYTES, NASTY, changed, mutated
from tests.patience import PATIENCE_S

JOB = "CREATE JOB fuzz.kept AS SELECT k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k"
PATHS = (
    "/v1/jobs",
    "/v1/jobs/fuzz/kept",
    "/v1/jobs/fuzz/kept/results?from=0&to=9&limit=3&wait=0",
    "/v1/jobs/fuzz/kept/schema?wait=0",
    "/v1/jobs/fuzz/kept/offsets?after=5",
    "/v1/jobs/fuzz/kept/arrow?from=0&to=9",
    "/v1/jobs/no/such",
    "/v1/agents",
    "/v1/streams",
    "/v1/trees",
    "/v1/agent",
    "/v1/health",
)
SPLICES = (
    *BYTES,
    b"%00",
    b"%ff",
    b"%2e%2e/",
    b"?",
    b"&",
    b"=",
    b"9" * 30,
    b"-1",
    b"1e308",
    b"nan",
    b"wait=30&",
    b"\r\n\r\n",
    b"chunked",
)
REST_S = 0.1
"""How long the rest of an answer is waited for where a request has no end."""


class _Server:
    """One agent with one job, and a connection to its API."""

    def __init__(self) -> None:
        self.address = ("", 0)
        self.pid = 0
        self.resident = 0

    @contextmanager
    def up(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as directory, Fleet(Path(directory)) as fleet:
            fleet.start(1)
            fleet[0].apply(JOB)
            host, port = fleet[0].api.rsplit(":", 1)
            self.address = (host, int(port))
            assert fleet[0].process is not None
            self.pid = fleet[0].process.pid
            yield
            assert fleet[0].process.poll() is None, "the agent has died"
            errors = fleet[0].errors()
            assert "Traceback" not in errors, errors[-4000:]

    def spent_s(self) -> float:
        """Processor time of the thread that runs the agent's loop."""
        return int(Path(f"/proc/{self.pid}/task/{self.pid}/schedstat").read_text().split()[0]) / 1e9

    def resident_bytes(self) -> int:
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(text.split("VmHWM:")[1].split()[0]) * 1024

    def ask(self, request: bytes) -> bytes:
        """All that comes back until the connection is closed."""
        with socket.create_connection(self.address, timeout=PATIENCE_S) as sock:
            parts = []
            try:
                sock.sendall(request)
                sock.settimeout(REST_S)
                with suppress(TimeoutError):  # it waits for the rest of a request that has none
                    while part := sock.recv(1 << 16):
                        parts.append(part)
                sock.settimeout(PATIENCE_S)
                sock.shutdown(socket.SHUT_WR)
                while part := sock.recv(1 << 16):
                    parts.append(part)
            except OSError as error:  # closed on us before all was sent: an answer too
                if isinstance(error, TimeoutError):
                    raise
            return b"".join(parts)


def http() -> Harness:
    """Requests to a real agent."""
    server = _Server()

    def head(rng: random.Random, method: str, path: str, more: str = "") -> bytes:
        host = rng.choice(
            (f"127.0.0.1:{server.address[1]}",) * 8 + ("evil.example", "", "[::1", "localhost:99999")
        )
        return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n".encode()

    def generate(rng: random.Random) -> bytes:
        if rng.random() < 0.6:
            method = rng.choice(("GET",) * 6 + ("DELETE", "PUT", "HEAD", "OPTIONS", "BREW"))
            path = rng.choice(PATHS) if method != "DELETE" else "/v1/jobs/no/such"
            request = head(rng, method, path)
            return mutated(rng, request, SPLICES) if rng.random() < 0.8 else request
        body: object = {"text": JOB, "dry_run": True, "creator": "me", "source": "x"}
        body = changed(rng, body) if rng.random() < 0.7 else rng.choice(NASTY)
        content = json.dumps(body, default=repr).encode()
        if rng.random() < 0.3:
            content = mutated(rng, content, SPLICES)
        size = len(content) if rng.random() < 0.9 else rng.choice((0, 1, 2**31, 2**64))
        kind = rng.choice(("application/json",) * 9 + ("text/plain",))
        request = head(rng, "POST", "/v1/jobs", f"Content-Type: {kind}\r\nContent-Length: {size}\r\n")
        return (mutated(rng, request, SPLICES) if rng.random() < 0.2 else request) + content

    def run(data: bytes) -> None:
        before = server.spent_s()
        server.resident = server.resident or server.resident_bytes()
        answer = server.ask(data)
        spent = server.spent_s() - before
        assert spent < HANG_S, f"the agent worked {spent:.1f} s"
        assert server.resident_bytes() - server.resident < BYTES_MAX, "the agent has grown"
        status = answer.split(b" ", 2)[1:2]
        assert not status or status[0] not in (b"500",), answer[:2000]
        if status and status[0] >= b"400":
            raise ProtocolError("refused, as answered")

    return Harness(
        "http", "requests to the HTTP API of a real agent", generate, run, 10_000, around=server.up
    )
