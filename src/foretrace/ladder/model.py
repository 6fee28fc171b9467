"""A whole language model from Hugging Face transformers, made from a configuration, with random
weights.

Nothing is downloaded: the shape of a model decides its kernels, the values of its weights do not.
"""

from __future__ import annotations

from typing import Any

from foretrace.errors import MissingError
from foretrace.schema.rung import Built, Option, Rung, Setup


def build(setup: Setup) -> Built:
    """One forward over (batch, seq) tokens, without a key-value cache."""
    import torch

    from foretrace.ladder._climb import torch_dtype
    from foretrace.ladder._modules import parameters_of

    try:
        import transformers
    except ImportError as problem:
        raise MissingError(
            "the model rung needs transformers: pip install transformers"
        ) from problem
    config = _config(transformers, setup)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    model = model.to(device=setup.device, dtype=torch_dtype(setup.dtype)).eval()
    tokens = torch.randint(setup["vocab"], (setup["batch"], setup["seq"]), device=setup.device)
    function = setup.compile(model)

    def call() -> object:
        with torch.no_grad():
            return function(input_ids=tokens, use_cache=False).logits

    facts = {"transformers": transformers.__version__, "parameters": parameters_of(model)}
    return Built(call, region="model_fwd", facts=facts)


def _config(transformers: Any, setup: Setup) -> Any:
    from foretrace.ladder._modules import head_size

    layers, dim, heads, hidden, vocab, seq = (
        setup[name] for name in ("layers", "dim", "heads", "hidden", "vocab", "seq")
    )
    features = head_size(dim, heads)
    if setup.variant == "gpt2":
        return transformers.GPT2Config(
            n_layer=layers,
            n_embd=dim,
            n_head=heads,
            n_inner=hidden,
            vocab_size=vocab,
            n_positions=max(seq, 1024),
            bos_token_id=0,
            eos_token_id=0,
        )
    kind = transformers.GemmaConfig if setup.variant == "gemma" else transformers.LlamaConfig
    return kind(
        num_hidden_layers=layers,
        hidden_size=dim,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=features,
        intermediate_size=hidden,
        vocab_size=vocab,
        max_position_embeddings=max(seq, 2048),
    )


RUNG = Rung(
    name="model",
    title="a Hugging Face model from its configuration, random weights",
    options=(
        Option("batch", 4, "sequences", small=1),
        Option("seq", 512, "tokens per sequence", small=32),
        Option("layers", 4, "transformer layers", small=2),
        Option("dim", 768, "features", small=64),
        Option("heads", 12, "heads", small=4),
        Option("hidden", 3072, "features inside the MLP", small=128),
        Option("vocab", 32000, "vocabulary", small=512),
    ),
    variants={
        "llama": "Llama-shaped: RMSNorm, rotary positions, SwiGLU",
        "gemma": "Gemma-shaped: RMSNorm, rotary positions, GeGLU, tied embeddings",
        "gpt2": "GPT-2-shaped: LayerNorm, learned positions, plain GELU MLP with biases",
    },
    build=build,
)
