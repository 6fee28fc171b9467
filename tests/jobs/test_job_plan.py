"""The generator obeys its own rules: what it says is true of the files that it writes."""

from __future__ import annotations

from pathlib import Path

import foretrace as ft
from jobs.plan import Answer


def test_all_ranks_end_a_collective_together(small_job: tuple[Path, Answer]) -> None:
    _, truth = small_job
    for met in truth.meetings:
        assert met.last == (2,)
        assert met.waits_ns[2] == 0
        assert met.end_ns == met.starts_ns[2] + met.transfer_ns


def test_the_files_say_what_the_answer_says(small_job: tuple[Path, Answer]) -> None:
    _, truth = small_job
    for rank, path in truth.files.items():
        trace = ft.open(path, cache=False)
        assert (trace.about.rank, trace.about.world_size) == (rank, 4)
        talking = trace.kernels.filter(role="comms")
        recorded = sorted(zip(talking["ts_ns"], talking["dur_ns"], strict=True))
        shift = truth.offsets_ns[rank]
        assert recorded == sorted(
            (met.starts_ns[rank] + shift, met.end_ns - met.starts_ns[rank])
            for met in truth.meetings
        )
