"""Which envelopes an agent admits: missing, wrong, too few, expired, older and foreign signatures."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.control.jobs import signing
from elfmesh.control.jobs.signing import Envelope, EnvelopeRefused, Payload, Remembered
from elfmesh.errors import ConfigError, DataError

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([at]) * 32) for at in range(3)]
PUBLIC = [key.public_key().public_bytes_raw() for key in KEYS]
TEXT, JOB, CLUSTER = "CREATE JOB shop.a AS ...", "shop/a", "fleet"


def payload(serial: int = 5, **other: Any) -> Payload:
    given: dict[str, Any] = {
        "cluster": CLUSTER, "job": JOB, "serial": serial, "undo_to": serial, "expires": 100,
        "sha256": signing.text_digest(TEXT),
    }  # fmt: skip
    return Payload(**{**given, **other})


def admit(envelope: Envelope, **other: Any) -> Remembered:
    given: dict[str, Any] = {
        "job": JOB, "cluster": CLUSTER, "keys": PUBLIC[:2], "needed": 1, "now_s": 99.0,
        "remembered": Remembered(),
    }  # fmt: skip
    text = other.pop("text", TEXT)
    return signing.admit(envelope, text, **{**given, **other})


def test_a_signed_text_is_admitted_and_its_serial_remembered() -> None:
    envelope = signing.decode_envelope(signing.signed(payload(), KEYS[:1]).encode())
    after = admit(envelope)
    assert after == Remembered(5, ((5, signing.payload_digest(envelope)),))
    assert admit(envelope, remembered=after) == after, "the same again changes nothing"


@pytest.mark.parametrize(
    ("changed", "around", "reason"),
    [
        ({}, {"needed": 2}, "1 trusted keys have signed it, and 2 are required"),
        ({}, {"keys": PUBLIC[1:2]}, "0 trusted keys"),
        ({}, {"now_s": 100.0}, "has expired"),
        ({}, {"cluster": "other"}, "signed for the cluster 'fleet', and this is 'other'"),
        ({}, {"job": "shop/b"}, "signed for the job shop/a, not for shop/b"),
        ({}, {"text": TEXT + " "}, "another text"),
        (
            {},
            {"remembered": Remembered(6)},
            "serial 5 is older than a version that ran here; the lowest allowed serial is 6",
        ),
        ({}, {"remembered": Remembered(5, ((5, "0" * 64),))}, "serial 5 was used for another text"),
        ({"tombstone": True}, {}, "a tombstone of the job"),
    ],
)
def test_an_envelope_is_refused(changed: dict[str, Any], around: dict[str, Any], reason: str) -> None:
    with pytest.raises(EnvelopeRefused, match=reason):
        admit(signing.signed(payload(**changed), KEYS[:1]), **around)


def test_two_signatures_of_one_key_are_one() -> None:
    one = signing.signed(payload(), KEYS[:1])
    twice = Envelope(one.payload_type, one.payload, one.signatures * 2)
    with pytest.raises(EnvelopeRefused, match="1 trusted keys"):
        admit(twice, needed=2, keys=[*PUBLIC[:2], PUBLIC[0]])
    both = signing.signed(one.payload, KEYS[1:2], one.signatures)
    assert admit(both, needed=2).floor == 5


@given(at=st.integers(0, 10_000), bit=st.integers(0, 7), what=st.sampled_from(["payload", "sig"]))
def test_no_bit_may_differ(at: int, bit: int, what: str) -> None:
    one = signing.signed(payload(), KEYS[:1])
    data = bytearray(one.payload if what == "payload" else one.signatures[0].sig)
    data[at % len(data)] ^= 1 << bit
    signature = one.signatures[0]
    forged = (
        Envelope(one.payload_type, bytes(data), one.signatures)
        if what == "payload"
        else Envelope(one.payload_type, one.payload, (signing.Signature(signature.keyid, bytes(data)),))
    )
    with pytest.raises(EnvelopeRefused, match="is wrong"):
        admit(forged)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=12))
def test_serials_never_go_back_further_than_their_signers_allowed(orders: list[tuple[int, int, int]]) -> None:
    remembered, floor, used = Remembered(), 1, dict[int, tuple[int, int]]()
    for serial, back, number in orders:
        undo_to = max(1, serial - back)
        envelope = signing.signed(payload(serial, undo_to=undo_to, expires=100 + number), KEYS[:1])
        same = used.get(serial, (undo_to, number)) == (undo_to, number)
        try:
            remembered = admit(envelope, remembered=remembered)
        except EnvelopeRefused:
            assert serial < floor or not same
        else:
            assert serial >= floor
            assert same
            floor = max(floor, undo_to)
            used = {at: what for at, what in (used | {serial: (undo_to, number)}).items() if at >= floor}


def test_what_runs_already_may_go_on_though_its_serial_is_old() -> None:
    envelope = signing.signed(payload(), KEYS[:1])
    after = admit(envelope, remembered=Remembered(9), accepted=[signing.payload_digest(envelope)])
    assert after == Remembered(9)


def test_what_ran_before_it_expired_is_over_and_what_did_not_is_refused() -> None:
    envelope = signing.signed(payload(expires=100), KEYS[:1])
    with pytest.raises(EnvelopeRefused, match="expired") as refused:
        admit(envelope, now_s=100)
    assert not isinstance(refused.value, signing.EnvelopeEnded)
    with pytest.raises(signing.EnvelopeEnded, match="expired"):
        admit(envelope, now_s=100, accepted=[signing.payload_digest(envelope)])


def test_a_tombstone_ends_a_serial_and_all_before_it() -> None:
    end = signing.signed(payload(5, sha256="", tombstone=True), KEYS[:1])
    bury = partial(signing.bury, cluster=CLUSTER, keys=PUBLIC, needed=1)
    after = bury(end, job=JOB, remembered=Remembered())
    five = signing.signed(payload(5), KEYS[:1])
    with pytest.raises(signing.EnvelopeEnded, match="serial 5 was revoked"):
        admit(five, remembered=after, accepted=[signing.payload_digest(five)])
    assert admit(signing.signed(payload(6), KEYS[:1]), remembered=after).floor == 6
    assert admit(signing.signed(payload(6), KEYS[:1]), remembered=after).buried == 5
    assert (
        bury(signing.signed(payload(3, sha256="", tombstone=True), KEYS[:1]), job=JOB, remembered=after)
        == after
    )
    with pytest.raises(EnvelopeRefused, match="not a tombstone"):
        bury(signing.signed(payload(), KEYS[:1]), job=JOB, remembered=after)
    with pytest.raises(EnvelopeRefused, match="not of other/job"):
        bury(end, job="other/job", remembered=after)


def test_a_tombstone_is_distinguished_from_other_envelopes() -> None:
    end = signing.signed(payload(5, sha256="", tombstone=True), KEYS[:1]).encode()
    others = (b"", b"nothing", signing.signed(payload(), KEYS[:1]).encode(), end.replace(b"payload", b"pay"))
    assert [signing.is_tombstone(each) for each in (end, *others)] == [True, False, False, False, False]


@pytest.mark.parametrize("data", [b"", b"{}", b"[" * 9000, b"\xff", b"x" * 20_000])
def test_what_is_no_envelope_is_refused(data: bytes) -> None:
    with pytest.raises(DataError):
        signing.decode_envelope(data)


def test_a_payload_with_an_unknown_field_is_refused() -> None:
    reported = json.loads(signing.signed(payload(), KEYS[:1]).payload)
    envelope = signing.signed(json.dumps({**reported, "also": 1}).encode(), KEYS[:1])
    with pytest.raises(EnvelopeRefused, match="cannot be read"):
        admit(envelope)


@pytest.mark.parametrize("text", ["", "ed25519:", "ed25519:AAAA", "rsa:AAAA", "ed25519:" + "A" * 43])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not a public key"):
        signing.read_key(text, where="functions.keys")
    assert signing.read_key(signing.show_key(PUBLIC[0]), where="") == PUBLIC[0]
