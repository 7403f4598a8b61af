"""A connection to PostgreSQL that notices a server that has fallen silent."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import psycopg
import pytest

from elfmesh.agent.sinks.postgres_connection import SILENT_S, PostgresConnection, connect


class Silent(PostgresConnection):
    """Without a server: only how long it waits."""

    def __init__(self) -> None:
        self.closed_by_itself = False

    def close(self) -> None:
        self.closed_by_itself = True

    def __del__(self, *_: Any) -> None: ...


def talk() -> Generator[str, int, str]:
    """What psycopg waits for: twice a byte."""
    first = yield "read"
    second = yield "write"
    return f"{first}{second}"


def play(monkeypatch: pytest.MonkeyPatch, *steps: tuple[float, int]) -> tuple[Silent, str]:
    """What comes of a wait in which so many seconds pass before each answer; 0 says that nothing came."""
    connection, now = Silent(), [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    wait = connection._limited(talk())
    assert next(wait) == "read"
    for seconds, ready in steps:
        now[0] += seconds
        try:
            wait.send(ready)
        except StopIteration as done:
            return connection, str(done.value)
        except psycopg.OperationalError as error:
            return connection, str(error)
    return connection, "waits"


@pytest.mark.parametrize(
    ("steps", "outcome", "silent"),
    [
        ([(1, 1), (1, 2)], "12", False),
        ([(SILENT_S, 0)], "waits", False),
        ([(SILENT_S + 1, 0)], f"the server has not answered for {SILENT_S:g} s", True),
        ([(SILENT_S + 1, 1), (SILENT_S + 1, 2)], "12", False),  # a byte came, late as it was
        ([(SILENT_S, 1), (SILENT_S + 1, 0)], f"the server has not answered for {SILENT_S:g} s", True),
    ],
)
def test_a_wait_ends_when_no_byte_comes_for_too_long(
    steps: list[tuple[float, int]], outcome: str, silent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, found = play(monkeypatch, *steps)
    assert (found, connection.silent, connection.closed_by_itself) == (outcome, silent, silent)


@pytest.mark.parametrize(
    ("conninfo", "expected"),
    [
        ("host=h", {"keepalives_idle": 15, "tcp_user_timeout": 30_000}),
        ("host=h tcp_user_timeout=7", {"keepalives_idle": 15, "tcp_user_timeout": "7"}),
        ("postgresql://h/db?keepalives_idle=3", {"keepalives_idle": "3", "tcp_user_timeout": 30_000}),
    ],
)
def test_settings_of_the_conninfo_are_in_force(
    conninfo: str, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(PostgresConnection, "connect", lambda info, **options: given.append((info, options)))
    connect(conninfo)
    ((info, options),) = given
    found = psycopg.conninfo.conninfo_to_dict(info)
    assert {name: str(found[name]) for name in expected} == {n: str(v) for n, v in expected.items()}
    assert options["autocommit"]
    assert "statement_timeout=30000" in options["options"]
