"""Where a stream listens: `udp://HOST:PORT`, `tcp://HOST:PORT`, `http://HOST:PORT`, `unix:///PATH`.

`program://NAMESPACE/NAME` listens nowhere: the programs of this name insert into it (docs/programs.md).
A unix socket is one of datagrams, as /dev/log is; `unix-stream:///PATH` is one of connections.
"""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.addresses import is_loopback, parse_address
from elfmesh.control.jobs.manifest import split_name
from elfmesh.errors import ConfigError

SCHEMES = ("udp", "tcp", "unix", "unix-stream", "http", "program")
UNIX_PATH_BYTES_MAX = 100
"""What the kernel takes, with a little left."""


@dataclass(frozen=True)
class Address:
    """A parsed address of a scheme in SCHEMES; `path` is of unix, or the name of a program."""

    scheme: str
    host: str = ""
    port: int = 0
    path: str = ""


def parse_listen(text: str, *, where: str) -> Address:
    """Read a `listen` of a stream.

    ConfigError: no such scheme or address, or one that other hosts can reach, because nothing here
    authenticates senders, who can fill the spool and the answers.
    """
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in SCHEMES:
        raise ConfigError(
            f"{text!r} is not an address to listen on",
            where=where,
            hint="udp://127.0.0.1:5514, tcp://..., http://... or unix:///run/elf.sock.",
        )
    if scheme == "program":
        try:
            return Address(scheme, path="/".join(split_name(rest)))
        except ValueError as error:
            hint = "program://NAMESPACE/NAME: the name of the job whose programs insert here."
            raise ConfigError(str(error), where=where, hint=hint) from None
    if scheme.startswith("unix"):
        if not rest.startswith("/") or len(rest.encode()) > UNIX_PATH_BYTES_MAX:
            raise ConfigError(
                f"{rest!r} is not the path of a socket",
                where=where,
                hint=f"An absolute path of at most {UNIX_PATH_BYTES_MAX} bytes.",
            )
        return Address(scheme, path=rest)
    host, port = parse_address(rest.rstrip("/"), where=where)
    if not is_loopback(host):
        raise ConfigError(
            f"{host} can be reached from other hosts, and no certificates are configured",
            where=where,
            hint=f"Use a loopback address ({scheme}://127.0.0.1:PORT) and an authenticating proxy.",
        )
    return Address(scheme, host, port)
