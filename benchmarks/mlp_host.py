"""How long the host takes to launch one gated MLP, eager and ours: forward, and with backward.

    python benchmarks/mlp_host.py -o benchmarks/results/h200-mlp-host.json

Needs a CUDA GPU. Autograd runs a backward pass on a thread of its own, and waking that thread can
take longer than all launches together (on a virtual machine above all). So training is timed
twice: as it runs, and with the backward pass on the calling thread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from foretrace.kernels import gated_mlp, mlp_reference
from foretrace.kernels.bench.subjects import mlp

SIZES = ((1, 4096, 11008), (16, 768, 3072), (64, 768, 3072), (256, 1024, 4096), (512, 2048, 8192))
ROUNDS, CALLS = 60, 4  # few calls in a row, so that the GPU's queue never makes the host wait


def host_us(call: Callable[[], object]) -> float:
    """The median over rounds of the host's time for one call."""
    taken = []
    for _ in range(ROUNDS + 5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        taken.append((time.perf_counter() - start) / CALLS * 1e6)
    return round(statistics.median(taken[5:]), 1)


def measured(size: tuple[int, int, int]) -> dict[str, dict[str, float]]:
    """Microseconds of each function at one size."""
    *inputs, dy = mlp(size, torch.bfloat16, trains=True).inputs()
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    found = {}
    for name, function in (("eager", mlp_reference), ("ours", gated_mlp)):

        def forward(function: Callable[..., torch.Tensor] = function) -> None:
            with torch.no_grad():
                function(*inputs)

        def training(function: Callable[..., torch.Tensor] = function) -> None:
            torch.autograd.grad(function(*leaves), leaves, dy)

        times = {"forward": host_us(forward), "training": host_us(training)}
        with torch.autograd.set_multithreading_enabled(False):
            times["training, one thread"] = host_us(training)
        found[name] = times
    return found


def main() -> None:
    """Measure and print, and write where asked."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("-o", "--output", type=Path)
    output = options.parse_args().output
    results = {"x".join(map(str, size)): measured(size) for size in SIZES}
    for size, times in results.items():
        for what, eager in times["eager"].items():
            ours = times["ours"][what]
            print(f"{size:>15}  {what:<21} eager {eager:7.1f} us  ours {ours:7.1f} us")
    if output:
        card = torch.cuda.get_device_name()
        facts = {"card": card, "torch": str(torch.__version__), "host_us": results}
        output.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
