"""Certificates for tests, of CAs made on the spot: files as `elf ca issue` writes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from elfmesh.api.identity.ca import Authority
from elfmesh.api.identity.credentials import Credentials
from elfmesh.api.identity.key_files import new_key
from elfmesh.api.identity.principal import Role
from elfmesh.api.identity.trust import Files


def issued(
    ca: Authority,
    name: str,
    *roles: Role,
    place: Path | None = None,
    agent: bytes | None = None,
    days: float = 1.0,
    namespace: str = "",
    cluster: str = "",
) -> Files:
    """Files of a certificate in a directory of its own, and a deny list; `cluster` names another one."""
    directory = place or ca.directory / "for" / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "key.pem").unlink(missing_ok=True)
    key = new_key(directory / "key.pem")
    wanted = ca.wanted(name, [(role, namespace) for role in roles], agent=agent)
    if cluster:
        wanted = replace(wanted, uris=tuple(uri.replace(ca.cluster, cluster, 1) for uri in wanted.uris))
    (directory / "cert.pem").write_bytes(ca.sign(wanted, key.public_key(), days))
    (directory / "ca.pem").write_bytes(ca.pem)
    (directory / "deny").touch()
    cert, private, root, deny = (str(directory / name) for name in ("cert.pem", "key.pem", "ca.pem", "deny"))
    return Files(cert, private, root, deny)


def credentials(files: Files) -> Credentials:
    return Credentials(cert=files.cert, key=files.key, ca=files.ca)
