"""Files of private keys and certificates.

Invariants: a private key is written with mode 0600 and never overwrites another one; a file appears complete
or not at all.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

from elfmesh.api.identity.bearer import write_private
from elfmesh.errors import RuntimeFailure


def new_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Create a private key in a new file with mode 0600. The file appears complete or not at all.

    Raises:
        RuntimeFailure: the file exists already, or cannot be written.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    data = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        write_private(beside, data)
        try:
            os.link(beside, path)
        finally:
            beside.unlink()
    except FileExistsError:
        raise RuntimeFailure(
            "the file exists already", where=str(path), hint="A key is never overwritten."
        ) from None
    except OSError as error:
        raise RuntimeFailure(error.strerror or str(error), where=str(path)) from None
    return key


def key_for(place: Path) -> ec.EllipticCurvePrivateKey:
    """Return the key to certify in a directory: a new key, or the key that an interrupted issue left.

    Raises:
        RuntimeFailure: a certificate for the key exists already, or the key cannot be read.
    """
    path = place / "key.pem"
    if not path.exists() or (place / "cert.pem").exists():
        return new_key(path)
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError, OSError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise RuntimeFailure(
            "is not a key that elf made, and has no certificate", where=str(path), hint="Remove it."
        )
    return key


def write_public(path: Path, data: bytes) -> None:
    """Replace a file atomically by one that all users can read."""
    write_private(path, data)
    path.chmod(0o644)


def key_digest(public: CertificatePublicKeyTypes) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(public.public_bytes(serialization.Encoding.DER, form)).hexdigest()
