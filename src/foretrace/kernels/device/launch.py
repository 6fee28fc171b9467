"""Launches a Triton kernel with little host time.

Triton binds and hashes every argument on each call, which takes longer than a small kernel runs. A
`Variant` is a kernel with its constexprs chosen; it keeps its binary and launches it as Triton's
launcher does. This is correct because a variant fixes all that Triton specialises on: one dtype,
integers declared `do_not_specialize` with a fixed type, and pointers on the 16-byte grid. Pointers
off that grid go through Triton.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton
from torch import Tensor
from triton.runtime.jit import JITFunction

_VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])

Launcher = Callable[..., None]


def interpreted(kernel: Any) -> bool:
    """Whether TRITON_INTERPRET=1 was set when `kernel` was defined, so that it runs on a CPU."""
    return not isinstance(kernel, JITFunction)


class Variant:
    """A kernel for one dtype, with its constexprs `fixed` (in order) and its options."""

    __slots__ = ("_ready", "fixed", "kernel", "options")

    def __init__(self, kernel: Any, fixed: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.kernel, self.fixed, self.options = kernel, fixed, options
        self._ready: dict[int, Launcher] = {}

    def launch(self, grid: int, tensors: Sequence[Tensor], integers: Sequence[int]) -> None:
        """Run over a one-dimensional `grid` on the current stream of the tensors' device."""
        device = tensors[0].get_device()
        ready = self._ready.get(device)
        if ready is not None and torch._C._cuda_getDevice() == device:
            pointers = [tensor.data_ptr() for tensor in tensors]
            misaligned = 0
            for pointer in pointers:
                misaligned |= pointer
            if not misaligned & 15:
                stream = torch._C._cuda_getCurrentRawStream(device)
                ready(grid, stream, (*pointers, *integers, *self.fixed))
                return
        self._launch_through_triton(grid, tensors, integers, device)

    def _launch_through_triton(
        self, grid: int, tensors: Sequence[Tensor], integers: Sequence[int], device: int
    ) -> None:
        arguments = (*tensors, *integers, *self.fixed)
        if interpreted(self.kernel):
            self.kernel[(grid, 1, 1)](*arguments, **self.options)
            return
        with torch.cuda.device(device):
            binary = self.kernel[(grid, 1, 1)](*arguments, **self.options)
        launcher = _launcher(binary)
        if launcher is not None and all(tensor.data_ptr() % 16 == 0 for tensor in tensors):
            self._ready[device] = launcher


def _launcher(binary: Any) -> Launcher | None:
    """A function (grid, stream, arguments) that launches as this Triton does; None if unknown."""
    run, function, metadata = binary.run, binary.function, binary.packed_metadata
    if not (3, 6) <= _VERSION <= (3, 9):
        return None
    if _VERSION == (3, 6) and not (run.global_scratch_size or run.profile_scratch_size):
        # Without scratch memory the Python half of Triton's launcher has nothing to do.
        enter, cooperative, dependent = run.launch, run.launch_cooperative_grid, run.launch_pdl
        return lambda grid, stream, arguments: enter(
            grid, 1, 1, stream, function, cooperative, dependent, None, None, metadata,
            None, None, None, *arguments,
        )  # fmt: skip
    return lambda grid, stream, arguments: run(
        grid, 1, 1, stream, function, metadata, None, None, None, *arguments
    )
