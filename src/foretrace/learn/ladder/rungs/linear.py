"""`nn.Linear`: the matmul adds the bias in its epilogue, so one kernel does both."""

from __future__ import annotations

from foretrace.schema.rung import Built, Option, Rung, Setup


def build(setup: Setup) -> Built:
    """One forward of nn.Linear over (batch, in_dim), or (batch, seq, in_dim) with `--seq`."""
    import torch

    from foretrace.learn.ladder.modules import forward_only, parameters_of, place

    layer = torch.nn.Linear(setup["in_dim"], setup["out_dim"], bias=not setup["no_bias"])
    layer = layer.to(**place(setup)).eval()
    rows = (setup["batch"], setup["seq"]) if setup["seq"] else (setup["batch"],)
    x = torch.randn(*rows, setup["in_dim"], **place(setup))
    facts = {"parameters": parameters_of(layer)}
    return Built(forward_only(setup.compile(layer), x), region="linear_fwd", facts=facts)


RUNG = Rung(
    name="linear",
    title="nn.Linear: one kernel, bias included",
    options=(
        Option("batch", 1024, "rows of the input"),
        Option("in_dim", 32, "input features"),
        Option("out_dim", 64, "output features"),
        Option("seq", 0, "a middle dimension for a three-dimensional input; 0 for none"),
        Option("no_bias", False, "leave the bias out"),
    ),
    variants={"eager": "nn.Linear as it is"},
    build=build,
)
