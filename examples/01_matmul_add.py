# /// script
# requires-python = ">=3.11.5"
# dependencies = ["foretrace", "torch>=2.6"]
#
# [tool.uv.sources]
# foretrace = { path = "..", editable = true }
# ///
"""Part 1: add(matmul(x, w), b).

    uv run examples/01_matmul_add.py --size 64
    uv run examples/01_matmul_add.py --size 4096 --warmup --compile

Guess first: how many kernels does a step launch, and how busy is the GPU at 64 and at 4096?
"""

import article
import torch


def matmul_add(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product and an addition."""
    return torch.add(torch.matmul(x, w), b)


def main() -> None:
    """Profile one size."""
    parser = article.flags(__doc__, "01_matmul_add", size=64)
    choices = ("bf16", "fp32")
    parser.add_argument("--dtype", choices=choices, help="bf16, or fp32 on a CPU without it")
    parser.add_argument("--warmup", action="store_true")
    args = parser.parse_args()

    place = article.place(args.dtype)
    x, w, b = (torch.randn(args.size, args.size, **place) for _ in range(3))
    function = torch.compile(matmul_add) if args.compile else matmul_add
    dtype = "bf16" if place["dtype"] is torch.bfloat16 else "fp32"
    tag = article.tag(args, args.size, dtype, "warm" if args.warmup else "cold")
    region = {"region": "matmul_add", "tag": tag}
    article.profile(lambda: function(x, w, b), args, **region, warm=args.warmup)


article.run(main)
