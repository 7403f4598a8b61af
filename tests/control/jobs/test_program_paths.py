"""`elfmesh.path` checks its arguments and returns the callback as it is."""

from __future__ import annotations

import pytest

import elfmesh
from elfmesh.control.jobs.program_paths import CALLBACKS, ProgramPath
from elfmesh.errors import UsageError


def test_the_decorator_returns_the_callback() -> None:
    async def on_result(self: object, result: object) -> None: ...

    found = elfmesh.path("results", "insert:coupons", "OW", by=["batch"], idempotent=True)(on_result)
    assert found is on_result


@pytest.mark.parametrize(
    ("source", "target", "label", "by"),
    [
        ("result", "multicast", "CW", ()),
        ("results", "send", "CW", ()),
        ("results", "multicast", "C", ()),
        ("results", "multicast", "CW", ("a",)),
    ],
)
def test_wrong_declarations_are_refused(source: str, target: str, label: str, by: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        ProgramPath(source, target, label, by)


def test_a_declaration_belongs_to_its_callback() -> None:
    with pytest.raises(UsageError, match="on_timer does not handle results"):

        @elfmesh.path("results", "multicast", "CW")
        async def on_timer(self: object) -> None: ...


def test_each_callback_of_a_program_has_an_input() -> None:
    own = {name for name in vars(elfmesh.Job) if name.startswith("on_")}
    assert own == CALLBACKS.keys()
