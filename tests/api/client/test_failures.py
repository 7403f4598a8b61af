"""Intervals that failed, as `elf query` prints them."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.api.client.client import connect
from elfmesh.api.client.failures import failure_of
from elfmesh.errors import RuntimeFailure
from tests.api.client.test_live import Backend, api, backend
from tests.cli.remote import elf
from tests.control.fakes import served, table

__all__ = ["api", "backend"]

WHY = "the sessions take more than 4 MiB"
TEXT = "SELECT product, hits FROM shop.top ORDER BY hits DESC LIMIT 1"
FAILED = (
    "interval 30, 1970-01-01T00:05:00Z .. 1970-01-01T00:05:10Z, SKIPPED, 1 of 2 agents, without a2: " + WHY
)


def skip(backend: Backend, index: int) -> None:
    backend.publish(
        index, table(), state="SKIPPED", agents_in=1, agents_expected=2, missing=("a2",), fidelity=0.0,
        completeness=0.5, reason=WHY,
    )  # fmt: skip


@pytest.mark.parametrize("output", ["table", "json", "csv"])
def test_newer_intervals_that_failed_are_on_standard_error(api: str, backend: Backend, output: str) -> None:
    skip(backend, 30)
    skip(backend, 31)
    ran = elf("query", TEXT, "--api", api, "-o", output)
    assert (ran.exit_code, WHY in ran.stdout) == (0, False)
    assert f"shop/top: {FAILED}" in ran.stderr.splitlines()
    assert ran.stderr.count(WHY) == 2


def test_no_interval_that_failed_is_no_line(api: str, backend: Backend) -> None:
    skip(backend, 28)  # before the result that is read
    assert connect(api).query(TEXT).failed == ()


def test_intervals_of_a_time_that_failed(api: str, backend: Backend) -> None:
    skip(backend, 30)
    ran = elf("query", "SELECT count(*) AS n FROM shop.top", "--from", "1970-01-01T00:04:40", "--api", api)
    assert f"shop/top: {FAILED}" in ran.stderr.splitlines()


def test_the_error_has_the_reason() -> None:
    fake = Backend()
    skip(fake, 30)
    with served(fake) as address, pytest.raises(RuntimeFailure) as caught:
        connect(address).query(TEXT)
    assert f"has no result yet; {FAILED}" in str(caught.value)
    with served(fake) as address:
        ran = elf("query", TEXT, "--at", "1970-01-01T00:05:10", "--api", address)
    assert f"was skipped: it has no rows; {FAILED}" in ran.stderr


@pytest.mark.parametrize(
    ("missing", "names"),
    [([], ""), (["a"], ", without a"), ([*"abcdefg"], ", without a, b, c, d, e and 2 more")],
)
def test_agents_are_named_up_to_five(missing: list[str], names: str) -> None:
    record: dict[str, Any] = {
        "interval": {"index": 0, "start": None, "end": None}, "state": "SKIPPED", "reason": "full",
        "agents": {"in": 1, "expected": 9, "missing": missing},
    }  # fmt: skip
    assert failure_of(record) == f"interval 0, SKIPPED, 1 of 9 agents{names}: full"
    assert failure_of(record | {"reason": ""}) == failure_of({"rows": []}) == ""
