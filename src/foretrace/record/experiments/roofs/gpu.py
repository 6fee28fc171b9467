"""Every figure of a CUDA GPU: memory by working set, arithmetic, a pointwise kernel, and the host.

Triton decides alone what lies in shared memory, so those kernels are CUDA, compiled by torch at run
time. Every thread moves 16 bytes at once, neighbours side by side: no two of them meet in a bank.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton.language as tl

from foretrace.record.experiments.roofs import roof_kernels
from foretrace.record.experiments.roofs import timing as host
from foretrace.record.experiments.roofs.timing import Figure, Timing, sustained_us, timing

SMALLEST, LARGEST = 64 << 10, 8 << 30
MOVED = 4 << 30  # bytes that a timed kernel moves at least: about a millisecond
WARPS = 8
WAYS = ("read", "write", "copy")
CHASED = 20_000
LINE = 128  # bytes between the links of a chain: each is a cache line of its own
ROUNDS, THREADS, UNROLLED, WIDTH = 4096, 1024, 8, 16  # of shared memory; bytes of one access


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
GOLDEN = 0.618  # of the blocks, and odd: the starts of any few programs lie apart


class ReadyWalk(NamedTuple):
    """A kernel that is ready to run, and the bytes that it moves (a copy moves each byte twice)."""

    run: Callable[[], object]
    moved: int


def working_sets(smallest: int = SMALLEST) -> Iterator[int]:
    """Powers of two, and what lies half-way where the cliffs are."""
    size = smallest
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


def launch(way: str, size: int, shape: WalkShape, *, moved: int = MOVED) -> ReadyWalk:
    """A kernel that walks a working set; half of that of a copy is its source."""
    size = size // 2 if way == "copy" else size
    moved = moved // 2 if way == "copy" else moved
    walk = plan(size, shape, multiprocessors(), moved=moved)
    tensors = [numbers(walk.all_blocks * shape.block)]
    if way == "copy":
        tensors.append(torch.empty_like(tensors[0]))
    if way == "read":
        tensors.append(torch.empty(walk.programs, dtype=torch.int32, device="cuda"))
    kernel = getattr(roof_kernels, f"{way}_kernel")[(walk.programs,)]
    numbers_of = (walk.blocks, walk.apart, walk.stride, walk.steps, walk.own)
    run = partial(kernel, *tensors, *numbers_of, shape.block, num_warps=WARPS)
    once = 4 * shape.block * walk.programs * walk.steps
    return ReadyWalk(run, once * (2 if way == "copy" else 1))


def numbers(count: int) -> torch.Tensor:
    """Random int32 values: zeros cost less power."""
    return torch.empty(count, dtype=torch.int32, device="cuda").random_()


def shapes_of(size: int, sms: int, way: str = "read") -> tuple[WalkShape, ...]:
    """The launches that show what a working set costs; none for reads of a small one."""
    source = size // 2 if way == "copy" else size
    found = tuple(each for each in OWN if plan(source, each, sms).blocks >= OWN_BLOCKS)
    if way == "write" or (way == "copy" and not found):
        found += SPREAD
    found += TOGETHER if size >= TOGETHER_FROM else ()
    return (*found, WIDE) if size >= WIDE_FROM else found


def multiprocessors() -> int:
    """Of this GPU."""
    return int(torch.cuda.get_device_properties().multi_processor_count)


def bandwidth(way: str, size: int, shapes: Sequence[WalkShape]) -> dict[str, Any]:
    """The fastest of several launches that move a working set, in 10^9 bytes per second."""
    tried = {str(shape): _bandwidth(way, size, shape) for shape in shapes}
    best = max(tried, key=lambda name: float(tried[name]["gbps"]))
    others = {name: round(one["gbps"], 1) for name, one in tried.items()}
    return {**tried[best], "shape": best, "tried": others}


def _bandwidth(way: str, size: int, shape: WalkShape) -> dict[str, Any]:
    ready = launch(way, size, shape)
    return _rate(ready.moved, timing(ready.run))


def _rate(moved: int, taken: Timing) -> dict[str, Any]:
    return {"gbps": moved / taken.median_us / 1e3, "bytes": moved, **taken.fields()}


def chain(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Links through a working set in random order, as one ring, and a place on it."""
    apart = LINE // 8
    order = torch.randperm(size // LINE, device="cuda")
    links = torch.zeros(size // 8, dtype=torch.int64, device="cuda")
    links[order * apart] = order.roll(-1) * apart
    return links, torch.zeros(1, dtype=torch.int64, device="cuda")


def latency(size: int) -> dict[str, Any]:
    """Nanoseconds of one load that depends on the load before, at random over a working set.

    A launch goes on where the last one stopped, so that a large working set is not walked twice.
    The difference of a long and a short walk holds no launch.
    """
    links, place = chain(size)
    links.sum()  # what fits in a cache is there
    run = roof_kernels.chase_kernel[(1,)]
    walk = max(CHASED, min(size // LINE, 10 * CHASED))
    run(links, place, walk, num_warps=1)
    short, long = (
        timing(partial(run, links, place, steps, num_warps=1), 5) for steps in (CHASED, 3 * CHASED)
    )
    per_load = (long.median_us - short.median_us) * 1e3 / (2 * CHASED)
    return {"load_ns": per_load, "short_us": short.median_us, "long_us": long.median_us}


@cache
def _shared_kernel(name: str) -> Callable[..., None]:
    """A kernel of `shared.cu`, compiled."""
    source = Path(__file__).with_name("shared.cu").read_text(encoding="utf-8")
    found: Any = torch.cuda._compile_kernel(source, name)
    return found  # type: ignore[no-any-return]


def shared_bandwidth(way: str) -> dict[str, Any]:
    """All multiprocessors together, in 10^9 bytes per second."""
    run = _shared_kernel(f"{way}_shared")
    grid = 2 * multiprocessors()
    out = torch.empty(grid * THREADS, dtype=torch.int32, device="cuda")
    accesses = grid * THREADS * ROUNDS * UNROLLED * (2 if way == "copy" else 1)
    taken = timing(lambda: run((grid, 1, 1), (THREADS, 1, 1), [out, ROUNDS]))
    return _rate(accesses * WIDTH, taken)


def shared_latency() -> dict[str, Any]:
    """Nanoseconds of one load that depends on the load before."""
    run = _shared_kernel("chase_shared")
    out = torch.empty(32, dtype=torch.int32, device="cuda")

    def taken(steps: int) -> Timing:
        return timing(lambda: run((1, 1, 1), (32, 1, 1), [out, steps]))

    short, long = taken(CHASED), taken(3 * CHASED)
    return {"load_ns": (long.median_us - short.median_us) * 1e3 / (2 * CHASED)}


Call = Callable[[], object]
_TYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "tf32": torch.float32,
    "fp32": torch.float32,
    "fp64_matrix": torch.float64,
    "fp8": torch.float8_e4m3fn,
    "fp8_slow_sum": torch.float8_e4m3fn,
    "int8": torch.int8,
}
MATMULS = tuple(_TYPES)
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
ROWS, HIDDEN, INNER = 8192, 768, 3072  # the articles' MLP
GELU_BLOCK = 1024
BEHIND = ("producers", "itself", "flood")
NOT_HERE = {
    "reads of small working sets": (
        "multiprocessors that read one line at the same time read it once, so they get more than "
        "L2 gives"
    ),
}


def random(rows: int, columns: int, name: str) -> torch.Tensor:
    """A random matrix of a type, normal or, of integers, even."""
    if name == "int8":
        return torch.randint(-128, 128, (rows, columns), device="cuda", dtype=torch.int8)
    made = torch.randn(rows, columns, device="cuda", dtype=torch.float32)
    return made.to(_TYPES[name])


def matmul_call(name: str, size: int) -> Call:
    """A square matmul through torch; the second factor is stored transposed, as weights are."""
    a, b = random(size, size, name), random(size, size, name).t()
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    if name == "int8":
        return partial(torch._int_mm, a, b)
    if name in ("fp8", "fp8_slow_sum"):
        one = torch.ones((), device="cuda")
        fast = name == "fp8"
        return partial(
            torch._scaled_mm, a, b, one, one, out_dtype=torch.bfloat16, use_fast_accum=fast
        )
    return partial(torch.mm, a, b)


def matmul(name: str, size: int) -> dict[str, Any]:
    """TFLOP/s of a square matmul on random data."""
    call = matmul_call(name, size)
    repeats = 21 if name not in ("fp32", "fp64_matrix") else 7
    return {"size": size, **_rates(call, 2 * size**3, timing(call, repeats))}


def dot_launch(name: str, steps: int = DOT_STEPS) -> tuple[Call, int]:
    """Tensor cores alone: tiles that stay on the chip, multiplied over and over; and its FLOPs."""
    (m, n, k), warps = DOTS[name]
    wide = {"int8": tl.int32, "fp64_matrix": tl.float64}.get(name, tl.float32)
    kept = {"int8": torch.int32, "fp64_matrix": torch.float64}.get(name, torch.float32)
    grid = multiprocessors() * (1 if warps == 8 else 2)
    a, b = random(m, k, name), random(n, k, name)
    out = torch.empty(grid, dtype=kept, device="cuda")
    run = partial(
        roof_kernels.dot_kernel[(grid,)], a, b, out, steps, m, n, k, wide, num_warps=warps
    )
    return run, 2 * m * n * k * steps * grid


def dot(name: str) -> dict[str, Any]:
    """TFLOP/s of tensor cores that wait for no memory."""
    call, flops = dot_launch(name)
    return {"flops": flops, **_rates(call, flops, timing(call))}


def _rates(call: Call, flops: int, taken: Timing) -> dict[str, Any]:
    sustained = flops / sustained_us(call, taken.median_us) / 1e6
    rate = flops / taken.median_us / 1e6
    return {"tflops": rate, "sustained_tflops": sustained, **taken.fields()}


class GeluLaunch(NamedTuple):
    """A launch, what runs before it, and the bytes that it moves."""

    run: Call
    before: Call
    moved: int


def gelu_launch(rows: int, behind: str) -> GeluLaunch:
    """The pointwise kernel between the matmuls of the articles' MLP."""
    new: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    x, gate_w, up_w = (torch.randn(size, HIDDEN, **new) for size in (rows, INNER, INNER))
    gate, up = x @ gate_w.t(), x @ up_w.t()
    out = torch.empty_like(gate)
    count = gate.numel()
    grid = (-(-count // GELU_BLOCK),)
    run = partial(roof_kernels.gelu_mul_kernel[grid], gate, up, out, count, GELU_BLOCK, num_warps=4)
    flood = torch.zeros(1 << 26, device="cuda")

    def matmuls() -> None:
        torch.mm(x, gate_w.t(), out=gate)
        torch.mm(x, up_w.t(), out=up)

    before = {"producers": matmuls, "itself": run, "flood": flood.sum}[behind]
    return GeluLaunch(run, before, 3 * 2 * count)


def gelu_time(rows: int, behind: str) -> dict[str, Any]:
    """The rate of that kernel by what ran before it: above that of HBM where its input is in L2."""
    ready = gelu_launch(rows, behind)
    return _rate(ready.moved, timing(ready.run, 15, before=ready.before))


def figures() -> Iterator[Figure]:
    """All figures; those of a group follow each other."""
    sms = multiprocessors()
    for size in working_sets():
        for way in WAYS:
            if shapes := shapes_of(size, sms, way):
                measure = partial(bandwidth, way, size, shapes)
                yield Figure("bandwidth", f"{way} {size}", measure)
    for size in working_sets(16 << 10):
        yield Figure("latency", f"{size}", partial(latency, size))
    for way in WAYS:
        yield Figure("shared", way, partial(shared_bandwidth, way))
    yield Figure("shared", "latency", shared_latency)
    for exponent in range(8, 16):
        for behind in BEHIND:
            measure = partial(gelu_time, 1 << exponent, behind)
            yield Figure("gelu_mul", f"{1 << exponent} behind {behind}", measure)
    for name in MATMULS:
        for size in (4096, 8192, 16384) if name not in ("fp32", "fp64_matrix") else (4096, 8192):
            yield Figure("matmuls", f"{name} {size}", partial(matmul, name, size))
    for name in DOTS:
        yield Figure("tensor_cores", name, partial(dot, name))
    for name, work in host.LAUNCHES.items():
        yield Figure("launches", name, work)
    for memory in ("pageable", "pinned"):
        for way in ("up", "down"):
            for size in host.TRANSFERS:
                name = f"{memory} {way} {size}"
                yield Figure("transfers", name, partial(host.transfer, memory, way, size))
    for name in host.OPS:
        yield Figure("host", name, partial(host.op, name))
