"""`/v1/coordination`: labels of the fleet and of a text; hostile texts; who may ask."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from elfmesh.api.app import make_app
from elfmesh.api.authority.needs import routes
from elfmesh.api.web.coordination import labels_of_text
from elfmesh.control.protocol.events import Reply
from elfmesh.control.requests.verbs import Need
from elfmesh.errors import ElfError
from tests.control.fakes import FakeBackend
from tests.hostile.cost import calls

Api = TestClient[Any, Any]
CALLS_MAX = 250_000
TOP = "CREATE JOB shop.top EVERY '1 s' ON STRAGGLER SKIP AS SELECT k, count(*) AS n FROM log GROUP BY k"
BEST = "CREATE JOB shop.best EVERY '1 s' AS SELECT k, max(n) AS n FROM shop.top GROUP BY k"


class Jobs(FakeBackend):
    """Answers with the texts of jobs by name; None: the master does not answer."""

    def __init__(self, texts: dict[str, str | None]) -> None:
        super().__init__()
        self.texts = texts
        self.lists("list", [{"job": name, "creator": "local"} for name in texts])

    async def request(self, verb: str, body: dict[str, Any], timeout_s: float = 5) -> Reply:
        if verb == "describe":
            text = self.texts[body["job"]]
            return Reply(0, 200 if text else 503, {"text": text} if text else {"error": "no master"})
        return await super().request(verb, body, timeout_s)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    backend = Jobs({"shop/top": TOP, "shop/best": BEST, "shop/lost": None})
    async with TestClient(TestServer(make_app(backend), host="127.0.0.1")) as client:
        yield client


def labels(body: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    return {
        each["name"]: (each["label"], each["otherwise"])
        for each in body["outputs"]
        if not each["provisional"]
    }


async def test_the_labels_of_all_jobs(api: Api) -> None:
    answer = await api.get("/v1/coordination")
    body = await answer.json()
    assert answer.status == 200
    assert labels(body) == {"shop.top": ("Async", "Run"), "shop.best": ("Async", "Run")}
    assert body["notes"] == ["job shop.lost is left out: no agent answers with its text"]


async def test_the_labels_of_a_text(api: Api) -> None:
    answer = await api.post("/v1/coordination", json={"text": f"{TOP};\n{BEST}"})
    assert (answer.status, labels(await answer.json())) == (
        200,
        {"shop.top": ("Async", "Run"), "shop.best": ("Async", "Run")},
    )


HOSTILE: tuple[dict[str, Any], ...] = (
    {},
    {"text": 5},
    {"text": "x" * (1 << 20)},
    {"text": "SELECT " + "(" * 50_000 + "1"},
    {"text": "SELECT " + "-" * 100_000 + "1 FROM log"},
    {"text": "SELECT 1 FROM log;" * 65},
    {"text": f"{TOP};{TOP}"},
    {"text": "\0"},
)


@pytest.mark.parametrize("body", HOSTILE)
async def test_a_hostile_text_is_refused(api: Api, body: dict[str, Any]) -> None:
    data = io.BytesIO(json.dumps(body).encode())
    answer = await api.post("/v1/coordination", data=data, headers={"Content-Type": "application/json"})
    assert answer.status in (400, 413)
    assert (await answer.json())["error"]


@pytest.mark.parametrize("body", HOSTILE[2:])
def test_the_refusal_of_a_hostile_text_takes_few_calls(body: dict[str, Any]) -> None:
    """A small job takes 15,000 calls. A call takes well below a microsecond."""

    def refused() -> None:
        with pytest.raises(ElfError):
            labels_of_text(body["text"])

    assert calls(refused) < CALLS_MAX


async def test_a_deep_body_is_refused(api: Api) -> None:
    deep = b'{"text":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    answer = await api.post("/v1/coordination", data=deep, headers={"Content-Type": "application/json"})
    assert answer.status == 400


async def test_the_text_names_line_and_column(api: Api) -> None:
    body = await (await api.post("/v1/coordination", json={"text": TOP + ";\nSELEKT"})).json()
    assert body["line"] == 2


def test_a_reader_may_ask() -> None:
    found = routes()
    for method in ("GET", "POST"):
        assert found[method, "/v1/coordination"].need is Need.READ
        assert found[method, "/v1/coordination"].action == ""


async def test_the_values_are_those_of_the_command(api: Api, tmp_path: Any, capsys: Any) -> None:
    from elfmesh.cli.entry import run

    (tmp_path / "f.elfql").write_text(TOP)
    assert run(["blazes", str(tmp_path), "-o", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    answer = await (await api.post("/v1/coordination", json={"text": TOP})).json()
    assert answer["outputs"][0]["label"] == printed["outputs"][0]["label"]
    assert answer.keys() == printed.keys()
