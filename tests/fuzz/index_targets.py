"""Time indexes of logs: damaged, or of other files. A reader finds what it finds without an index."""

from __future__ import annotations

import logging
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fuzz.engine import DEAR, Harness, memory_directory
from tests.fuzz.mutate import BYTES, mutated
from tests.ingest.sources.stretches import Host, log_of, short_stretches, wanted

LINES = 120
RANGES = (wanted(80), wanted(None, 40), wanted(50, 60), wanted(5000))
HEAD = log_of([None] * 60)  # files of the corpus begin with the same bytes

MAGIC = b"elf times 1\n"
SPLICES = (*BYTES, MAGIC, b"elf times 2\n", b"\xff" * 36, b"\x00" * 36)


def time_indexes() -> Harness:
    """Images of the index of a log whose times are not in order."""
    logs = [_log(random.Random(seed)) for seed in range(3)]
    directory = Path(tempfile.mkdtemp(prefix="fuzz-", dir=memory_directory()))
    host = Host(directory)
    host.log.write_text(logs[0])
    corpus, wants = list[tuple[Path, bytes]](), [host.read(each, indexed=False) for each in RANGES]

    log = logging.getLogger("elf.worker")

    @contextmanager
    def around() -> Iterator[None]:
        level = log.level
        log.setLevel(logging.ERROR)  # each damaged image is a warning
        try:
            with short_stretches():
                for text in (*logs[1:], logs[0]):  # the same inode, so that all have one name
                    host.log.write_text(text)
                    host.restart()
                    host.read()
                    (path,) = host.directory.iterdir()
                    corpus.append((path, path.read_bytes()))
                    path.unlink()
                yield
        finally:
            log.setLevel(level)
            shutil.rmtree(directory)

    def generate(rng: random.Random) -> bytes:
        image = rng.choice(corpus)[1]
        draw = rng.random()
        if draw < 0.1:
            return image
        if draw < 0.3:  # the beginning of one index, and the rest of another one
            at = rng.randrange(len(image))
            return image[:at] + rng.choice(corpus)[1][at:]
        return mutated(rng, image, SPLICES)

    def run(data: bytes) -> None:
        host.directory.mkdir(exist_ok=True)
        path = corpus[-1][0]
        path.write_bytes(data)
        try:
            for restarts in (False, True):
                if restarts:  # what the first reader has cut off or made again
                    host.restart()
                for each, want in zip(RANGES, wants, strict=True):
                    assert host.read(each) == want
        finally:
            for each_path in host.directory.iterdir():
                each_path.unlink()
            host.restart()

    return Harness(
        "time-indexes",
        "time indexes of a log",
        generate,
        run,
        DEAR // 20,
        calls_per_byte=2000.0,
        calls=40_000,  # eight reads of the log make 27,500, also with an empty index
        around=around,
    )


def _log(rng: random.Random) -> str:
    seconds = [rng.choice((at, rng.randrange(LINES))) for at in range(LINES)]
    return HEAD + log_of(seconds, rng.randrange(1000))
