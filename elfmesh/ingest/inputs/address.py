"""Listening addresses of streams: `http://HOST:PORT`, `unix:///PATH` and others in SCHEMES.

`program://NAMESPACE/NAME` opens no socket; programs of this name insert into the stream (docs/programs.md).
`unix:///PATH` is a datagram socket, like /dev/log; `unix-stream:///PATH` accepts connections.
"""

from __future__ import annotations

from msgspec import Struct

from elfmesh.addresses import is_loopback, parse_address
from elfmesh.control.jobs.manifest import split_name
from elfmesh.errors import ConfigError

SCHEMES = ("udp", "tcp", "unix", "unix-stream", "http", "otlp", "otlp-grpc", "program")
UNIX_PATH_BYTES_MAX = 100
"""Longest path of a unix socket: the kernel's limit, with some margin."""


class Address(Struct, frozen=True):
    """Parsed address, with a scheme in SCHEMES; `path` is for unix sockets, or the name of a program."""

    scheme: str
    host: str = ""
    port: int = 0
    path: str = ""


def parse_listen(text: str, *, where: str) -> Address:
    """Parse the `listen` setting of a stream.

    Raises ConfigError for an unknown scheme, an invalid address, or one that other hosts can reach. Senders
    are not authenticated, and could fill the spool and falsify results.
    """
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in SCHEMES:
        raise ConfigError(
            f"{text!r} is not an address to listen on",
            where=where,
            hint="udp://127.0.0.1:5514, tcp://..., http://..., otlp://..., otlp-grpc://... or unix:///run/elf.sock.",
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
