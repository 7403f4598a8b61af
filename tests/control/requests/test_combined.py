"""One answer from the answers of all agents."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from elfmesh.control.requests.combined import answers_of_all, combine
from elfmesh.ql.values.row_json import encode_json

ASKED = {"asked": {"answered": 2, "expected": 2}}


def payload(*answers: list[dict[str, Any]]) -> bytes:
    return b"\n".join(encode_json({"items": items}) for items in answers)


def tree(name: str, **more: Any) -> dict[str, Any]:
    about: dict[str, Any] = {"parent": None, "children": [], "depth": 0, "size": 1, "job": ""}
    return {"agent": "a", "tree": name, "root": True, "subscribed": True, **about, **more}


def job(**row: Any) -> dict[str, Any]:
    texts = dict.fromkeys(("id", "job", "creator", "state", "stream", "master"), "")
    newest: dict[str, Any] = dict.fromkeys(("created", "result", "completeness", "held_for_seconds"))
    return texts | {"version": 1, "agents": 1, "latest": None, "epoch": 0} | newest | {"missing": []} | row


def test_damaged_answers_are_left_out_and_counted() -> None:
    damaged = encode_json({"items": [1, {"tree": "c"}, tree("d", size="large"), tree("a", later=1)]})
    lines = b'{"items": 3}\nno json\n{"items": [{"tree": "\xff"}]}\n' + damaged + b"\n" + payload([tree("b")])
    stats = Counter[str]()
    assert [row.tree for row, _ in answers_of_all("trees", lines, stats)] == ["a", "b"]
    assert stats == {"control.malformed": 6}


def test_a_job_is_listed_once_as_the_master_of_the_highest_epoch_shows_it() -> None:
    old, new = (job(id="1", job="shop/top", epoch=epoch) for epoch in (1, 2))
    other = job(id="2", job="shop/all")
    assert combine("list", ASKED, payload([new], [old, other]), Counter()) == {"jobs": [other, new], **ASKED}


def test_a_stream_has_the_columns_of_all_its_agents() -> None:
    rows = [
        {"stream": "log", "format": "json", "agent": agent, "columns": [["k", "STRING"], [agent, "INT"]]}
        for agent in ("b", "a")
    ]
    (stream,) = combine("streams", ASKED, payload(*([row] for row in rows)), Counter())["streams"]
    assert (stream["agents"], stream["formats"]) == (["a", "b"], ["json"])
    assert stream["columns"] == [["k", "STRING"], ["b", "INT"], ["a", "INT"]]


def test_trees_are_sorted() -> None:
    assert names_of("trees", [tree("b")], [tree("a")]) == ["a", "b"]


def test_steps_keep_their_order_behind_how_far_back_their_agent_keeps_them() -> None:
    texts = dict.fromkeys(("agent", "name", "step", "cause", "kind", "peer", "detail"), "x")
    steps: list[dict[str, Any]] = [texts | {"tree": name, "at_us": 0, "times": 1} for name in "ba"]
    damaged: list[dict[str, Any]] = [{"step": "1"}, {"agent": 3, "kept_from": "x"}, {}]
    kept = {"tree": "", "agent": "x", "kept_from": None}
    assert names_of("steps", [*damaged, kept, *steps]) == ["", "b", "a"]


def names_of(verb: str, *answers: list[dict[str, Any]]) -> list[str]:
    return [row["tree"] for row in combine(verb, ASKED, payload(*answers), Counter())[verb]]


ALIVE = {
    "name": "web",
    "status": "alive",
    "id": "a",
    "address": "h:1",
    "labels": {},
    "streams": [],
    "jobs": [],
    "masters": [],
}
GONE = {"name": "db", "id": "b", "address": "h:2", "incarnation": 1, "status": "dead", "last_seen": None}


@pytest.mark.parametrize(
    ("verb", "row"), [("list", job(job="a/b")), ("trees", tree("a")), ("agents", ALIVE), ("agents", GONE)]
)
def test_a_name_that_a_newer_agent_adds_to_a_row_reaches_the_client(verb: str, row: dict[str, Any]) -> None:
    newer = row | {"of a later release": [1, {"a": None}]}
    assert encode_json(combine(verb, ASKED, payload([newer]), Counter())) == encode_json(
        {"jobs" if verb == "list" else verb: [newer], **ASKED}
    )
