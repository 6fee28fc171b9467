"""A training step of a small decoder: forward, backward, AdamW, each in its own region.

The variants are AdamW's three implementations. The loop launches several kernels per weight,
foreach a few per group of weights, fused about one per group.
"""

from __future__ import annotations

from foretrace.learn.ladder.rungs.model import DECODER_SIZES
from foretrace.schema.rung import Built, Rung, Setup


def build(setup: Setup) -> Built:
    """zero_grad, forward with loss, backward, optimizer step; only the model is compiled."""
    import torch
    from torch.profiler import record_function

    from foretrace.learn.ladder.modules import Decoder, parameters_of, place

    sizes = [setup[name] for name in ("vocab", "layers", "dim", "heads", "hidden")]
    model = Decoder(*sizes).to(**place(setup)).train()
    tokens = torch.randint(setup["vocab"], (setup["batch"], setup["seq"]), device=setup.device)
    how = {"foreach": setup.variant == "foreach", "fused": setup.variant == "fused"}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **how)
    function = setup.compile(model)

    def call() -> object:
        optimizer.zero_grad(set_to_none=True)
        with record_function("forward"):
            loss = function(tokens)
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
        return loss

    return Built(call, region="train_step", facts={"parameters": parameters_of(model)})


RUNG = Rung(
    name="train_step",
    title="a training step: forward, backward and AdamW",
    options=DECODER_SIZES,
    variants={
        "foreach": "AdamW over groups of weights (torch's default on a GPU)",
        "forloop": "AdamW weight by weight",
        "fused": "AdamW as one fused kernel per group",
    },
    build=build,
)
