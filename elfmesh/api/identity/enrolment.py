"""Enrolment over HTTP: a host sends a join token to the CA and receives a certificate.

The module owns the listener and the client around `joining`. The client knows the CA by the fingerprint in
its token. It fetches the root without trusting the server, compares the fingerprint, and only then sends the
secret, to a listener with a certificate of that root. The private key is created on the host and stays there.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import logging
import socket
import ssl
import tempfile
import time
from pathlib import Path

from aiohttp import web
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from elfmesh.api.client.client_base import api_address
from elfmesh.api.identity.bearer import read_private
from elfmesh.api.identity.ca import CERT_DAYS, Authority, CertificateRequest
from elfmesh.api.identity.joining import CSR_BYTES_MAX, NotAdmitted, Token, admit
from elfmesh.api.identity.key_files import new_key, write_public
from elfmesh.api.identity.names import SCHEME
from elfmesh.api.identity.trust import facts_of
from elfmesh.api.web.handshake_limits import HandshakeLimits
from elfmesh.api.web.request_limits import RequestLimits
from elfmesh.api.web.responses import json_body
from elfmesh.errors import ConfigError, RuntimeFailure, Unreachable, UsageError

log = logging.getLogger("elf.ca")
TIMEOUT_S = 30.0
ANSWER_BYTES_MAX = 64 << 10
LISTENER_DAYS = 30.0
_KEPT_AS = "_enrolment"
"""Not a valid name of a host, so a certificate issued for a host named "ca" is not overwritten."""


class Listener:
    """Answers signing requests that contain a token.

    Args:
        authority: the CA.
        days: validity of certificates.
    """

    def __init__(self, authority: Authority, days: float = CERT_DAYS) -> None:
        self._authority, self._days = authority, days
        self._signing = asyncio.Lock()

    async def serve(self, host: str, port: int) -> tuple[web.AppRunner, int]:
        """Listen, and return the runner to clean up and the port. Raises OSError."""
        request_limits = RequestLimits()
        app = web.Application(client_max_size=2 * CSR_BYTES_MAX, middlewares=[request_limits.middleware])
        app.router.add_get("/ca.pem", self._root)
        app.router.add_post("/v1/enrol", self._enrol)
        context, sock = self._context(), _listening(host, port)
        ends = contextlib.AsyncExitStack()
        ends.callback(sock.close)

        async def end(app: web.Application) -> None:
            await ends.aclose()

        app.on_shutdown.append(end)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, auto_decompress=False)
        await runner.setup()
        assert runner.server is not None
        ends.push_async_callback(await request_limits.watch(runner.server))
        ends.push_async_callback(HandshakeLimits(sock, runner.server, lambda: context).close)
        return runner, int(sock.getsockname()[1])

    async def _root(self, request: web.Request) -> web.Response:
        return web.Response(body=self._authority.pem, content_type="application/x-pem-file")

    async def _enrol(self, request: web.Request) -> web.Response:
        try:
            body = await json_body(request)
            number, secret = str(body["number"]), base64.b64decode(body["secret"], validate=True)
            csr = str(body["request"]).encode()
        except (ValueError, KeyError, TypeError, UsageError):
            return web.json_response({"error": "number, secret and request are required"}, status=400)
        async with self._signing:
            try:
                pem = await asyncio.to_thread(
                    admit, self._authority, number, secret, csr, now_s=time.time(), days=self._days
                )
            except NotAdmitted as error:
                log.warning("a host is not admitted: %s", error)
                return web.json_response({"error": str(error)}, status=403)
        log.info("token %s is spent", number)
        return web.json_response({"certificate": pem.decode()})

    def _context(self) -> ssl.SSLContext:
        """Create the listener's own certificate, which is used until the listener stops and is not kept."""
        wanted = CertificateRequest(_KEPT_AS, (_listener_name(self._authority.cluster),), server=True)
        with tempfile.TemporaryDirectory() as place:
            key = new_key(Path(place) / "key.pem")
            (Path(place) / "cert.pem").write_bytes(
                self._authority.sign(wanted, key.public_key(), LISTENER_DAYS)
            )
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.load_cert_chain(Path(place) / "cert.pem", Path(place) / "key.pem")
        return context


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.create_server((host, port), family=family)
    sock.setblocking(False)
    return sock


def enrol(token: Token, place: Path) -> None:
    """Get a certificate for the key in `place`, and write cert.pem, key.pem and ca.pem there.

    Creates a key if there is none.

    Raises:
        Unreachable: the CA does not answer.
        ConfigError: the server is not the CA of the token.
        RuntimeFailure: the CA refuses the token.
    """
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    root = _root_of(token)
    path = place / "key.pem"
    key = _load(path) if path.exists() else new_key(path)
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, token.host)]))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    pem = _ask(token, root, request)
    authority = x509.load_pem_x509_certificate(root)
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        certificate.verify_directly_issued_by(authority)
        if certificate.public_key() != key.public_key():
            raise ValueError("another key")
    except (ValueError, TypeError, InvalidSignature):
        raise RuntimeFailure("the CA returned a certificate for another key", where=token.at) from None
    write_public(place / "ca.pem", root)
    write_public(place / "cert.pem", pem)


def _root_of(token: Token) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # the fingerprint is compared instead
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, pem = _request(token, context, "GET", "/ca.pem")
    try:
        der = ssl.PEM_cert_to_DER_cert(pem.decode("ascii"))
    except ValueError:
        der = b""
    if not hmac.compare_digest(hashlib.sha256(der).hexdigest(), token.ca):
        hint = "Another server answers there, or the token belongs to another CA. The token was not sent."
        raise ConfigError("the server is not the CA of the token", where=token.at, hint=hint)
    return ssl.DER_cert_to_PEM_cert(der).encode()


def _ask(token: Token, root: bytes, request: bytes) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # the name in the certificate is checked in its own form before anything is sent
    context.check_hostname = False
    context.load_verify_locations(cadata=root.decode())
    secret = base64.b64encode(token.secret).decode()
    body = {"number": token.number, "secret": secret, "request": request.decode()}
    status, answer = _request(token, context, "POST", "/v1/enrol", json.dumps(body).encode())
    try:
        reported = json.loads(answer)
        if status == http.client.OK:
            return str(reported["certificate"]).encode()
        reason = str(reported["error"])
    except (ValueError, KeyError, TypeError):
        reason = f"status {status}"
    raise RuntimeFailure(f"the CA at {token.at} does not admit {token.host}: {reason}")


def _request(
    token: Token, context: ssl.SSLContext, method: str, target: str, body: bytes | None = None
) -> tuple[int, bytes]:
    """Send a request and return status and body. With a trusted root, the server must be the listener."""
    host, port = api_address(token.at)
    with contextlib.closing(
        http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)
    ) as connection:
        try:
            connection.connect()
            if context.verify_mode == ssl.CERT_REQUIRED:
                der = connection.sock.getpeercert(binary_form=True)
                if der is None or _listener_name(token.cluster) not in facts_of(der).names:
                    raise ConfigError("the server is not `elf ca serve`", where=token.at)
            connection.request(method, target, body, {"Content-Type": "application/json"} if body else {})
            with connection.getresponse() as response:
                return response.status, response.read(ANSWER_BYTES_MAX)
        except (OSError, http.client.HTTPException) as error:
            hint = "`elf ca serve` is one."
            raise Unreachable(f"no CA answers at {token.at} ({error})", hint=hint) from None


def _load(path: Path) -> ec.EllipticCurvePrivateKey:
    data = read_private(path, what="the private key")
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError("is not an elliptic curve private key", where=str(path))
    return key


def _listener_name(cluster: str) -> str:
    return f"{SCHEME}{cluster}/enrolment/ca"
