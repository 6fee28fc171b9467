"""The rungs, lowest first; `builders` runs them. Other packages add theirs as `foretrace.rungs`."""

from __future__ import annotations

from collections.abc import Callable

from foretrace.base import plugins
from foretrace.base.errors import UsageError, nearest
from foretrace.schema.rung import Built, Option, Rung, Setup


def _build(name: str) -> Callable[[Setup], Built]:
    """The builder of that name, imported when it is called: listing rungs needs no torch."""

    def build(setup: Setup) -> Built:
        from foretrace.learn.ladder import builders

        built: Built = getattr(builders, name)(setup)
        return built

    return build


def _sequences(batch: int, seq: int, *, small: tuple[int, int]) -> tuple[Option, Option]:
    return (
        Option("batch", batch, "sequences", small=small[0]),
        Option("seq", seq, "tokens per sequence", small=small[1]),
    )


_BACKWARD = Option("backward", False, "also run the backward of the sum")
_GPU_ONLY = {"fused": "foretrace's own kernels need a GPU; a CPU runs plain torch instead"}
_DECODER_SIZES = (
    *_sequences(4, 512, small=(1, 32)),
    Option("layers", 4, "transformer layers", small=2),
    Option("dim", 768, "features", small=64),
    Option("heads", 12, "heads", small=4),
    Option("hidden", 3072, "features inside the MLP", small=128),
    Option("vocab", 32000, "vocabulary", small=512),
)
_RUNGS = (
    Rung(
        name="matmul_add",
        title="add(matmul(x, w), b): two kernels, and what the host spends on them",
        options=(
            Option("size", 64, "rows and columns of every matrix"),
            Option("batch", 0, "leading batch dimension; 0 for plain matrices"),
            Option("bias", "2d", "shape of b", choices=("2d", "1d")),
        ),
        variants={"eager": "a matmul and an add", "addmm": "one torch.addmm, written by hand"},
        build=_build("matmul_add"),
    ),
    Rung(
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
        build=_build("linear"),
    ),
    Rung(
        name="mlp",
        title="a GeGLU MLP: which kernels fuse, and which do not",
        options=(
            *_sequences(64, 128, small=(4, 32)),
            Option("dim", 768, "features in and out", small=128),
            Option("hidden", 3072, "features between", small=512),
            _BACKWARD,
        ),
        variants={
            "eager": "plain torch: three linears, gelu, mul",
            "liger": "Liger's LigerGEGLUMLP: gelu and mul in one Triton kernel (needs a GPU)",
            "liger_packed": "Liger's kernel on two halves of one matmul, which it copies first",
            "fused": "foretrace's own GeGLUMLP",
        },
        build=_build("mlp"),
        gpu_only=_GPU_ONLY,
        layers=("gate", "up", "down"),
    ),
    Rung(
        name="attention",
        title="causal attention: written out, and through each SDPA backend",
        options=(
            Option("batch", 8, "sequences", small=1),
            Option("heads", 16, "heads", small=4),
            Option("seq", 1024, "tokens per sequence", small=128),
            Option("head_dim", 64, "features per head", small=32),
        ),
        variants={
            "naive": "written out; the mask makes a copy",
            "inplace": "written out; the mask is applied in place",
            "math": "SDPA, math backend",
            "efficient": "SDPA, memory-efficient backend (needs a GPU)",
            "flash": "SDPA, flash backend",
            "cudnn": "SDPA, cuDNN backend (needs a GPU)",
        },
        build=_build("attention"),
    ),
    Rung(
        name="block",
        title="a pre-norm transformer block: attention, gated MLP, norms and residuals",
        options=(
            *_sequences(8, 1024, small=(1, 64)),
            Option("dim", 768, "features", small=64),
            Option("heads", 12, "heads", small=4),
            Option("hidden", 3072, "features inside the MLP", small=128),
            _BACKWARD,
        ),
        variants={
            "eager": "plain torch",
            "liger": "with Liger's LigerGEGLUMLP (needs a GPU)",
            "fused": "with foretrace's own GeGLUMLP",
        },
        build=_build("block"),
        gpu_only=_GPU_ONLY,
    ),
    Rung(
        name="model",
        title="a Hugging Face model from its configuration, random weights",
        options=_DECODER_SIZES,
        variants={
            "llama": "Llama-shaped: RMSNorm, rotary positions, SwiGLU",
            "gemma": "Gemma-shaped: RMSNorm, rotary positions, GeGLU, tied embeddings",
            "gpt2": "GPT-2-shaped: LayerNorm, learned positions, plain GELU MLP with biases",
        },
        build=_build("model"),
    ),
    Rung(
        name="train_step",
        title="a training step: forward, backward and AdamW",
        options=_DECODER_SIZES,
        variants={
            "foreach": "AdamW over groups of weights (torch's default on a GPU)",
            "forloop": "AdamW weight by weight",
            "fused": "AdamW as one fused kernel per group",
        },
        build=_build("train_step"),
    ),
)
ORDER = tuple(rung.name for rung in _RUNGS)


def rungs() -> list[Rung]:
    """Every rung, lowest first; those of other packages come after ours."""
    more = plugins.entries(Rung, "foretrace.rungs")
    return [*_RUNGS, *sorted(more, key=lambda rung: rung.name)]


def rung(name: str) -> Rung:
    """The rung of that name."""
    known = {each.name: each for each in rungs()}
    if name in known:
        return known[name]
    hint = nearest(name, known, f"choose from {', '.join(known)}")
    raise UsageError(f"no rung named {name!r}: {hint}")
