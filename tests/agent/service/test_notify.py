"""What an agent tells the service manager, heard by a real socket."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from elfmesh.agent.service.notify import Notifier, notifier_of
from elfmesh.errors import ConfigError
from tests.agent.service.listener import Listener
from tests.patience import PATIENCE_S


def test_every_message_is_as_the_manual_defines_it(tmp_path: Path) -> None:
    with Listener(tmp_path / "notify") as manager:
        notifier = Notifier(str(manager.path), 2.0)
        notifier.ready("api 127.0.0.1:7401")
        assert manager.next() == {
            "READY": "1", "STATUS": "api 127.0.0.1:7401", "MAINPID": str(os.getpid()),
        }  # fmt: skip
        notifier.alive()
        assert manager.next() == {"WATCHDOG": "1"}
        notifier.reloading()
        reloading = manager.next()
        assert reloading is not None
        assert reloading["RELOADING"] == "1"
        assert int(reloading["MONOTONIC_USEC"]) > 0
        notifier.stopping()
        assert manager.next() == {"STOPPING": "1", "STATUS": "stopping"}


def test_a_line_break_in_a_status_is_no_second_message(tmp_path: Path) -> None:
    with Listener(tmp_path / "notify") as manager:
        Notifier(str(manager.path)).status("bad\nWATCHDOG=1")
        assert manager.next() == {"STATUS": "bad WATCHDOG=1"}


def test_an_abstract_name_is_an_address_too() -> None:
    name = f"elf-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}")
        manager.settimeout(PATIENCE_S)
        Notifier(f"@{name}").alive()
        assert manager.recv(100) == b"WATCHDOG=1"


def test_a_manager_that_has_gone_costs_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    notifier = Notifier(str(tmp_path / "nobody"))
    for _ in range(3):
        notifier.alive()
    assert [record.getMessage() for record in caplog.records] == [
        "the service manager cannot be told 'WATCHDOG=1': [Errno 2] No such file or directory"
    ]


def test_a_service_manager_that_does_not_read_never_blocks_the_agent(tmp_path: Path) -> None:
    with Listener(tmp_path / "notify") as manager:
        notifier = Notifier(str(manager.path))
        for _ in range(5000):  # far more than its queue takes: a blocking send would never end
            notifier.alive()
        assert manager.next() == {"WATCHDOG": "1"}


def test_without_a_manager_the_agent_sends_nothing_and_no_watchdog_runs() -> None:
    notifier = notifier_of({"WATCHDOG_USEC": "1000"})
    assert notifier.watchdog_s is None
    notifier.ready("")


def test_the_environment_is_taken_and_not_handed_on() -> None:
    environment = {
        "NOTIFY_SOCKET": "/run/n",
        "WATCHDOG_USEC": "2500000",
        "WATCHDOG_PID": str(os.getpid()),
        "A": "b",
    }
    assert notifier_of(environment).watchdog_s == 2.5
    assert environment == {"A": "b"}


def test_a_watchdog_that_is_meant_for_another_process_is_not_ours() -> None:
    assert (
        notifier_of({"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"}).watchdog_s is None
    )


@pytest.mark.parametrize(
    ("environment", "where"),
    [
        ({"NOTIFY_SOCKET": "run/n"}, "NOTIFY_SOCKET"),
        ({"NOTIFY_SOCKET": "@"}, "NOTIFY_SOCKET"),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "0"}, "WATCHDOG_USEC"),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "-5"}, "WATCHDOG_USEC"),
    ],
)
def test_what_makes_no_sense_is_refused(environment: dict[str, str], where: str) -> None:
    with pytest.raises(ConfigError) as caught:
        notifier_of(environment)
    assert caught.value.where == where
