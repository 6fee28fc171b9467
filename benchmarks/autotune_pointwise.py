"""Which launch configuration Inductor keeps for gelu(gate) * up, what it timed, what each takes.

    python benchmarks/autotune_pointwise.py -o benchmarks/results/h200-autotune-pointwise.json

Needs a CUDA GPU. Every case runs in a process of its own with fresh caches:

    inference    the fused kernel writes over `gate`, which each timed call must restore
    memory       the same after 1 GiB was allocated and freed: a clone no longer raises the peak
    not_in_place torch._inductor.config.inplace_buffers = False: nothing to restore
    training     `gate` is kept for the backward pass, so the kernel writes elsewhere

`timed_us` is what Inductor measured of each candidate, `kernel_us` what the one it kept takes in a
trace; `forced_us` takes the choice away from it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch._inductor.runtime import triton_heuristics as heuristics
from torch._inductor.utils import fresh_cache

CASES = {"inference": 4, "memory": 3, "not_in_place": 2, "training": 2}
NAME = "triton_poi_fused__unsafe_view_gelu_mul_0"
BATCH, SEQ, DIM, HIDDEN = 64, 128, 768, 3072


class GeGLU(nn.Module):
    """The MLP of the articles, with the exact gelu."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(DIM, HIDDEN, bias=False)
        self.up = nn.Linear(DIM, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, DIM, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One forward."""
        result: torch.Tensor = self.down(F.gelu(self.gate(x)) * self.up(x))
        return result


class Watched:
    """Notes what Inductor times, and may choose in its place."""

    def __init__(self) -> None:
        self.timed: dict[str, float] = {}
        self.forced: int | None = None
        self._time = heuristics.CachingAutotuner.benchmark_all_configs

    def __call__(self, tuner: Any, *args: Any, **kwargs: Any) -> dict[Any, float]:
        """In the place of `CachingAutotuner.benchmark_all_configs`."""
        found: dict[Any, float] = self._time(tuner, *args, **kwargs)
        if tuner.inductor_meta.get("kernel_name") != NAME:
            return found
        if self.forced is None:
            self.timed = {_label(each.config): ms * 1e3 for each, ms in found.items()}
            return found
        return {each: float(at != self.forced) for at, each in enumerate(found)}


def _label(config: Any) -> str:
    return f"{config.kwargs['XBLOCK']} elements, {config.num_warps} warps"


def traced(training: bool) -> dict[str, Any]:
    """Compile afresh, and take the kernel's launch and its median time from a trace."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    module = GeGLU().cuda().bfloat16()
    x = torch.randn(BATCH, SEQ, DIM, device="cuda", dtype=torch.bfloat16)
    compiled = torch.compile(module)

    def step() -> None:
        with torch.set_grad_enabled(training):
            y = compiled(x)
            if training:
                y.sum().backward()
                module.zero_grad()

    for _ in range(5):
        step()
    with torch.profiler.profile() as profiler:
        for _ in range(20):
            step()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    found = [each for each in events if each.get("cat") == "kernel" and each["name"] == NAME]
    threads = found[0]["args"]["block"][0]
    return {"threads": threads, "us": statistics.median(each["dur"] for each in found)}


def one(case: str) -> dict[str, Any]:
    """One case in this process."""
    if case == "memory":
        torch.empty(2**30, device="cuda", dtype=torch.uint8)
    torch._inductor.config.inplace_buffers = case != "not_in_place"
    watched = Watched()
    # a function, so that it is called as a method
    heuristics.CachingAutotuner.benchmark_all_configs = lambda *args, **named: watched(
        *args, **named
    )
    kept = traced(case == "training")
    forced = {}
    for at, label in enumerate(watched.timed):
        watched.forced = at
        with fresh_cache():
            forced[label] = traced(case == "training")["us"]
    return {
        "case": case,
        "timed_us": watched.timed,
        "kept_threads": kept["threads"],
        "kernel_us": kept["us"],
        "forced_us": forced,
    }


def fresh(case: str) -> dict[str, Any]:
    """One case in a process with empty caches."""
    with tempfile.TemporaryDirectory() as inductor, tempfile.TemporaryDirectory() as triton:
        around = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": inductor, "TRITON_CACHE_DIR": triton}
        command = [sys.executable, __file__, "--case", case]
        done = subprocess.run(command, env=around, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure and print, and write where asked."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("-o", "--output", type=Path)
    options.add_argument("--case", choices=CASES, help="one case in this process")
    chosen = options.parse_args()
    if chosen.case:
        print(json.dumps(one(chosen.case)))
        return
    runs = []
    for case, times in CASES.items():
        for _ in range(times):
            runs.append(fresh(case))
            print(runs[-1], flush=True)
    if chosen.output:
        card, version = torch.cuda.get_device_name(), str(torch.__version__)
        facts = {"card": card, "torch": version, "kernel": NAME, "runs": runs}
        chosen.output.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
