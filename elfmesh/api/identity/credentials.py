"""Credentials of a client: a certificate, or the token of an agent on this host.

The module owns the order in which a client looks for credentials: arguments of the caller, then ELF_CERT,
ELF_KEY, ELF_CA and ELF_TOKEN_FILE, then the note that this user's own agent wrote for its address (`bearer`).
With a CA, the connection uses TLS 1.3 only. A client sends a token only to the agent for which it was named,
and never follows a redirect with it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elfmesh.api.identity.bearer import noted_token, read_token
from elfmesh.errors import ConfigError

if TYPE_CHECKING:
    import ssl

VARIABLES = {"cert": "ELF_CERT", "key": "ELF_KEY", "ca": "ELF_CA", "token_file": "ELF_TOKEN_FILE"}


@dataclass(frozen=True)
class Credentials:
    """Files with which a client authenticates; "" for none.

    Attributes:
        cert: certificate, PEM, followed by its intermediate certificates.
        key: private key, PEM, mode 0600.
        ca: certificates of the authorities that issue the agents' certificates.
        token_file: file with an agent's token.
    """

    cert: str = ""
    key: str = ""
    ca: str = ""
    token_file: str = ""

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context of connections, or None without a CA, for plain HTTP.

        Raises:
            ConfigError: a file cannot be used, or one of the three is missing.
        """
        if not (self.cert or self.key or self.ca):
            return None
        for name in ("cert", "key", "ca"):
            if not getattr(self, name):
                raise ConfigError(
                    f"--{name} is missing",
                    hint=f"--cert, --key and --ca go together; {VARIABLES[name]} also sets it.",
                )
        from elfmesh.api.identity.tls import client_context

        return client_context(self.cert, self.key, self.ca)

    def headers(self, address: str) -> dict[str, str]:
        """Return the authentication headers for `address` ("HOST:PORT").

        The token is read each time, because a restarted agent has a new one.

        Raises:
            ConfigError: the named token file cannot be used.
        """
        if self.ca:
            return {}
        token = read_token(self.token_file) if self.token_file else noted_token(_canonical(address))
        return {} if token is None else {"Authorization": f"Bearer {token}"}


chosen = Credentials()
"""Credentials from the command line, for this process; see `cli/common.py`."""


def choose(credentials: Credentials) -> None:
    global chosen
    chosen = credentials


def default_credentials(
    *, cert: str | None = None, key: str | None = None, ca: str | None = None, token_file: str | None = None
) -> Credentials:
    """Return what the caller names; otherwise what the command line or the environment specifies."""
    given = {"cert": cert, "key": key, "ca": ca, "token_file": token_file}
    return Credentials(
        **{
            name: value or getattr(chosen, name) or os.environ.get(VARIABLES[name], "")
            for name, value in given.items()
        }
    )


def _canonical(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"127.0.0.1:{port}" if host == "localhost" else address
