"""How long one call of a gated MLP takes, as a user calls it: a new process, a loop, no graph.

    python benchmarks/mlp_host.py -o benchmarks/results/h200-mlp-host.json
    python benchmarks/mlp_host.py --random 60 -o benchmarks/results/h200-mlp-calls.json

Needs a CUDA GPU. Eager and ours take turns; medians over rounds count. The weights are apart, as
`nn.Linear` keeps them; with `--stacked` ours gets them one below the other, as `GeGLUMLP` keeps
them. `--compiled N` adds `torch.compile` at every Nth size. A call is the host and the device
together; the host alone is the time until the last call of a short row is launched.

Autograd runs a backward pass on a thread of its own, and waking that thread can take longer than
all launches together (on a virtual machine above all). So training is timed twice: as it runs, and
with the backward pass on the calling thread.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from foretrace.kernels import gated_mlp, mlp_reference
from foretrace.kernels.bench.subjects import Size, mlp, parse_size, random_sizes

SIZES = (
    "1x4096x11008 7x2624x10432 16x768x3072 64x768x3072 64x2624x10624 96x768x3072 256x1024x4096 "
    "300x1152x6912 512x2048x8192 1024x1984x3328 8192x768x3072"
)
ROUNDS, AT_LEAST_S, MOST = 21, 0.003, 40

Call = Callable[[], object]
Times = dict[str, tuple[float, float]]


def timed(calls: dict[str, Call]) -> Times:
    """Microseconds of one call on the host alone and in all, by contender."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    calls["eager"]()
    torch.cuda.synchronize()
    count = max(4, min(MOST, int(AT_LEAST_S / (time.perf_counter() - start))))
    names = list(calls)
    for turn in range(ROUNDS):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            call = calls[name]
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(count):
                call()
            launched = time.perf_counter()
            torch.cuda.synchronize()
            both = launched - start, time.perf_counter() - start
            taken[name].append((both[0] / count * 1e6, both[1] / count * 1e6))
    return {
        name: (
            round(statistics.median(host for host, _ in rows), 1),
            round(statistics.median(call for _, call in rows), 1),
        )
        for name, rows in taken.items()
    }


def measured(size: Size, compiled: bool, stacked: bool) -> dict[str, Times]:
    """Forward and training at one size."""
    torch._dynamo.reset()
    x, gate, up, down, dy = mlp(size, torch.bfloat16, trains=True).inputs()
    functions = {"eager": (mlp_reference, (x, gate, up, down))}
    if compiled:
        functions["compiled"] = (torch.compile(mlp_reference, dynamic=False), (x, gate, up, down))
    weights = torch.cat((gate, up)).chunk(2) if stacked else (gate, up)
    functions["ours"] = (gated_mlp, (x, *weights, down))

    def forward(name: str) -> Call:
        function, tensors = functions[name]

        def call() -> object:
            with torch.no_grad():
                return function(*tensors)

        return call

    def training(name: str) -> Call:
        function, tensors = functions[name]
        leaves = [tensor.detach().requires_grad_() for tensor in tensors]
        return lambda: torch.autograd.grad(function(*leaves), leaves, dy)

    found = {
        "forward": timed({name: forward(name) for name in functions}),
        "training": timed({name: training(name) for name in functions}),
    }
    with torch.autograd.set_multithreading_enabled(False):
        found["training, one thread"] = timed({name: training(name) for name in functions})
    return found


def gains(results: dict[str, dict[str, Times]], what: str) -> list[float]:
    """The time of the fastest other contender over ours, by size."""
    found = []
    for times in results.values():
        calls = {name: call for name, (_, call) in times[what].items()}
        ours = calls.pop("ours")
        found.append(min(calls.values()) / ours)
    return found


def main() -> None:
    """Measure and print, and write where asked."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("-o", "--output", type=Path)
    options.add_argument("--random", type=int, default=0, metavar="COUNT")
    options.add_argument("--seed", type=int, default=20261118)
    options.add_argument("--stacked", action="store_true")
    options.add_argument("--compiled", type=int, default=0, metavar="N")
    given = options.parse_args()
    sizes = tuple((m, d, h) for m, d, h in map(parse_size, SIZES.split()))
    if given.random:
        sizes = random_sizes(given.random, given.seed)
    results: dict[str, dict[str, Times]] = {}
    facts = {
        "command": shlex.join(["python", *sys.argv]),
        "card": torch.cuda.get_device_name(),
        "torch": str(torch.__version__),
        "columns": "us: host, call",
        "times": results,
    }
    for number, size in enumerate(sizes):
        compiled = bool(given.compiled) and number % given.compiled == 0
        name = "x".join(map(str, size))
        results[name] = measured(size, compiled, given.stacked)
        for what, times in results[name].items():
            texts = (f"{who} {host:.0f}/{call:.0f}" for who, (host, call) in times.items())
            print(f"{name:>16}  {what:<21} {'  '.join(texts)}", flush=True)
        if given.output:
            given.output.write_text(json.dumps(facts, indent=1) + "\n")
        torch.cuda.empty_cache()
    for what in results[name]:
        found = gains(results, what)
        behind = sum(gain < 1 for gain in found)
        middle, least = statistics.median(found), min(found)
        print(f"{what}: gain {middle:.3f} in the median, {least:.3f} at least, behind at {behind}")


if __name__ == "__main__":
    main()
