"""Signatures of job texts: Ed25519 over exact bytes, checked by every agent for itself.

Owns the envelope (DSSE: pre-authentication encoding, detached from the text it is about), the keys' spelling,
and the rules by which an agent admits an envelope. Knows no file, no clock and no network: what an agent
remembers comes in and goes out as values.

Invariants: what is decoded is what was signed, byte for byte; a signature counts once per key, and only of
the agent's own keys; an admitted serial never makes room for an older one, unless its signer has said so.

The envelope says by whom a text may run, where, how long and after which one; the text itself is bound by its
SHA-256. `undo_to` is the oldest serial that may be brought back afterwards: without it, none.
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
    """What is signed.

    Attributes:
        cluster: where the text may run.
        job: "namespace/name" of the text.
        serial: grows with every signed version of the job.
        undo_to: the oldest serial that may come back after this one; `serial` itself: none.
        expires: seconds since the epoch, exclusive.
        sha256: of the text, hexadecimal; "" of a tombstone.
        tombstone: nothing up to this serial may run any more.
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
            DataError: it is none.
        """
        try:
            return msgspec.json.decode(self.payload, type=Payload)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise DataError(f"the signed payload cannot be read: {error}") from None


class Remembered(msgspec.Struct, frozen=True):
    """What an agent has to remember of a job's envelopes.

    Attributes:
        floor: older serials are refused.
        texts: (serial, SHA-256 of the payload) of what was admitted from the floor on.
        buried: serials up to this one are revoked, also where they run; 0: none are.
    """

    floor: int = 1
    texts: tuple[tuple[int, str], ...] = ()
    buried: int = 0


TEXTS_MAX = 64
REVOKED, EXPIRED = "they were revoked", "its signature has expired"


class EnvelopeRefused(RemoteError):
    """An envelope is not admitted; the message says why."""


class EnvelopeEnded(EnvelopeRefused):
    """It was good, and a tombstone or its own time has ended it.

    Args:
        message: why it is not admitted.
        why: why what ran before is off.
    """

    def __init__(self, message: str, why: str) -> None:
        super().__init__(message)
        self.why = why


def decode_envelope(data: bytes) -> Envelope:
    """Read an envelope.

    Raises:
        DataError: it is none, or over a limit.
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
        envelope: as it came.
        text: what is to run.
        job: the text's own name, "namespace/name".
        cluster: of this agent.
        keys: raw public keys that this agent trusts.
        needed: how many different ones of them must have signed.
        now_s: wall clock.
        remembered: of this job.
        accepted: SHA-256 of payloads that run here already: their serials may be old by now.

    Returns:
        What to remember, durably, before the text runs.

    Raises:
        Ended: it may have run, and may not any more.
        Refused: with the reason.
    """
    reported = _verified(envelope, cluster, keys, needed)
    if reported.tombstone:
        raise EnvelopeRefused("it is a tombstone of the job")
    if reported.job != job:
        raise EnvelopeRefused(f"it was signed for the job {reported.job}, not for {job}")
    if reported.sha256 != text_digest(text):
        raise EnvelopeRefused("it was signed for another text")
    if reported.serial <= remembered.buried:
        raise EnvelopeEnded(
            f"serial {reported.serial} was revoked, together with all serials up to {remembered.buried}",
            REVOKED,
        )
    digest = payload_digest(envelope)
    if now_s >= reported.expires:
        if digest in accepted:
            raise EnvelopeEnded(EXPIRED, EXPIRED)
        raise EnvelopeRefused(EXPIRED)
    known = dict(remembered.texts)
    if known.get(reported.serial, digest) != digest:
        raise EnvelopeRefused(f"serial {reported.serial} was used for another text")
    if digest in accepted:
        return remembered
    if reported.serial < remembered.floor:
        raise EnvelopeRefused(
            f"serial {reported.serial} is older than a version that ran here; the lowest allowed serial is "
            f"{remembered.floor}"
        )
    floor = max(remembered.floor, min(reported.undo_to, reported.serial))
    texts = sorted({**known, reported.serial: digest}.items())
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
    """Check a tombstone of a job; what to remember afterwards, durably. It does not expire.

    Raises:
        Refused: with the reason.
    """
    reported = _verified(envelope, cluster, keys, needed)
    if not reported.tombstone:
        raise EnvelopeRefused("it is not a tombstone")
    if reported.job != job:
        raise EnvelopeRefused(f"it is the tombstone of the job {reported.job}, not of {job}")
    floor = max(remembered.floor, reported.serial + 1)
    kept = tuple(each for each in remembered.texts if each[0] >= floor)
    return Remembered(floor, kept, max(remembered.buried, reported.serial))


def is_tombstone(data: bytes) -> bool:
    """Whether an envelope, as it travels, says of itself that it ends its job; verifies nothing."""
    try:
        return bool(data) and decode_envelope(data).reported.tombstone
    except DataError:
        return False


def _verified(envelope: Envelope, cluster: str, keys: Collection[bytes], needed: int) -> Payload:
    """The payload, once enough of the keys have signed exactly these bytes for this cluster.

    Raises:
        Refused: with the reason.
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
        reported = envelope.reported
    except DataError as error:
        raise EnvelopeRefused(error.message) from None
    if reported.cluster != cluster:
        raise EnvelopeRefused(f"it was signed for the cluster {reported.cluster!r}, and this is {cluster!r}")
    return reported


def sign(payload: bytes, key: Ed25519PrivateKey) -> Signature:
    """A signature over the payload's exact bytes."""
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
    """SHA-256 of a text's exact bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def payload_digest(envelope: Envelope) -> str:
    """SHA-256 of the signed bytes: the name of what was signed, whichever key signs it."""
    return hashlib.sha256(envelope.payload).hexdigest()


def key_id(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()[:16]


def show_key(key: bytes) -> str:
    return KEY_PREFIX + base64.b64encode(key).decode()


def read_key(text: str, *, where: str) -> bytes:
    """The raw bytes of `ed25519:BASE64`.

    Raises:
        ConfigError: it is no such key.
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
    """Say what is missing before anything is decided without it.

    Raises:
        RuntimeFailure: the library is not installed.
    """
    try:
        import cryptography.hazmat.primitives.asymmetric.ed25519  # noqa: F401 - whether it is there
    except ImportError:
        raise RuntimeFailure(
            "signatures need the library cryptography", hint="pip install 'elfmesh[signing]'"
        ) from None
