# /// script
# requires-python = ">=3.11.5"
# dependencies = ["foretrace", "torch>=2.6"]
#
# [tool.uv.sources]
# foretrace = { path = "..", editable = true }
# ///
"""Part 3: causal attention, written out or through a backend of SDPA.

    uv run examples/04_attention.py --backend naive
    uv run examples/04_attention.py --backend flash --batch 8 --heads 16 --seq 1024 --head_dim 64

Guess first: how many GPU operations does `naive` launch, which of them is a copy, and why is `math`
slower than both? `efficient` and `cudnn` need a GPU.
"""

from contextlib import nullcontext

import article
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from foretrace.base.errors import MissingError

BACKENDS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


def written_out(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor, in_place: bool
) -> torch.Tensor:
    """Attention with its mask in plain torch."""
    scores = torch.matmul(q, k.transpose(-2, -1)) * q.shape[-1] ** -0.5
    fill = scores.masked_fill_ if in_place else scores.masked_fill
    return torch.matmul(torch.softmax(fill(mask, float("-inf")), dim=-1), v)


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention through SDPA."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def main() -> None:
    """Profile one backend."""
    sizes = {"batch": 8, "heads": 16, "seq": 1024, "head_dim": 64}
    parser = article.flags(__doc__, "04_attention", **sizes)
    parser.add_argument("--backend", choices=("naive", "inplace", *BACKENDS), default="naive")
    args = parser.parse_args()

    place = article.place()
    if place["device"] == "cpu" and args.backend in ("efficient", "cudnn"):
        raise MissingError(f"{args.backend} needs a GPU: choose naive, inplace, math or flash here")
    shape = (args.batch, args.heads, args.seq, args.head_dim)
    qkv = [torch.randn(shape, **place) for _ in range(3)]
    if args.backend in BACKENDS:
        inputs, function, region = qkv, sdpa, "sdpa_fwd"
        pinned = lambda: sdpa_kernel(BACKENDS[args.backend])  # noqa: E731
    else:
        mask = torch.ones(args.seq, args.seq, dtype=torch.bool, device=place["device"]).triu(1)
        inputs = [*qkv, mask, args.backend == "inplace"]
        function, region, pinned = written_out, "attn_fwd", nullcontext
    if args.compile:
        function = torch.compile(function)

    def call() -> torch.Tensor:
        with pinned():
            return function(*inputs)

    tag = article.tag(args, *shape, args.backend)
    article.profile(call, args, region=region, tag=tag)


article.run(main)
