"""Messages to the service manager that started the agent, by sd_notify(3).

Without NOTIFY_SOCKET, no message is sent. The first message that cannot be sent is logged.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import MutableMapping

from elfmesh.errors import ConfigError

log = logging.getLogger("elf.agent")
SOCKET, WATCHDOG, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"


class Notifier:
    """Connection to a service manager at an address ("": none).

    The manager kills the agent if it receives no sign of life for `watchdog_s`.
    """

    def __init__(self, address: str = "", watchdog_s: float | None = None) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self.watchdog_s = watchdog_s if address else None
        self._silenced = False

    def ready(self, status: str) -> None:
        """Report that the agent serves requests, or that a reload is complete."""
        self._send("READY=1", f"STATUS={status}", f"MAINPID={os.getpid()}")

    def reloading(self) -> None:
        """Report that the configuration is being read again; `ready` follows."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._send("STOPPING=1", "STATUS=stopping")

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def status(self, text: str) -> None:
        """Set the status line that `systemctl status` shows."""
        self._send(f"STATUS={text}")

    def _send(self, *fields: str) -> None:
        """Send one datagram. Cost: a system call; never waits for a manager that does not read."""
        if not self._address:
            return
        text = "\n".join(field.replace("\n", " ") for field in fields)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.setblocking(False)
                sock.sendto(text.encode(), self._address)
        except OSError as error:
            if not self._silenced:
                log.warning("the service manager cannot be told %r: %s", fields[0], error)
            self._silenced = True


def notifier_of(environment: MutableMapping[str, str]) -> Notifier:
    """Return the manager that the environment names, and hide its variables from child processes."""
    address = environment.pop(SOCKET, "")
    period, process = environment.pop(WATCHDOG, ""), environment.pop(WATCHDOG_PID, "")
    if not address:
        return Notifier()
    if address[0] not in "/@" or len(address) < 2:
        raise ConfigError(f"{address!r} is neither a path nor an abstract name", where=SOCKET)
    if not period or (process and process != str(os.getpid())):
        return Notifier(address)
    if not period.isdecimal() or not int(period):
        raise ConfigError(f"{period!r} is not a number of microseconds", where=WATCHDOG)
    return Notifier(address, int(period) / 1e6)
