"""Measures which route is fastest: `tune(sizes)` fills this GPU's table, see `kernels.routes`.

Every candidate's result is compared with the library's before its time counts. A candidate must be
faster than the library by more than the noise. A part's time is the larger of its device time and
its time per call: a route that saves the GPU 2 us and costs the host 10 us is no gain.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import torch

from foretrace import files
from foretrace.errors import MissingError
from foretrace.experiments.timing import call_times, device_times
from foretrace.kernels import routes, steps
from foretrace.kernels.glu import gated
from foretrace.kernels.routes import LIBRARY, PARTS, MeasuredRoute, Route, Size

# A route must be this much faster than the library: medians of two equal routes differ by about 1%
# on an H200.
GAIN = 1.01
# Relative distance allowed between two bf16 results that differ only in the order of rounding.
CLOSE = 2e-2

# The routes worth trying, by part: least and most rows, then the route as tables write it (kind,
# bm, bn, bk, stages, warps, group, resident, split). None spills on sm_90: see
# tests/kernels/test_aot.py.
_CANDIDATES = """
gate_up        129    - tma     128 128  64 4 8  8 1 1
gate_up        129    - tma     128 128  64 3 8 16 1 1
gate_up         65    - tma     128  64  64 3 4  8 2 1
gate_up         65 4096 tma     128  64  64 4 8  8 1 1
gate_up         33 4096 tma      64 128  64 4 4  8 1 1
gate_up         17 4096 tma      64  64  64 4 4  8 2 1
gate_up          1   32 pointer  16  64 128 3 4  1 1 1
gate_up          1   32 pointer  16  32 256 3 4  1 1 1
gate_up          1   32 pointer  16  32 128 6 4  1 1 1
gate_up          1   32 pointer  16  64 128 4 4  1 1 1
gate_up          1   32 pointer  16 128  64 4 4  1 1 1
gate_up         17  512 pointer  64  32 128 3 4  8 1 1
gate_up         17 1024 pointer  64  64  64 4 4  8 1 1
gate_up_saving 129    - tma     128 128  64 4 8  8 1 1
gate_up_saving  65    - tma     128  64  64 3 4  8 2 1
gate_up_saving  17 4096 tma      64  64  64 4 4  8 2 1
gate_up_saving   1   32 pointer  16  32 256 3 4  1 1 1
gate_up_saving  17 1024 pointer  64  64  64 4 4  8 1 1
down             1   32 narrow   16  32 256 3 4  8 1 2
down             1   32 narrow   16  32 128 4 4  8 1 4
down             1   32 narrow   16  64 128 4 4  8 1 4
down             1   32 narrow   16  64 128 4 4  8 1 8
down             1   32 narrow   16  64 256 3 4  8 1 4
down             1   32 narrow   16  32 128 4 4  8 1 8
down            17  256 narrow   64  32 128 3 4  8 1 4
down            17 1024 narrow   64  64  64 4 4  8 1 4
down            17 1024 narrow   64  64  64 4 4  8 1 1
gradient        65    - tma     128 256  64 3 8  8 1 1
gradient        65    - tma     128 256  64 4 8  8 1 1
"""


def _parsed() -> dict[str, tuple[tuple[int, int, Route], ...]]:
    lines = [line.split(maxsplit=3) for line in _CANDIDATES.strip().splitlines()]
    rows = [
        (part, int(least), sys.maxsize if most == "-" else int(most), Route.parse(route))
        for part, least, most, route in lines
    ]
    return {part: tuple(row[1:] for row in rows if row[0] == part) for part in PARTS}


CANDIDATES = _parsed()

Compute = Callable[[Route], torch.Tensor]


def tune(
    sizes: Iterable[Size], dtype: torch.dtype = torch.bfloat16, activation: str = "gelu_tanh"
) -> list[MeasuredRoute]:
    """Measure every part at every size (m, d, h) on this GPU, and keep the result on disk."""
    if not torch.cuda.is_available():
        message = "tuning needs a CUDA GPU with torch and Triton: pip install 'foretrace[bench]'"
        raise MissingError(message)
    sizes = list(sizes)
    jobs = {(part, route) for m, _, _ in sizes for part in PARTS for route in candidates(part, m)}
    _compile(jobs, dtype, activation)
    rows = [row for size in sizes for row in measure(size, dtype, activation)]
    card = routes.card_name(torch.cuda.current_device())
    new = {row[:4] for row in rows}
    path = routes.store_path(card)
    write_table(path, card, [*rows, *(row for row in routes.read(path) if row[:4] not in new)])
    return rows


def write_table(path: Path, card: str, rows: Iterable[MeasuredRoute]) -> None:
    """Replace a table of routes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = {"card": card, "torch": torch.__version__, "columns": MeasuredRoute._fields}
    lines = ",\n ".join(json.dumps(row) for row in rows)
    files.write_text(path, json.dumps(head)[:-1] + f', "rows": [\n {lines}\n]}}\n')
    routes.rows_for.cache_clear()
    routes.plan.cache_clear()


def warm(dtype: torch.dtype = torch.bfloat16, activation: str = "gelu_tanh") -> None:
    """Compile and load every kernel that this GPU's table can choose, before the first call."""
    table = routes.rows_for(routes.card_name(torch.cuda.current_device()))
    jobs = {(row.part, Route.parse(row.route)) for row in table if row.route != LIBRARY.text()}
    _compile(jobs, dtype, activation)
    for part, route in [*sorted(jobs), *((part, LIBRARY) for part in PARTS)]:
        _compile_one(part, route, dtype, activation)
    for columns in (64, 63):
        gate = torch.zeros(8, columns, dtype=dtype, device="cuda", requires_grad=True)
        gated(gate, gate.detach(), activation).backward(torch.ones_like(gate))


def measure(size: Size, dtype: torch.dtype, activation: str) -> Iterator[MeasuredRoute]:
    """The best route of every part at one size."""
    for part, compute in zip(PARTS, _parts(size, dtype, activation), strict=True):
        wanted = compute(LIBRARY).float()
        calls = {LIBRARY.text(): partial(compute, LIBRARY)}
        for route in candidates(part, size[0]):
            distance = (compute(route).float() - wanted).norm() / wanted.norm()
            if distance < CLOSE:
                calls[route.text()] = partial(compute, route)
        device = device_times(calls, repeats=11)
        call = call_times(calls, rounds=3, at_least_s=0.004)
        cost = {name: max(device[name].median, call[name].median) for name in calls}
        best = min(cost, key=cost.__getitem__)
        if cost[best] * GAIN > cost["library"]:
            best = "library"
        yield MeasuredRoute(part, *size, best, round(cost[best], 2), round(cost["library"], 2))


def candidates(part: str, m: int) -> list[Route]:
    """The routes worth trying for `m` rows, without the library."""
    return [route for least, most, route in CANDIDATES[part] if least <= m <= most]


def _parts(size: Size, dtype: torch.dtype, activation: str) -> tuple[Compute, ...]:
    """One function per part that computes it by a route, on random data of this size."""
    m, d, h = size
    new = {"dtype": dtype, "device": "cuda"}
    x, dy = torch.randn(m, d, **new), torch.randn(m, d, **new)
    both = torch.randn(2 * h, d, **new) / d**0.5
    weights = steps.Weights(both[:h], both[h:], torch.randn(d, h, **new) / h**0.5)
    middle, pre = torch.randn(m, h, **new), torch.randn(m, 2 * h, **new)
    saved = torch.empty_like(pre)

    def gate_up(kept: torch.Tensor | None, route: Route) -> torch.Tensor:
        out = x.new_empty((m, h))
        steps.gate_up_part(x, weights, out, kept, activation, size, route)
        return out

    return (
        lambda route: gate_up(None, route),
        lambda route: gate_up(saved, route),
        lambda route: steps.down_part(middle, weights.down, x, size, route),
        lambda route: steps.gradient_part(dy, weights.down, pre, activation, size, route),
    )


def _compile(jobs: Iterable[tuple[str, Route]], dtype: torch.dtype, activation: str) -> None:
    """Compile in several processes; Triton's cache on disk passes the kernels on."""
    workers = max(1, multiprocessing.cpu_count() - 1)
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for done in [pool.submit(_compile_one, *job, dtype, activation) for job in sorted(jobs)]:
            done.result()


def _compile_one(part: str, route: Route, dtype: torch.dtype, activation: str) -> None:
    """Run a part once at a multiple of eight and once at another size: two variants."""
    for size in ((256, 1024, 256), (256, 1023, 257)):
        _parts(size, dtype, activation)[PARTS.index(part)](route)
    torch.cuda.synchronize()
