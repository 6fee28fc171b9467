"""Measures matmuls on the card of this machine, and writes the map that ships of such a card.

python tools/gemm_map.py measure sweep.jsonl.gz          7,341 matmuls, two minutes on an H200
python tools/gemm_map.py measure more.jsonl.gz 10000     so many more, of kinds with irregular times
python tools/gemm_map.py write sweep.jsonl.gz more.jsonl.gz

Each matmul runs five times with L2 emptied (256 MiB are read before) and five times with it filled,
under the profiler. Marks between the calls tell whose kernels are whose. The map has the medians;
kernels that clear a workspace or add parts of K are included in the time. The map of the H200 holds
both sweeps, measured six hours apart.
"""

from __future__ import annotations

import gc
import gzip
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import ceil, prod
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import polars as pl
import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from foretrace.base.files import replacing, write_bytes
from foretrace.record.experiments.roofs import environment
from foretrace.work import devices, families
from foretrace.work.gemms import table
from foretrace.work.gemms.documents import NARROW, MatmulSize
from foretrace.work.gemms.table import DTYPES, EPILOGUES, LAYOUTS
from foretrace.work.kernel import KernelId

Row = dict[str, Any]
Event = dict[str, Any]

# The matmuls of a sweep: layers of the article and of common models, decode sizes, odd sizes.

ROWS = (
    1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
    3072, 4096, 6144, 8192, 12288, 16384,
)  # fmt: skip
# (n, k): the article's MLP first; GPT-2, BERT, Llama 1B to 70B, Qwen, Mistral, vocabularies
_LAYERS = """
3072x768 768x3072 768x768 2304x768 1024x1024 4096x1024 1024x4096 2048x2048 8192x2048 2048x8192
512x2048 3072x3072 8192x3072 3072x8192 4096x4096 14336x4096 4096x14336 11008x4096 4096x11008
6144x4096 5120x5120 13824x5120 5120x13824 8192x8192 10240x8192 28672x8192 8192x28672 3584x3584
18944x3584 3584x18944 4608x3584 32000x2048 50304x768
"""
LAYERS = tuple((int(n), int(k)) for n, k in (pair.split("x") for pair in _LAYERS.split()))
ARTICLE = LAYERS[:2]
DECODED = (*ARTICLE, (4096, 4096), (14336, 4096), (4096, 14336))
RANDOM, MIXED = 2000, 1500
HELD_OUT = 420  # matmuls that no map holds: they judged predictions of an earlier version
# 2 TFLOP of float32 without tensor cores take 40 ms
MOST_FLOPS = {"fp32": 5e11, "tf32": 4e12}
LARGEST_FLOPS = 8e12
FP8_UNIT = 16  # what `torch._scaled_mm` takes


def points() -> list[MatmulSize]:
    """All matmuls of the sweep, each once: those of models first, in a fixed shuffled order."""
    every = dict.fromkeys([*_article(), *_models(), *_odd()])
    named = [point for point in every if fits(point)]
    further = drawn(0, RANDOM, MIXED, named)
    random.Random(0).shuffle(named)
    return named + further


def drawn(seed: int, plain: int, mixed: int, known: Iterable[MatmulSize]) -> list[MatmulSize]:
    """Random matmuls, without the known ones."""
    chance, known = random.Random(seed), set(known)
    every = dict.fromkeys([*_drawn(chance, plain), *_mixed(chance, mixed)])
    return [point for point in every if fits(point) and point not in known]


def fits(point: MatmulSize) -> bool:
    """Whether the matmul is small enough, and one that torch computes."""
    if point.flops > MOST_FLOPS.get(point.dtype, LARGEST_FLOPS):
        return False
    if point.dtype != "fp8":
        return True
    aligned = point.n % FP8_UNIT == 0 and point.k % FP8_UNIT == 0
    return aligned and point.layout == "tn" and point.epilogue in ("none", "bias")


def _article() -> Iterator[MatmulSize]:
    for n, k in ARTICLE:
        for m in ROWS:
            for layout in LAYOUTS:
                yield MatmulSize(m, n, k, layout)
            for epilogue in EPILOGUES[1:]:
                yield MatmulSize(m, n, k, epilogue=epilogue)
            for dtype in DTYPES[1:]:
                yield MatmulSize(m, n, k, dtype=dtype)


def _models() -> Iterator[MatmulSize]:
    for n, k in LAYERS:
        for m in ROWS:
            yield MatmulSize(m, n, k)
        for m in ROWS[1::3]:
            for layout in ("nn", "nt"):
                yield MatmulSize(m, n, k, layout)
            yield MatmulSize(m, n, k, epilogue="bias")
        for number, m in enumerate(ROWS[1::4]):
            yield MatmulSize(m, n, k, epilogue=("bias_gelu", "bias_relu")[number % 2])
            for dtype in DTYPES[1:]:
                yield MatmulSize(m, n, k, dtype=dtype)
    for n, k in DECODED:
        for m in range(1, 65):
            yield MatmulSize(m, n, k)


def _odd() -> Iterator[MatmulSize]:
    """Sizes beside the aligned ones: off by one, two, four and eight."""
    for m, n, k in ((64, 768, 768), (1024, 3072, 768), (4096, 4096, 4096), (8192, 768, 3072)):
        for less in (1, 2, 4, 8, 16):
            yield MatmulSize(m - less, n, k)
            for dtype in ("bf16", "fp16", "tf32"):
                yield MatmulSize(m, n - less, k, dtype=dtype)
                yield MatmulSize(m, n, k - less, dtype=dtype)
            yield MatmulSize(m, n - less, k - less, "nn")
            yield MatmulSize(m, n - less, k - less, epilogue="bias")
    for n in (50257, 32001, 151936, 128256):
        for m in (1, 8, 128, 1024):
            yield MatmulSize(m, n, 1024)


def _drawn(chance: random.Random, count: int) -> Iterator[MatmulSize]:
    """Sizes that nobody chose, spread over octaves; one in six is no multiple of eight."""
    for number in range(count):
        yield MatmulSize(*_size(chance, number), chance.choice(LAYOUTS[:3]))


def _mixed(chance: random.Random, count: int) -> Iterator[MatmulSize]:
    """As above, with all types and epilogues."""
    for number in range(count):
        dtype = chance.choice(DTYPES)
        m, n, k = _size(chance, number)
        if dtype == "fp8":
            n, k = (max(1, round(side / 16)) * 16 for side in (n, k))
            epilogue = chance.choice(EPILOGUES[:2])
            yield MatmulSize(m, n, k, "tn", dtype, epilogue)
            continue
        layout = chance.choice(LAYOUTS)
        yield MatmulSize(m, n, k, layout, dtype, chance.choice(EPILOGUES))


def _size(chance: random.Random, number: int) -> tuple[int, int, int]:
    unit = (64, 8, 64, 8, 64, 1)[number % 6]
    m = round(2 ** chance.uniform(0, 14))
    n, k = (unit * max(1, round(2 ** chance.uniform(6.5, 14) / unit)) for _ in range(2))
    return m, n, k


def more(count: int, seed: int = 2) -> list[MatmulSize]:
    """Matmuls of the kinds whose times are guessed worst, drawn as held-out ones are; none of the
    above. Half are of 16 bit and not aligned, as most of these are.

    These run on kernels older than nvjet, and among those the library chooses less regularly.
    """
    held_out = drawn(1, HELD_OUT // 2, HELD_OUT // 2, points())
    chance, known = random.Random(seed), {*points(), *held_out}
    wanted = {"16-bit": count // 2, "tf32": count // 4, "fp32": count // 4}
    found: dict[str, dict[MatmulSize, None]] = {kind: {} for kind in wanted}
    while any(len(found[kind]) < most for kind, most in wanted.items()):
        for point in (*_drawn(chance, 6), *_mixed(chance, 6)):
            kind = "16-bit" if point.dtype in NARROW else point.dtype
            misses = not (kind == "16-bit" and point.aligned) and point not in known
            if misses and fits(point) and len(found[kind]) < wanted[kind]:
                found[kind][point] = None
    first, *others = map(list, found.values())
    return [point for each in zip(first[::2], first[1::2], *others, strict=True) for point in each]


# Which kernels run, and how long.

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


def elements(points: Sequence[MatmulSize]) -> int:
    """How long a pool must be for the largest of these matmuls."""
    return max(p.m * p.k + p.n * p.k + p.n + 3 * _ALIGNED for p in points)


def matmul(point: MatmulSize, cut: Cut) -> Call:
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


def recorded(batch: Sequence[MatmulSize], pools: OperandPools) -> list[dict[str, Any]]:
    """Measure matmuls in one recording; a matmul that the library refuses has an `error`."""
    flood = torch.zeros(_FLOOD, dtype=torch.float32, device="cuda")
    out = torch.zeros(1, dtype=torch.int32, device="cuda")

    def mark(number: int) -> None:
        mark_kernel[mark_grid(number)](out, num_warps=1)

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
    found = segments(_events(prof))
    return [
        {**msgspec.structs.asdict(point), **_result(found, number, refused)}
        for number, point in enumerate(batch)
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
    return summary(calls[:COLD], calls[COLD:])


def _events(prof: Any) -> list[dict[str, Any]]:
    gc.collect()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        prof.export_chrome_trace(str(path))
        found: list[dict[str, Any]] = json.loads(path.read_bytes())["traceEvents"]
    return found


@triton.jit
def mark_kernel(out):
    """An empty kernel, as far as Triton lets it be; its grid carries a number."""
    if tl.program_id(0) < 0:
        tl.store(out, 0)


MARK = "mark_kernel"
_WIDE = 64
_WORK = ("kernel", "gpu_memset", "gpu_memcpy")


def mark_grid(number: int) -> tuple[int, int, int]:
    """The grid of a mark's launch carries its number."""
    return 1 + number % _WIDE, 1 + number // _WIDE, 1


def marked_number(grid: Sequence[int]) -> int:
    """The number that a grid carries."""
    return (grid[0] - 1) + (grid[1] - 1) * _WIDE


def segments(events: Iterable[Event]) -> dict[int, list[Event]]:
    """GPU work by the number of the last mark before it; nothing else needs to be complete."""
    found: dict[int, list[Event]] = {}
    current = 0
    work = (event for event in events if event.get("cat") in _WORK and "ts" in event)
    for event in sorted(work, key=lambda event: float(event["ts"])):
        if MARK in event["name"]:
            current = marked_number(event["args"]["grid"])
        else:
            found.setdefault(current, []).append(event)
    return found


def summary(cold: Sequence[list[Event]], warm: Sequence[list[Event]]) -> dict[str, Any]:
    """The kernels of a call, in order, and the times of its repeats; `error` without any."""
    cold, warm = ([call for call in calls if call] for calls in (cold, warm))
    if not cold or not warm:
        return {"error": "the recording holds no GPU work of this matmul"}
    names = [[event["name"] for event in call] for call in (*cold, *warm)]
    usual = max(names, key=names.count)
    cold, warm = (
        [call for call in calls if [event["name"] for event in call] == usual]
        for calls in (cold, warm)
    )
    found = {
        "kernels": [_kernel(cold, warm, position) for position in range(len(usual))],
        "cold_us": [_total(call) for call in cold],
        "warm_us": [_total(call) for call in warm],
        "span_us": _median(
            max(float(event["ts"]) + float(event["dur"]) for event in call)
            - min(float(event["ts"]) for event in call)
            for call in warm
        ),
    }
    differing = sum(name != usual for name in names)
    return {**found, "differing": differing} if differing else found


def _kernel(
    cold: Sequence[list[Event]], warm: Sequence[list[Event]], position: int
) -> dict[str, Any]:
    event = (warm or cold)[-1][position]
    args = event.get("args", {})
    return {
        "name": event["name"],
        "grid": args.get("grid"),
        "block": args.get("block"),
        "registers": args.get("registers per thread"),
        "shared_memory": args.get("shared memory"),
        "cold_us": _median(call[position]["dur"] for call in cold),
        "warm_us": _median(call[position]["dur"] for call in warm),
    }


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return round(median(found), 3) if found else None


def _total(call: list[Event]) -> float:
    return round(sum(float(event["dur"]) for event in call), 3)


# A map from the rows of sweeps: names decoded, tiles and waves counted, roofs compared.

# xmma counts rows first: on an H200 the grids of 125 of 128 matmuls of unequal tiles say so, and
# the other three fit both ways. The families of cuBLAS count output features first.
ROWS_FIRST = frozenset({"xmma"})
# Of one multiprocessor of sm_80 to sm_90; shared memory by what the card's driver states.
REGISTERS, THREADS, BLOCKS = 65536, 2048, 32
REGISTER_UNIT = 256  # of one warp
SHARED_BYTES = 233472
RESERVED_BYTES = 1024  # of shared memory, by the system for each block


MATMULS = ("gemm", "gemv")
_SMALL = {"layout": LAYOUTS, "dtype": DTYPES, "epilogue": EPILOGUES}
COLUMNS: dict[str, Any] = {
    "m": pl.Int32,
    "n": pl.Int32,
    "k": pl.Int32,
    **{name: pl.Enum(values) for name, values in _SMALL.items()},
    **dict.fromkeys(("kernel", "short", "family", "arch"), pl.String),
    **dict.fromkeys(("tile_n", "tile_m", "tile_k"), pl.Int16),
    "cluster": pl.String,
    "stages": pl.Int16,
    "splits": pl.Boolean,
    "split": pl.Int16,
    "blocks": pl.Int32,
    "per_sm": pl.Int16,
    "tiles": pl.Int32,
    **dict.fromkeys(("waves", "waste", "intensity"), pl.Float32),
    "others": pl.String,
    **dict.fromkeys(("cold_us", "warm_us", "kernel_us", "roof_us"), pl.Float32),
    "roof": pl.Enum(("compute", "memory")),
}


def row_of(swept: Row, sms: int, flops: Mapping[str, float], bytes_per_s: float) -> Row:
    """A row of the map."""
    point = MatmulSize(*(swept[name] for name in MatmulSize.__struct_fields__))
    kernels = [families.decode(run["name"]) for run in swept["kernels"]]
    # the matmul among the kernels of a call: the longest, should it be cut into several
    matmuls = [at for at, kernel in enumerate(kernels) if kernel.role in MATMULS]
    longest = {at: (run["cold_us"] or 0, -at) for at, run in enumerate(swept["kernels"])}
    main = max(matmuls or longest, key=longest.__getitem__)
    kernel, run = kernels[main], swept["kernels"][main]
    threads, blocks = prod(run["block"]), prod(run["grid"])
    warps = ceil(threads / 32)
    unit = ceil(max(run["registers"] or 0, 1) * 32 / REGISTER_UNIT) * REGISTER_UNIT
    fits = REGISTERS // (unit * warps), THREADS // (32 * warps), BLOCKS
    shared = SHARED_BYTES // ((run["shared_memory"] or 0) + RESERVED_BYTES)
    per_sm = max(1, min(*fits, shared))
    named: list[int] = kernel.get("tile") or []
    cluster = kernel.get("cluster")
    compute = point.flops / flops[point.dtype] * 1e6
    memory = point.bytes / bytes_per_s * 1e6
    row = {
        **msgspec.structs.asdict(point),
        **{name: getattr(kernel, name) for name in ("short", "family")},
        "kernel": kernel.name,
        "arch": kernel.get("arch"),
        "tile_k": named[2] if len(named) > 2 else None,
        "cluster": "x".join(map(str, cluster)) if cluster else None,
        "stages": kernel.get("stages"),
        "splits": any(
            other.get("splitk") or other.get("op") == "splitk_reduce" for other in kernels
        ),
        "blocks": blocks,
        "per_sm": per_sm,
        "intensity": point.intensity,
        "others": "; ".join(other.short for at, other in enumerate(kernels) if at != main),
        "cold_us": median(swept["cold_us"]),
        "warm_us": median(swept["warm_us"]),
        "kernel_us": run["cold_us"],
        "roof_us": max(compute, memory),
        "roof": "compute" if compute >= memory else "memory",
    }
    tile = kernel.get("tile") or kernel.get("tile_mn")
    if not tile:  # no tile in the name
        return row | dict.fromkeys(("tile_n", "tile_m", "split", "tiles", "waves", "waste"))
    tile_n, tile_m = tile[1::-1] if kernel.family in ROWS_FIRST else tile[:2]
    tiles_n, tiles_m = ceil(point.n / tile_n), ceil(point.m / tile_m)
    split = parts_of_k(kernel, run["grid"], tiles_n, tiles_m, sms)
    waves = None if split is None else tiles_n * tiles_m * split / (sms * per_sm)
    return row | {
        "tile_n": tile_n,
        "tile_m": tile_m,
        "splits": row["splits"] or (split or 1) > 1,
        "split": split,
        "tiles": tiles_n * tiles_m,
        "waves": waves,
        "waste": None if waves is None else 1 - waves / ceil(waves),
    }


def parts_of_k(
    kernel: KernelId, grid: Sequence[int], tiles_n: int, tiles_m: int, sms: int
) -> int | None:
    """nvjet does not state in how many parts K is cut: the grid does, unless it fills the card."""
    if kernel.family != "nvjet":
        return grid[2]
    if not kernel.get("splitk"):
        return 1
    along_n, along_m = kernel.get("cluster") or (1, 1)
    padded = ceil(tiles_m / along_m) * along_m * ceil(tiles_n / along_n) * along_n
    blocks = prod(grid)
    filled = blocks > sms - along_n * along_m
    return None if filled or blocks % padded else blocks // padded


def write(*sweeps: str) -> None:
    """The map that ships, from the files of one sweep or several of one card."""
    around: dict[str, str] = {}
    swept: list[Row] = []
    for sweep in sweeps:
        with gzip.open(sweep, "rt", encoding="utf-8") as lines:
            head, *rows = map(json.loads, lines)
        around = around or head["environment"]
        if around["gpu"] != head["environment"]["gpu"]:
            raise SystemExit(f"several cards: {around['gpu']}, {head['environment']['gpu']}")
        swept += [row for row in rows if row.get("kernels")]
    sms = int(around["sms"])
    device = devices.find(around["gpu"], sms=sms)
    if device is None:
        raise SystemExit(f"{around['gpu']}: its peaks are unknown; add it to devices/peaks.toml")
    rates = dict(device.peak_flops)
    bytes_per_s = device.bytes_per_s
    if roofs := devices.measured_roofs(device):
        rates |= {name: rate * 1e12 for name, rate in roofs.units_tflops.items()}
        memory = roofs.memory_gbps(device.cache_bytes or 0)
        bytes_per_s = memory * 1e9 if memory else bytes_per_s
    flops = {name: rates[name] for name in DTYPES if name in rates}
    made = [row_of(row, sms, flops, bytes_per_s) for row in swept]
    frame = pl.DataFrame(made, schema=COLUMNS, orient="row")
    frame = frame.sort("dtype", "layout", "epilogue", "n", "k", "m")
    facts = table.MapFacts(
        around["gpu"], sms, "python tools/gemm_map.py", around, flops, bytes_per_s
    )
    place = table.SHIPPED / f"{around['gpu'].lower().replace(' ', '-')}.parquet"
    with replacing(place) as draft:
        frame.write_parquet(draft, compression="zstd", compression_level=19)
    text = msgspec.json.format(msgspec.json.encode(facts), indent=1)
    write_bytes(place.with_suffix(".json"), text + b"\n")
    print(f"{place}: {frame.height} matmuls")


def measure(place: str, count: str = "") -> None:
    """Sweep this machine's card; the first line of the file is its environment."""
    chosen = more(int(count)) if count else points()
    pools = OperandPools(elements(chosen))
    rows: list[Row] = []
    for start in range(0, len(chosen), BATCH):
        rows += recorded(chosen[start : start + BATCH], pools)
        print(f"{len(rows)} of {len(chosen)} matmuls", file=sys.stderr)
    text = "".join(json.dumps(line) + "\n" for line in ({"environment": environment()}, *rows))
    write_bytes(Path(place), gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    {"measure": measure, "write": write}[sys.argv[1]](*sys.argv[2:])
