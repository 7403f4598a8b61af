"""Hosts with addresses of their own on one machine: network namespaces on a bridge.

Owns the namespaces and the cables. What is begun in one by `command` sees its own loopback and its own
address, and no other network; `cut` pulls a host's cable, `mend` plugs it in again. Needs root and `ip`.

Invariant: leaving the context leaves no namespace behind; they are named after this process, so that runs
side by side do not meet.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Self

NETWORK = "10.91.7."


def unavailable() -> str:
    """Why there can be no namespaces here, "" if there can."""
    if shutil.which("ip") is None:
        return "needs ip (iproute2)"
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    probe = f"elf-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, check=False)
    if made.returncode:
        return f"no network namespace can be made: {made.stderr.decode().strip()}"
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return ""


class Namespaces:
    """Hosts by name, in the order of their addresses."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self.hosts = list(hosts)
        self._prefix = f"elf-{os.getpid()}-"

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def address(self, host: str) -> str:
        """The host's IPv4 address."""
        return f"{NETWORK}{self.hosts.index(host) + 1}"

    def command(self, host: str, argv: Sequence[str]) -> list[str]:
        """What runs `argv` on a host."""
        return ["ip", "netns", "exec", self._name(host), *argv]

    def cut(self, host: str) -> None:
        """Pull the cable: nothing comes in, nothing goes out, and no process is notified."""
        self._cable(host, "down")

    def mend(self, host: str) -> None:
        """Plug it in again."""
        self._cable(host, "up")

    def _cable(self, host: str, state: str) -> None:
        _ip("-n", self._name("switch"), "link", "set", self._port(host), state)

    def _name(self, host: str) -> str:
        return self._prefix + host

    def _port(self, host: str) -> str:
        return f"port{self.hosts.index(host)}"

    def _make(self) -> None:
        switch = self._name("switch")
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for host in self.hosts:
            name, port = self._name(host), self._port(host)
            _ip("netns", "add", name)
            _ip("-n", switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("-n", switch, "link", "set", port, "master", "bridge", "up")
            _ip("-n", name, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                _ip("-n", name, "link", "set", link, "up")

    def _remove(self) -> None:
        for host in (*self.hosts, "switch"):
            subprocess.run(["ip", "netns", "del", self._name(host)], capture_output=True, check=False)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
