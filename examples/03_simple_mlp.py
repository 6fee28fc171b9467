# /// script
# requires-python = ">=3.11.5"
# dependencies = ["foretrace", "torch>=2.6"]
#
# [tool.uv.sources]
# foretrace = { path = "..", editable = true }
# ///
"""Part 2: a GeGLU MLP.

    uv run examples/03_simple_mlp.py --batch 64 --seq 128 --dim 768 --hidden 3072
    uv run examples/03_simple_mlp.py --compile --why

Guess first: how many kernels, how many of them matmuls, and which of them does the compiler
fuse?
"""

import article
import torch
import torch.nn.functional as F


class GeGLU(torch.nn.Module):
    """down(gelu(gate(x)) * up(x))."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = torch.nn.Linear(dim, hidden, bias=False)
        self.up_proj = torch.nn.Linear(dim, hidden, bias=False)
        self.down_proj = torch.nn.Linear(hidden, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Five kernels: gate, up, gelu, product, down."""
        gate, up = self.gate_proj(x), self.up_proj(x)
        return self.down_proj(F.gelu(gate, approximate="tanh") * up)


def main() -> None:
    """Profile one MLP."""
    sizes = {"batch": 64, "seq": 128, "dim": 768, "hidden": 3072}
    args = article.flags(__doc__, "03_simple_mlp", **sizes).parse_args()

    place = article.place()
    model = GeGLU(args.dim, args.hidden).to(**place).eval()
    x = torch.randn(args.batch, args.seq, args.dim, **place)
    function = torch.compile(model) if args.compile else model
    tag = article.tag(args, args.batch, args.seq, args.dim, args.hidden)
    article.profile(lambda: function(x), args, region="mlp_fwd", tag=tag)


article.run(main)
