# /// script
# requires-python = ">=3.11.5"
# dependencies = ["foretrace", "torch>=2.6"]
#
# [tool.uv.sources]
# foretrace = { path = "..", editable = true }
# ///
"""Part 2: one nn.Linear.

    uv run examples/02_linear.py --batch 1024 --in_dim 32 --out_dim 64
    uv run examples/02_linear.py --compile

Guess first: how many kernels, and where does the bias go?
"""

import article
import torch


def main() -> None:
    """Profile one layer."""
    args = article.flags(__doc__, "02_linear", batch=1024, in_dim=32, out_dim=64).parse_args()

    place = article.place()
    layer = torch.nn.Linear(args.in_dim, args.out_dim, bias=True).to(**place).eval()
    print(f"weight {tuple(layer.weight.shape)}, bias {tuple(layer.bias.shape)}")
    x = torch.randn(args.batch, args.in_dim, **place)
    function = torch.compile(layer) if args.compile else layer
    tag = article.tag(args, args.batch, args.in_dim, args.out_dim)
    article.profile(lambda: function(x), args, region="linear_fwd", tag=tag)


article.run(main)
