"""One interval as it leaves a worker: one that no message carries is given up and counted as such."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elfmesh.cbt import PartialTooLarge
from elfmesh.control.jobs.records import BUCKETS, CONTRIBUTED, FILTERED, OVERFLOW
from elfmesh.ingest.worker.intervals import OpenInterval, WorkerInterval, add_to, encoded

COUNTS = tuple(7 if at == CONTRIBUTED else 2 if at == FILTERED else 0 for at in range(len(BUCKETS)))
TABLES: Any = {"main": object()}


def parts(tables: Mapping[str, Any], partitions: int) -> list[bytes]:
    assert tables is TABLES
    return [bytes([number]) for number in range(partitions)]


def too_large(tables: Mapping[str, Any], partitions: int) -> list[bytes]:
    raise PartialTooLarge("9 MB are more than a message carries")


def test_an_interval_has_a_partial_for_each_partition() -> None:
    notes: list[str] = []
    sealed = encoded(OpenInterval(3, COUNTS, TABLES), parts, 3, notes.append)
    assert sealed == WorkerInterval(3, COUNTS, (b"\0", b"\1", b"\2"))
    assert notes == []


def test_an_interval_without_rows_is_not_encoded() -> None:
    sealed = encoded(OpenInterval(3, COUNTS, None), too_large, 2, lambda note: None)
    assert sealed == WorkerInterval(3, COUNTS, (b"", b""))


def test_an_interval_that_is_too_large_is_given_up_with_its_counts() -> None:
    notes: list[str] = []
    sealed = encoded(OpenInterval(3, COUNTS, TABLES), too_large, 2, notes.append)
    assert sealed.payloads == (b"", b"")
    assert (sealed.counts[CONTRIBUTED], sealed.counts[OVERFLOW], sealed.counts[FILTERED]) == (0, 7, 2)
    assert sum(sealed.counts) == sum(COUNTS), "each record stays in one bucket"
    assert notes == ["interval 3 is given up: 9 MB are more than a message carries"]


def test_what_is_given_up_twice_is_counted_once() -> None:
    once = WorkerInterval(3, COUNTS, (b"x",)).given_up
    assert once.given_up == once


def test_counts_are_added_by_interval_and_bucket() -> None:
    counts: dict[int, list[int]] = {}
    add_to(counts, 5, OVERFLOW, 2)
    add_to(counts, 5, OVERFLOW, 3)
    add_to(counts, 6, FILTERED, 1)
    assert (counts[5][OVERFLOW], sum(counts[5]), counts[6][FILTERED]) == (5, 5, 1)
