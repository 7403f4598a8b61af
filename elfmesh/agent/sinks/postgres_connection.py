"""A connection to PostgreSQL that detects a silent server.

libpq waits without a limit, and the kernel ends the wait only if bytes are not acknowledged; a stopped server
and a stalled proxy acknowledge them. Therefore a wait without any byte in `SILENT_S` closes the connection.
The sink repeats the work, and the position in the database shows whether it was committed.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

T = TypeVar("T")
CONNECT_S = 10
STATEMENT_MS = 30_000
"""Statement limit of the server."""

SILENT_S = STATEMENT_MS / 1000 + 15.0
"""How long the server may be silent; longer than its limit for a statement."""

SILENT = f"the server has not answered for {SILENT_S:g} s"
KEPT_ALIVE = {
    "keepalives": 1,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Settings that detect a dead host: the kernel probes the connection and gives up on unacknowledged bytes.
Settings in the conninfo take precedence."""


class PostgresConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is closed when its server is silent for too long; `silent` is then true."""

    silent = False

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:
        """Wait as psycopg does. After `SILENT_S` without a byte, close and raise OperationalError."""
        return super().wait(self._limited(gen), *args, **kwargs)

    def _limited(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """Relay the wait between psycopg and libpq. psycopg sends 0 if nothing is ready."""
        received = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    received = time.monotonic()
                elif time.monotonic() - received > SILENT_S:
                    self.silent = True
                    self.close()
                    raise psycopg.OperationalError(SILENT)
                wanted = gen.send(ready)
        except StopIteration as done:
            value: T = done.value
            return value


def connect(conninfo: str) -> PostgresConnection:
    """Connect. Raises psycopg.ProgrammingError if the conninfo cannot be parsed."""
    given = conninfo_to_dict(conninfo)
    kept = {name: value for name, value in KEPT_ALIVE.items() if name not in given}
    return PostgresConnection.connect(
        make_conninfo(conninfo, **kept),
        autocommit=True,
        connect_timeout=CONNECT_S,
        options=f"-c statement_timeout={STATEMENT_MS} -c timezone=UTC",
        application_name="elfmesh",
        client_encoding="utf8",
    )
