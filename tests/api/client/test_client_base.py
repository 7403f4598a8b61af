"""Addresses, paths of jobs, and errors that answers mean."""

from __future__ import annotations

import pytest

from elfmesh.api.client.client import Client
from elfmesh.api.client.client_base import api_address
from elfmesh.errors import UsageError
from tests.cli.remote import api, backend, job

__all__ = ["api", "backend", "job"]


@pytest.mark.parametrize("text", ["", ":", "x", "h:0", "h:99999", "h:p", "http://"])
def test_addresses_are_checked(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ELF_API", raising=False)
    if text:
        with pytest.raises(UsageError):
            api_address(text)
    else:
        assert api_address(text) == ("127.0.0.1", 7401)


def test_an_ipv6_address_is_one() -> None:
    assert api_address("[::1]:7401") == ("::1", 7401)
    assert Client("[::1]:7401").address == "[::1]:7401"
