"""What one job was admitted with: until when, and how many groups it may hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from elfmesh import ql
from elfmesh.cbt import Panes
from elfmesh.control.jobs.policy import Grant, Policy
from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.authority.gate import AuthorityGate
from elfmesh.ingest.authority.signatures import Trust
from tests.ingest.authority.signed import (
    gate,
    manifest,
    start,
)


def test_a_job_with_more_groups_than_its_namespace_may_hold_ends() -> None:
    policy = Policy(namespaces={"shop": Grant(groups=10)})
    running = start(AuthorityGate(policy, gate(trust=Trust("fleet")).functions, ["access"]), manifest())
    table = ql.parse(manifest().text).tables
    panes = Panes(table, 30_000_000)

    def insert(keys: range) -> None:
        batch = pa.record_batch({"k0": pa.array([f"/{key}" for key in keys])})
        panes.insert("main", np.zeros(len(keys), np.int64), batch)

    class Worker:
        groups = property(lambda self: panes.rows)

    insert(range(10))
    running.check_groups(Worker())
    insert(range(10, 11))
    with pytest.raises(RuntimeFailure, match="open intervals hold 11 groups here, over the 10"):
        running.check_groups(Worker())
