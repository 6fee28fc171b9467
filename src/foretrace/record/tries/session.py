"""What the fixes of `applied/` share inside the script's process: what the script made and called.

A `Switch` is one fix there. It is made before the script runs, so that it can wrap what the script
will import. It changes nothing until it is turned on, and it is turned only when a step begins.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from foretrace.record.profiling.patches import ModuleHook, replaced
from foretrace.record.tries.rounds import Edit

# functions of torch that a fix may replace: ours must stay what they are
synchronize = torch.cuda.synchronize
TORCH = os.path.dirname(torch.__file__) + os.sep
SAMPLED = 256  # values of an output that are compared
GPU = ("cuda",)


class Session:
    """The script as the hooks see it. `outermost` is the module whose call begins a step.

    While `seed` is a number, each forward pass draws random numbers of its own, and what the script
    draws besides stays what it was: a compiled model may draw other numbers, or more of them.
    """

    def __init__(self, script: str, seed: int = 0) -> None:
        self.seed: int | None = seed
        self._random: tuple[Any, Any] | None = None
        self.files = {script, str(Path(script).resolve())}
        self.outermost: Any = None
        self.call: Any = None  # the function under test, where there is no script
        self.optimizers: list[Any] = []
        self.made_at: dict[int, int] = {}  # the line of the script that made an object, by id
        self.counts: Counter[str] = Counter()
        self.backwards = 0
        self.losses: list[list[Any]] | None = None  # one list per step while losses are kept
        self.outputs: list[Any] | None = None

    @property
    def device(self) -> str:
        """Where the script computes."""
        return "cuda" if torch.cuda.is_available() and torch.cuda.is_initialized() else "cpu"

    @property
    def parameters(self) -> list[Any]:
        """The parameters of the outermost module."""
        return [] if self.outermost is None else list(self.outermost.parameters())

    def modules(self, *kinds: type) -> list[Any]:
        """The modules of these types inside the outermost one."""
        every = () if self.outermost is None else self.outermost.modules()
        return [each for each in every if isinstance(each, kinds)]

    def line(self, made: object = None) -> int:
        """The line of the script that runs now, outside the methods of what is `made`; else 0."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename in self.files:
                first = frame.f_code.co_varnames[:1]  # of a method what is being made
                if made is None or not first or frame.f_locals.get(first[0]) is not made:
                    return int(frame.f_lineno)
            frame = frame.f_back
        return 0

    @staticmethod
    def by_user() -> bool:
        """Whether code outside torch called the function that asks."""
        return not sys._getframe(2).f_code.co_filename.startswith(TORCH)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Keep what the script makes: optimizers, and the losses that it differentiates."""
        tensor: Any = torch.Tensor
        with (
            replaced(torch.optim.Optimizer, "__init__", self._made),
            replaced(torch.nn.Module, "__init__", self._made),
            replaced(tensor, "backward", self._differentiated),
        ):
            yield

    def begin_with(self, module: Any) -> None:
        """The script's outermost module is about to be called for the first time."""
        self.outermost = module
        if self.call is None:
            self._draw_apart()  # this call has begun
            module.register_forward_pre_hook(ModuleHook(self._draw_apart))
            module.register_forward_hook(ModuleHook(self._called))

    def _draw_apart(self, *_: object) -> None:
        if torch.compiler.is_compiling():  # of a module that was compiled in place
            return
        if self.seed is not None and self._random is None:
            gpu = torch.cuda.get_rng_state() if self.device == "cuda" else None
            self._random = torch.get_rng_state(), gpu
            torch.manual_seed(self.seed * 1000 + self.counts["calls"])
            self.counts["calls"] += 1

    def _called(self, module: object, given: object, result: object) -> None:
        if torch.compiler.is_compiling():
            return
        if self._random is not None:
            torch.set_rng_state(self._random[0])
            if self._random[1] is not None:
                torch.cuda.set_rng_state(self._random[1])
            self._random = None
        self.keep_output(result)

    def keep_output(self, result: Any) -> None:
        """Keep what a call returned, and how it was computed, while outputs are kept."""
        if self.outputs is None:
            return
        found = list(tensors(result))[:4]
        self.counts["tracked"] += any(each.requires_grad for each in found)
        self.counts["autocast"] += torch.is_autocast_enabled(self.device)
        # a few values, evenly spaced, in memory of their own: a CUDA graph writes over its outputs
        flat = [each.detach().flatten() for each in found]
        kept = [each[:: max(1, each.numel() // SAMPLED)][:SAMPLED].double() for each in flat]
        self.outputs.append(kept)

    def _made(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def made(thing: Any, *arguments: Any, **options: Any) -> Any:
            self.made_at[id(thing)] = self.line(thing)
            if isinstance(thing, torch.optim.Optimizer):
                self.optimizers.append(thing)
            return original(thing, *arguments, **options)

        return made

    def _differentiated(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(loss: Any, *arguments: Any, **options: Any) -> Any:
            self.backwards += 1
            if self.losses and loss.numel() == 1:
                self.losses[-1].append(loss.detach().clone())
            return original(loss, *arguments, **options)

        return backward


class Switch:
    """One fix that needs no edit, inside the script's process; one with a `name` is tried.

    Its docstring is the manual. `realises` are the predicted fixes (`look.fixes`) that it
    carries out. `tolerance` is how far losses may differ from those of the untouched script, as a
    share. A `fresh` one cannot be turned while the script runs: the whole process has it. A `rare`
    one is only tried on request. `environment` is set before its process starts. Of those in one
    `group` only one can be on. One that `compiles` starts with an empty cache of Inductor, and
    takes long. `top` is a statement that does the same at the top of the script. One that replaces
    a function counts the `calls` of it: without any it says why it is `unused`.
    """

    name = title = write = group = top = unused = ""
    calls = 0
    realises: tuple[str, ...] = ()
    devices: tuple[str, ...] = ("cuda", "cpu")
    tolerance = 1e-3
    environment: Mapping[str, str] = {}
    on = fresh = rare = compiles = False

    def __init__(self, session: Session) -> None:
        self.session = session

    def why_not(self) -> str:
        """Why the script cannot use it, said after its first steps; empty where it can."""
        return "" if self.calls else self.unused

    def turn(self, on: bool) -> None:
        """Make the change, or take it back."""
        self.on = on

    def edits(self) -> list[Edit]:
        """What to write in the script, where its lines are known."""
        return [Edit("top", self.top)] if self.top else []

    def added(self, words: str, made: Iterable[Any]) -> list[Edit]:
        """Keywords for the calls in which the script makes these."""
        lines = [(each, self.session.made_at.get(id(each))) for each in made]
        return [Edit("add", words, line, type(each).__name__) for each, line in lines if line]

    def after(self, words: str) -> list[Edit]:
        """A statement below the one that makes the outermost module."""
        line = self.session.made_at.get(id(self.session.outermost), 0)
        return [Edit("after", words, line)] if line else []


class ForwardSwitch(Switch):
    """Runs the outermost forward pass, or the function, through what `changed` makes of it.

    The module's own hooks stay outside: they find the steps.
    """

    whole = False  # a function is changed as a whole, even where it calls a module
    _pair: tuple[Any, Any] | None = None  # as it was, and changed

    def changed(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """The forward pass to run instead."""
        raise NotImplementedError

    def turn(self, on: bool) -> None:
        """Replace the forward pass, or put it back; the change is made once."""
        owner: Any = self.session.outermost
        name = "forward"
        if owner is None or (self.whole and self.session.call is not None):
            owner, name = self.session, "call"
        if (now := getattr(owner, name, None)) is None:
            return
        self._pair = self._pair or (now, self.changed(now))
        setattr(owner, name, self._pair[on])


def tensors(result: Any) -> Iterator[Any]:
    """The floating-point tensors in what a call returned, in order."""
    if isinstance(result, torch.Tensor):
        if result.is_floating_point():
            yield result
    elif isinstance(result, Mapping | list | tuple):
        for each in result.values() if isinstance(result, Mapping) else result:
            yield from tensors(each)
