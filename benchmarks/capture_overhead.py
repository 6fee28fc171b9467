"""What `foretrace.capture` adds to a profiled step over plain `torch.profiler` with the same
options.

    python benchmarks/capture_overhead.py [--steps 50] [--rounds 7]

Both record the same steps of a small eager MLP with the same region around each; rounds alternate,
so that drift hits both. The figure is the median time between two step() calls while recording, per
round; the rounds give its spread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import torch

from foretrace.record.profiling import capture
from foretrace.record.profiling.window import activities, synchronize


def main() -> None:
    """Time a small model under both profilers, in pairs of rounds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)
    ).to(device)
    x = torch.randn(32, 64, device=device)
    plain, ours = [], []
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            plain.append(_median_ns(_plain(args.steps), lambda: model(x), args.steps, "work"))
            ours.append(
                _median_ns(_ours(args.steps, Path(folder)), lambda: model(x), args.steps, None)
            )
    added = [b / a - 1 for a, b in zip(plain, ours, strict=True)]
    print(
        json.dumps(
            {
                "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
                "torch": str(torch.__version__),
                "plain_ns": statistics.median(plain),
                "capture_ns": statistics.median(ours),
                "added": round(statistics.median(added), 4),
                "added_min": round(min(added), 4),
                "added_max": round(max(added), 4),
            }
        )
    )


def _plain(steps: int) -> Any:
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=steps, repeat=1)
    return torch.profiler.profile(activities=activities(), schedule=schedule, record_shapes=True)


def _ours(steps: int, folder: Path) -> Any:
    return capture(folder / "run.json", steps=steps, warmup=0, region="work", overwrite=True)


def _median_ns(profiler: Any, call: Callable[[], object], steps: int, region: str | None) -> float:
    """`region` is entered by hand for the plain profiler; `capture` does it by itself."""
    for _ in range(3):
        call()
    synchronize()
    marks = []
    with profiler:
        for _ in range(steps + 2):
            if region:
                with torch.profiler.record_function(region):
                    call()
            else:
                call()
            marks.append(perf_counter_ns())
            profiler.step()
    return statistics.median(b - a for a, b in pairwise(marks[2:]))


if __name__ == "__main__":
    main()
