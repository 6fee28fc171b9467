"""The GeGLU MLP: three matmuls and two pointwise operations that can be fused.

Eager runs five kernels, compiled and Liger four: gelu and mul are one kernel, and the matmuls do
not change.
"""

from __future__ import annotations

from foretrace.schema.rung import Built, Option, Rung, Setup


def build(setup: Setup) -> Built:
    """One forward over (batch, seq, dim); with `--backward` also the backward of the sum."""
    from foretrace.learn.ladder.gated_mlps import gated_mlp
    from foretrace.learn.ladder.modules import sequence_step

    module, facts = gated_mlp(setup.variant, setup["dim"], setup["hidden"], setup.device)
    return sequence_step(setup, module, "mlp", facts)


RUNG = Rung(
    name="mlp",
    title="a GeGLU MLP: which kernels fuse, and which do not",
    options=(
        Option("batch", 64, "sequences", small=4),
        Option("seq", 128, "tokens per sequence", small=32),
        Option("dim", 768, "features in and out", small=128),
        Option("hidden", 3072, "features between", small=512),
        Option("backward", False, "also run the backward of the sum"),
    ),
    variants={
        "eager": "plain torch: three linears, gelu, mul",
        "liger": "Liger's LigerGEGLUMLP: gelu and mul in one Triton kernel (needs a GPU)",
        "liger_packed": "Liger's kernel on two halves of one matmul, which it copies first",
        "fused": "foretrace's own GeGLUMLP",
    },
    build=build,
    gpu_only={"fused": "foretrace's own kernels need a GPU; a CPU runs plain torch instead"},
    layers=("gate", "up", "down"),
)
