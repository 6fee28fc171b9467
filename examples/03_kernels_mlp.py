"""Part 2: the same MLP with Liger's fused GeGLU.

    python examples/03_kernels_mlp.py --batch 64 --seq 128 --dim 768 --hidden 3072

The layer comes from the Hub through `kernels` when the Hub answers, else from PyPI's
`liger-kernel`; the script says which. Liger's kernels need a GPU: a CPU runs the plain GeGLU in
their place, and the files say `plain`.
"""

import argparse

import article
import torch

from foretrace.ladder.gated_mlps import gated_mlp


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--hidden", type=int, default=3072)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--trace_dir", default="./traces/03_kernels_mlp")
    args = parser.parse_args()

    place = article.place()
    liger = place["device"] == "cuda"
    model, facts = gated_mlp(
        "liger" if liger else "eager", args.dim, args.hidden, str(place["device"])
    )
    print(
        f"liger: {facts['liger']}"
        if liger
        else "Liger's kernels cannot run without a GPU: running the plain GeGLU"
    )
    model = model.to(**place).eval()
    x = torch.randn(args.batch, args.seq, args.dim, **place)
    function = torch.compile(model) if args.compile else model
    tag = "_".join(
        map(
            str,
            (
                args.batch,
                args.seq,
                args.dim,
                args.hidden,
                *([] if liger else ["plain"]),
                "compile" if args.compile else "eager",
            ),
        )
    )
    article.profile(
        lambda: function(x),
        region="kernels_mlp_fwd" if liger else "mlp_fwd",
        trace_dir=args.trace_dir,
        tag=tag,
    )


article.run(main)
