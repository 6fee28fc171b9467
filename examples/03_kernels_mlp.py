# /// script
# requires-python = ">=3.11.5"
# dependencies = [
#   "foretrace",
#   "torch>=2.6",
#   "kernels>=0.12; platform_system == 'Linux'",
#   "liger-kernel>=0.5; platform_system == 'Linux'",
# ]
#
# [tool.uv.sources]
# foretrace = { path = "..", editable = true }
# ///
"""Part 2: the same MLP with Liger's fused GeGLU.

    uv run examples/03_kernels_mlp.py --batch 64 --seq 128 --dim 768 --hidden 3072

The layer comes from the Hub through `kernels` when the Hub answers, else from PyPI's
`liger-kernel`; the script says which, and where it is kept. Liger's kernels need a GPU: a CPU runs
the plain GeGLU in their place, and the files say `plain`.
"""

import article
import torch

from foretrace.learn.ladder.builders import gated_mlp, source_text


def main() -> None:
    """Profile one MLP."""
    sizes = {"batch": 64, "seq": 128, "dim": 768, "hidden": 3072}
    args = article.flags(__doc__, "03_kernels_mlp", **sizes).parse_args()

    place = article.place()
    liger = place["device"] == "cuda"
    variant = "liger" if liger else "eager"
    model, facts = gated_mlp(variant, args.dim, args.hidden, str(place["device"]))
    plain = "Liger's kernels cannot run without a GPU: running the plain GeGLU"
    print(source_text(facts["liger"]) if liger else plain)
    model = model.to(**place).eval()
    x = torch.randn(args.batch, args.seq, args.dim, **place)
    function = torch.compile(model) if args.compile else model
    kind = [] if liger else ["plain"]
    tag = article.tag(args, args.batch, args.seq, args.dim, args.hidden, *kind)
    region = "kernels_mlp_fwd" if liger else "mlp_fwd"
    article.profile(lambda: function(x), args, region=region, tag=tag)


article.run(main)
