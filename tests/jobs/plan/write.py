"""The files of a simulated job, and the truth about it."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec

from jobs.plan.answer import Answer, answer
from jobs.plan.kineto import document, file_name
from jobs.plan.plan import Plan
from jobs.plan.simulate import simulate


def write(plan: Plan, folder: Path) -> Answer:
    """One gzipped file per rank into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    simulation, files = simulate(plan), {}
    for rank in range(plan.world):
        files[rank] = folder / f"{file_name(plan, rank)}.gz"
        text = msgspec.json.encode(document(simulation, rank))
        files[rank].write_bytes(gzip.compress(text, 1, mtime=0))
    return answer(simulation, files)
