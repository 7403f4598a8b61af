"""What happens to the files of a log: renamed, copied, cut, deleted, compressed, linked."""

from __future__ import annotations

import gzip
import os
import shutil

from tests.ingest.rotation.case import case
from tests.ingest.rotation.station import Station


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
    "truncated and written again to the same size",
    promise="read again; one `source_gap`",
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
