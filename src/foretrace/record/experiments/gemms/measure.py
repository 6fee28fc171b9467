"""Runs matmuls under the profiler: which kernels run, and how long, with L2 empty and filled."""

from __future__ import annotations

import gc
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from foretrace.base.errors import MissingError
from foretrace.record.experiments.gemms import events
from foretrace.schema.gemm_point import GemmPoint

NO_TRITON = "measuring matmuls on a GPU needs Triton: pip install 'foretrace[kernels]'"
COLD, WARM = 5, 5
BATCH = 100  # matmuls in one recording
TYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "tf32": torch.float32,
    "fp32": torch.float32,
    "fp8": torch.float8_e4m3fn,
}
_FLOOD = 1 << 26  # float32 values, 256 MiB: four times the L2 of an H200
_ALIGNED = 256  # elements
Call = Callable[[], Tensor]
Cut = Callable[..., Iterable[Tensor]]  # takes a type and shapes


class OperandPools:
    """Random values by type; matrices are cut from them, so that nothing else runs in between."""

    def __init__(self, elements: int) -> None:
        self._elements = elements
        self._made: dict[torch.dtype, Tensor] = {}

    def cut(self, dtype: torch.dtype, *shapes: tuple[int, ...]) -> Iterator[Tensor]:
        """Matrices that do not overlap."""
        if dtype not in self._made:
            self._made[dtype] = _random(self._elements, dtype)
        start, pool = 0, self._made[dtype]
        for shape in shapes:
            count = torch.Size(shape).numel()
            yield pool[start : start + count].view(shape)
            start += -(-count // _ALIGNED) * _ALIGNED


def _random(count: int, dtype: torch.dtype) -> Tensor:
    if dtype != torch.float8_e4m3fn:
        return torch.randn(count, dtype=dtype, device="cuda")
    made = torch.empty(count, dtype=dtype, device="cuda")
    for part in made.split(1 << 28):
        part.copy_(torch.randn(part.shape, dtype=torch.bfloat16, device="cuda"))
    return made


def elements(points: Sequence[GemmPoint]) -> int:
    """How long a pool must be for the largest of these matmuls."""
    return max(p.m * p.k + p.n * p.k + p.n + 3 * _ALIGNED for p in points)


def matmul(point: GemmPoint, cut: Cut) -> Call:
    """A call that computes the matmul on tensors of `cut`."""
    m, n, k, layout, dtype, epilogue = point
    kind = TYPES[dtype]
    x_shape = (k, m) if layout in ("nt", "tt") else (m, k)
    w_shape = (n, k) if layout in ("tn", "tt") else (k, n)
    x, w, bias = cut(kind, x_shape, w_shape, (n,))
    x = x.t() if layout in ("nt", "tt") else x
    w = w.t() if layout in ("tn", "tt") else w
    torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    if dtype == "fp8":
        added = next(iter(cut(torch.bfloat16, (n,)))) if epilogue == "bias" else None
        one, how = torch.ones((), device="cuda"), {"out_dtype": torch.bfloat16}
        return partial(torch._scaled_mm, x, w, one, one, added, **how, use_fast_accum=True)
    if epilogue == "none":
        return partial(torch.mm, x, w)
    if epilogue == "bias":
        return partial(torch.addmm, bias, x, w)
    return partial(torch._addmm_activation, bias, x, w, use_gelu=epilogue == "bias_gelu")


def recorded(batch: Sequence[GemmPoint], pools: OperandPools) -> list[dict[str, Any]]:
    """Measure matmuls in one recording; a matmul that the library refuses has an `error`."""
    try:
        from foretrace.record.experiments.roofs.roof_kernels import mark_kernel
    except ModuleNotFoundError as error:
        raise MissingError(NO_TRITON) from error
    flood = torch.zeros(_FLOOD, dtype=torch.float32, device="cuda")
    out = torch.zeros(1, dtype=torch.int32, device="cuda")

    def mark(number: int) -> None:
        mark_kernel[events.mark_grid(number)](out, num_warps=1)

    mark(0)
    refused: dict[int, str] = {}
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        mark(0)
        for number, point in enumerate(batch):
            try:
                _repeat(matmul(point, pools.cut), flood, mark, _first(number))
            except RuntimeError as problem:  # for example no fp8 matmul for this layout
                refused[number] = f"{type(problem).__name__}: {problem}"[:300]
        mark(0)
        torch.cuda.synchronize()
    found = events.segments(_events(prof))
    return [
        {**point._asdict(), **_result(found, number, refused)} for number, point in enumerate(batch)
    ]


def _repeat(call: Call, flood: Tensor, mark: Callable[[int], None], first: int) -> None:
    """Calls behind marks with numbers from `first` on; what follows mark 0 is not measured."""
    mark(0)
    call()
    call()
    for repeat in range(COLD):
        mark(0)
        flood.sum()  # reads, and so leaves nothing in L2 to write back
        mark(first + repeat)
        call()
    mark(0)
    call()
    for repeat in range(COLD, COLD + WARM):
        mark(first + repeat)
        call()
    mark(0)


def _first(number: int) -> int:
    return 1 + number * (COLD + WARM)


def _result(
    found: dict[int, list[dict[str, Any]]], number: int, refused: dict[int, str]
) -> dict[str, Any]:
    if number in refused:
        return {"error": refused[number]}
    calls = [found.get(_first(number) + repeat, []) for repeat in range(COLD + WARM)]
    return events.summary(calls[:COLD], calls[COLD:])


def _events(prof: Any) -> list[dict[str, Any]]:
    gc.collect()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        prof.export_chrome_trace(str(path))
        found: list[dict[str, Any]] = json.loads(path.read_bytes())["traceEvents"]
    return found
