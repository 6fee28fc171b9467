"""What a rung of the ladder is: `Rung`, the declaration each file of `ladder/` makes.

Plain data: the declarations are listed, and their recorded traces are judged, on machines without
torch. Only the `build` function of a rung imports torch, and only when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from foretrace.errors import UsageError

COMPILED = "compiled"  # every rung has this variant: its first one under torch.compile
DTYPES = ("auto", "bf16", "fp16", "fp32")
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@dataclass(frozen=True, slots=True)
class Option:
    """One size or switch of a rung; its type is that of `default` (a bool is a flag, a str may have
    `choices`).

    `small` takes the place of `default` when the rung runs with `--small`: a few seconds on two
    cores instead of minutes. A number is at least 1, or 0 where 0 is the default and means none.
    """

    name: str
    default: int | str | bool
    help: str
    small: int | str | bool | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """What a person asks for. `values` holds only the options that were given; `variant` None is
    the rung's first.

    `dynamic` goes to `torch.compile` as it is: None is torch's own way, static shapes first and
    dynamic ones after a change.
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
        return self.compile or self.variant == COMPILED


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything `Rung.build` needs: where, in which type, which variant, and the value of every
    option.

    `compile` is `torch.compile` with the chosen mode when the run asks for it, and the identity
    otherwise: a rung applies it to what a person would compile (the module, not the whole loop) and
    asks no further.
    """

    device: str
    dtype: str
    variant: str
    values: Mapping[str, Any]
    compile: Callable[[Any], Any]

    def __getitem__(self, name: str) -> Any:
        """The value of one option: `setup["batch"]`."""
        return self.values[name]


@dataclass(frozen=True, slots=True)
class Built:
    """A rung ready to run: one `call` is one step, `region` names its `record_function` range.

    `facts` go into the run record as they are: which build of a library ran, how many parameters,
    what was passed over.
    """

    call: Callable[[], object]
    region: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rung:
    """One rung: what it runs, in which variants (name and one line of help; the first is the
    default), at which sizes.

    Every rung also has the variant `compiled`: the first one under `torch.compile`.
    `claims` are the predictions that this rung can decide.
    """

    name: str
    title: str
    options: tuple[Option, ...]
    variants: Mapping[str, str]
    build: Callable[[Setup], Built]
    claims: tuple[Any, ...] = ()

    def values(self, given: Mapping[str, Any], *, small: bool = False) -> dict[str, Any]:
        """The value of every option: what was given, else the small or the full default."""
        return {option.name: _value(option, given, small) for option in self.options}


def _value(option: Option, given: Mapping[str, Any], small: bool) -> Any:
    value = given.get(option.name)
    if value is not None:
        least = min(1, int(option.default)) if type(option.default) is int else None
        if least is not None and value < least:
            raise UsageError(f"{option.name} cannot be {value}: it is at least {least}")
        return value
    return option.small if small and option.small is not None else option.default
