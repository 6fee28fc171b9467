"""A transformer block: norms, attention and the gated MLP, with their residual connections."""

from __future__ import annotations

from foretrace.schema.rung import Built, Option, Rung, Setup


def build(setup: Setup) -> Built:
    """One forward over (batch, seq, dim); with `--backward` also the backward of the sum."""
    from foretrace.learn.ladder.gated_mlps import gated_mlp
    from foretrace.learn.ladder.modules import TransformerBlock, sequence_step

    mlp, facts = gated_mlp(setup.variant, setup["dim"], setup["hidden"], setup.device)
    module = TransformerBlock(setup["dim"], setup["heads"], mlp)
    return sequence_step(setup, module, "block", facts)


RUNG = Rung(
    name="block",
    title="a pre-norm transformer block: attention, gated MLP, norms and residuals",
    options=(
        Option("batch", 8, "sequences", small=1),
        Option("seq", 1024, "tokens per sequence", small=64),
        Option("dim", 768, "features", small=64),
        Option("heads", 12, "heads", small=4),
        Option("hidden", 3072, "features inside the MLP", small=128),
        Option("backward", False, "also run the backward of the sum"),
    ),
    variants={
        "eager": "plain torch",
        "liger": "with Liger's LigerGEGLUMLP (needs a GPU)",
        "fused": "with foretrace's own GeGLUMLP",
    },
    build=build,
    gpu_only={"fused": "foretrace's own kernels need a GPU; a CPU runs plain torch instead"},
)
