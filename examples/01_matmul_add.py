"""Part 1: add(matmul(x, w), b).

    python examples/01_matmul_add.py --size 64
    python examples/01_matmul_add.py --size 4096 --warmup --compile

Guess first: how many kernels does a step launch, and how busy is the GPU at 64 and at 4096?
"""

import argparse

import article
import torch


def matmul_add(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.add(torch.matmul(x, w), b)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument(
        "--dtype", choices=("bf16", "fp32"), help="bf16, or fp32 on a CPU without it"
    )
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--warmup", action="store_true")
    parser.add_argument("--trace_dir", default="./traces/01_matmul_add")
    args = parser.parse_args()

    place = article.place(args.dtype)
    x, w, b = (torch.randn(args.size, args.size, **place) for _ in range(3))
    function = torch.compile(matmul_add) if args.compile else matmul_add
    dtype = "bf16" if place["dtype"] is torch.bfloat16 else "fp32"
    warm, how = "warm" if args.warmup else "cold", "compile" if args.compile else "eager"
    tag = f"{args.size}_{dtype}_{warm}_{how}"
    article.profile(
        lambda: function(x, w, b),
        region="matmul_add",
        trace_dir=args.trace_dir,
        tag=tag,
        warm=args.warmup,
    )


article.run(main)
