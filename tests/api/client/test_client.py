"""The blocking client: verbs as methods, answers as plain values."""

from __future__ import annotations

import pytest

from elfmesh.api.client.client import Client, connect
from elfmesh.control.protocol.events import Reply
from elfmesh.errors import QueryError, RuntimeFailure, Unreachable, UsageError
from tests.cli.remote import TEXT, api, backend, job
from tests.control.fakes import FakeBackend

__all__ = ["api", "backend", "job"]


def test_the_python_client_answers_in_plain_values(api: str, backend: FakeBackend) -> None:
    client = connect(api)
    assert client.apply(TEXT)["state"] == "new"
    intervals = list(client.results("shop/top", start=3))
    assert [each["interval"]["index"] for each in intervals] == [3, 4]
    assert client.schema("shop/top")["ddl"].endswith("hits BIGINT")
    with pytest.raises(RuntimeFailure, match="no such job"):
        client.describe("no/job")
    with pytest.raises(UsageError):
        client.describe("/")
    with pytest.raises(Unreachable):
        Client("127.0.0.1:1").get("jobs")
    backend.replies["apply"] = Reply(0, 400, {"error": "wrong", "line": 3, "column": 9, "code": 65})
    with pytest.raises(QueryError) as caught:
        client.apply(TEXT)
    assert (caught.value.line, caught.value.column) == (3, 9)
