"""A PostgreSQL server of its own for tests, started when first asked for."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S


@contextmanager
def postgres() -> Iterator[str]:
    """The conninfo of an empty database; skips where no server can be started."""
    # Not under pytest's directory: the server drops root's rights, and that one is root's alone.
    directory = Path(tempfile.mkdtemp(prefix="elf-postgres-"))
    directory.chmod(0o755)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it asks for a directory that it does not need
            from pgserver.postgres_server import get_server

        try:
            server = get_server(directory / "data")
        except Exception as error:  # of whatever kind: pgserver wraps nothing
            pytest.skip(f"no PostgreSQL server can be started here: {error}")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def kafka(brokers: int = 1) -> Iterator[str]:
    """The addresses of librdkafka's own brokers: the real protocol over TCP, without isolation or fencing."""
    from confluent_kafka import Producer

    cluster = Producer({"bootstrap.servers": "none:1", "test.mock.num.brokers": brokers, "log_level": 0})
    found = cluster.list_topics(timeout=PATIENCE_S).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in found)
    del cluster
