"""What a client shows an agent's API: a certificate, or the token of an agent on this host.

Owns where clients look: what the caller names, then ELF_CERT, ELF_KEY, ELF_CA and ELF_TOKEN_FILE, then the
note that this user's own agent has left for its address (`bearer`). With a CA the connection is TLS 1.3 and
nothing else; a token goes to the agent it was named for and never over a redirect.
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
    """Files that say who a client is; "" for none.

    Attributes:
        cert: the certificate, PEM, with its intermediate ones behind it.
        key: its private key, PEM, mode 0600.
        ca: whose certificates agents must have.
        token_file: holds an agent's token.
    """

    cert: str = ""
    key: str = ""
    ca: str = ""
    token_file: str = ""

    def context(self) -> ssl.SSLContext | None:
        """What to connect with; None without a CA: plain HTTP.

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
        """The headers of a request to `address` ("HOST:PORT"); agents make the token again at each start.

        Raises:
            ConfigError: the token file that was named cannot be used.
        """
        if self.ca:
            return {}
        token = read_token(self.token_file) if self.token_file else noted_token(_canonical(address))
        return {} if token is None else {"Authorization": f"Bearer {token}"}


chosen = Credentials()
"""What the command line says, for this process; see `cli/common.py`."""


def choose(credentials: Credentials) -> None:
    global chosen
    chosen = credentials


def default_credentials(
    *, cert: str | None = None, key: str | None = None, ca: str | None = None, token_file: str | None = None
) -> Credentials:
    """What the caller names, else what the command line or the environment does."""
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
