"""Part 2: one nn.Linear.

    python examples/02_linear.py --batch 1024 --in_dim 32 --out_dim 64
    python examples/02_linear.py --compile

Guess first: how many kernels, and where does the bias go?
"""

import argparse

import article
import torch


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--in_dim", type=int, default=32)
    parser.add_argument("--out_dim", type=int, default=64)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--trace_dir", default="./traces/02_linear")
    args = parser.parse_args()

    place = article.place()
    layer = torch.nn.Linear(args.in_dim, args.out_dim, bias=True).to(**place).eval()
    print(f"weight {tuple(layer.weight.shape)}, bias {tuple(layer.bias.shape)}")
    x = torch.randn(args.batch, args.in_dim, **place)
    function = torch.compile(layer) if args.compile else layer
    tag = f"{args.batch}_{args.in_dim}_{args.out_dim}_{'compile' if args.compile else 'eager'}"
    article.profile(lambda: function(x), region="linear_fwd", trace_dir=args.trace_dir, tag=tag)


article.run(main)
