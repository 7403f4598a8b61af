"""`elfmesh.path` checks its arguments and returns the callback as it is."""

from __future__ import annotations

import pytest

import elfmesh
from elfmesh.control.jobs.program_paths import (
    CALLBACKS,
    ProgramPath,
    declared_paths,
    handles,
    least_delivery,
    unmet_need,
)
from elfmesh.errors import UsageError
from elfmesh.ql.plan.delivery import TopicDelivery


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
        ("post", "multicast", "CW", ()),
        ("post:", "multicast", "CW", ()),
        ("post:a b", "multicast", "CW", ()),
        ("results", "post:", "CW", ()),
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


def test_a_path_from_a_topic_belongs_to_on_post_and_is_kept_with_it() -> None:
    @elfmesh.path("post:ads.clicks", "outside", "OW", by=("campaign",))
    @elfmesh.path("post:*", "post:ads/other", "CR")
    async def on_post(self: object, topic: str, batch: object) -> None: ...

    found = declared_paths(on_post)
    assert [each.target for each in found] == ["post:ads/other", "outside"]
    assert [handles(each, "ads/clicks") for each in found] == [True, True]
    assert [handles(each, "ads/views") for each in found] == [True, False]
    assert declared_paths(elfmesh.Job.on_post) == ()


def test_the_need_of_a_path_is_compared_with_a_delivery() -> None:
    whole = ProgramPath("post:a/b", "outside", "OW", by=("campaign", "id"))
    assert unmet_need([whole], TopicDelivery.SEALED, ["campaign"]) == ""
    assert "is OW over campaign, id, and the topic is SEALED on other" in unmet_need(
        [whole], TopicDelivery.SEALED, ["other"]
    )
    assert unmet_need([whole], TopicDelivery.SEQUENCED, []) == ""
    assert unmet_need([whole], TopicDelivery.ORDERED, []) == ""
    assert unmet_need([ProgramPath("post:a/b", "outside", "CW")], TopicDelivery.UNORDERED, []) == ""
    assert unmet_need([ProgramPath("post:a/b", "outside", "OR")], TopicDelivery.SEALED, ["x"]) != ""
    assert least_delivery([]) is least_delivery([True, False]) is TopicDelivery.SEQUENCED
    assert least_delivery([True]) is TopicDelivery.UNORDERED
