"""What compiles or captures: the forward pass, the loss, the optimizer's step, a function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F

from foretrace.record.tries.rounds import Edit
from foretrace.record.tries.session import GPU, ForwardSwitch, Session, Switch, tensors


class _Compile(ForwardSwitch):
    """Compile the forward pass of the outermost module, and with it its backward pass.

    Inductor rounds differently where it fuses. A model with dropout draws other random
    numbers: it is held to what another seed changes.
    """

    name, title, write = "compile", "torch.compile", "model = torch.compile(model)"
    realises: tuple[str, ...] = ("compile",)
    group, compiles = "compile", True
    mode: str | None = None

    def why_not(self) -> str:
        subject = self.session.outermost
        if subject is None:  # asking a compiled module whether it is true raises
            subject = self.session.call
        if subject is None:
            return "the script calls no module"
        # by name: importing Dynamo to ask takes seconds
        marks = ("_orig_mod", "_torchdynamo_orig_callable", "_compiled_call_impl")
        compiled = any(getattr(subject, mark, None) is not None for mark in marks)
        return "it is compiled already" if compiled and not self.recompiles(subject) else ""

    def recompiles(self, subject: Any) -> bool:
        """Whether what is compiled already is compiled again, in this mode."""
        return False

    def changed(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """The compiled forward pass; of a compiled module, that of the module inside."""
        inside = getattr(self.session.outermost, "_orig_mod", None)
        plain = forward if inside is None else inside.forward
        compiled: Callable[..., Any] = torch.compile(plain, mode=self.mode)
        return compiled

    def edits(self) -> list[Edit]:
        module = self.session.outermost
        if module is None or getattr(module, "_orig_mod", None) is not None:
            return []  # a function, or the script's own torch.compile is the line to change
        return self.after(compile_line(module, f'mode="{self.mode}"' if self.mode else ""))


class _CompileReduceOverhead(_Compile):
    """Compile the forward pass and replay it as CUDA graphs.

    This takes the host's launches away. Inputs must keep their shapes, and outputs of one step are
    overwritten by the next. A module that is compiled without CUDA graphs is compiled again with
    them.
    """

    name, title = "compile_reduce_overhead", "torch.compile, CUDA graphs"
    write = 'model = torch.compile(model, mode="reduce-overhead")'
    realises, devices = ("cuda_graph", "compile"), GPU
    mode = "reduce-overhead"

    def recompiles(self, subject: Any) -> bool:
        options: Mapping[str, Any] = getattr(subject, "get_compiler_config", dict)() or {}
        return hasattr(subject, "_orig_mod") and not options.get("triton.cudagraphs")


class _CompileMaxAutotune(_Compile):
    """Compile the forward pass and time several kernels for each matmul and convolution.

    Compiling takes minutes on a large model, so this is only tried on request.
    """

    name, title, rare = "compile_max_autotune", "torch.compile, autotuned", True
    write = 'model = torch.compile(model, mode="max-autotune-no-cudagraphs")'
    mode = "max-autotune-no-cudagraphs"


def compile_line(module: Any, options: str = "") -> str:
    """The line that compiles a module, with its name left open.

    `Module.compile` keeps the type and the names in the state dict. It compiles nothing where
    torch defines the forward pass, as that of `nn.Sequential`: Dynamo skips torch's own files.
    """
    if not type(module).forward.__module__.startswith("torch."):
        return f"{{name}}.compile({options})"
    return f"{{name}} = torch.compile({', '.join(filter(None, ['{name}', options]))})"


NAMES = ("cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div")
LOSSES = (*NAMES, *(name for name in dir(F) if name.endswith("_loss")))
# The passes over fewer values take some 10 us on a GPU, less than a compiled function's guards.
LEAST = 1_000_000


class _CompileLoss(Switch):
    """Compile the loss function that the script calls beside the model, with its backward pass.

    Seen are the functions of `torch.nn.functional` and the loss modules, which call them. What a
    function of the script computes around them stays as it is: nothing shows where it begins.
    """

    name, title, compiles = "compile_loss", "torch.compile of the loss", True
    write = "criterion = torch.compile(criterion), or torch.compile(F.cross_entropy)"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._most = 0
        self._compiled_runs = False
        self._lines: dict[int, str] = {}  # where the script makes its loss modules: what to add
        for name in LOSSES:
            setattr(F, name, self._switched(getattr(F, name)))

    def why_not(self) -> str:
        if not self._most:
            return "no loss function of torch is called beside the model"
        return "" if self._most >= LEAST else f"the loss reads no more than {self._most:,} values"

    def edits(self) -> list[Edit]:
        found = sorted(self._lines.items())
        return [Edit("after", words, line) for line, words in found] if all(self._lines) else []

    def _switched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        made: list[Callable[..., Any]] = []  # when it is first used: Dynamo takes seconds to load

        def compiled(*arguments: Any, **options: Any) -> Any:
            made.extend([] if made else [torch.compile(original)])
            self._compiled_runs = True  # Inductor calls losses itself, to trace its patterns
            try:
                return made[0](*arguments, **options)
            finally:
                self._compiled_runs = False

        def loss(*arguments: Any, **options: Any) -> Any:
            is_torchs = torch.compiler.is_compiling() or self._compiled_runs
            if is_torchs or not self._is_beside():
                return original(*arguments, **options)
            sizes = [each.numel() for each in tensors((arguments, options))]
            self._most = max([self._most, *sizes])
            return (compiled if self.on else original)(*arguments, **options)

        return loss

    def _is_beside(self) -> bool:
        """Whether the outermost module is not on the stack; the line of a loss module is kept."""
        frame: Any = sys._getframe(2)
        criterion: Any = frame.f_locals.get("self")
        while frame is not None:
            is_call = frame.f_code.co_name == "_call_impl"
            if is_call and frame.f_locals.get("self") is self.session.outermost:
                return False
            frame = frame.f_back
        is_module = isinstance(criterion, torch.nn.modules.loss._Loss)
        line = self.session.made_at.get(id(criterion), 0) if is_module else 0
        self._lines[line] = compile_line(criterion) if is_module else ""
        return True


class _CompileOptimizer(Switch):
    """Compile the optimizer's step into few kernels.

    It pays where the optimizer has no fused form. A learning rate that changes must be a tensor, or
    each new value compiles again.
    """

    name, title = "compile_optimizer", "compiled optimizer step"
    write, compiles = "step = torch.compile(optimizer.step)", True
    realises, devices = ("compile", "foreach_loop"), GPU

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._steps: dict[int, tuple[Any, Any]] = {}

    def why_not(self) -> str:
        if not self.session.optimizers:
            return "no optimizer"
        fused = any("fused" in each.defaults for each in self.session.optimizers)
        return "the optimizer has a fused form" if fused else ""

    def turn(self, on: bool) -> None:
        for each in self.session.optimizers:
            if id(each) not in self._steps:
                self._steps[id(each)] = each.step, torch.compile(each.step)
            each.step = self._steps[id(each)][on]


class _CudaGraph(ForwardSwitch):
    """Capture the function once as a CUDA graph and replay it: one launch for all its kernels.

    Only for a function whose inputs stay where they are (`bench.py:setup`). The step of a script
    reads new inputs each time; there `compile_reduce_overhead` is the way.
    """

    name, title = "cuda_graph", "CUDA graph"
    write = "with torch.cuda.graph(graph): out = step(); then graph.replay()"
    realises, devices, group = ("cuda_graph",), GPU, "compile"
    whole = True

    def why_not(self) -> str:
        return "" if self.session.call is not None else "only for file.py:function"

    def changed(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        graph: Any = torch.cuda.CUDAGraph()
        kept: list[Any] = []

        def replayed(*arguments: Any, **options: Any) -> Any:
            if not kept:
                side = torch.cuda.Stream()
                with torch.cuda.stream(side):
                    for _ in range(3):
                        forward(*arguments, **options)
                torch.cuda.current_stream().wait_stream(side)
                with torch.cuda.graph(graph):
                    kept.append(forward(*arguments, **options))
            graph.replay()
            return kept[0]

        return replayed
