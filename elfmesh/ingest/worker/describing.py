"""Cost, memory and counts of a job at this agent, for display and metrics."""

from __future__ import annotations

from elfmesh.control.jobs.records import FIRST, counts_dict
from elfmesh.ingest.worker.jobs import LocalJob


def describe_job(job: LocalJob) -> dict[str, object]:
    due_us, worker = job.due_us(), job.worker
    return {
        **job.cost.describe(),
        "counts": counts_dict(worker.totals),
        "held_bytes": job.held_bytes,
        "open_interval": worker.next_index if worker.next_index > FIRST else None,
        "due_seconds": None if due_us is None else due_us / 1e6,
        "watermark_seconds": worker.watermark_us / 1e6 if worker.watermark_us > 0 else None,
        "held": sorted(job.held),
    }
