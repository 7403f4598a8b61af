"""Digests of texts, as published for known inputs."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.ql.functions.evaluating import values


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("md5('')", 'd41d8cd98f00b204e9800998ecf8427e'),
        ("md5('abc')", '900150983cd24fb0d6963f7d28e17f72'),
        ("sha1('abc')", 'a9993e364706816aba3e25717850c26c9cd0d89d'),
        ("sha('')", 'da39a3ee5e6b4b0d3255bfef95601890afd80709'),
        ("sha2('abc', 256)", 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'),
        ("sha2('abc', 0)", 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'),
        ("sha2('abc', 224)", '23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7'),
        ("crc32('123456789')", 3421780262),
        ("crc32('')", 0),
        ('md5(cast(null AS string))', None),
        ("xxh32('')", 0x02CC5D05),
        ("xxh32('foo')", 3792637401),
        ("xxh64('')", 0xEF46DB3751D8E999 - 2**64),
        ("xxh64('foo')", 3728699739546630719),
        ("xxh64(X'666F6F')", 3728699739546630719),
        ("xxh32('Nobody inspects the spammish repetition')", 0xE2293B2F),
        ("xxh64('Nobody inspects the spammish repetition')", 0xFBCEA83C8A378BF1 - 2**64),
        ("xxh32(NULL)", None),
    ],
)  # fmt: skip
def test_a_value_is_the_published_one(expression: str, expected: Any) -> None:
    assert values(expression) == [expected]


def test_equal_values_hash_alike_and_others_do_not() -> None:
    one, other, again, null = values("xxhash64(s)", s=["a", "b", "a", None])
    assert one == again
    assert len({one, other, null}) == 3


def test_digests_are_those_of_python_for_any_bytes_of_text() -> None:
    texts = ["x" * 1000, "é", "\n", "a\x00b"]
    assert values("md5(s)", s=texts) == [hashlib.md5(text.encode()).hexdigest() for text in texts]
