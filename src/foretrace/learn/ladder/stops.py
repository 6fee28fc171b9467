"""The stops of a climb, lowest first, and the names of their traces.

`foretrace run` names the trace of a setup as the recording of that setup is named, so a claim that
names a recording names its stop on every machine. Needs neither torch nor the reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from foretrace.schema.rung import COMPILED, GRAPHS, Choice, Rung, Setup


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
_BACKWARD: dict[str, Any] = {"values": {"backward": True}}

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
    Stop("mlp", **_BACKWARD),
    Stop("mlp", compiled=True, **_BACKWARD),
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
