"""Measuring which route is fastest: `tune(sizes)` fills this card's table, see `routes`.

Every candidate's result is compared with the library's before its time counts. A candidate is kept
only if it beats the library by more than the noise; a part's time is the larger of its device time
and its time per call, since a route that saves the GPU two microseconds and costs the host ten is
no gain.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

import torch

from foretrace.errors import MissingError
from foretrace.kernels import steps
from foretrace.kernels.device.products import Tile
from foretrace.kernels.glu import gated
from foretrace.kernels.routes import (
    LIBRARY,
    PARTS,
    Measured,
    Route,
    Size,
    card_name,
    read,
    rows_for,
    store_path,
    write,
)
from foretrace.kernels.timing import call_times, device_times

# A route must beat the library by this much to be chosen: medians of two equal routes differ by
# about 1% on an H200.
GAIN = 1.01
# Relative distance allowed between two bf16 results that differ only in the order of rounding.
CLOSE = 2e-2

# (least rows, most rows, route): what is worth trying. All compile without spills for sm_90; see
# tests/kernels/test_aot.py.
_ANY = 1 << 40
CANDIDATES: dict[str, tuple[tuple[int, int, Route], ...]] = {
    "gate_up": (
        (129, _ANY, Route("tma", Tile(128, 128, 64, 4, 8, 8))),
        (129, _ANY, Route("tma", Tile(128, 128, 64, 3, 8, 16))),
        (65, _ANY, Route("tma", Tile(128, 64, 64, 3, 4, 8, 2))),
        (65, 4096, Route("tma", Tile(128, 64, 64, 4, 8, 8))),
        (33, 4096, Route("tma", Tile(64, 128, 64, 4, 4, 8))),
        (17, 4096, Route("tma", Tile(64, 64, 64, 4, 4, 8, 2))),
        (1, 32, Route("pointer", Tile(16, 64, 128, 3, 4, 1))),
        (1, 32, Route("pointer", Tile(16, 32, 256, 3, 4, 1))),
        (1, 32, Route("pointer", Tile(16, 32, 128, 6, 4, 1))),
        (1, 32, Route("pointer", Tile(16, 64, 128, 4, 4, 1))),
        (1, 32, Route("pointer", Tile(16, 128, 64, 4, 4, 1))),
        (17, 512, Route("pointer", Tile(64, 32, 128, 3, 4, 8))),
        (17, 1024, Route("pointer", Tile(64, 64, 64, 4, 4, 8))),
    ),
    "gate_up_saving": (
        (129, _ANY, Route("tma", Tile(128, 128, 64, 4, 8, 8))),
        (65, _ANY, Route("tma", Tile(128, 64, 64, 3, 4, 8, 2))),
        (17, 4096, Route("tma", Tile(64, 64, 64, 4, 4, 8, 2))),
        (1, 32, Route("pointer", Tile(16, 32, 256, 3, 4, 1))),
        (17, 1024, Route("pointer", Tile(64, 64, 64, 4, 4, 8))),
    ),
    "down": (
        (1, 32, Route("narrow", Tile(16, 32, 256, 3, 4, split=2))),
        (1, 32, Route("narrow", Tile(16, 32, 128, 4, 4, split=4))),
        (1, 32, Route("narrow", Tile(16, 64, 128, 4, 4, split=4))),
        (1, 32, Route("narrow", Tile(16, 64, 128, 4, 4, split=8))),
        (1, 32, Route("narrow", Tile(16, 64, 256, 3, 4, split=4))),
        (1, 32, Route("narrow", Tile(16, 32, 128, 4, 4, split=8))),
        (17, 256, Route("narrow", Tile(64, 32, 128, 3, 4, split=4))),
        (17, 1024, Route("narrow", Tile(64, 64, 64, 4, 4, split=4))),
        (17, 1024, Route("narrow", Tile(64, 64, 64, 4, 4))),
    ),
    "gradient": (
        (65, _ANY, Route("tma", Tile(128, 256, 64, 3, 8, 8))),
        (65, _ANY, Route("tma", Tile(128, 256, 64, 4, 8, 8))),
    ),
}

Compute = Callable[[Route], torch.Tensor]


def tune(
    sizes: Iterable[Size], dtype: torch.dtype = torch.bfloat16, activation: str = "gelu_tanh"
) -> list[Measured]:
    """Measure every part at every size (m, d, h) on the current card, keep the result on disk, and
    return it.
    """
    if not torch.cuda.is_available():
        raise MissingError(
            "tuning needs a CUDA GPU with torch and Triton: pip install 'foretrace[bench]'"
        )
    sizes = list(sizes)
    compile_ahead(dtype, activation, sizes)
    rows = [row for size in sizes for row in measure(size, dtype, activation)]
    card = card_name(torch.cuda.current_device())
    new = {(row.part, row.m, row.d, row.h) for row in rows}
    path = store_path(card)
    write(
        path,
        card,
        [*rows, *(row for row in read(path) if (row.part, row.m, row.d, row.h) not in new)],
    )
    return rows


def warm(dtype: torch.dtype = torch.bfloat16, activation: str = "gelu_tanh") -> None:
    """Compile and load every kernel this card's table can choose, so that no later call, whatever
    its shape, has to.

    The first time on a machine that takes some seconds; afterwards Triton's cache on disk has them.
    """
    card = card_name(torch.cuda.current_device())
    jobs = {
        (row.part, Route.parse(row.route)) for row in rows_for(card) if row.route != LIBRARY.text()
    }
    _compile(jobs, dtype, activation)
    for part, route in sorted(jobs):
        _compile_one(part, route, dtype, activation)
    for part in PARTS:
        _compile_one(part, LIBRARY, dtype, activation)
    for columns in (64, 63):
        gate = torch.zeros(8, columns, dtype=dtype, device="cuda", requires_grad=True)
        gated(gate, gate.detach(), activation).backward(torch.ones_like(gate))


def measure(size: Size, dtype: torch.dtype, activation: str) -> Iterator[Measured]:
    """The best route of every part at one size."""
    for part, compute in zip(PARTS, _parts(size, dtype, activation), strict=True):
        wanted = compute(LIBRARY)
        routes = {LIBRARY.text(): LIBRARY}
        for route in candidates(part, size[0]):
            if _agrees(compute, route, wanted):
                routes[route.text()] = route
        calls = {name: _bound(compute, route) for name, route in routes.items()}
        device, call = (
            device_times(calls, repeats=11),
            call_times(calls, rounds=3, at_least_s=0.004),
        )
        cost = {name: max(device[name].median, call[name].median) for name in calls}
        best = min(cost, key=cost.__getitem__)
        if cost[best] * GAIN > cost["library"]:
            best = "library"
        yield Measured(part, *size, best, round(cost[best], 2), round(cost["library"], 2))


def candidates(part: str, m: int) -> list[Route]:
    """The routes worth trying for `m` rows, the library aside."""
    return [route for least, most, route in CANDIDATES[part] if least <= m <= most]


def _parts(size: Size, dtype: torch.dtype, activation: str) -> tuple[Compute, ...]:
    """One function per part that computes it by a route, on random data of this size."""
    m, d, h = size
    new = {"dtype": dtype, "device": "cuda"}
    x, dy = torch.randn(m, d, **new), torch.randn(m, d, **new)
    both = torch.randn(2 * h, d, **new) / d**0.5
    weights = steps.Weights(both[:h], both[h:], torch.randn(d, h, **new) / h**0.5)
    middle, pre = torch.randn(m, h, **new), torch.randn(m, 2 * h, **new)
    room = torch.empty_like(pre)

    def gate_up(saved: torch.Tensor | None, route: Route) -> torch.Tensor:
        out = x.new_empty((m, h))
        steps.gate_up_part(x, weights, out, saved, activation, size, route)
        return out

    return (
        lambda route: gate_up(None, route),
        lambda route: gate_up(room, route),
        lambda route: steps.down_part(middle, weights.down, x, size, route),
        lambda route: steps.gradient_part(dy, weights.down, pre, activation, size, route),
    )


def _bound(compute: Compute, route: Route) -> Callable[[], torch.Tensor]:
    return lambda: compute(route)


def _agrees(compute: Compute, route: Route, wanted: torch.Tensor) -> bool:
    got = compute(route).float()
    distance = (got - wanted.float()).norm() / wanted.float().norm()
    return bool(distance < CLOSE)


def compile_ahead(dtype: torch.dtype, activation: str, sizes: Iterable[Size]) -> None:
    """Compile all candidates for these sizes in several processes; Triton's cache on disk carries
    them over.
    """
    jobs = {
        (part, route) for size in sizes for part in PARTS for route in candidates(part, size[0])
    }
    _compile(jobs, dtype, activation)


def _compile(jobs: Iterable[tuple[str, Route]], dtype: torch.dtype, activation: str) -> None:
    workers = max(1, multiprocessing.cpu_count() - 1)
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for done in [
            pool.submit(_compile_one, part, route, dtype, activation)
            for part, route in sorted(jobs)
        ]:
            done.result()


def _compile_one(part: str, route: Route, dtype: torch.dtype, activation: str) -> None:
    """Run a part once at a small size, and at one that is no multiple of eight, which are variants
    of their own.
    """
    for size in ((256, 1024, 256), (256, 1023, 257)):
        _parts(size, dtype, activation)[PARTS.index(part)](route)
    torch.cuda.synchronize()
