"""`elf results` with --last, --since and --until: which intervals are printed."""

from __future__ import annotations

import json

import pytest

from elfmesh.control.protocol.events import Reply
from tests.cli.remote import api, backend, elf
from tests.control.fakes import FakeBackend, recorded, table

__all__ = ["api", "backend"]

OTHER_ZONE = "1970-01-01T01:00:21+01:00"


def printed(api: str, *options: str) -> list[int]:
    ran = elf("results", "shop/top", "-o", "json", *options, "--api", api)
    assert ran.exit_code == 0, ran.stderr
    return [json.loads(line)["interval"]["index"] for line in ran.stdout.splitlines()]


@pytest.fixture(autouse=True)
def intervals_of_ten_seconds(backend: FakeBackend) -> None:
    """0 to 4; 5 to 399 are a run of empty intervals, which have no record of their own; then 400."""
    backend.publish(400, table(("pear", 1)))
    backend.replies["offsets"] = Reply(
        0, 200, {"earliest": 0, "latest": 400, "expired": None, "incarnation": "a1"}
    )
    window = {"size": "10 s", "slide": "10 s"}
    backend.replies["describe"] = Reply(0, 200, {**recorded("describe"), "window": window})


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--last", "1"), [400]),
        (("--last", "3"), [3, 4, 400]),
        (("--last", "9"), [0, 1, 2, 3, 4, 400]),
        (("--since", "1970-01-01T00:00:20"), [2, 3, 4, 400]),
        (("--since", "1970-01-01T00:00:20.5"), [3, 4, 400]),
        (("--since", OTHER_ZONE), [3, 4, 400]),
        (("--since", "1970-01-01"), [0, 1, 2, 3, 4, 400]),
        (("--until", "1970-01-01T00:00:20"), [0, 1]),
        (("--until", "1970-01-01T00:00:20.5"), [0, 1, 2]),
        (("--since", "1970-01-01T00:00:10", "--until", "1970-01-01T00:00:30"), [1, 2]),
        (("--last", "3", "--until", "1970-01-01T00:00:40"), [3]),
        (("--last", "3", "--limit", "1"), [3]),
        (("--until", "1 s", "--last", "1"), [400]),
        (("--since", "1 s"), []),
    ],
)
def test_the_intervals_of_an_option(api: str, options: tuple[str, ...], found: list[int]) -> None:
    assert printed(api, *options) == found


def test_a_job_without_a_record_has_nothing_to_print(api: str, backend: FakeBackend) -> None:
    backend.records.clear()
    backend.replies["offsets"] = Reply(
        0, 200, {"earliest": 0, "latest": -1, "expired": None, "incarnation": "a1"}
    )
    for option in ("--last=2", "--since=1970-01-01", "--until=1970-01-01"):
        assert printed(api, option) == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--last", "1", "--from", "2"), "--from, --last and --since exclude each other"),
        (("--since", "yesterday"), "--since: 'yesterday' is not a time"),
        (("--until", "10 fortnights"), "--until: '10 fortnights' is not a time"),
        (("--last", "0"), "0 is not in the range"),
    ],
)
def test_options_that_cannot_be_used(api: str, options: tuple[str, ...], error: str) -> None:
    ran = elf("results", "shop/top", *options, "--api", api)
    assert ran.exit_code != 0
    assert error in ran.stderr
