"""What happens to log files, and what becomes of their records: the rows of the rotation matrix.

One list for the tests and for the published table. Each case is a story told to a `Station`; `step` is a
moment at which the agent looks (and in the second run is killed and restarted).
"""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.agent.rotation.station import Station

Story = Callable[[Station], None]


@dataclass(frozen=True)
class Case:
    """One row.

    Attributes:
        name: what happens.
        story: as told to a station.
        lost: whole lines that nobody can read any more; in each mode, if that makes a difference (a crash
            takes what was read and not sealed, if it cannot be read again).
        prompt: whether it makes sense with hardly any LATENESS.
        buckets: records per bucket other than `contributed` and `source_gap`.
        gaps: how often source_gap counts, likewise.
        promise: for people.
        pattern: of the stream.
    """

    name: str
    story: Story
    promise: str = "exact"
    lost: int | tuple[int, int, int] = 0
    prompt: bool = True
    buckets: Mapping[str, int] = field(default_factory=dict)
    gaps: int | tuple[int, int, int] = 0
    pattern: str = "access.log"


CASES: list[Case] = []


def case(name: str, **kinds: object) -> Callable[[Story], Story]:
    """Enter a story into the list."""

    def enter(story: Story) -> Story:
        CASES.append(Case(name, story, **kinds))  # type: ignore[arg-type]  # the fields of Case
        return story

    return enter


def compress(station: Station, number: int) -> None:
    """As gzip does it: the original is gone when the compressed file is complete.

    Its inode is kept from being given to the next log, which no case means to be about.
    """
    plain = station.directory / f"access.log.{number}"
    with plain.open("rb") as source, gzip.open(f"{plain}.gz", "wb") as target:
        shutil.copyfileobj(source, target)
    os.link(plain, station.keep / str(len(list(station.keep.iterdir()))))
    status = plain.stat()
    os.utime(f"{plain}.gz", ns=(status.st_atime_ns, status.st_mtime_ns))
    plain.unlink()


@case("renamed, a new file in its place")
def rename(s: Station) -> None:
    s.write()
    s.step()
    s.write()
    old = s.rotate()
    s.write(path=old)
    s.write()
    s.step()
    s.write(1, path=old)
    s.step()


@case("renamed to a dated name (`access.log-20260517`)")
def dated(s: Station) -> None:
    s.write()
    s.step()
    s.write()
    s.log.rename(f"{s.log}-20260517")
    s.write()
    s.step()


@case("the same, the stream is a glob that leads to the rotated files too", pattern="access.log*")
def rename_glob(s: Station) -> None:
    rename(s)
    s.rotate()
    s.write()
    s.step()
    compress(s, 2)
    s.step()
    s.step()


@case(
    "copied and truncated (copytruncate), nothing written in between",
    promise="all that was copied is exact; one `source_gap` says that more may have been written in between",
    gaps=1,
)
def copytruncate(s: Station) -> None:
    s.write()
    s.step()
    s.write()
    shutil.copy(s.log, f"{s.log}.1")
    os.truncate(s.log, 0)
    s.write(2)
    s.step()


@case("the same while the agent looks in between", promise="as above", gaps=1, lost=(0, 2, 0))
def copytruncate_seen(s: Station) -> None:
    s.write()
    s.step()
    s.write(1)
    shutil.copy(s.log, f"{s.log}.1")
    s.step()
    s.write(2)
    s.step()
    os.truncate(s.log, 0)
    s.write(2)
    s.step()


@case(
    "copied and truncated, records written between the copy and the cut",
    promise="those records are lost; one `source_gap`",
    lost=2,
    gaps=1,
)
def copytruncate_lossy(s: Station) -> None:
    s.write()
    s.step()
    shutil.copy(s.log, f"{s.log}.1")
    s.write(2)
    os.truncate(s.log, 0)
    s.write(2)
    s.step()


@case(
    "the same with a glob that leads to the copy: it is not read twice",
    promise="as above",
    gaps=1,
    pattern="access.log*",
)
def copytruncate_glob(s: Station) -> None:
    copytruncate(s)
    s.step()


@case(
    "truncated without a copy",
    promise="what was not read is lost; one `source_gap`",
    lost=(3, 6, 3),
    gaps=1,
)
def truncate(s: Station) -> None:
    s.write()
    s.step()
    s.write()
    os.truncate(s.log, 0)
    s.write(2)
    s.step()


@case(
    "truncated and written anew to the same size",
    promise="read anew; one `source_gap`",
    lost=(0, 3, 0),
    gaps=1,
)
def same_size(s: Station) -> None:
    s.write(3)
    s.step()
    size = s.log.stat().st_size
    os.truncate(s.log, 0)
    s.now_s += 3
    s.write(3)
    assert s.log.stat().st_size == size
    s.step()


@case("renamed away, another file created later")
def create_later(s: Station) -> None:
    s.write()
    s.step()
    s.write(1)
    s.rotate()
    s.step()
    s.step()
    s.write()
    s.step()


@case(
    "deleted after it was read, created again, where the file system gives it the same inode",
    promise="exact; deleted while the agent is down, one `source_gap` says that more may have been in it",
    lost=(0, 3, 0),
    gaps=(0, 1, 1),
)
def recreate(s: Station) -> None:
    s.write()
    s.step()
    s.rotate().unlink()
    s.step()
    s.step()
    for _ in range(50):
        s.log.touch()
        s.log.unlink()
    s.write(4)
    s.step()


@case(
    "deleted with unread records while the agent is down, created again",
    promise="what was not read is lost; one `source_gap`",
    lost=(3, 3, 2),
    gaps=1,
)
def recreate_down(s: Station) -> None:
    s.write(1)
    s.step()
    if not s.crashing:
        s.down()
    s.write(2)
    s.log.unlink()
    s.write(4)
    s.step()


@case("compressed after it was read")
def compressed(s: Station) -> None:
    s.write()
    s.step()
    s.rotate()
    s.write()
    s.step()
    s.step()
    compress(s, 1)
    s.step()
    s.write(1)
    s.step()


@case("rotated and compressed before its end was read")
def compressed_unread(s: Station) -> None:
    s.write()
    s.step()
    if not s.crashing:
        s.down()
    s.write()
    s.rotate()
    compress(s, 1)
    s.write()
    s.step()
    s.step()


@case("rotated while the agent is down")
def down_once(s: Station) -> None:
    s.write()
    s.step()
    if not s.crashing:
        s.down()
    s.write()
    s.rotate()
    s.write()
    s.step()


@case("rotated twice while the agent is down")
def down_twice(s: Station) -> None:
    down_once(s)
    if not s.crashing:
        s.down()
    for _ in range(2):
        s.write()
        s.rotate()
    s.write()
    s.step()


@case("rotated twice while the agent is down, and compressed")
def down_twice_compressed(s: Station) -> None:
    s.write()
    s.step()
    if not s.crashing:
        s.down()
    for _ in range(2):
        s.write()
        s.rotate()
        compress(s, 1)
    s.write()
    s.step()
    s.step()
    s.step()


@case("rotated twice between two looks")
def twice_between(s: Station) -> None:
    s.write()
    s.step()
    for _ in range(2):
        s.write()
        s.rotate()
    s.write()
    s.step()


@case("written to after it was rotated, read to its end and closed")
def after_grace(s: Station) -> None:
    s.write()
    s.step()
    old = s.rotate()
    s.write()
    s.step()
    s.step()
    s.step()
    s.write(2, path=old)
    s.step()
    s.step()


@case("a symbolic link is changed to another file")
def symlink(s: Station) -> None:
    first, second = s.directory / "a.data", s.directory / "b.data"
    first.touch()
    s.log.symlink_to(first)
    s.write()
    s.step()
    s.write(1)
    second.touch()
    link = s.directory / "new"
    link.symlink_to(second)
    link.replace(s.log)
    s.write(2)
    s.step()


@case("two hard links to one file, the older is removed", pattern="*.log")
def hard_link(s: Station) -> None:
    s.write()
    os.link(s.log, s.directory / "other.log")
    s.step()
    s.write()
    s.step()
    s.log.unlink()
    s.write(2, path=s.directory / "other.log")
    s.step()


@case("an empty file, rotated empty, filled later")
def empty(s: Station) -> None:
    s.log.touch()
    s.step()
    old = s.rotate()
    s.log.touch()
    s.step()
    s.write(2, path=old)
    s.write(2)
    s.step()


@case("no end of line at the end of the file: no record until it comes", prompt=False)
def no_newline(s: Station) -> None:
    s.write()
    line = s.line()
    s.raw(line[:10])
    s.step()
    s.raw(line[10:])
    s.step()
    s.raw(b"\n")
    s.step()


@case(
    "no end of line at the end of a rotated file that is then deleted",
    promise="no record; one `source_gap` with its bytes",
    gaps=1,
    lost=(0, 3, 0),
)
def no_newline_rotated(s: Station) -> None:
    s.write()
    s.step()
    s.raw(b'{"ts":"2026-05-17T10:0')
    old = s.rotate()
    s.write()
    s.step()
    s.step()
    s.step()
    old.unlink()
    s.step()


@case("a line of 10 MB", promise="one `parse_error`", buckets={"parse_error": 1})
def long_line(s: Station) -> None:
    s.write()
    for _ in range(10):
        s.raw(b"x" * (1 << 20))
        s.step()
    s.raw(b"\n")
    s.write()
    s.step()


@case("lines that end in CR LF", prompt=False)
def crlf(s: Station) -> None:
    s.write(end=b"\r\n")
    s.step()
    s.raw(s.line() + b"\r")
    s.step()
    s.raw(b"\n")
    s.step()


@case("bytes that are not UTF-8", promise="exact; replaced in the value")
def invalid_utf8(s: Station) -> None:
    s.write()
    s.raw(s.line(path="?").replace(b"?", b"\xff\xfe\xc3") + b"\n")
    s.write()
    s.step()


@case(
    "NUL bytes: a hole before the first record of a file",
    promise="that line is one `parse_error`",
    buckets={"parse_error": 1},
)
def nul(s: Station) -> None:
    s.write()
    s.step()
    s.raw(b"\0" * 5000 + b"\n")
    s.write()
    s.step()


@case("the wall clock is set back and forth by 10 minutes", promise="exact within LATENESS", prompt=False)
def clock(s: Station) -> None:
    s.write()
    s.step()
    for shift in (-600, 600, 0):
        s.wall_shift_s = shift
        s.write()
        s.step()
