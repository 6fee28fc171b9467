"""The roofs of a CUDA GPU: memory by working set, tensor cores alone, and matmuls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median
from typing import NamedTuple

import torch
import triton.language as tl

from foretrace.record.experiments.machine import Call, Figure
from foretrace.record.experiments.roofs.roof_kernels import dot_kernel, walk_kernel

SMALLEST, LARGEST = 64 << 10, 8 << 30
MOVED = 4 << 30  # bytes that a timed kernel moves at least: about a millisecond
WARPS = 8
WAYS = ("read", "write", "copy")


class WalkShape(NamedTuple):
    """How a kernel is launched: int32 elements of a step, and programs per multiprocessor.

    A program walks a part of its `own`, over and over. Programs that are `spread` start far from
    each other and take block after block of the whole set; others take neighbouring blocks at the
    same time. Without `per_sm` every program takes eight steps: more programs than fit at once.
    """

    block: int
    per_sm: int | None
    way: str = "own"

    def __str__(self) -> str:
        return f"{self.block}x{self.per_sm or 'many'} {self.way}"


# All programs must run at once: with eight per multiprocessor some waited, and L2 held the parts of
# the others (1.6% of 67 MB came from memory).
OWN = (WalkShape(2048, 4), WalkShape(4096, 4))
OWN_BLOCKS = 3  # of a part, at least: a block that is still on its way is not read again
# Not for reads: two thirds of 17 MB reached L2. Writes are never merged.
SPREAD = (WalkShape(4096, 4, "spread"), WalkShape(2048, 8, "spread"))
# Only for working sets that no cache holds: there programs that drift apart find nothing that
# others have just read.
TOGETHER = (WalkShape(4096, 4, "together"), WalkShape(8192, 4, "together"))
TOGETHER_FROM = 1 << 30
# Only for those that are walked once: a program would walk its own eight blocks again.
WIDE = WalkShape(4096, None, "together")
WIDE_FROM = MOVED
AHEAD = 200_000  # GPU cycles, about 100 us: the host queues a launch meanwhile
GOLDEN = 0.618  # of the blocks, and odd: the starts of any few programs lie apart

TYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "tf32": torch.float32,
    "fp32": torch.float32,
    "fp64_matrix": torch.float64,
    "fp8": torch.float8_e4m3fn,
    "fp8_slow_sum": torch.float8_e4m3fn,
    "int8": torch.int8,
}
SLOW = ("fp32", "fp64_matrix")
# (m, n, k) of a program's tiles and its warps: what wgmma and DMMA take with full registers
DOTS: dict[str, tuple[tuple[int, int, int], int]] = {
    "bf16": ((128, 256, 64), 8),
    "fp16": ((128, 256, 64), 8),
    "tf32": ((128, 256, 32), 8),
    "fp8": ((128, 256, 128), 8),
    "int8": ((128, 256, 128), 8),
    "fp64_matrix": ((64, 64, 16), 4),
}
DOT_STEPS = 8192
NOT_HERE = {
    "reads of small working sets": (
        "multiprocessors that read one line at the same time read it once, so they get more than "
        "L2 gives"
    ),
}


def figures() -> Iterator[Figure]:
    """All figures; those of a group follow each other."""
    for size in working_sets():
        for way in WAYS:
            if shapes := shapes_of(size, multiprocessors(), way):
                yield "bandwidth", f"{way} {size}", partial(bandwidth, way, size, shapes)
    for name in TYPES:
        for size in (4096, 8192) if name in SLOW else (4096, 8192, 16384):
            yield "matmuls", f"{name} {size}", partial(matmul, name, size)
    for name in DOTS:
        yield "tensor_cores", name, partial(dot, name)


def working_sets() -> Iterator[int]:
    """Powers of two, and what lies half-way where the cliffs are."""
    size = SMALLEST
    while size <= LARGEST:
        yield size
        if 8 << 20 <= size < 256 << 20:
            yield size * 3 // 2
        size *= 2


class WalkPlan(NamedTuple):
    """What the kernels take, and their grid; `blocks` are walked by each program."""

    blocks: int
    programs: int
    apart: int
    stride: int
    steps: int
    own: int = 0

    @property
    def all_blocks(self) -> int:
        """Of the working set; parts of programs' own are of equal size, so it may be larger."""
        return self.own * self.programs or self.blocks


def plan(size: int, shape: WalkShape, sms: int, *, moved: int = MOVED) -> WalkPlan:
    """A walk in which all programs together move `moved` bytes, or the working set if larger."""
    blocks = max(1, size // (4 * shape.block))
    turns = max(blocks, math.ceil(moved / (4 * shape.block)))
    programs = sms * shape.per_sm if shape.per_sm else math.ceil(turns / 8)
    steps = math.ceil(turns / programs)
    if shape.way == "own":
        part = -(-blocks // programs)
        return WalkPlan(part, programs, 0, min(1, part - 1), steps, part)
    if shape.way == "together":
        return WalkPlan(blocks, programs, 1, programs % blocks or min(1, blocks - 1), steps)
    apart = -(-blocks // programs) if blocks > programs else int(blocks * GOLDEN) | 1
    return WalkPlan(blocks, programs, apart, min(1, blocks - 1), steps)


def shapes_of(size: int, sms: int, way: str = "read") -> tuple[WalkShape, ...]:
    """The launches that show what a working set costs; none for reads of a small one."""
    source = size // 2 if way == "copy" else size
    shapes = tuple(shape for shape in OWN if plan(source, shape, sms).blocks >= OWN_BLOCKS)
    if way == "write" or (way == "copy" and not shapes):
        shapes += SPREAD
    shapes += TOGETHER if size >= TOGETHER_FROM else ()
    return (*shapes, WIDE) if size >= WIDE_FROM else shapes


def multiprocessors() -> int:
    """Of this GPU."""
    return int(torch.cuda.get_device_properties().multi_processor_count)


def launch(way: str, size: int, shape: WalkShape) -> tuple[Call, int]:
    """A kernel that walks a working set, and the bytes that it moves.

    Half of the working set of a copy is its source, and a copy moves each byte twice.
    """
    parts = 2 if way == "copy" else 1
    walk = plan(size // parts, shape, multiprocessors(), moved=MOVED // parts)
    # random values: zeros cost less power
    count = walk.all_blocks * shape.block
    source = torch.empty(count, dtype=torch.int32, device="cuda").random_()
    target = torch.empty(
        count if way == "copy" else walk.programs, dtype=torch.int32, device="cuda"
    )
    tensors = (source, source if way == "write" else target)
    numbers = (walk.blocks, walk.apart, walk.stride, walk.steps, walk.own)
    kernel = walk_kernel[(walk.programs,)]
    run = partial(kernel, *tensors, *numbers, WAYS.index(way), shape.block, num_warps=WARPS)
    return run, 4 * shape.block * walk.programs * walk.steps * parts


def bandwidth(way: str, size: int, shapes: Sequence[WalkShape]) -> float:
    """The fastest of several launches that move a working set, in 10^9 bytes per second."""
    rates = []
    for shape in shapes:
        run, moved = launch(way, size, shape)
        rates.append(moved / timing(run) / 1e3)
    return max(rates)


def timing(work: Call, repeats: int = 7) -> float:
    """Microseconds of one call on the device, after two warm ones: the median."""
    for _ in range(2):
        work()
    torch.cuda.synchronize()
    taken: list[float] = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(AHEAD)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        taken.append(start.elapsed_time(end) * 1e3)
    return median(taken)


def random(rows: int, columns: int, name: str) -> torch.Tensor:
    """A random matrix of a type, normal or, of integers, even."""
    if name == "int8":
        return torch.randint(-128, 128, (rows, columns), device="cuda", dtype=torch.int8)
    made = torch.randn(rows, columns, device="cuda", dtype=torch.float32)
    return made.to(TYPES[name])


def matmul_call(name: str, size: int) -> Call:
    """A square matmul through torch; the second factor is stored transposed, as weights are."""
    a, b = random(size, size, name), random(size, size, name).t()
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    if name == "int8":
        return partial(torch._int_mm, a, b)
    if TYPES[name] == torch.float8_e4m3fn:
        one = torch.ones((), device="cuda")
        fast = name == "fp8"
        return partial(
            torch._scaled_mm, a, b, one, one, out_dtype=torch.bfloat16, use_fast_accum=fast
        )
    return partial(torch.mm, a, b)


def matmul(name: str, size: int) -> float:
    """TFLOP/s of a square matmul on random data."""
    taken = timing(matmul_call(name, size), 7 if name in SLOW else 21)
    return 2 * size**3 / taken / 1e6


def dot_launch(name: str, steps: int = DOT_STEPS) -> tuple[Call, int]:
    """Tensor cores alone: tiles that stay on the chip, multiplied over and over; and its FLOPs."""
    (m, n, k), warps = DOTS[name]
    wide = {"int8": tl.int32, "fp64_matrix": tl.float64}.get(name, tl.float32)
    kept = {"int8": torch.int32, "fp64_matrix": torch.float64}.get(name, torch.float32)
    grid = multiprocessors() * (1 if warps == 8 else 2)
    a, b = random(m, k, name), random(n, k, name)
    out = torch.empty(grid, dtype=kept, device="cuda")
    run = partial(dot_kernel[(grid,)], a, b, out, steps, m, n, k, wide, num_warps=warps)
    return run, 2 * m * n * k * steps * grid


def dot(name: str) -> float:
    """TFLOP/s of tensor cores that wait for no memory."""
    run, flops = dot_launch(name)
    return flops / timing(run) / 1e6
