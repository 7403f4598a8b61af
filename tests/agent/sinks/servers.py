"""Servers of their own for tests, started when first asked for, and a process that may open no more files."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
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


STANDARD = 3
"""Descriptors of every process: of more than these none can be opened any more."""

EXHAUSTED = f"the process has no file descriptor left (RLIMIT_NOFILE is {STANDARD})"


@contextmanager
def starved() -> Iterator[None]:
    """This process opens no file and no socket meanwhile; those that are open stay."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (STANDARD, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def kafka_apart() -> Iterator[str]:
    """As `kafka`, in a process that has descriptors while this one has none."""
    code = f"""
import sys
sys.path[:] = {sys.path!r}
from tests.agent.sinks.servers import kafka
with kafka() as servers:
    print(servers, flush=True)
    sys.stdin.read()
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        assert process.stdin is not None
        process.stdin.close()


@contextmanager
def kafka(brokers: int = 1) -> Iterator[str]:
    """The addresses of librdkafka's own brokers: the real protocol over TCP, without isolation or fencing."""
    from confluent_kafka import Producer

    cluster = Producer({"bootstrap.servers": "none:1", "test.mock.num.brokers": brokers, "log_level": 0})
    found = cluster.list_topics(timeout=PATIENCE_S).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in found)
    del cluster
