"""A connection to PostgreSQL that notices a server that has fallen silent.

libpq waits without end, and the kernel ends the wait only where bytes are not acknowledged; a stopped server
and a proxy that forwards nothing acknowledge them. A wait in which no byte comes or goes for `SILENT_S`
therefore closes the connection. What was begun on it is done again, and the position in the database tells
whether it was committed.
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
"""The server's own limit of a statement: longer silence is not work."""

SILENT_S = STATEMENT_MS / 1000 + 15.0
"""How long a server may be silent; more than it may work on a statement."""

SILENT = f"the server has not answered for {SILENT_S:g} s"
KEPT_ALIVE = {
    "keepalives": 1,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""For a host that is gone: the kernel asks after it, and gives up what is not acknowledged. What the conninfo
says of these is in force instead."""


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is closed when its server says nothing for too long (`silent`)."""

    silent = False

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:
        """As psycopg waits, but after `SILENT_S` without a byte it closes and raises OperationalError."""
        return super().wait(self._limited(gen), *args, **kwargs)

    def _limited(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """Pass on what psycopg and libpq say to each other; 0 is what psycopg says of nothing."""
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


def connect(conninfo: str) -> Connection:
    """Connect; psycopg.ProgrammingError if the conninfo cannot be read."""
    given = conninfo_to_dict(conninfo)
    kept = {name: value for name, value in KEPT_ALIVE.items() if name not in given}
    return Connection.connect(
        make_conninfo(conninfo, **kept),
        autocommit=True,
        connect_timeout=CONNECT_S,
        options=f"-c statement_timeout={STATEMENT_MS} -c timezone=UTC",
        application_name="elfmesh",
        client_encoding="utf8",
    )
