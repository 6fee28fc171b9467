"""foretrace, HTA and TraceLens on the same ranks: time, memory, and their numbers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
from job_runs import Run, write

from foretrace.jobs.documents import JobDocument
from jobs.plan import Answer, Plan
from jobs.plan.distance import distance

HTA = """
import glob, json, logging, re, sys
from hta.trace_analysis import TraceAnalysis

if __name__ == "__main__":
    files = {int(re.search(r"rank(\\d+)", path)[1]): path for path in glob.glob(sys.argv[1] + "/*")}
    found = TraceAnalysis(trace_files=files, trace_dir=sys.argv[1],
                          include_last_profiler_step=True)
    times = found.get_temporal_breakdown(visualize=False)
    overlap = found.get_comm_comp_overlap(visualize=False)
    try:
        slow = [int(rank) for rank in found.get_potential_stragglers(visualize=False)]
    except Exception as error:
        slow = repr(error)
    said = {"times": times.to_dict("list"), "overlap": overlap.to_dict("list"), "stragglers": slow}
    print("\\nANSWER" + json.dumps(said, default=float))
"""
TRACELENS = """
import json, sys
from TraceLens.Reporting.generate_multi_rank_collective_report_pytorch import (
    generate_collective_report,
)

if __name__ == "__main__":
    sheets = generate_collective_report(
        trace_pattern=sys.argv[1] + "/rank*.json.gz", world_size=int(sys.argv[2]),
        output_csvs_dir=sys.argv[3], use_multiprocessing=True,
    )
    wanted = ("nccl_summary_implicit_sync", "straggler_summary")
    said = {name: json.loads(sheets[name].to_json(orient="records")) for name in wanted}
    print("\\nANSWER" + json.dumps(said))
"""


# where the numbers differ, and why, as far as the numbers themselves tell
WHY = {
    "hta": "rounds starts and durations to whole microseconds, so that a short kernel loses up to "
    "one; drops the last step unless told not to; has no waits and no clocks",
    "tracelens": "compares the clocks of hosts as they are, so that its waits and its last ranks "
    "are off by their offsets; divides by 2^30 what it calls GB/s; reads nothing but collectives",
}


def beside(plan: Plan, folder: Path, hta: Path | None, tracelens: Path | None) -> dict[str, Any]:
    """Run each that is there, one after the other, on the same files."""
    truth, unpacked = write(plan, folder / "traces", packed=True)
    traces = str(folder / "traces")
    own = Run([sys.executable, "-m", "foretrace", "job", traces, "--no-cache", "--json"])
    document = msgspec.json.decode(own.output, type=JobDocument)
    found: dict[str, Any] = {
        "ranks": plan.world,
        "why": WHY,
        "file_bytes_unpacked": unpacked,
        "truth": _truth(truth),
        "foretrace": _measured(own) | {"right": msgspec.to_builtins(distance(document, truth))},
    }
    if hta:
        run = Run([sys.executable, "-c", HTA, traces], {"PYTHONPATH": str(hta)})
        found["hta"] = _measured(run) | _hta(_answer(run), truth)
    if tracelens:
        line = [sys.executable, "-c", TRACELENS, traces, str(plan.world), str(folder / "sheets")]
        run = Run(line, {"PYTHONPATH": str(tracelens)})
        found["tracelens"] = _measured(run) | _tracelens(_answer(run))
    return found


def _measured(run: Run) -> dict[str, Any]:
    return {
        "seconds": round(run.seconds, 2),
        "cpu_s": round(run.cpu_s, 2),
        "memory_bytes": run.most_bytes,
        "processes": run.processes,
    }


def _answer(run: Run) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run.output.rsplit("\nANSWER", 1)[1])
    return answer


def _truth(truth: Answer) -> dict[str, Any]:
    """The same figures as the others give, from the plan."""
    times = [truth.steps[0, step] for step in sorted({step for _, step in truth.steps})]
    return {
        "straggler": truth.plan.delays[0].ranks[0],
        "rank_0_compute_us": sum(each.compute_ns for each in times) / 1e3,
        "rank_0_comms_under_compute": sum(each.both_ns for each in times)
        / sum(each.comms_ns for each in times),
        "bus_gbps": truth.plan.bus_gbps,
        "last": _times_last(truth),
    }


def _times_last(truth: Answer) -> dict[int, int]:
    last: dict[int, int] = {}
    for each in truth.collectives:
        last[each.last[0]] = last.get(each.last[0], 0) + 1
    return last


def _hta(said: dict[str, Any], truth: Answer) -> dict[str, Any]:
    at = said["times"]["rank"].index(0)
    return {
        "stragglers": said["stragglers"],
        "rank_0_compute_us": said["times"]["compute_time(us)"][at],
        "rank_0_comms_under_compute": said["overlap"]["comp_comm_overlap_pctg"][at] / 100,
    }


def _tracelens(said: dict[str, Any]) -> dict[str, Any]:
    return {
        "bus_bandwidth": [
            (each["Process Group Name"], each["bus bw (GB/s)_median"])
            for each in said["nccl_summary_implicit_sync"]
        ],
        "times_last": {
            int(each["rank"]): int(each["times_arrived_last"])
            for each in said["straggler_summary"]
            if each["times_arrived_last"]
        },
        "total_wait_us": {
            int(each["rank"]): each["total_wait_time_us"] for each in said["straggler_summary"]
        },
    }
