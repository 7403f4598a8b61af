from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest

from elfmesh.control.jobs.records import (
    BUCKETS,
    NOT_COUNTED,
    Partly,
    ResultRecord,
    add_counts,
    counts_dict,
    counts_list,
    to_json,
    with_broken,
)
from elfmesh.ql.values.row_json import encode_json

GOLDEN = (
    '{"job":"shop/top","interval":{"index":57,"start":"2015-05-17T10:05:00Z","end":"2015-05-17T10:05:30Z"},'
    '"state":"FINAL","rev":1,"completeness":1.0,"fidelity":1.0,"agents":{"in":8,"expected":8,"missing":[]},'
    '"version":1,"counts":{"contributed":812,"filtered":40,"parse_error":0,"late_dropped":0},'
    '"rows":[{"path":"/","hits":91}]}'
)


def record(**changes: Any) -> ResultRecord:
    fields: dict[str, Any] = {
        "job": "shop/top",
        "index": 57,
        "start_us": 1_431_857_100_000_000,
        "end_us": 1_431_857_130_000_000,
        "agents_in": 8,
        "agents_expected": 8,
        "counts": counts_dict((812, 40, *NOT_COUNTED[2:])),
    }
    return ResultRecord(**{**fields, **changes})


def test_an_interval_is_written_byte_for_byte_as_the_interface_defines_it() -> None:
    table = pa.table({"path": ["/"], "hits": pa.array([91], pa.int64())})
    assert encode_json(to_json(record(), table)).decode() == GOLDEN


def test_prefixes_stand_beside_the_missing_agents() -> None:
    partly = (Partly(3, "web3", 1_431_857_120_000_000, 1800, 12),)
    agents = to_json(record(agents_in=7, missing=["web3"], partly=partly), pa.table({}))["agents"]
    stated = [{"agent": "web3", "until": "2015-05-17T10:05:20Z", "records": 1812}]
    assert agents == {"in": 7, "expected": 8, "missing": ["web3"], "partly": stated}


@pytest.mark.parametrize("name", ["partly", "withdrawn", "early", "clean"])
def test_releases_read_records_with_and_without_an_optional_field(name: str) -> None:
    given = record(
        partly=(Partly(3, "web3", 5, 2, 1),), withdrawn=[{"k": "a"}], early={"emitted": 1}, clean=False
    )
    written = msgspec.msgpack.decode(msgspec.msgpack.encode(given))
    del written[name]
    old = msgspec.msgpack.decode(msgspec.msgpack.encode(written), type=ResultRecord)
    assert getattr(old, name) == getattr(record(), name)
    fields = [(each, Any, None) for each in written]
    earlier = msgspec.defstruct("Earlier", fields, kw_only=True, omit_defaults=True)
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(given), type=earlier)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(read)) == written


def test_a_query_without_a_window_has_no_bounds() -> None:
    written = to_json(record(index=0, start_us=None, end_us=None), pa.table({}))
    assert written["interval"] == {"index": 0, "start": None, "end": None}
    assert written["rows"] == []


def test_buckets_that_are_not_in_the_example_show_when_they_count() -> None:
    counts = to_json(record(counts=counts_dict((1, 2, 3, 4, 5, 6, 7, 8, 9))), pa.table({}))["counts"]
    assert counts == dict(zip(BUCKETS, range(1, 10), strict=True))


def test_counts_add_up() -> None:
    assert add_counts([(1, 2, 3, 4, 5, 6, 7, 8, 9), (1, *[0] * 8)]) == (2, 2, 3, 4, 5, 6, 7, 8, 9)
    assert add_counts([]) == NOT_COUNTED


BROKEN = (812, 40, *NOT_COUNTED[2:], 3)


def test_violations_of_assume_are_in_a_record_only_if_there_are_any() -> None:
    assert counts_dict(BROKEN) == {**counts_dict(BROKEN[:-1]), "assumption_broken": 3}
    assert "assumption_broken" not in counts_dict(NOT_COUNTED)
    assert counts_list(counts_dict(BROKEN)) == BROKEN
    assert counts_list({"contributed": 1, "assumption_broken": 0}) == (1, *NOT_COUNTED[1:])
    with pytest.raises(ValueError, match="argument"):
        counts_dict((1, 2))


def test_sums_of_counts_have_violations_only_if_there_are_any() -> None:
    assert add_counts((BROKEN, NOT_COUNTED, BROKEN))[9:] == (6,)
    assert add_counts((BROKEN, (0,) * 9 + (-3,))) == BROKEN[:9]
    assert add_counts(()) == NOT_COUNTED
    assert with_broken({"contributed": 1}, 0) == {"contributed": 1}
    assert with_broken(with_broken({}, 2), 3) == {"assumption_broken": 5}


def test_a_record_whose_assumptions_do_not_hold_is_not_clean() -> None:
    assert record().is_clean
    found = record(counts=counts_dict(BROKEN))
    assert not found.is_clean
    assert to_json(found, pa.table({}))["counts"]["assumption_broken"] == 3
    assert "assumption_broken" not in to_json(record(), pa.table({}))["counts"]
