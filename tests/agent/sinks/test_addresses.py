"""Which addresses a name of the configuration may lead to, however they are written."""

from __future__ import annotations

import errno
import socket
from typing import Any

import pytest

from elfmesh.agent.sinks.addresses import CheckedResolver, Forbidden
from elfmesh.errors import LocalError


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("1.1.1.1", True),
        ("2606:4700::1", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("0.0.0.0", False),
        ("192.0.0.8", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fc00::1", False),
        ("fec0::1", False),
        ("ff02::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:1.1.1.1", True),
        ("::ffff:0:127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
    ],
)
def test_only_public_addresses_may_be_connected_to(address: str, public: bool) -> None:
    assert CheckedResolver([]).may(address) is public


def test_an_allowed_network_may_be_reached_and_its_neighbours_not() -> None:
    resolver = CheckedResolver(["10.1.0.0/16", "fc00::/8"])
    assert resolver.may("10.1.2.3")
    assert resolver.may("::ffff:10.1.2.3")
    assert resolver.may("fc00::1")
    assert not resolver.may("10.2.0.1")


def test_the_last_check_is_where_the_socket_is_made() -> None:
    info: Any = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1))
    with pytest.raises(Forbidden) as caught:
        CheckedResolver([]).open_socket(info)
    assert caught.value.errno == errno.EACCES
    CheckedResolver(["127.0.0.0/8"]).open_socket(info).close()


@pytest.mark.parametrize("url", ["http://127.0.0.1/x", "http://[::1]:9/", "http://10.0.0.1"])
async def test_an_address_in_digits_is_checked_before_anything_is_connected(url: str) -> None:
    with pytest.raises(Forbidden, match="not public"):
        await CheckedResolver([]).check(url)


async def test_a_name_is_left_to_the_resolver() -> None:
    await CheckedResolver([]).check("http://example.com/")


class Answers:
    """A name service that gives these addresses."""

    def __init__(self, *hosts: str) -> None:
        self._hosts = hosts

    async def resolve(self, *question: object) -> list[dict[str, str]]:
        return [{"host": host} for host in self._hosts]


async def test_of_several_addresses_of_a_name_the_public_ones_are_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolver: Any = CheckedResolver([])
    resolver._resolver = Answers("10.0.0.1", "1.1.1.1")
    assert [each["host"] for each in await resolver.resolve("x")] == ["1.1.1.1"]
    resolver._resolver = Answers("10.0.0.1", "127.0.0.1")
    with pytest.raises(Forbidden, match=r"10\.0\.0\.1"):
        await resolver.resolve("x")
    resolver._resolver = Answers()
    assert await resolver.resolve("x") == []


def test_a_connector_and_a_user_see_the_same_reason() -> None:
    error = Forbidden("10.0.0.1")
    assert isinstance(error, OSError)
    assert isinstance(error, LocalError)
    assert (
        error.strerror
        == error.message
        == "10.0.0.1 is not public: add its network to `allow` if requests may go there"
    )
