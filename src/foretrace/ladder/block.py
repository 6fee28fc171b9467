"""A transformer block: norms, attention and the gated MLP with their residuals, as a model strings
them together.
"""

from __future__ import annotations

from foretrace.schema.rung import Built, Option, Rung, Setup


def build(setup: Setup) -> Built:
    """One forward over (batch, seq, dim); with `--backward` also the backward of the sum."""
    import torch

    from foretrace.ladder._climb import torch_dtype
    from foretrace.ladder._gated import gated_mlp
    from foretrace.ladder._modules import Block, forward_backward, forward_only, parameters_of

    place = {"device": setup.device, "dtype": torch_dtype(setup.dtype)}
    mlp, facts = gated_mlp(setup.variant, setup["dim"], setup["hidden"], setup.device)
    module = Block(setup["dim"], setup["heads"], mlp).to(**place).train(setup["backward"])
    x = torch.randn(setup["batch"], setup["seq"], setup["dim"], **place)
    facts |= {"parameters": parameters_of(module)}
    if setup["backward"]:
        return Built(forward_backward(setup.compile(module), x), region="block_train", facts=facts)
    return Built(forward_only(setup.compile(module), x), region="block_fwd", facts=facts)


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
)
