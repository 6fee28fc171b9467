"""What is another way for some time: functions of torch, hooks on one module, settings.

A value of torch.compile that a program sets holds in one thread (torch 2.13; in 2.8 in all), and a
backward pass may be compiled in another. So the default is changed, which holds in every thread and
gives way to a value that the program sets. A module that is not loaded yet reads an environment
variable: loading it takes seconds, and would be too early for the variables that a script sets.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, NamedTuple


@contextmanager
def replaced(owner: Any, name: str, wrapped: Callable[[Any], Any]) -> Iterator[None]:
    """Inside the block `owner.name` is what `wrapped` makes of it."""
    original = getattr(owner, name)
    setattr(owner, name, wrapped(original))
    try:
        yield
    finally:
        setattr(owner, name, original)


class ModuleHook:
    """A hook of ours on a module of the script.

    A module's hooks are part of it: `copy.deepcopy` and `torch.save` take them along. In a copy
    this one becomes a function that does nothing, and loads without this package.
    """

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *given: Any) -> Any:
        """What the hook of ours gives."""
        return self._call(*given)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")


class Setting(NamedTuple):
    """A setting of Inductor, the variable that sets it, its value here and as torch has it."""

    name: str
    variable: str
    value: int
    usual: object


# Without a range around it a C++ kernel is not in a trace.
KERNEL_NAMES = Setting(
    "cpp.enable_kernel_profile",
    "TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE",
    True,
    False,
)
RECORDS = (
    # From which nodes a kernel came. Before torch 2.9 that needs a folder of debug files.
    Setting("trace.provenance_tracking_level", "INDUCTOR_PROVENANCE", 1, 0),
    # A graph from a cache leaves no record of the scheduler. AOTAutograd's cache needs this one.
    Setting("fx_graph_cache", "TORCHINDUCTOR_FX_GRAPH_CACHE", False, True),
    Setting("fx_graph_remote_cache", "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE", False, None),
)


def for_records() -> tuple[Setting, ...]:
    """What complete records need; a GPU's trace has the names of its kernels anyway."""
    import torch

    return RECORDS if torch.cuda.is_available() else (*RECORDS, KERNEL_NAMES)


@contextmanager
def applied(settings: tuple[Setting, ...]) -> Iterator[None]:
    """Inside the block torch.compile has these settings."""
    with ExitStack() as stack:
        for setting in settings:
            stack.callback(_restore_variable, setting.variable, os.environ.get(setting.variable))
            stack.callback(_set(setting))
            os.environ[setting.variable] = str(int(setting.value))
        yield


def _set(setting: Setting) -> Callable[[], None]:
    """Set a setting that is loaded; returns what puts it back."""
    entry = _entry(setting)
    if entry is None:
        return lambda: _as_usual(setting)
    # where the user's variable gave the value, it is stronger than the default
    name = "env_value_force" if _is_forced(entry) else "default"
    before = getattr(entry, name)
    setattr(entry, name, setting.value)
    return lambda: setattr(entry, name, before)


def _as_usual(setting: Setting) -> None:
    """Undo what our variable did to a setting that was loaded inside the block."""
    entry = _entry(setting)
    if entry is not None and _is_forced(entry):
        entry.env_value_force = _unset()
    elif entry is not None:
        entry.default = setting.usual


def _entry(setting: Setting) -> Any:
    """A setting as torch keeps it; None where Inductor is not loaded, or does not have it."""
    return getattr(sys.modules.get("torch._inductor.config"), "_config", {}).get(setting.name)


def _is_forced(entry: Any) -> bool:
    return getattr(entry, "env_value_force", _unset()) is not _unset()


def _unset() -> object:
    from torch.utils import _config_module

    return _config_module._UNSET_SENTINEL


def _restore_variable(name: str, value: str | None) -> None:
    os.environ.pop(name, None)  # the program may have emptied the environment
    if value is not None:
        os.environ[name] = value
