"""Signatures of job texts: Ed25519 over exact bytes; every agent verifies them.

Owns the envelope (DSSE with pre-authentication encoding, detached from the text), the text form of keys, and
the rules by which an agent admits an envelope. The functions are pure: the caller stores an agent's memory of
envelopes.

Invariants: the decoded bytes are exactly the signed bytes. A signature counts once per key, and only for the
agent's trusted keys. After an admitted serial no older one is admitted, unless its signer allows it
(`undo_to`).

The envelope names the cluster, the job, the time of expiry and the serial of a text, and binds the text by
its SHA-256.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec

from elfmesh.errors import ConfigError, DataError, RemoteError, RuntimeFailure

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PAYLOAD_TYPE = "application/vnd.elfmesh.job+json"
KEY_PREFIX = "ed25519:"
KEY_BYTES = 32
ENVELOPE_BYTES_MAX = 16 << 10
SIGNATURES_MAX = 32

_Serial = Annotated[int, msgspec.Meta(ge=1, le=2**62)]
_JSON = msgspec.json.Encoder(order="deterministic")


class Payload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The signed content.

    Attributes:
        cluster: cluster in which the text may run.
        job: "namespace/name" of the text.
        serial: number that grows with every signed version of the job.
        undo_to: oldest serial that may be restored after this one; `serial` itself: none.
        expires: seconds since the epoch, exclusive.
        sha256: SHA-256 of the text, hexadecimal; "" for a tombstone.
        tombstone: whether all serials up to this one are revoked.
    """

    cluster: str
    job: str
    serial: _Serial
    undo_to: _Serial
    expires: _Serial
    sha256: str = ""
    tombstone: bool = False


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One signature: the key's id and 64 bytes."""

    keyid: str
    sig: bytes


class Envelope(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A DSSE envelope; `payload` and `sig` are base64 in JSON."""

    payload_type: str
    payload: bytes
    signatures: tuple[Signature, ...]

    def encode(self) -> bytes:
        return _JSON.encode(self)

    @property
    def reported(self) -> Payload:
        """The payload.

        Raises:
            DataError: it cannot be decoded.
        """
        try:
            return msgspec.json.decode(self.payload, type=Payload)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise DataError(f"the signed payload cannot be read: {error}") from None


class Remembered(msgspec.Struct, frozen=True):
    """An agent's durable memory of a job's envelopes.

    Attributes:
        floor: lowest serial that is not refused.
        texts: (serial, SHA-256 of the payload) of the admitted envelopes from the floor on.
        buried: highest revoked serial, including serials that run; 0: none.
    """

    floor: int = 1
    texts: tuple[tuple[int, str], ...] = ()
    buried: int = 0


TEXTS_MAX = 64
REVOKED, EXPIRED = "they were revoked", "its signature has expired"


class EnvelopeRefused(RemoteError):
    """An envelope is not admitted; the message has the reason."""


class EnvelopeEnded(EnvelopeRefused):
    """An envelope is not valid any more, because of a tombstone or its expiry.

    Args:
        message: why it is not admitted.
        why: why the versions that ran before have stopped.
    """

    def __init__(self, message: str, why: str) -> None:
        super().__init__(message)
        self.why = why


def decode_envelope(data: bytes) -> Envelope:
    """Decode an envelope.

    Raises:
        DataError: the data is no envelope, or above a limit.
    """
    if len(data) > ENVELOPE_BYTES_MAX:
        raise DataError(f"a signature file has at most {ENVELOPE_BYTES_MAX} bytes")
    try:
        envelope = msgspec.json.decode(data, type=Envelope)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise DataError(f"this is not a signature file: {error}") from None
    if envelope.payload_type != PAYLOAD_TYPE or len(envelope.signatures) > SIGNATURES_MAX:
        raise DataError(f"this is not a signature file of {PAYLOAD_TYPE}")
    return envelope


def admit(
    envelope: Envelope,
    text: str,
    *,
    job: str,
    cluster: str,
    keys: Collection[bytes],
    needed: int,
    now_s: float,
    remembered: Remembered,
    accepted: Collection[str] = (),
) -> Remembered:
    """Check an envelope as an agent does before it runs a text.

    Args:
        envelope: the envelope.
        text: the text that is to run.
        job: the name in the text, "namespace/name".
        cluster: cluster of this agent.
        keys: raw public keys that this agent trusts.
        needed: number of different trusted keys that must have signed.
        now_s: wall clock.
        remembered: the memory of this job.
        accepted: SHA-256 of payloads that already run here, whose serials may be below the floor.

    Returns:
        The memory to store, durably, before the text runs.

    Raises:
        EnvelopeEnded: the text may have run, and is not valid any more.
        EnvelopeRefused: the envelope is not admitted.
    """
    payload = _verified(envelope, cluster, keys, needed)
    if payload.tombstone:
        raise EnvelopeRefused("it is a tombstone of the job")
    if payload.job != job:
        raise EnvelopeRefused(f"it was signed for the job {payload.job}, not for {job}")
    if payload.sha256 != text_digest(text):
        raise EnvelopeRefused("it was signed for another text")
    if payload.serial <= remembered.buried:
        raise EnvelopeEnded(
            f"serial {payload.serial} was revoked, together with all serials up to {remembered.buried}",
            REVOKED,
        )
    digest = payload_digest(envelope)
    if now_s >= payload.expires:
        if digest in accepted:
            raise EnvelopeEnded(EXPIRED, EXPIRED)
        raise EnvelopeRefused(EXPIRED)
    known = dict(remembered.texts)
    if known.get(payload.serial, digest) != digest:
        raise EnvelopeRefused(f"serial {payload.serial} was used for another text")
    if digest in accepted:
        return remembered
    if payload.serial < remembered.floor:
        raise EnvelopeRefused(
            f"serial {payload.serial} is older than a version that ran here; the lowest allowed serial is "
            f"{remembered.floor}"
        )
    floor = max(remembered.floor, min(payload.undo_to, payload.serial))
    texts = sorted({**known, payload.serial: digest}.items())
    kept = tuple((serial, text) for serial, text in texts if serial >= floor)[-TEXTS_MAX:]
    return Remembered(floor, kept, remembered.buried)


def bury(
    envelope: Envelope,
    *,
    job: str,
    cluster: str,
    keys: Collection[bytes],
    needed: int,
    remembered: Remembered,
) -> Remembered:
    """Check a tombstone of a job, which does not expire; returns the memory to store durably.

    Raises:
        EnvelopeRefused: the tombstone is not admitted.
    """
    payload = _verified(envelope, cluster, keys, needed)
    if not payload.tombstone:
        raise EnvelopeRefused("it is not a tombstone")
    if payload.job != job:
        raise EnvelopeRefused(f"it is the tombstone of the job {payload.job}, not of {job}")
    floor = max(remembered.floor, payload.serial + 1)
    kept = tuple(each for each in remembered.texts if each[0] >= floor)
    return Remembered(floor, kept, max(remembered.buried, payload.serial))


def is_tombstone(data: bytes) -> bool:
    """Return whether encoded bytes are the envelope of a tombstone, without a verification."""
    try:
        return bool(data) and decode_envelope(data).reported.tombstone
    except DataError:
        return False


def _verified(envelope: Envelope, cluster: str, keys: Collection[bytes], needed: int) -> Payload:
    """Return the payload if enough of the keys have signed exactly these bytes for this cluster.

    Raises:
        EnvelopeRefused: a signature is wrong, too few keys have signed, or the cluster is another one.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    signed = _encoded(envelope.payload)
    good: set[bytes] = set()
    for signature in envelope.signatures:
        for key in keys:
            if key_id(key) == signature.keyid and key not in good:
                try:
                    Ed25519PublicKey.from_public_bytes(key).verify(signature.sig, signed)
                except InvalidSignature:
                    raise EnvelopeRefused(f"the signature of the key {signature.keyid} is wrong") from None
                good.add(key)
    if len(good) < max(1, needed):
        raise EnvelopeRefused(f"{len(good)} trusted keys have signed it, and {needed} are required")
    try:
        payload = envelope.reported
    except DataError as error:
        raise EnvelopeRefused(error.message) from None
    if payload.cluster != cluster:
        raise EnvelopeRefused(f"it was signed for the cluster {payload.cluster!r}, and this is {cluster!r}")
    return payload


def sign(payload: bytes, key: Ed25519PrivateKey) -> Signature:
    """Return a signature over the payload's exact bytes."""
    return Signature(key_id(key.public_key().public_bytes_raw()), key.sign(_encoded(payload)))


def signed(
    payload: Payload | bytes, keys: Sequence[Ed25519PrivateKey], before: Sequence[Signature] = ()
) -> Envelope:
    data = payload if isinstance(payload, bytes) else _JSON.encode(payload)
    by_key = {signature.keyid: signature for signature in (*before, *(sign(data, key) for key in keys))}
    return Envelope(PAYLOAD_TYPE, data, tuple(by_key.values()))


def _encoded(payload: bytes) -> bytes:
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text's exact bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def payload_digest(envelope: Envelope) -> str:
    """Return the SHA-256 of the signed bytes, which identifies the content independently of the keys."""
    return hashlib.sha256(envelope.payload).hexdigest()


def key_id(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()[:16]


def show_key(key: bytes) -> str:
    return KEY_PREFIX + base64.b64encode(key).decode()


def read_key(text: str, *, where: str) -> bytes:
    """Return the raw bytes of `ed25519:BASE64`.

    Raises:
        ConfigError: the text is no such key.
    """
    try:
        if not text.startswith(KEY_PREFIX):
            raise ValueError
        key = base64.b64decode(text.removeprefix(KEY_PREFIX), validate=True)
        if len(key) != KEY_BYTES:
            raise ValueError
    except ValueError:
        raise ConfigError(
            f"{text[:60]!r} is not a public key", where=where, hint="`elf key create` prints one: ed25519:..."
        ) from None
    return key


def check_cryptography() -> None:
    """Check that the library for signatures is installed.

    Raises:
        RuntimeFailure: it is not installed.
    """
    try:
        import cryptography.hazmat.primitives.asymmetric.ed25519  # noqa: F401 - whether it is there
    except ImportError:
        raise RuntimeFailure(
            "signatures need the library cryptography", hint="pip install 'elfmesh[signing]'"
        ) from None
