"""What `swap` and the pass for Inductor bring to models of Transformers, and what they change.

    python benchmarks/swap.py llama -o results.json
    python benchmarks/swap.py gemma --way eager --way swap --way compiled

Needs a CUDA GPU and transformers. Each way trains the same model from the same weights on the same
tokens for 50 steps: 4 layers, bf16, AdamW, 8 sequences of 1,024 tokens. The tokens follow a random
table, so that there is something to learn. `noise` is eager with other rounding inside its matmuls:
how far losses part without any change of ours.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from foretrace.kernels import inductor, swap

LAYERS, VOCABULARY, BATCH, LENGTH, STEPS, WARM = 4, 8192, 8, 1024, 50, 10
COMMON = {"vocab_size": VOCABULARY, "num_hidden_layers": LAYERS, "use_cache": False}
HEADS = {"num_attention_heads": 16, "num_key_value_heads": 16}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {"hidden_size": 2048, "intermediate_size": 8192, **HEADS, **COMMON}),
    "gemma": (
        "Gemma",
        {"hidden_size": 2048, "intermediate_size": 16384, "num_attention_heads": 8,
         "num_key_value_heads": 1, "head_dim": 256, **COMMON},
    ),
    "gpt2": (
        "GPT2",
        {"n_embd": 768, "n_layer": LAYERS, "n_head": 12, "vocab_size": VOCABULARY,
         "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0, "use_cache": False},
    ),
}  # fmt: skip
WAYS = ("eager", "noise", "swap", "graph", "compiled", "compiled swap", "pass")

Step = Callable[[Tensor], Tensor]


def new_model(name: str) -> nn.Module:
    """The model with the same random weights every time."""
    torch.manual_seed(0)
    family, options = MODELS[name]
    settings = getattr(transformers, f"{family}Config")(**options)
    head = "LMHeadModel" if name == "gpt2" else "ForCausalLM"
    model: nn.Module = getattr(transformers, family + head)(settings)
    return model.to("cuda", torch.bfloat16).train()


def tokens(count: int) -> list[Tensor]:
    """Sequences in which each token is one of four that its predecessor allows."""
    chance = torch.Generator().manual_seed(1)
    follows = torch.randint(VOCABULARY, (VOCABULARY, 4), generator=chance)
    found = []
    for _ in range(count):
        picks = torch.randint(4, (LENGTH, BATCH), generator=chance)
        rows = [torch.randint(VOCABULARY, (BATCH,), generator=chance)]
        for pick in picks[1:]:
            rows.append(follows[rows[-1], pick])
        found.append(torch.stack(rows, 1).cuda())
    return found


@contextmanager
def prepared(way: str) -> Iterator[None]:
    """The settings of a way, and those of before again."""
    torch._dynamo.reset()
    matmul = torch.backends.cuda.matmul
    matmul.allow_bf16_reduced_precision_reduction = way != "noise"
    if way == "pass":
        inductor.enable()
    try:
        yield
    finally:
        inductor.disable()
        matmul.allow_bf16_reduced_precision_reduction = True


def training_step(way: str, model: nn.Module, first: Tensor) -> Step:
    """One step as a function of tokens, which returns the loss."""
    compiles = way in ("compiled", "compiled swap", "pass")
    forward = torch.compile(model, dynamic=False) if compiles else model
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=2e-4, fused=True, capturable=way == "graph"
    )

    def step(batch: Tensor) -> Tensor:
        loss: Tensor = forward(input_ids=batch, labels=batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return captured(step, model, optimizer, first.clone()) if way == "graph" else step


def captured(step: Step, model: nn.Module, optimizer: torch.optim.Optimizer, batch: Tensor) -> Step:
    """The whole step as a CUDA graph; the steps that warm it up are taken back."""
    before = {name: value.clone() for name, value in model.state_dict().items()}
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step(batch)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(batch)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            value.copy_(before[name])
        for state in optimizer.state.values():
            for value in state.values():
                value.zero_()

    def replay(tokens: Tensor) -> Tensor:
        batch.copy_(tokens)
        graph.replay()
        return loss

    return replay


def trained(name: str, way: str, batches: list[Tensor]) -> dict[str, Any]:
    """Losses of all steps, milliseconds per step, and the peak of memory."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    with prepared(way):
        model = new_model(name)
        replaced = len(swap(model).replaced) if way in ("swap", "graph", "compiled swap") else 0
        step = training_step(way, model, batches[0])
        losses, times = [], []
        for number in range(STEPS):
            start = time.perf_counter()
            loss = step(batches[number % len(batches)]).clone()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) * 1e3)
            losses.append(loss.item())
        seen = torch._inductor.config.pre_grad_custom_pass if way == "pass" else None
    if isinstance(seen, inductor.GatedPass):
        replaced = sum(each.replaced for each in seen.seen)
    low, middle, high = statistics.quantiles(times[WARM:], n=4)
    peak = torch.cuda.max_memory_allocated() / 2**30
    return {"replaced": replaced, "ms": middle, "low": low, "high": high, "peak_gib": peak,
            "losses": losses}  # fmt: skip


def main() -> None:
    """Train in every way, print, and write where asked."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("model", choices=MODELS)
    options.add_argument("--way", action="append", choices=WAYS)
    options.add_argument("-o", "--output", type=Path)
    given = options.parse_args()
    batches, found = tokens(10), {}
    for way in given.way or WAYS:
        found[way] = at = trained(given.model, way, batches)
        first = next(iter(found.values()))["losses"]
        apart = max(abs(one - other) for one, other in zip(at["losses"], first, strict=True))
        print(
            f"{given.model} {way:<14} {at['ms']:6.2f} ms ({at['low']:.2f} to {at['high']:.2f}), "
            f"{at['replaced']} replaced, {at['peak_gib']:.2f} GiB, loss {at['losses'][-1]:.4f}, "
            f"at most {apart:.4f} from the first way",
            flush=True,
        )
        facts = {
            "command": shlex.join(["python", *sys.argv]),
            "card": torch.cuda.get_device_name(),
            "torch": str(torch.__version__),
            "ways": found,
        }
        if given.output:
            given.output.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
