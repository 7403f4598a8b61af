"""Which file follows which: files that are gone before they were seen, and logs replaced by copies."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.ingest.rotation.case import case
from tests.ingest.rotation.station import Station


def overwrite(s: Station) -> None:
    """`mv a.log a.log.1; touch a.log`: the file that was rotated before is gone."""
    s.let_file_clock_pass()
    s.log.rename(f"{s.log}.1")
    s.log.touch()
    s.let_file_clock_pass()


def overwrite_compressed(s: Station) -> None:
    """`mv a.log a.log.1; gzip -f a.log.1; touch a.log`."""
    old = Path(f"{s.log}.1")
    s.log.rename(old)
    Path(f"{old}.gz").unlink(missing_ok=True)
    with old.open("rb") as source, gzip.open(f"{old}.gz", "wb") as target:
        shutil.copyfileobj(source, target)
    old.unlink()
    s.log.touch()
    s.let_file_clock_pass()


def three_times(s: Station, rotate: Callable[[Station], None]) -> None:
    for _ in range(3):
        s.write()
        rotate(s)
    s.write()


@case(
    "rotated three times onto the same name while the agent is stopped (`mv a.log a.log.1`)",
    promise="what was in the unseen file is lost; one `source_gap`",
    lost=(3, 9, 6),
    gaps=1,
)
def overwritten_while_stopped(s: Station) -> None:
    s.write()
    s.step()
    three_times(s, overwrite)
    s.step()


@case(
    "the same while the agent is busy reading a backlog",
    promise="as above",
    lost=(3, 9, 6),
    gaps=1,
)
def overwritten_while_busy(s: Station) -> None:
    s.block_bytes = 50
    s.write()
    s.step() if s.crashing else s.look_busily()
    three_times(s, overwrite)
    s.step()


@case(
    "the same, each rotated file compressed onto the same name",
    promise="as above",
    lost=(3, 9, 6),
    gaps=1,
)
def overwritten_compressed(s: Station) -> None:
    s.write()
    s.step()
    three_times(s, overwrite_compressed)
    s.step()
    s.step()
    s.step()


@case(
    "rotated twice onto the same name between two looks",
    promise="exact; while the agent is down, what was not read is lost, and one `source_gap`",
    lost=(0, 6, 3),
    gaps=(0, 1, 1),
)
def overwritten_twice(s: Station) -> None:
    s.write()
    s.step()
    for _ in range(2):
        s.write()
        overwrite(s)
    s.write()
    s.step()


@case(
    "renamed, a new file in its place, then deleted at once (logrotate's `rotate 0`)",
    promise="exact; while the agent is down, what was not read is lost, and one `source_gap`",
    lost=(0, 6, 3),
    gaps=(0, 1, 1),
)
def deleted_at_once(s: Station) -> None:
    s.write()
    s.step()
    s.write()
    old = s.rotate()
    s.write()
    s.let_file_clock_pass()
    old.unlink()
    s.step()


@case(
    "rotated three times into another directory between two looks",
    promise="what is there is not read; one `source_gap` names it",
    lost=(6, 12, 9),
    gaps=1,
)
def rotated_elsewhere(s: Station) -> None:
    s.write()
    s.step()
    s.write()
    for number in range(3):
        s.let_file_clock_pass()
        s.log.rename(s.keep / f"access.log-2026051{number}")
        s.write()
    s.step()


def replace(s: Station, change: Callable[[bytes], bytes] = bytes) -> None:
    """`cp a.log t; mv t a.log`."""
    copy = s.directory / "t"
    copy.write_bytes(change(s.log.read_bytes()))
    copy.replace(s.log)
    s.let_file_clock_pass()


@case("replaced by a copy of itself, three times (`cp a.log t; mv t a.log`: rsync, editors)")
def copied_over(s: Station) -> None:
    s.write(30)
    s.step()
    for _ in range(3):
        s.write()
        replace(s)
        s.write()
        s.step()
    s.rotate()
    s.write()
    s.step()
    s.step()
    s.step()
    s.write(1, path=s.log.with_name("access.log.1"))
    s.step()


@case("replaced by copies of itself three times between two looks")
def copied_over_between(s: Station) -> None:
    s.write()
    s.step()
    for _ in range(3):
        replace(s)
        s.write()
    s.step()
    s.step()


@case(
    "replaced by a changed copy of itself (`sed -i 1d`)",
    promise="the copy is read from the first byte that differs, with a warning: its records count again, or "
    "come late; while the agent is down, one `source_gap`",
    again=(5, 0, 0),
    lost=(0, 1, 0),
    gaps=(0, 1, 0),
    prompt=False,
)
def changed_copy(s: Station) -> None:
    s.write(6)
    s.step()
    replace(s, lambda data: data.partition(b"\n")[2])
    s.write()
    s.step()
    s.step()
