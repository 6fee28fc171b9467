"""The matmuls of a sweep: layers of the article and of common models, decode sizes, odd sizes.

`schema/gemm_point.py` says what the letters of a layout mean.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from foretrace.schema.gemm_point import DTYPES, EPILOGUES, LAYOUTS, NARROW, GemmPoint

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
RANDOM, MIXED, HELD_OUT = 2000, 1500, 420
# 2 TFLOP of float32 without tensor cores take 40 ms
MOST_FLOPS = {"fp32": 5e11, "tf32": 4e12}
LARGEST_FLOPS = 8e12
FP8_UNIT = 16  # what `torch._scaled_mm` takes


def points() -> list[GemmPoint]:
    """All matmuls of the sweep, each once: those of models first, in a fixed shuffled order."""
    every = dict.fromkeys([*_article(), *_models(), *_odd()])
    named = [point for point in every if fits(point)]
    further = drawn(0, RANDOM, MIXED, named)
    random.Random(0).shuffle(named)
    return named + further


def drawn(seed: int, plain: int, mixed: int, known: Iterable[GemmPoint]) -> list[GemmPoint]:
    """Random matmuls, without the known ones."""
    chance, known = random.Random(seed), set(known)
    every = dict.fromkeys([*_drawn(chance, plain), *_mixed(chance, mixed)])
    return [point for point in every if fits(point) and point not in known]


def held_out() -> list[GemmPoint]:
    """Matmuls that the sweep does not hold, drawn as its random ones are."""
    return drawn(1, HELD_OUT // 2, HELD_OUT // 2, points())


def fits(point: GemmPoint) -> bool:
    """Whether the matmul is small enough, and one that torch computes."""
    if point.flops > MOST_FLOPS.get(point.dtype, LARGEST_FLOPS):
        return False
    if point.dtype != "fp8":
        return True
    aligned = point.n % FP8_UNIT == 0 and point.k % FP8_UNIT == 0
    return aligned and point.layout == "tn" and point.epilogue in ("none", "bias")


def _article() -> Iterator[GemmPoint]:
    for n, k in ARTICLE:
        for m in ROWS:
            for layout in LAYOUTS:
                yield GemmPoint(m, n, k, layout)
            for epilogue in EPILOGUES[1:]:
                yield GemmPoint(m, n, k, epilogue=epilogue)
            for dtype in DTYPES[1:]:
                yield GemmPoint(m, n, k, dtype=dtype)


def _models() -> Iterator[GemmPoint]:
    for n, k in LAYERS:
        for m in ROWS:
            yield GemmPoint(m, n, k)
        for m in ROWS[1::3]:
            for layout in ("nn", "nt"):
                yield GemmPoint(m, n, k, layout)
            yield GemmPoint(m, n, k, epilogue="bias")
        for number, m in enumerate(ROWS[1::4]):
            yield GemmPoint(m, n, k, epilogue=("bias_gelu", "bias_relu")[number % 2])
            for dtype in DTYPES[1:]:
                yield GemmPoint(m, n, k, dtype=dtype)
    for n, k in DECODED:
        for m in range(1, 65):
            yield GemmPoint(m, n, k)


def _odd() -> Iterator[GemmPoint]:
    """Sizes beside the aligned ones: off by one, two, four and eight."""
    for m, n, k in ((64, 768, 768), (1024, 3072, 768), (4096, 4096, 4096), (8192, 768, 3072)):
        for less in (1, 2, 4, 8, 16):
            yield GemmPoint(m - less, n, k)
            for dtype in ("bf16", "fp16", "tf32"):
                yield GemmPoint(m, n - less, k, dtype=dtype)
                yield GemmPoint(m, n, k - less, dtype=dtype)
            yield GemmPoint(m, n - less, k - less, "nn")
            yield GemmPoint(m, n - less, k - less, epilogue="bias")
    for n in (50257, 32001, 151936, 128256):
        for m in (1, 8, 128, 1024):
            yield GemmPoint(m, n, 1024)


def _drawn(chance: random.Random, count: int) -> Iterator[GemmPoint]:
    """Sizes that nobody chose, spread over octaves; one in six is no multiple of eight."""
    for number in range(count):
        yield GemmPoint(*_size(chance, number), chance.choice(LAYOUTS[:3]))


def _mixed(chance: random.Random, count: int) -> Iterator[GemmPoint]:
    """As above, with all types and epilogues."""
    for number in range(count):
        dtype = chance.choice(DTYPES)
        m, n, k = _size(chance, number)
        if dtype == "fp8":
            n, k = (max(1, round(side / 16)) * 16 for side in (n, k))
            epilogue = chance.choice(EPILOGUES[:2])
            yield GemmPoint(m, n, k, "tn", dtype, epilogue)
            continue
        layout = chance.choice(LAYOUTS)
        yield GemmPoint(m, n, k, layout, dtype, chance.choice(EPILOGUES))


def _size(chance: random.Random, number: int) -> tuple[int, int, int]:
    unit = (64, 8, 64, 8, 64, 1)[number % 6]
    m = round(2 ** chance.uniform(0, 14))
    n, k = (unit * max(1, round(2 ** chance.uniform(6.5, 14) / unit)) for _ in range(2))
    return m, n, k


def more(count: int, seed: int = 2) -> list[GemmPoint]:
    """Matmuls of the kinds whose times are guessed worst, drawn as held-out ones are; none of the
    above. Half are of 16 bit and not aligned, as most of these are.

    These run on kernels older than nvjet, and among those the library chooses less regularly.
    """
    chance, known = random.Random(seed), {*points(), *held_out()}
    wanted = {"16-bit": count // 2, "tf32": count // 4, "fp32": count // 4}
    found: dict[str, dict[GemmPoint, None]] = {kind: {} for kind in wanted}
    while any(len(found[kind]) < most for kind, most in wanted.items()):
        for point in (*_drawn(chance, 6), *_mixed(chance, 6)):
            kind = "16-bit" if point.dtype in NARROW else point.dtype
            misses = not (kind == "16-bit" and point.aligned) and point not in known
            if misses and fits(point) and len(found[kind]) < wanted[kind]:
                found[kind][point] = None
    first, *others = map(list, found.values())
    return [point for each in zip(first[::2], first[1::2], *others, strict=True) for point in each]
