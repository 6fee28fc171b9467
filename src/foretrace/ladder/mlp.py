"""The GeGLU MLP: three matrix products and two pointwise operations, which somebody can fuse.

Eager runs five kernels, compiled and Liger four: gelu and product become one, the matrix products
stay what they were.
"""

from __future__ import annotations

from foretrace.schema.rung import Built, Option, Rung, Setup


def build(setup: Setup) -> Built:
    """One forward over (batch, seq, dim); with `--backward` also the backward of the sum."""
    import torch

    from foretrace.ladder._climb import torch_dtype
    from foretrace.ladder._gated import gated_mlp
    from foretrace.ladder._modules import forward_backward, forward_only, parameters_of

    place = {"device": setup.device, "dtype": torch_dtype(setup.dtype)}
    module, facts = gated_mlp(setup.variant, setup["dim"], setup["hidden"], setup.device)
    module = module.to(**place).train(setup["backward"])
    x = torch.randn(setup["batch"], setup["seq"], setup["dim"], **place)
    facts |= {"parameters": parameters_of(module)}
    if setup["backward"]:
        return Built(forward_backward(setup.compile(module), x), region="mlp_train", facts=facts)
    return Built(forward_only(setup.compile(module), x), region="mlp_fwd", facts=facts)


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
        "eager": "plain torch: three linears, gelu, product",
        "liger": "Liger's LigerGEGLUMLP: gelu and product in one Triton kernel (needs a GPU)",
        "fused": "foretrace's own GeGLUMLP",
    },
    build=build,
)
