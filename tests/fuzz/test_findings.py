"""What fuzzing has found, each with its input."""

from __future__ import annotations

import zlib
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from aiohttp.test_utils import TestClient, TestServer
from msgspec.structs import replace

from elfmesh import ql
from elfmesh.agent.runtime.core import codec
from elfmesh.api.app import make_app
from elfmesh.cbt import CompressedBufferTree
from elfmesh.cbt.codec.blocks import frame, read_block
from elfmesh.control.answers import decode_body
from elfmesh.control.consensus.rules import Ballot
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.protocol.messages_register import Prepare
from elfmesh.errors import ConfigError, ProtocolError, QueryError
from elfmesh.storage import framelog, frames, framescan
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.results.log import ResultsLog
from elfmesh.storage.storage import MemoryStorage
from elfmesh.units import parse_duration_us, parse_size
from tests.control.fakes import FakeBackend

NOT_UTF8 = b"\xa3sh\xff"
"""A msgpack string that is none; msgspec reports it by an error that is none of its own."""


def test_text_that_is_not_utf8_is_refused_wherever_it_comes_from() -> None:
    with pytest.raises(ProtocolError, match="JSON"):
        decode_body(b'{"job": "\xff"}')
    record = b"\x81\xa3job" + NOT_UTF8
    body = len(record).to_bytes(4) + record
    with pytest.raises(ProtocolError, match="header"):
        decode_page(len(body).to_bytes(4) + zlib.crc32(body).to_bytes(4) + body)
    head = msgspec.msgpack.encode([[], [1, 1, False, 0, 0, [["k", "string", False]], []]])
    head = head.replace(b"\xa6string", b"\xa6str\xffng")
    with pytest.raises(ProtocolError, match="malformed"):
        read_block(frame(len(head).to_bytes(4, "little") + head))


@pytest.mark.parametrize("header", ["Host", "Origin"])
async def test_a_host_that_is_none_is_refused(header: str) -> None:
    async with TestClient(TestServer(make_app(FakeBackend()), host="127.0.0.1")) as client:
        answer = await client.get("/v1/health", headers={header: "http://[::1"})
        assert answer.status == 403


def test_a_generation_whose_epochs_would_be_no_counts_reaches_no_machine() -> None:
    asked = Prepare(bytes(20), Ballot(1, bytes(20), 1), generation=(1 << 38) - 1)
    assert codec().decode_header(msgspec.msgpack.encode(asked)) == asked
    with pytest.raises(ProtocolError, match="malformed"):
        codec().decode_header(msgspec.msgpack.encode(replace(asked, generation=1 << 38)))


def test_an_id_of_another_length_reaches_no_machine() -> None:
    short = b"\x82\xa1t\xa8ctl.stop\xa3job\xc4\x01\x03\xabincarnation\xa1x\xa5epoch\x01"
    for header in (b"\x84" + short[1:], b"\x82\xa1t\xa8srt.pull\xa4tree\xc4\x01\x03\xa5heard\x90"):
        with pytest.raises(ProtocolError, match="malformed"):
            codec().decode_header(header)


@pytest.mark.parametrize("digits", [30, 400])
def test_sizes_and_durations_beyond_all_numbers_are_refused(digits: int) -> None:
    with pytest.raises(ConfigError, match="any machine"):
        parse_size("9" * digits + " MB")
    with pytest.raises(ConfigError, match="any clock"):
        parse_duration_us("9" * digits + " s")


def test_a_question_of_nested_lists_is_refused() -> None:
    with pytest.raises(ProtocolError, match="JSON"):
        decode_body(b'{"job": ' + b"[" * 100_000)


def test_a_frame_whose_text_is_not_utf8_is_a_gap(tmp_path: Path) -> None:
    storage = MemoryStorage()
    log = FrameLog(storage)
    log.append(frames.Released("a/b", 1))
    storage.files[framelog.FILE_NAME].append(framescan.pack(b"\x93\xa8released" + NOT_UTF8 + b"\x05"))
    log.append(frames.Released("a/b", 2))
    again = FrameLog(storage)
    assert len(again.recovery.gaps) == 1
    assert again.released("a/b") == 2


def test_a_description_of_results_whose_text_is_not_utf8_is_a_damaged_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "meta").write_bytes(b"\x81\xabincarnation" + NOT_UTF8)
    assert ResultsLog(tmp_path, None).latest is None
    assert "meta is damaged" in caplog.text


def test_numbers_that_no_digest_has_room_for_reach_no_machine() -> None:
    for epoch in (b"\xff", b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff"):  # -1 and 2**64 - 1
        body = b"\x84\xa1t\xa8ctl.stop\xa3job\xc4\x14" + b"j" * 20 + b"\xabincarnation\xa1x\xa5epoch" + epoch
        with pytest.raises(ProtocolError, match="malformed"):
            codec().decode_header(body)


def test_quantities_that_are_no_numbers_reach_no_machine() -> None:
    for value in (b"\xcb\x7f\xf8" + bytes(6), b"\xcb\x7f\xf0" + bytes(6), b"\xcb\xbf\xf0" + bytes(6)):
        body = (
            b"\x85\xa1t\xa8ctl.rate\xa3job\xc4\x14"
            + b"j" * 20
            + b"\xa5epoch\x01\xa6number\x01\xa7records"
            + value
        )
        with pytest.raises(ProtocolError, match="malformed"):
            codec().decode_header(body)
    body = body[: -len(value)] + b"\xcb\x3f\xf0" + bytes(6)
    assert codec().decode_header(body) is not None


@pytest.mark.parametrize("text", ["SELECT */k FROM s", "SELECT k FROM s WHERE * > 1", "SELECT -*, k FROM s"])
def test_a_star_inside_an_expression_is_refused(text: str) -> None:
    with pytest.raises(QueryError):
        ql.Query(ql.parse(text))


def test_a_checkpoint_whose_blocks_have_other_types_than_its_head_is_refused() -> None:
    def tree(values: pa.Array) -> CompressedBufferTree:
        made = CompressedBufferTree(["k"], {"most": ("max", "v")})
        made.insert(pa.record_batch({"k": pa.array(["a"]), "v": values}))
        return made

    texts, numbers = list(tree(pa.array(["x"])).save()), list(tree(pa.array([1.5])).save())
    other = tree(pa.array([0.5]))
    with pytest.raises(ProtocolError, match="types"):
        other.load([numbers[0], texts[1], numbers[2]])
    assert other.flush().num_rows == 1
