"""A language model from Hugging Face transformers, built from a configuration, random weights.

Nothing is downloaded: the shapes of a model select its kernels, the values of its weights do not.
"""

from __future__ import annotations

from typing import Any

from foretrace.base.errors import MissingError
from foretrace.schema.rung import Built, Option, Rung, Setup


def build(setup: Setup) -> Built:
    """One forward over (batch, seq) tokens, without a key-value cache."""
    import torch

    from foretrace.learn.ladder.modules import parameters_of, place

    try:
        import transformers
    except ImportError as problem:
        message = "the model rung needs transformers: pip install transformers"
        raise MissingError(message) from problem
    config = _config(transformers, setup)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    model = model.to(**place(setup)).eval()
    tokens = torch.randint(setup["vocab"], (setup["batch"], setup["seq"]), device=setup.device)
    function = setup.compile(model)

    def call() -> object:
        with torch.no_grad():
            return function(input_ids=tokens, use_cache=False).logits

    facts = {"transformers": transformers.__version__, "parameters": parameters_of(model)}
    return Built(call, region="model_fwd", facts=facts)


def _config(transformers: Any, setup: Setup) -> Any:
    from foretrace.learn.ladder.modules import head_size

    names = ("layers", "dim", "heads", "hidden", "vocab", "seq")
    layers, dim, heads, hidden, vocab, seq = (setup[name] for name in names)
    features = head_size(dim, heads)
    if setup.variant == "gpt2":
        sizes = {"n_layer": layers, "n_embd": dim, "n_head": heads, "n_inner": hidden}
        tokens = {"vocab_size": vocab, "bos_token_id": 0, "eos_token_id": 0}
        return transformers.GPT2Config(**sizes, **tokens, n_positions=max(seq, 1024))
    kind = transformers.GemmaConfig if setup.variant == "gemma" else transformers.LlamaConfig
    sizes = {"num_hidden_layers": layers, "hidden_size": dim, "intermediate_size": hidden}
    sizes |= {"num_attention_heads": heads, "num_key_value_heads": heads, "head_dim": features}
    return kind(**sizes, vocab_size=vocab, max_position_embeddings=max(seq, 2048))


DECODER_SIZES = (
    Option("batch", 4, "sequences", small=1),
    Option("seq", 512, "tokens per sequence", small=32),
    Option("layers", 4, "transformer layers", small=2),
    Option("dim", 768, "features", small=64),
    Option("heads", 12, "heads", small=4),
    Option("hidden", 3072, "features inside the MLP", small=128),
    Option("vocab", 32000, "vocabulary", small=512),
)
RUNG = Rung(
    name="model",
    title="a Hugging Face model from its configuration, random weights",
    options=DECODER_SIZES,
    variants={
        "llama": "Llama-shaped: RMSNorm, rotary positions, SwiGLU",
        "gemma": "Gemma-shaped: RMSNorm, rotary positions, GeGLU, tied embeddings",
        "gpt2": "GPT-2-shaped: LayerNorm, learned positions, plain GELU MLP with biases",
    },
    build=build,
)
