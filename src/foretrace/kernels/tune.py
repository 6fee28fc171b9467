"""Measures which route is fastest: `tune(sizes)` fills this GPU's table, see `kernels.routes`.

Every candidate's result is compared with the library's before its time counts. Two times are kept:
how long the GPU works, and one call in a row of calls, host and device together.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch

from foretrace.base import files
from foretrace.base.errors import MissingError
from foretrace.kernels import mlp, routes, steps
from foretrace.kernels.case import CallCase, Size
from foretrace.kernels.glu import gated
from foretrace.kernels.routes import ALL_LIBRARY, PARTS, SEPARATE, MeasuredRoute, Route
from foretrace.kernels.support import HAVE_TRITON
from foretrace.record.experiments.machine import call_times, device_times

if HAVE_TRITON:
    from foretrace.kernels.device.padding import pad

# Compiling a kernel takes a second or more; loading it from disk, some milliseconds.
SLOW_S = 0.5
# Relative distance allowed between two bf16 results that differ only in the order of rounding.
CLOSE = 2e-2


def _candidates() -> dict[str, tuple[tuple[int, int, Route], ...]]:
    """The routes worth trying, by part: least and most rows, and the route."""
    text = Path(__file__).with_name("tables").joinpath("candidates.txt").read_text()
    found: dict[str, list[tuple[int, int, Route]]] = {part: [] for part in PARTS}
    for line in text.splitlines():
        if not line.startswith("#"):
            part, least, most, route = line.split(maxsplit=3)
            limit = sys.maxsize if most == "-" else int(most)
            found[part].append((int(least), limit, Route.parse(route)))
    return {part: tuple(rows) for part, rows in found.items()}


CANDIDATES = _candidates()
_BY_TMA = ("pingpong", "tma")

Call = Callable[[], Any]


def tune(
    sizes: Iterable[Size],
    dtype: torch.dtype = torch.bfloat16,
    activation: str = "gelu_tanh",
    say: Callable[[str], None] = lambda line: None,
) -> list[MeasuredRoute]:
    """Measure every part at every size (m, d, h) on this GPU, and keep the result on disk."""
    if not torch.cuda.is_available():
        message = "tuning needs a CUDA GPU with torch and Triton: pip install 'foretrace[bench]'"
        raise MissingError(message)
    sizes = list(sizes)
    jobs = {(part, route) for m, _, _ in sizes for part in PARTS for route in candidates(part, m)}
    _compile(jobs, dtype, activation)
    rows: list[MeasuredRoute] = []
    for number, size in enumerate(sizes):
        say(f"size {number + 1} of {len(sizes)}: {'x'.join(map(str, size))}")
        rows += measure(size, dtype, activation)
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
    for kept in (routes.rows_for, routes.by_route, routes.measured_sizes, routes.plan):
        kept.cache_clear()
    mlp.forget()


def learn(on: bool = True) -> None:
    """From now on, the first call at a size that nobody measured measures it, and keeps the result.

    Such a call takes a second or two, and memory for another set of the MLP's tensors.
    """
    routes.when_unknown = _learn_size if on else None


def _learn_size(dtype: torch.dtype, size: Size) -> None:
    if routes.when_unknown is None:
        return
    routes.when_unknown = None  # what is measured calls no plan of its own
    try:
        with torch.no_grad():
            tune([size], dtype)
    finally:
        routes.when_unknown = _learn_size


def warm(dtype: torch.dtype = torch.bfloat16, activation: str = "gelu_tanh") -> None:
    """Compile and load every kernel that this GPU's table can choose, before the first call."""
    table = routes.rows_for(routes.card_name(torch.cuda.current_device()))
    jobs = sorted({(row.part, Route.parse(row.route)) for row in table})
    together = False
    for number, (part, route) in enumerate(jobs):
        start = time.perf_counter()
        _compile_one(part, route, dtype, activation)
        # Loading from Triton's cache is quick. At the first kernel that is not, the rest compile
        # together; the very first call also starts CUDA and the library.
        if number and not together and time.perf_counter() - start > SLOW_S:
            together = True
            _compile(jobs[number + 1 :], dtype, activation)
    for columns in (63, 64):
        gate = torch.zeros(8, columns, dtype=dtype, device="cuda", requires_grad=True)
        gated(gate, gate.detach(), activation).backward(torch.ones_like(gate))
    # What a first call loads for later graphs: off the grid and on it, products and factors.
    for size in ((7, 63, 63), (8, 64, 64), (routes.MANY, 64, 64)):
        at = gate.get_device()
        steps.load_pointwise(CallCase(size, dtype, at, activation, (0, 0, 0, 0), True, 2))
        steps.load_few_rows(dtype, at, size[1])
    pad(gate.get_device(), dtype, (8, 63), 63, (8, 64))(gate.detach(), torch.empty_like(gate))


def load(plan: Iterable[Route], dtype: torch.dtype, activation: str) -> None:
    """Load the kernels of one plan, so that a CUDA graph may take them."""
    for part, route in zip(PARTS, plan, strict=False):
        if route.tile is not None:
            _compile_one(part, route, dtype, activation)


def measure(size: Size, dtype: torch.dtype, activation: str) -> Iterator[MeasuredRoute]:
    """Every route of every part at one size, the plain one first.

    Where the parts are computed one after the other, each takes the route that was fastest here.
    """
    fastest: dict[str, Route] = {}
    for part, compute in _parts(size, dtype, activation, fastest).items():
        usual = routes.plain(part)
        tried = [route for route in candidates(part, size[0]) if _applies(part, route, size, dtype)]
        if usual == SEPARATE and not tried:
            continue
        calls = {usual.text(): compute(usual)}
        wanted = _tensors(calls[usual.text()]())
        for route in tried:
            call = compute(route)
            if all(map(_close, _tensors(call()), wanted)):
                calls[route.text()] = call
        device = device_times(calls, repeats=9)
        whole = call_times(calls, rounds=3, at_least_s=0.003)
        fastest[part] = Route.parse(min(calls, key=lambda name: device[name].median))
        for name in calls:
            times = round(device[name].median, 2), round(whole[name].median, 2)
            yield MeasuredRoute(part, *size, name, *times)


def _tensors(results: Any) -> list[torch.Tensor]:
    """What a part returned: one tensor, or some of which not all are there."""
    several = [results] if isinstance(results, torch.Tensor) else results
    return [each for each in several if each is not None]


def _close(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    distance = (found.float() - wanted.float()).norm() / wanted.float().norm()
    return bool(distance < CLOSE)


def _applies(part: str, route: Route, size: Size, dtype: torch.dtype) -> bool:
    """Whether the route itself would run, and not the library in its place; and whether it can pay:
    rows off the 128-byte lines are slow in every specialised matmul.
    """
    unit = routes.alignment(size)
    if part == "gate_up_saving" and route.kind != "pingpong":
        case = CallCase(size, dtype, torch.cuda.current_device(), "", (0, 0, 0, 0), True, 2)
        if steps.saved_as(case) == "factors":
            return False
    return unit == 64 if part.startswith("whole") else unit > 1 or route.kind not in _BY_TMA


def candidates(part: str, m: int) -> list[Route]:
    """The routes worth trying for `m` rows, without the library."""
    return [route for least, most, route in CANDIDATES[part] if least <= m <= most]


def _parts(
    size: Size, dtype: torch.dtype, activation: str, fastest: Mapping[str, Route]
) -> dict[str, Callable[[Route], Call]]:
    """For each part a function of its route; what it returns computes it on random data."""
    m, d, h = size
    new = {"dtype": dtype, "device": "cuda"}
    x, dy = torch.randn(m, d, **new), torch.randn(m, d, **new)
    both = torch.randn(2 * h, d, **new) / d**0.5
    gate, up, down = both[:h], both[h:], torch.randn(d, h, **new) / h**0.5
    middle, pre = torch.randn(m, h, **new), torch.randn(m, 2 * h, **new)
    case = CallCase.of(x, gate, up, down, activation)

    def whole(compute: Callable[..., Callable[..., Any]], route: Route) -> Call:
        plan = ALL_LIBRARY._replace(**{**fastest, "whole": route, "whole_saving": route})
        return partial(compute(case, plan), x, gate, up, down)

    def gate_up(save: bool, route: Route) -> Call:
        return partial(steps.gate_up_part(case, route, save=save), x, gate, up)

    return {
        "gate_up": partial(gate_up, False),
        "gate_up_saving": partial(gate_up, True),
        "down": lambda route: partial(steps.down_part(case, route), middle, down),
        "gradient": lambda route: partial(steps.gradient_part(case, route), dy, down, pre),
        "whole": partial(whole, steps.forward),
        "whole_saving": partial(whole, steps.forward_saving),
    }


def _compile(jobs: Iterable[tuple[str, Route]], dtype: torch.dtype, activation: str) -> None:
    """Compile in several processes; Triton's cache on disk passes the kernels on."""
    jobs = sorted(jobs)
    workers = max(1, min(multiprocessing.cpu_count() - 1, len(jobs)))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for done in [pool.submit(_compile_one, *job, dtype, activation) for job in jobs]:
            done.result()


def _compile_one(part: str, route: Route, dtype: torch.dtype, activation: str) -> None:
    """Run a part at sizes that need kernels of their own: multiples of eight, others, and those of
    the others whose weights begin on the 16-byte grid, where reading through pointers is faster;
    and as many rows as change what is saved.
    """
    least = min((rows for rows, _, known in CANDIDATES[part] if known == route), default=1)
    sizes = [(256, 1023, 257)]
    if least < routes.MANY:
        sizes.append((256, 1024, 256))
    if least >= routes.MANY or part.endswith("saving") or part == "gradient":
        sizes.append((routes.MANY, 1024, 256))
    if route.kind == "pointer":
        sizes.append((256, 1023, 256))
    for size in sizes:
        _parts(size, dtype, activation, {})[part](route)()
        unit = routes.alignment(size)
        for same in (unit, 8) if unit == 64 else (unit,):
            routes.note_loaded(part, route, dtype, activation, same)
    torch.cuda.synchronize()
