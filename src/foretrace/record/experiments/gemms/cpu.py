"""A small sweep of matmuls on a CPU: times, rates, and what a CPU does not show."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from msgspec.structs import replace

from foretrace.base import notices
from foretrace.base.errors import UsageError
from foretrace.names import devices
from foretrace.record.experiments.roofs.run import cpu_name
from foretrace.schema.documents.gemms import LiveSweep, MatmulSize, SweptMatmul
from foretrace.schema.gemms import GemmPoint

_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
_LAYERS = ((768, 768), (3072, 768), (768, 3072))
_ROWS = (1, 8, 64, 512)
REPEATS, ENOUGH_S, BUDGET_S = 5, 0.2, 20.0
EMULATED = 10  # times slower than fp32: a CPU without instructions for a type
NOT_HERE = {
    "kernel names": "a CPU has one library call for all shapes; its kernels have no names",
    "tiles, clusters, waves": "they are parts of a GPU kernel's name and launch",
    "times with an empty cache": "no program empties a CPU's caches for certain",
    "fp16, tf32, fp8": "types of GPU matmuls",
}


def points() -> Iterator[GemmPoint]:
    """Layers of a small model with few and many rows, every layout and epilogue once."""
    for n, k in _LAYERS:
        for m in _ROWS:
            yield GemmPoint(m, n, k, "tn", "fp32")
    for layout in ("nn", "nt", "tt"):
        yield GemmPoint(64, 3072, 768, layout, "fp32")
    for epilogue in ("bias", "bias_gelu", "bias_relu"):
        yield GemmPoint(64, 3072, 768, "tn", "fp32", epilogue)
    for m in _ROWS:
        yield GemmPoint(m, 768, 768, "tn", "bf16")


def sweep(most: int | None = None, chosen: Sequence[GemmPoint] = ()) -> LiveSweep:
    """Time the matmuls that fit into twenty seconds: the chosen ones, else some of a model."""
    began, left = time.monotonic(), dict(NOT_HERE)
    found: list[SweptMatmul] = []
    roofs, source = _roofs()
    every = list(chosen or points())[:most]
    for number, point in enumerate(every):
        if time.monotonic() - began > BUDGET_S:
            left[f"{len(every) - number} matmuls"] = f"the sweep ends after {BUDGET_S:.0f} s"
            break
        notices.report(f"matmul {number + 1} of {len(every)}: {point.text}")
        if point.dtype in _TYPES and point.dtype not in left:
            found.append(_entry(point, _seconds(matmul(point)), roofs))
            if slower := _emulated(found):
                left[point.dtype] = f"{slower:.0f} times slower than fp32: this CPU emulates it"
    notices.report()
    taken = time.monotonic() - began
    return LiveSweep(cpu_name(), str(torch.__version__), roofs, source, found, left, taken)


def _emulated(found: list[SweptMatmul]) -> float | None:
    """How many times slower the last matmul is than the same in fp32, if that is very many."""
    last = found[-1]
    plain = replace(last.matmul, dtype="fp32")
    slower = max((last.us / each.us for each in found if each.matmul == plain), default=1.0)
    return slower if slower > EMULATED else None


def matmul(point: GemmPoint) -> Callable[[], object]:
    """A call that computes the matmul on random data."""
    m, n, k, layout, dtype, epilogue = point
    kind = _TYPES[dtype]
    x = torch.randn((k, m) if layout in ("nt", "tt") else (m, k), dtype=kind)
    w = torch.randn((n, k) if layout in ("tn", "tt") else (k, n), dtype=kind)
    x, w = x.t() if layout in ("nt", "tt") else x, w.t() if layout in ("tn", "tt") else w
    if epilogue == "none":
        return partial(torch.mm, x, w)
    bias = torch.randn(n, dtype=kind)
    if epilogue == "bias":
        return partial(torch.addmm, bias, x, w)
    return partial(torch._addmm_activation, bias, x, w, use_gelu=epilogue == "bias_gelu")


def _seconds(call: Callable[[], object]) -> float:
    """The fastest repeat: other programs take cores away at times."""
    with warnings.catch_warnings():  # torch warns of a type that it emulates, a page long
        warnings.simplefilter("ignore")
        call()
    best, began = float("inf"), time.perf_counter()
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        end = time.perf_counter()
        best = min(best, end - start)
        if end - began > ENOUGH_S:
            break
    return best


def _entry(point: GemmPoint, seconds: float, roofs: dict[str, float]) -> SweptMatmul:
    rate, roof = point.flops / seconds, roofs.get(point.dtype)
    percent = None if roof is None else 100 * rate / (roof * 1e12)
    return SweptMatmul(MatmulSize(*point), seconds * 1e6, rate / 1e9, percent)


def _roofs() -> tuple[dict[str, float], str]:
    """TFLOP/s of this CPU by type, where `foretrace roofs` measured it.

    A matmul is no roof for other matmuls, unless no compiler could measure the units.
    """
    with contextlib.suppress(UsageError):
        found = devices.shown_roofs(cpu_name())
        rates = found.units_tflops or found.tflops
        return {name: rates[name] for name in _TYPES if name in rates}, found.command
    return {}, ""
