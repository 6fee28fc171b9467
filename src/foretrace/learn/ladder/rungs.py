"""The rungs, lowest first, the stops of a climb, and the names of their traces.

`builders` runs the rungs; other packages add theirs as `foretrace.rungs`. `foretrace run` names the
trace of a setup as the recording of that setup is named, so a claim that names a recording names
its stop on every machine. Needs neither torch nor the reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from foretrace.base import plugins
from foretrace.base.errors import UsageError, nearest
from foretrace.schema.rung import COMPILED, GRAPHS, Built, Choice, Option, Rung, Setup


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


@dataclass(frozen=True, slots=True, eq=False)
class Stop:
    """One setup: a rung, a variant ("" is the first), and the options that are not the default.

    `cpu` holds sizes for a CPU where the rung's small ones do not fit.
    """

    rung: str
    variant: str = ""
    compiled: bool = False
    mode: str = "default"
    values: Mapping[str, Any] = field(default_factory=dict)
    cpu: Mapping[str, Any] = field(default_factory=dict)

    def choice(self, device: str) -> Choice:
        """What to run on `device`: the article's sizes on a GPU, small ones on a CPU."""
        small = device == "cpu"
        values = {**self.values, **(self.cpu if small else {})}
        variant = self.variant or None
        return Choice(variant, self.compiled, self.mode, None, device, small=small, values=values)

    def sizes(self, rung: Rung, device: str) -> dict[str, Any]:
        """The value of every option on `device`."""
        choice = self.choice(device)
        return rung.values(choice.values, small=choice.small)

    def title(self, rung: Rung, device: str) -> str:
        """`mlp compiled, 64x128x768x3072`."""
        return f"{self.rung} {self.label(rung)}, {' '.join(sizes(rung, self.sizes(rung, device)))}"

    def label(self, rung: Rung) -> str:
        """The variant and mode: `eager`, `compiled`, `compiled reduce-overhead`, `liger`."""
        return " ".join(_variant_words(rung, self.variant or rung.first, self.compiled, self.mode))

    def recording(self, rung: Rung) -> str:
        """The name of its recording on a GPU."""
        variant, values = self.variant or rung.first, self.sizes(rung, "cuda")
        setup = Setup("cuda", "bf16", variant, values)
        return f"ladder/{file_name(rung, setup, self.choice('cuda'))}"

    def gpu_only(self, rung: Rung) -> str:
        """Why a CPU has nothing to show; empty when it has."""
        return GRAPHS if self.mode == "reduce-overhead" else rung.gpu_only.get(self.variant, "")

    def is_baseline_of(self, other: Stop) -> bool:
        """Whether this is the first variant, eager, of the other's rung and options."""
        plain = not self.variant and not self.compiled and self is not other
        return plain and (self.rung, self.values) == (other.rung, other.values)


def file_name(rung: Rung, setup: Setup, choice: Choice) -> str:
    """`mlp_liger_64x128x768x3072_bf16`: what ran, at which sizes, in which dtype."""
    label = _variant_words(rung, setup.variant, choice.compiles, choice.mode)
    device = ["cpu"] if setup.device == "cpu" else []
    return "_".join([rung.name, *label, *sizes(rung, setup.values), setup.dtype, *device])


def sizes(rung: Rung, values: Mapping[str, Any]) -> list[str]:
    """`64x128x768x3072`, then the switches that are on."""
    given = [(option, values[option.name]) for option in rung.options]
    numbers = "x".join(str(value) for _, value in given if value and type(value) is int)
    words = [
        option.name if value is True else str(value)
        for option, value in given
        if isinstance(value, bool | str) and value != option.default
    ]
    return [numbers, *words]


def _variant_words(rung: Rung, variant: str, compiled: bool, mode: str) -> list[str]:
    if not compiled:
        return [variant]
    words = [COMPILED] if variant == rung.first else [variant, COMPILED]
    return words if mode == "default" else [*words, mode]


_LARGE: dict[str, Any] = {"values": {"size": 4096}, "cpu": {"size": 512}}
_FLAT: dict[str, Any] = {"values": {"size": 4096, "bias": "1d"}, "cpu": {"size": 512}}
_DEEP: dict[str, Any] = {"values": {"batch": 8, "seq": 128}}
_TRAINED: dict[str, Any] = {"values": {"backward": True}}

STOPS = (
    Stop("matmul_add"),
    Stop("matmul_add", compiled=True),
    Stop("matmul_add", compiled=True, mode="reduce-overhead"),
    Stop("matmul_add", "addmm"),
    Stop("matmul_add", **_LARGE),
    Stop("matmul_add", compiled=True, **_LARGE),
    Stop("matmul_add", "addmm", **_LARGE),
    Stop("matmul_add", "addmm", **_FLAT),
    Stop("linear"),
    Stop("linear", compiled=True),
    Stop("linear", **_DEEP),
    Stop("mlp"),
    Stop("mlp", compiled=True),
    Stop("mlp", compiled=True, mode="reduce-overhead"),
    Stop("mlp", "liger"),
    Stop("mlp", "liger_packed"),
    Stop("mlp", "fused"),
    Stop("mlp", **_TRAINED),
    Stop("mlp", compiled=True, **_TRAINED),
    *(Stop("attention", way) for way in ("", "inplace", "math", "efficient", "flash", "cudnn")),
    Stop("attention", compiled=True),
    Stop("block"),
    Stop("block", compiled=True),
    Stop("block", "liger"),
    Stop("block", "fused"),
    Stop("model"),
    Stop("model", compiled=True),
    *(Stop("train_step", way) for way in ("", "forloop", "fused")),
    Stop("train_step", compiled=True),
)
