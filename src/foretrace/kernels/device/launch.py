"""Launches a Triton kernel with little host time.

Triton binds and hashes every argument on each call, which takes longer than a small kernel runs. A
`Variant` is a kernel with its constexprs chosen; it keeps its binary and launches it as Triton's
launcher does. This is correct because all that Triton specialises on is fixed: a variant has one
dtype, its integers are declared `do_not_specialize` with a fixed type, and it keeps a binary for
each set of pointers that are off the 16-byte grid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import getclosurevars
from typing import Any

import torch
import triton
from torch import Tensor
from triton.runtime.jit import JITFunction

_VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])

# Descriptors kept per kernel. Allocators hand out the same places again: a model has some hundred.
_MOST_DESCRIBED = 4096

Launcher = Callable[..., None]


def interpreted(kernel: Any) -> bool:
    """Whether TRITON_INTERPRET=1 was set when `kernel` was defined, so that it runs on a CPU."""
    return not isinstance(kernel, JITFunction)


class Variant:
    """A kernel for one dtype, with its constexprs `fixed` (in order) and its options.

    `anywhere`: the kernel assumes nothing about where its tensors lie.
    """

    __slots__ = ("_ready", "anywhere", "fixed", "kernel", "options")

    def __init__(
        self,
        kernel: Any,
        fixed: tuple[Any, ...],
        options: dict[str, Any],
        *,
        anywhere: bool = False,
    ) -> None:
        self.kernel, self.fixed, self.options, self.anywhere = kernel, fixed, options, anywhere
        self._ready: dict[tuple[int, int], Launcher] = {}

    def launch(self, grid: int, tensors: Sequence[Tensor], integers: Sequence[int]) -> None:
        """Run over a one-dimensional `grid` on the current stream of the tensors' device."""
        device = tensors[0].get_device()
        pointers = [tensor.data_ptr() for tensor in tensors]
        key = device, 0 if self.anywhere else _off_grid(pointers)
        ready = self._ready.get(key)
        if ready is not None and torch._C._cuda_getDevice() == device:
            stream = torch._C._cuda_getCurrentRawStream(device)
            ready(grid, stream, (*pointers, *integers, *self.fixed))
            return
        self._launch_through_triton(grid, tensors, integers, key)

    def launch_described(
        self, grid: int, device: int, described: Sequence[Any], others: Sequence[Tensor | int]
    ) -> None:
        """As `launch`, for a kernel that takes descriptors, then `others`: integers, and tensors
        that it finds by their address. All tensors are on the 16-byte grid.
        """
        ready = self._ready.get((device, 0))
        if ready is not None and torch._C._cuda_getDevice() == device:
            stream = torch._C._cuda_getCurrentRawStream(device)
            ready(grid, stream, (described, (*others, *self.fixed)))
            return
        arguments = (*(each.checked() for each in described), *others, *self.fixed)
        with torch.cuda.device(device):
            binary = self.kernel[(grid, 1, 1)](*arguments, **self.options)
        launcher = _described_launcher(binary)
        if launcher is not None:
            self._ready[device, 0] = launcher

    def _launch_through_triton(
        self, grid: int, tensors: Sequence[Tensor], integers: Sequence[int], key: tuple[int, int]
    ) -> None:
        arguments = (*tensors, *integers, *self.fixed)
        if interpreted(self.kernel):
            self.kernel[(grid, 1, 1)](*arguments, **self.options)
            return
        with torch.cuda.device(key[0]):
            binary = self.kernel[(grid, 1, 1)](*arguments, **self.options)
        launcher = _launcher(binary)
        if launcher is not None:
            self._ready[key] = launcher


def _off_grid(pointers: Sequence[int]) -> int:
    """Which pointers are off the 16-byte grid, a bit each."""
    together = 0
    for pointer in pointers:
        together |= pointer
    if not together & 15:
        return 0
    return sum(1 << number for number, pointer in enumerate(pointers) if pointer & 15)


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


def _described_launcher(binary: Any) -> Launcher | None:
    """As `_launcher`, for arguments (descriptors, rest): a descriptor is made once for each place
    in memory. Triton makes all of them at every launch, which takes 40 us for six.
    """
    run, function, metadata = binary.run, binary.function, binary.packed_metadata
    inside = getclosurevars(run.launch).nonlocals if _VERSION == (3, 6) else {}
    enter, kinds = inside.get("launcher"), inside.get("tensordesc_meta")
    if enter is None or not kinds or None in kinds or run.global_scratch_size:
        return None
    from triton.backends.nvidia.driver import make_tensordesc_arg

    made: dict[tuple[Any, ...], list[Any]] = {}

    def launch(grid: int, stream: int, arguments: tuple[Sequence[Any], tuple[Any, ...]]) -> None:
        described, rest = arguments
        given: list[Any] = []
        for number, each in enumerate(described):
            place = number, each.base.data_ptr(), each.shape, each.strides
            if place not in made:
                if len(made) >= _MOST_DESCRIBED:
                    made.clear()
                made[place] = make_tensordesc_arg(each, kinds[number])
            given += made[place]
        enter(
            grid, 1, 1, stream, function, run.launch_cooperative_grid, run.launch_pdl, None, None,
            metadata, None, None, None, *given, *rest,
        )  # fmt: skip

    return launch
