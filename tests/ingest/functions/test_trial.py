"""A trial of a function: each way finds the function that was written for it, and limits hold."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh.ingest.functions.process import Limits
from elfmesh.ingest.functions.trial import _EDGES, OTHER_ROWS, ROWS, WAYS, try_function
from elfmesh.ql.plan.declared import TYPES
from tests.ingest.functions.declared import function

PATIENT = Limits(seconds=30.0, confined=False)
CASES = {
    "again": ("N = 0\ndef f(x):\n  global N\n  N += 1\n  return N", ""),
    "in another process": ("def f(x):\n  return hash(str(x)) % 1000", ""),
    "in another order": (
        "import pyarrow as pa\ndef f(x):\n  return pa.array(x.to_pylist()[:1] * len(x), pa.int64())",
        "VECTORISED",
    ),
    "in other cuts": (
        "import pyarrow as pa\ndef f(x):\n  return pa.array([len(x)] * len(x), pa.int64())", "VECTORISED",
    ),
    "after other rows": (
        "FIRST = []\ndef f(x):\n  if x and not FIRST:\n    FIRST.append(x)\n  return FIRST[0] if x else None",
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_each_way_finds_the_function_that_was_written_for_it(way: str) -> None:
    body, how = CASES[way]
    found = try_function(function(body, how=how), limits=PATIENT)
    assert found.refutation is not None
    assert found.refutation.way == way, found
    assert found.refutation.first != found.refutation.second
    assert str(found).startswith("f(")
    assert f"and {way} " in str(found)


def test_a_confluent_function_is_reported_as_tried() -> None:
    found = try_function(function("def f(x):\n  return None if x is None else x // 2"), limits=PATIENT)
    assert found.refutation is None
    assert str(found) == f"f: tried {ROWS} rows in {len(WAYS)} ways"


def test_nan_equals_nan_and_errors_equal_errors() -> None:
    body = "def f(x):\n  if x is None or x % 2:\n    raise ValueError(x)\n  return float('nan')"
    assert try_function(function(body, gives="DOUBLE"), limits=PATIENT).refutation is None


def test_a_sample_is_tried_first() -> None:
    body = "S = []\ndef f(x):\n  if x == 424242:\n    S.append(x)\n    return len(S)\n  return 0"
    assert try_function(function(body), limits=PATIENT).refutation is None
    found = try_function(function(body), [(424242,)], PATIENT)
    assert found.refutation is not None
    assert found.refutation.arguments == "424242"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("def f(x):\n  while True: pass", "no answer within"),
        ("import os\ndef f(x):\n  os._exit(3)", "ended with 3"),
        ("def f(x:\n", "line"),
        ("def f(x):\n  return 'x' * (1 << 34)", "memory"),
    ],
)
def test_a_function_that_hangs_or_crashes_ends_the_trial_within_its_limits(body: str, reason: str) -> None:
    limits = Limits(seconds=1.0, memory_bytes=64 << 20, confined=False)
    found = try_function(function(body, gives="STRING"), limits=limits)
    assert found.refutation is not None
    assert reason in str(found)
    assert "\n" not in str(found)


def test_every_type_of_arguments_has_edge_values() -> None:
    assert {str(kind) for kind in TYPES.values()} == _EDGES.keys()
    for kind in TYPES.values():
        assert len(pa.array(_EDGES[str(kind)], kind)) >= 3
    assert OTHER_ROWS < ROWS
