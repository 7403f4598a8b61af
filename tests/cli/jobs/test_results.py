"""`elf results`: lines, tables and CSV, and following what comes."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from elfmesh.api.client.client import Client
from elfmesh.api.line_parts import place_of
from elfmesh.errors import Unreachable
from tests.cli.remote import api, backend, elf, job
from tests.control.fakes import FakeBackend, table
from tests.patience import PATIENCE_S

__all__ = ["api", "backend", "job"]


def test_a_follower_goes_on_where_its_agent_broke_off(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket
    import threading

    monkeypatch.setattr("elfmesh.api.client.client.RETRY_S", 0.01)
    monkeypatch.setattr("elfmesh.api.client.client.RECONNECT_S", 0.2)
    asked: list[str] = []
    ends = [b"", b"7\r\nbrok", b"0\r\n\r\n", b""]

    def serve(server: socket.socket) -> None:
        for index, end in enumerate(ends):
            peer, _ = server.accept()
            with peer:
                asked.append(peer.recv(4000).decode().split()[1])
                line = json.dumps({"interval": {"index": index}}).encode() + b"\n"
                peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                peer.sendall(b"%x\r\n%s\r\n%s" % (len(line), line, end))
        server.close()

    server = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve, args=(server,))
    thread.start()
    client = Client(f"127.0.0.1:{server.getsockname()[1]}")
    assert [json.loads(line)["interval"]["index"] for line in client.lines("a", follow=True)] == [0, 1, 2]
    assert [each.partition("from=")[2].partition("&")[0] for each in asked] == ["", "1", "2"]
    with pytest.raises(Unreachable):
        list(client.lines("a", follow=True))
    thread.join()


def test_no_results_from_an_interval_on_is_not_none_at_all(api: str) -> None:
    done = elf("results", "shop/top", "--from", "99", "--api", api)
    assert done.exit_code == 0
    assert "no results from 99 on" in done.stderr


def test_results_as_json_are_the_agents_lines(api: str) -> None:
    ran = elf("results", "shop.top", "--api", api, "-o", "json")
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [each["interval"]["index"] for each in found] == [0, 1, 2, 3, 4]
    limited = elf("results", "shop/top", "--api", api, "-o", "json", "--from", "1", "--limit", "2").stdout
    assert [json.loads(line)["interval"]["index"] for line in limited.splitlines()] == [1, 2]


def test_results_on_a_terminal_never_obey_control_characters_of_a_log(api: str) -> None:
    ran = elf("results", "shop/top", "--api", api)
    assert "interval 3" in ran.stdout
    assert "FINAL" in ran.stdout
    assert "\x1b[2J" not in ran.stdout
    assert "\\x1b[2Jbad" in ran.stdout


def test_results_as_csv_have_one_header(api: str) -> None:
    rows = list(csv.DictReader(io.StringIO(elf("results", "shop/top", "--api", api, "-o", "csv").stdout)))
    assert len(rows) == 10
    assert rows[1]["product"] == "\x1b[2Jbad", "a file has the bytes of the value"
    assert (rows[2]["interval_index"], rows[2]["product"], rows[2]["hits"]) == ("1", "apple", "1")


def test_numbers_in_csv_have_the_text_of_the_agent_also_inside_lists(api: str, backend: FakeBackend) -> None:
    values = {
        "small": pa.array([1e-7]),
        "large": pa.array([1e21]),
        "money": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
        "list": pa.array([[0.5, None, 1e21]]),
        "flag": pa.array([True]),
    }
    backend.publish(9, pa.table(values))
    *_, head, row = elf("results", "shop/top", "--api", api, "-o", "csv").stdout.splitlines()
    assert head.endswith(",small,large,money,list,flag")
    assert row.split(",", 6)[6] == '1e-7,1e21,1.50,"[0.5,null,1e21]",true'


def test_following_prints_each_interval_as_it_comes(api: str, backend: FakeBackend) -> None:
    loop = backend.loop

    async def waits_from(index: int) -> None:
        """Return once the follower waits for results from this interval on."""
        asked = backend.asked
        while not any(body.get("from") == index and body.get("wait") for _, body in asked):  # noqa: ASYNC110 - the backend has no event for a request
            await asyncio.sleep(0.01)

    async def later() -> None:
        await waits_from(5)
        await backend.publish_now(9, table(("corn", 1)))
        await waits_from(10)
        async with backend.changed:
            backend.deleted = True
            backend.changed.notify_all()

    future = asyncio.run_coroutine_threadsafe(later(), loop)
    ran = elf("results", "shop/top", "--api", api, "-o", "json", "--follow", "--from", "4")
    future.result(PATIENCE_S)
    assert ran.exit_code == 0, ran.stderr
    assert [json.loads(line)["interval"]["index"] for line in ran.stdout.splitlines()] == [4, 9]


def test_a_column_called_state_is_not_taken_for_the_state_of_its_interval() -> None:
    line = b'{"interval":{"index":7},"state":"FINAL","rows":[{"state":"TENTATIVE"}]}'
    assert place_of(json.loads(line)) == (7, 1, 1, False)


def test_rows_in_other_formats_have_the_bounds_of_their_interval(api: str) -> None:
    lines = elf("results", "shop/top", "--api", api, "-o", "jsonl", "--limit", "1").stdout.splitlines()
    first = json.loads(lines[0])
    assert first == {
        "interval_start": "1970-01-01T00:00:00Z",
        "interval_end": "1970-01-01T00:00:10Z",
        "completeness": 1.0,
        "product": "apple",
        "hits": 0,
    }
    table = elf("results", "shop/top", "--api", api, "-o", "markdown", "--limit", "1").stdout.splitlines()
    assert table[0].startswith("| interval_index | interval_start |")
    assert "\\x1b[2Jbad" in table[-1]
