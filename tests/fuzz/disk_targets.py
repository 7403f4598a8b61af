"""What lies on the disk of an agent: frame logs, results logs, its identity."""

from __future__ import annotations

import random
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyarrow as pa

from elfmesh.control.jobs.pages import encode_frame
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.ql.values.plain_ipc import table_to_ipc
from elfmesh.storage import framelog, frames, framescan
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.frames import Forgotten, Released, Sealed, SealedInterval
from elfmesh.storage.identity import IDENTITY_FILE, load_identity
from elfmesh.storage.results.log import ResultsLog
from elfmesh.storage.storage import MemoryStorage
from tests.fuzz.engine import DEAR, Harness, memory_directory
from tests.fuzz.mutate import BYTES, PACKED, mutated, of
from tests.fuzz.wire_targets import repacked


def frame_logs() -> Harness:
    """Images of a frame log: cut, flipped, repeated, with marks where none belong, and sealed lies."""
    corpus = [_frame_image(random.Random(seed)) for seed in range(6)]
    bodies: list[frames.Frame] = [
        Sealed("shop/top", 1, 5, 7, [SealedInterval(5, [1, 0, 0, 0, 0], [b"x" * 9])], [], [], []),
        Released("shop/top", 6),
        Forgotten("shop/top"),
    ]
    plain = [msgspec.to_builtins(body, builtin_types=(bytes,)) for body in bodies]
    splices = (*BYTES, framescan.MARK, framescan.MARK + (200).to_bytes(4), framescan.MARK * 3)

    def generate(rng: random.Random) -> bytes:
        image = rng.choice(corpus)
        if rng.random() < 0.6:
            return mutated(rng, image, splices)
        lie = framescan.pack(repacked(rng, rng.choice(plain)))
        return image + lie if rng.random() < 0.5 else lie + image

    def run(data: bytes) -> None:
        storage = MemoryStorage()
        file = storage.open(framelog.FILE_NAME)
        file.append(data)
        log = FrameLog(storage, garbage_bytes=1)
        lost = log.recovery.cut_bytes + sum(size for _, size in log.recovery.gaps)
        assert log.size == len(file.data)
        assert lost <= len(data)
        for job in log.jobs:
            log.last(job)
            for frame in log.unreleased(job):
                assert frame.job == job
        log.append(Sealed("own/job", 1, 5, 7))  # none of the image: a range is never sealed twice
        log.sync()
        before = _ends(log)
        log.compact()
        again = FrameLog(storage)
        assert not again.recovery.cut_bytes
        assert _ends(again) == before or log.recovery.gaps

    return Harness("frame-logs", "images of a frame log", generate, run)


def _ends(log: FrameLog) -> list[str]:
    """How far each job has come; as text, because not-a-number is equal to nothing."""
    last = [(job, log.last(job)) for job in log.jobs]
    return [repr((job, at and (at.stop, at.positions, at.restart, at.counters))) for job, at in last]


def _frame_image(rng: random.Random) -> bytes:
    storage = MemoryStorage()
    log = FrameLog(storage)
    for start in range(rng.randrange(1, 6)):
        for job in ("a/b", "c/d"):
            entry = SealedInterval(start, [3, 0, 1, 0, 0], [rng.randbytes(rng.randrange(60)), b""])
            log.append(Sealed(job, 1, start, start + 1, [entry], [["f", 1]], [["f", 0]], [1, 2]))
        log.sync()
        if rng.random() < 0.4:
            log.append(Released("a/b", start))
    return bytes(storage.files[framelog.FILE_NAME].data)


def results_logs() -> Harness:
    """Directories of a results log: the last segment, an older one, its description."""
    rows = table_to_ipc(pa.table({"k": ["a", "b"], "n": [1, 2]}))
    records = [ResultRecord(job="shop/top", index=at, counts={"contributed": 2}) for at in range(4)]
    segment = b"".join(encode_frame(record, rows if record.index % 2 else b"") for record in records)
    meta = msgspec.msgpack.encode({"incarnation": "x", "schema": b"", "expired": None})
    values = [msgspec.to_builtins(record) for record in records]
    directory = Path(tempfile.mkdtemp(prefix="fuzz-", dir=memory_directory()))
    target = directory / "log"

    @contextmanager
    def around() -> Iterator[None]:
        try:
            yield
        finally:
            shutil.rmtree(directory)

    def generate(rng: random.Random) -> bytes:
        draw = rng.random()
        if draw < 0.2:
            return b"m" + mutated(rng, meta, (*BYTES, *PACKED))
        if draw < 0.6:
            return rng.choice((b"l", b"o")) + mutated(rng, segment)
        header = repacked(rng, rng.choice(values))
        tail = rows if rng.random() < 0.7 else mutated(rng, rows)
        body = len(header).to_bytes(4) + header + tail
        lie = len(body).to_bytes(4) + zlib.crc32(body).to_bytes(4) + body
        return b"l" + segment + lie

    def run(data: bytes) -> None:
        target.mkdir(exist_ok=True)
        kind, content = data[:1], data[1:]
        for name, holds in (("meta", meta), ("+0000000000000000000.seg", segment)):
            wrong = (name == "meta") == (kind == b"m")
            (target / name).write_bytes(content if wrong and kind != b"o" else holds)
        if kind == b"o":
            (target / "-0000000000000000009.seg").write_bytes(content)
        try:
            log = ResultsLog(target, None)
            page, *_ = log.read(None, None, 100)
            following = min((log.latest or 0) + 1, 2**62)  # what our own logs can reach
            log.append(ResultRecord(job="shop/top", index=following), rows)
            assert log.latest is not None
            assert log.latest >= following
            assert len(page) <= len(content) + len(segment) + len(meta)
        finally:
            for path in target.iterdir():
                path.unlink()

    return Harness("results-logs", "results logs on disk", generate, run, DEAR, around=around)


def identities() -> Harness:
    """The file that says who an agent is."""
    corpus = [b'{"id":"' + b"0a" * 20 + b'","incarnation":7}']

    def run(data: bytes) -> None:
        storage = MemoryStorage()
        storage.write(IDENTITY_FILE, data)
        found = load_identity(storage)
        assert len(found.id) == 20

    return Harness("identities", "the identity file of an agent", of(corpus), run)
