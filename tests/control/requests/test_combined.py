"""One answer from the answers of all agents."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from elfmesh.control.jobs.records import encode_json
from elfmesh.control.requests.combined import answers_of_all, combine

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
    assert [row.tree for row in answers_of_all("trees", lines, stats)] == ["a", "b"]
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


@pytest.mark.parametrize(("verb", "expected"), [("trees", ["a", "b"]), ("steps", ["b", "a"])])
def test_trees_are_sorted_and_steps_keep_their_order(verb: str, expected: list[str]) -> None:
    rows = combine(verb, ASKED, payload([tree("b")], [tree("a")]), Counter())[verb]
    assert [row["tree"] for row in rows] == expected
