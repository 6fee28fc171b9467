"""Where a climb stops: the setups that the articles speak of, and those above them, lowest first.

Each has a recording of the same name as `foretrace run` would give it, so a claim that names a
recording names its stop, on every machine. Needs neither torch nor the reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from foretrace.ladder._names import file_name, sizes
from foretrace.schema.rung import COMPILED, Choice, Rung, Setup


@dataclass(frozen=True, slots=True, eq=False)
class Stop:
    """One setup: a rung, a variant ("" for its first), and the options that differ from the rung's
    own.

    `cpu` are sizes for a CPU where the rung's small ones do not do; `gpu_only` says why a CPU has
    nothing to show. `earlier` is an older recording of the same setup, which claims may name
    instead.
    """

    rung: str
    variant: str = ""
    compiled: bool = False
    mode: str = "default"
    values: Mapping[str, Any] = field(default_factory=dict)
    cpu: Mapping[str, Any] = field(default_factory=dict)
    gpu_only: str = ""
    earlier: str = ""

    def choice(self, device: str) -> Choice:
        """What to run on `device`: the article's sizes on a GPU, small ones on a CPU."""
        on_cpu = device == "cpu"
        return Choice(
            variant=self.variant or None,
            compile=self.compiled,
            mode=self.mode,
            device=device,
            small=on_cpu,
            values={**self.values, **(self.cpu if on_cpu else {})},
        )

    def sizes(self, rung: Rung, device: str) -> dict[str, Any]:
        """The value of every option on `device`."""
        choice = self.choice(device)
        return rung.values(choice.values, small=choice.small)

    def title(self, rung: Rung, device: str) -> str:
        """`mlp compiled, 64x128x768x3072`."""
        return f"{self.rung} {self.label(rung)}, {' '.join(sizes(rung, self.sizes(rung, device)))}"

    def label(self, rung: Rung) -> str:
        """The way it is done: `eager`, `compiled`, `compiled reduce-overhead`, `liger`."""
        words = (
            [self.variant] if self.variant else [] if self.compiled else [next(iter(rung.variants))]
        )
        words += [COMPILED] if self.compiled else []
        return " ".join([*words, *([self.mode] if self.mode != "default" else [])])

    def recording(self, rung: Rung) -> str:
        """The name of its recording on a GPU."""
        variant, values = self.variant or next(iter(rung.variants)), self.sizes(rung, "cuda")
        setup = Setup("cuda", "bf16", variant, values, compile=lambda thing: thing)
        return f"ladder/{file_name(rung, setup, self.choice('cuda'))}"

    def begins(self, other: Stop) -> bool:
        """Whether the other is compared with this one: the same rung and options, its first variant
        as it is.
        """
        plain = not self.variant and not self.compiled
        return (
            plain and self is not other and (self.rung, self.values) == (other.rung, other.values)
        )


GRAPHS = "reduce-overhead is made of CUDA graphs, which need a GPU"
_OWN = "foretrace's own kernels need a GPU; a CPU runs plain torch in their place"
_LARGE: dict[str, Any] = {"values": {"size": 4096}, "cpu": {"size": 512}}
_FLAT: dict[str, Any] = {"values": {"size": 4096, "bias": "1d"}, "cpu": {"size": 512}}
_DEEP: dict[str, Any] = {"values": {"batch": 8, "seq": 128}}
_BACKWARD: dict[str, Any] = {"values": {"backward": True}}

STOPS = (
    Stop("matmul_add", earlier="matmul_add_64_eager"),
    Stop("matmul_add", compiled=True, earlier="matmul_add_64_compiled"),
    Stop("matmul_add", compiled=True, mode="reduce-overhead", gpu_only=GRAPHS),
    Stop("matmul_add", "addmm"),
    Stop("matmul_add", **_LARGE, earlier="matmul_add_4096_eager"),
    Stop("matmul_add", compiled=True, **_LARGE, earlier="matmul_add_4096_compiled"),
    Stop("matmul_add", "addmm", **_LARGE),
    Stop("matmul_add", "addmm", **_FLAT),
    Stop("linear", earlier="linear_eager"),
    Stop("linear", compiled=True, earlier="linear_compiled"),
    Stop("linear", **_DEEP),
    Stop("mlp", earlier="mlp_eager"),
    Stop("mlp", compiled=True, earlier="mlp_compiled"),
    Stop("mlp", compiled=True, mode="reduce-overhead", gpu_only=GRAPHS),
    Stop("mlp", "liger", earlier="mlp_liger"),
    Stop("mlp", "fused", gpu_only=_OWN),
    Stop("mlp", **_BACKWARD, earlier="mlp_eager_train"),
    Stop("mlp", compiled=True, **_BACKWARD),
    Stop("attention"),
    Stop("attention", "inplace"),
    Stop("attention", "math"),
    Stop("attention", "efficient"),
    Stop("attention", "flash"),
    Stop("attention", "cudnn"),
    Stop("attention", compiled=True),
    Stop("block"),
    Stop("block", compiled=True),
    Stop("block", "liger"),
    Stop("block", "fused", gpu_only=_OWN),
    Stop("model"),
    Stop("model", compiled=True),
    Stop("train_step"),
    Stop("train_step", "forloop"),
    Stop("train_step", "fused"),
    Stop("train_step", compiled=True),
)


def gpu_only(rung: str, variant: str) -> str:
    """Why a CPU has nothing to show for this variant; empty when it has."""
    found = (
        stop.gpu_only
        for stop in STOPS
        if (stop.rung, stop.variant, stop.compiled) == (rung, variant, False)
    )
    return next((why for why in found if why), "")
