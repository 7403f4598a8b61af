"""TLS contexts of all connections: TLS 1.3 with a certificate on both sides.

The module owns the two kinds of `ssl.SSLContext` (server and client) and the reading of their files. Sessions
are never resumed, because a resumed session would not verify the peer's certificate again.
"""

from __future__ import annotations

import ssl

from elfmesh.api.identity.bearer import read_private
from elfmesh.errors import ConfigError


def server_context(cert: str, key: str, ca: str) -> ssl.SSLContext:
    """Return the context of a server. Clients must present a certificate of `ca`.

    Raises:
        ConfigError: a file cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0
    return _ready(context, cert, key, ca)


def client_context(cert: str, key: str, ca: str, *, check_hostname: bool = True) -> ssl.SSLContext:
    """Return the context of a client. The server must present a certificate of `ca`.

    Args:
        cert: certificate file, PEM, with intermediate certificates.
        key: private key file, PEM, mode 0600.
        ca: certificates of the accepted authorities, PEM.
        check_hostname: whether the certificate must contain the address of the connection; otherwise the
            caller checks the certificate.

    Raises:
        ConfigError: a file cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = check_hostname
    return _ready(context, cert, key, ca)


def _ready(context: ssl.SSLContext, cert: str, key: str, ca: str) -> ssl.SSLContext:
    read_private(key, what="the private key")
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    try:
        context.load_verify_locations(cafile=ca)
    except (ssl.SSLError, OSError) as error:
        raise _unusable(ca, "no certificates", error) from None
    try:
        # the empty password prevents a prompt on a terminal
        context.load_cert_chain(cert, key, password="")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise _unusable(cert, f"no certificate with the key in {key}", error) from None
    return context


def _unusable(path: str, what: str, error: Exception) -> ConfigError:
    if isinstance(error, ssl.SSLError) or not isinstance(error, OSError):
        reason = getattr(error, "reason", None) or str(error)
        return ConfigError(f"holds {what} ({reason})", where=path)
    return ConfigError(f"cannot be read: {error.strerror or error}", where=path)
