"""The measurement of topics ends at once when a message can no longer come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from benchmarks.coordination_topics import Reader
from elfmesh.api.client.client import Client
from elfmesh.errors import RuntimeFailure, Unreachable


class Lines:
    """A client whose results are these lines; then it is away."""

    def __init__(self, *lines: tuple[int, int]) -> None:
        self._lines = lines

    def results(self, job: str, *, follow: bool) -> Iterator[dict[str, Any]]:
        for position, late in self._lines:
            row = {"producer": "p", "position": position, "campaign": "c"}
            yield {"rows": [row], "counts": {"late_dropped": late}}
        raise Unreachable("the agent is away")


def reader(*lines: tuple[int, int]) -> Reader:
    return Reader(cast(Client, Lines(*lines)), "campaign")


def test_a_late_message_ends_it() -> None:
    with pytest.raises(RuntimeFailure, match="2 messages were late"):
        reader((0, 0), (1, 2)).wait(4)


def test_a_reader_that_has_ended_ends_it() -> None:
    with pytest.raises(RuntimeFailure, match="the agent is away"):
        reader((0, 0)).wait(4)


def test_otherwise_it_waits_for_all_messages() -> None:
    found = reader((0, 0), (1, 0))
    assert found.wait(2) == max(found.arrived.values())
    assert found.released["c"] == min(found.arrived.values())
