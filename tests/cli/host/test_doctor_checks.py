"""Each check of this host: what is well, what is not, and what helps."""

from __future__ import annotations

import datetime
import os
import resource
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from elfmesh.agent.settings.config import AgentConfig, config_of
from elfmesh.cli.host import doctor_checks
from elfmesh.cli.host.doctor_checks import (
    HostFinding,
    check_configuration,
    check_joins,
    expiry,
    on_this_host,
    unreachable,
)

NOW = datetime.datetime(2026, 11, 27, 12, tzinfo=datetime.UTC)


def config(tmp_path: Path, **settings: Any) -> AgentConfig:
    return config_of({"data_dir": str(tmp_path / "data"), "api": "127.0.0.1:0", **settings}, "test")


def found(config: AgentConfig, check: str) -> HostFinding:
    return next(each for each in on_this_host(config) if each.check == check)


def no_access(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    """Root may do everything; the tests may run as root."""
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) not in paths and real(path, mode))


def test_the_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = config(tmp_path)
    assert found(given, "data directory").status == "ok"
    given.directory.mkdir(mode=0o700)
    assert found(given, "data directory").status == "ok"
    given.directory.chmod(0o777)
    assert found(given, "data directory").status == "warn"
    no_access(monkeypatch, given.directory)
    assert found(given, "data directory").status == "fail"
    assert "chown" in found(given, "data directory").remedy
    given.directory.rmdir()
    given.directory.write_text("")
    assert found(given, "data directory").found.endswith("is not a directory")


def test_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = config(
        tmp_path, streams={"a": {"path": f"{tmp_path}/*.log"}, "b": {"listen": "udp://127.0.0.1:0"}}
    )
    assert found(given, "logs of a").status == "warn"
    (tmp_path / "x.log").touch()
    assert found(given, "logs of a").status == "ok"
    no_access(monkeypatch, tmp_path / "x.log")
    assert found(given, "logs of a").status == "fail"
    assert f"cannot read {tmp_path}/x.log" in found(given, "logs of a").found
    assert not [each for each in on_this_host(given) if each.check == "logs of b"]


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = config(tmp_path)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (100, 200))
    assert found(given, "descriptors").status == "warn"
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (8192, 8192))
    assert found(given, "descriptors").status == "ok"
    assert found(config(tmp_path, limits={"memory": "16 MB"}), "memory").status == "ok"
    assert found(config(tmp_path, limits={"memory": "90000 GB"}), "memory").status == "warn"


@pytest.mark.parametrize(
    ("free", "status"), [(10**12, "ok"), (10**9, "warn"), (doctor_checks.FREE_BYTES_MIN - 1, "fail")]
)
def test_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, status: str) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert found(config(tmp_path), "disk").status == status


def test_certificates(tmp_path: Path) -> None:
    assert found(config(tmp_path), "certificates").status == "ok"
    assert found(config(tmp_path, dangerously_insecure_network=True), "certificates").status == "warn"
    assert found(config(tmp_path, tls={"dir": str(tmp_path)}), "certificates").status == "fail"


@pytest.mark.parametrize(
    ("expires", "status", "text"),
    [
        ("2027-01-01T00:00:00Z", "ok", "expires in 34 days"),
        ("2026-12-11T12:00:00Z", "ok", "expires in 14 days"),
        ("2026-12-11T11:00:00Z", "warn", "expires in 13 days"),
        ("2026-11-27T11:59:59Z", "fail", "expired at"),
        ("2027-01-01T00:00:00", "ok", "expires in 34 days"),
        ("soon", "fail", "ends at 'soon', which is no time"),
    ],
)
def test_the_end_of_a_certificate(expires: str, status: str, text: str) -> None:
    found = expiry("x", expires, NOW)
    assert (found.status, found.found.startswith(text)) == (status, True)


def test_agents_to_join(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = "127.0.0.1", server.getsockname()[1]
        join = [f"{address[0]}:{address[1]}"]
        assert [each.status for each in check_joins(config(tmp_path, join=join))] == ["ok"]
        assert unreachable([address]) == []
    (wrong,) = check_joins(config(tmp_path, join=join))
    assert (wrong.status, f"no connection to {join[0]} (" in wrong.found) == ("fail", True)
    assert list(check_joins(config(tmp_path))) == []


def test_files_that_are_no_configuration(tmp_path: Path) -> None:
    jobs = tmp_path / "a.elfql"
    jobs.write_text("SELECT 1 FROM x")
    assert check_configuration(str(jobs))[1][0].status == "fail"
    jobs.write_text("name = ")
    given, (found,) = check_configuration(str(jobs))
    assert (given, found.status) == (None, "fail")
