"""What a rung of the ladder is: `Rung`, which `ladder/rungs.toml` lists.

Plain data, so that rungs are listed without torch: only `Rung.build` imports it, when called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from foretrace.base.errors import UsageError

COMPILED = "compiled"  # every rung has this variant: its first one under torch.compile
DTYPES = ("auto", "bf16", "fp16", "fp32")
GRAPHS = "reduce-overhead uses CUDA graphs, which need a GPU"
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@dataclass(frozen=True, slots=True)
class Option:
    """One size or switch of a rung, of the type of `default`: a bool is a flag.

    `small` replaces `default` with `--small`, which runs in seconds on two cores. A number is at
    least 1, or 0 where 0 is the default and means none.
    """

    name: str
    default: int | str | bool
    help: str
    small: int | str | bool | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """What a user selects. `values` holds the options given; `variant` None is the first variant.

    `dynamic` goes to `torch.compile` unchanged.
    """

    variant: str | None = None
    compile: bool = False
    mode: str = "default"
    dynamic: bool | None = None
    device: str = "auto"
    dtype: str = "auto"
    small: bool = False
    seed: int = 0
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def compiles(self) -> bool:
        """Whether the run uses `torch.compile`."""
        return self.compile or self.variant == COMPILED


@dataclass(frozen=True, slots=True)
class Setup:
    """What `Rung.build` needs: device, dtype, variant, and the value of every option.

    `compile` is `torch.compile` in the chosen mode, or the identity. A rung applies it to what a
    user would compile: the module, not the whole loop.
    """

    device: str
    dtype: str
    variant: str
    values: Mapping[str, Any]
    compile: Callable[[Any], Any] = lambda thing: thing

    def __getitem__(self, name: str) -> Any:
        """The value of one option: `setup["batch"]`."""
        return self.values[name]


@dataclass(frozen=True, slots=True)
class Built:
    """One `call` is a step, `region` its `record_function` range; the run record has `facts`."""

    call: Callable[[], object]
    region: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rung:
    """One rung: what it runs, its options, and its variants (name and help; the first is default).

    Every rung also has the variant `compiled`: the first one under `torch.compile`. `layers` names
    its matmuls in launch order, which a trace does not. `gpu_only` says for a variant why a CPU has
    nothing to show.
    """

    name: str
    title: str
    options: tuple[Option, ...]
    variants: Mapping[str, str]
    build: Callable[[Setup], Built]
    layers: tuple[str, ...] = ()
    gpu_only: Mapping[str, str] = field(default_factory=dict)

    @property
    def first(self) -> str:
        """The default variant."""
        return next(iter(self.variants))

    def values(self, given: Mapping[str, Any], *, small: bool = False) -> dict[str, Any]:
        """The value of every option: what was given, else the small or the full default."""
        return {option.name: _value(option, given, small) for option in self.options}


def _value(option: Option, given: Mapping[str, Any], small: bool) -> Any:
    value = given.get(option.name)
    if value is None:
        return option.small if small and option.small is not None else option.default
    least = min(1, int(option.default)) if type(option.default) is int else None
    if least is not None and value < least:
        raise UsageError(f"{option.name} cannot be {value}: the minimum is {least}")
    return value
