"""The ladder: from one matmul to a training step, the rungs of `rungs.toml`.

`run` captures one rung, `climb` all of them to mark the articles' claims. `builders` has a function
for each rung; other packages add theirs as `foretrace.rungs`. `run` names the trace of a setup as
the recording of that setup is named, so a claim that names a recording names its stop on every
machine.
Listing rungs needs no torch: only `run` and `Rung.build` import it.
"""

from __future__ import annotations

import os
import tomllib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretrace.base import plugins
from foretrace.base.errors import UsageError, nearest
from foretrace.record.profiling import need_torch
from foretrace.record.rung import COMPILED, GRAPHS, Built, Choice, Option, Rung, Setup

if TYPE_CHECKING:
    from foretrace.record.profiling.window import Capture

__all__ = ["ORDER", "run", "rung", "rungs"]


def run(
    rung: Rung, choice: Choice, folder: str | os.PathLike[str] = "traces", **options: Any
) -> Capture:
    """Capture one rung into `folder`; `options` are those of `capture_call`."""
    need_torch()
    import torch

    from foretrace.record.experiments.machine import prepare
    from foretrace.record.profiling.window import capture_call

    setup = prepare(rung, choice)
    # A page of C++ frames about bf16 on such a CPU: it works, slowly.
    warnings.filterwarnings("ignore", message="mkldnn_matmul failed")
    torch.manual_seed(choice.seed)
    built = rung.build(setup)
    ran = {
        "name": rung.name,
        "variant": setup.variant,
        "compiled": choice.compiles,
        "mode": choice.mode if choice.compiles else None,
        "device": setup.device,
        "dtype": setup.dtype,
        "seed": choice.seed,
        "region": built.region,
        "options": dict(setup.values),
        "facts": dict(built.facts),
    }
    path = Path(folder) / file_name(rung, setup, choice)
    return capture_call(built.call, path, region=built.region, facts={"rung": ran}, **options)


def _rung(name: str, options: dict[str, Any], **rest: Any) -> Rung:
    def build(setup: Setup) -> Built:
        from foretrace.learn.ladder import builders  # listing rungs needs no torch

        built: Built = getattr(builders, name)(setup)
        return built

    rest |= {"layers": tuple(rest.get("layers", ())), "build": build}
    listed = (
        Option(each, **{**how, "choices": tuple(how.get("choices", ()))})
        for each, how in options.items()
    )
    return Rung(name, options=tuple(listed), **rest)


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
    """One setup: a rung, a variant ("" is the first), and the options that are not the default."""

    rung: Rung
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

    def title(self, device: str) -> str:
        """`mlp compiled, 64x128x768x3072`."""
        choice = self.choice(device)
        values = self.rung.values(choice.values, small=choice.small)
        return f"{self.rung.name} {self.label}, {' '.join(sizes(self.rung, values))}"

    @property
    def label(self) -> str:
        """The variant and mode: `eager`, `compiled`, `compiled reduce-overhead`, `liger`."""
        variant = self.variant or self.rung.first
        return " ".join(_variant_words(self.rung, variant, self.compiled, self.mode))

    @property
    def recording(self) -> str:
        """The name of its recording on a GPU."""
        variant, choice = self.variant or self.rung.first, self.choice("cuda")
        setup = Setup("cuda", "bf16", variant, self.rung.values(choice.values))
        return f"ladder/{file_name(self.rung, setup, choice)}"

    @property
    def gpu_only(self) -> str:
        """Why a CPU has nothing to show; empty when it has."""
        graphs = self.mode == "reduce-overhead"
        return GRAPHS if graphs else self.rung.gpu_only.get(self.variant, "")

    def is_baseline_of(self, other: Stop) -> bool:
        """Whether this is the first variant, eager, of the other's rung and options."""
        plain = not self.variant and not self.compiled and self is not other
        return plain and self.rung is other.rung and self.values == other.values


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


_READ = tomllib.loads(Path(__file__).with_name("rungs.toml").read_text(encoding="utf-8"))
_STOPS = {name: entry.pop("stops") for name, entry in _READ.items()}
_RUNGS = tuple(_rung(name, **entry) for name, entry in _READ.items())
ORDER = tuple(_READ)
STOPS = tuple(Stop(rung, **stop) for rung in _RUNGS for stop in _STOPS[rung.name])
