"""What agents say on a kernel without a layer: `python -m tests.ingest.functions.on_lesser_kernel LAYER`."""

from __future__ import annotations

import json
import sys
from contextlib import suppress

from elfmesh.control.jobs.policy import OPEN
from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.authority.signatures import Signatures
from elfmesh.ingest.functions.host import FunctionHost
from elfmesh.ingest.functions.process import Limits, WorkerFailed, WorkerProcess
from elfmesh.storage.storage import MemoryStorage
from tests.ingest.functions.declared import function
from tests.ingest.functions.lesser_kernel import take_away
from tests.ingest.functions.test_host import NOW_S, OFF_HERE, TRUST, Host, manifest, stage


def main() -> None:
    """Print what a host says that accepts nothing, one that accepts the risk, and one without keys."""
    take_away(sys.argv[1])
    found = {}
    for name, trust, confined in (("held", TRUST, True), ("accepted", TRUST, False), ("off", OFF_HERE, True)):
        limits = Limits(30.0, 128 << 20, confined)
        signatures = Signatures(trust, MemoryStorage(), lambda: NOW_S * 1_000_000)
        host = Host(OPEN, FunctionHost(signatures, limits, lambda: NOW_S * 1_000_000))
        reported = {"trial": host.trial(manifest(1)), "worker": "", "open": "", "again": ""}
        with suppress(RuntimeFailure):
            reported["open"] = next(iter(host.open([stage(manifest(1))]).values())).problem
        reported |= {"python": host.describe()["python"], "problem": host.problem}
        try:
            WorkerProcess([function("def f(x): return x")], limits).kill()
        except WorkerFailed as error:
            reported["worker"] = str(error)
        try:
            host.again(manifest(1))
        except RuntimeFailure as error:
            reported["again"] = error.message
        found[name] = reported
    print(json.dumps(found))


if __name__ == "__main__":
    main()
