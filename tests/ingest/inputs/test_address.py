"""Addresses of inputs: what may be listened on, and what other hosts could reach is refused."""

from __future__ import annotations

import pytest

from elfmesh.errors import ConfigError
from elfmesh.ingest.inputs.address import UNIX_PATH_BYTES_MAX, Address, parse_listen


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("udp://127.0.0.1:5514", Address("udp", "127.0.0.1", 5514)),
        ("http://localhost:80/", Address("http", "localhost", 80)),
        ("tcp://[::1]:9", Address("tcp", "::1", 9)),
        ("unix:///run/elf.sock", Address("unix", path="/run/elf.sock")),
        ("unix-stream:///a", Address("unix-stream", path="/a")),
        ("program://shop/coupons", Address("program", path="shop/coupons")),
    ],
)
def test_an_address_is_read(text: str, address: Address) -> None:
    assert parse_listen(text, where="stream.a.listen") == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "127.0.0.1:80",
        "ftp://127.0.0.1:80",
        "UDP://127.0.0.1:80",
        "udp://127.0.0.1",
        "udp://127.0.0.1:99999",
        "unix://relative",
        "unix:///" + "x" * UNIX_PATH_BYTES_MAX,
        "program://a/b/c",
        "program://",
    ],
)
def test_what_is_no_address_is_refused_at_its_key(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_listen(text, where="stream.a.listen")
    assert caught.value.where == "stream.a.listen"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "[::]", "example.com"])
def test_an_address_that_other_hosts_reach_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="other hosts"):
        parse_listen(f"tcp://{host}:5514", where="w")
