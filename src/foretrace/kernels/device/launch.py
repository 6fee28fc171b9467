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
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton.runtime.jit import JITFunction

_VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])

# Descriptors kept per tensor of a launch. Allocators hand out the same places again: a model has
# some hundred.
_MOST_DESCRIBED = 4096

# Of a grid, a stream and all arguments.
Launcher = Callable[[int, int, tuple[Any, ...]], None]
# Of tensors; all else is fixed.
Launch = Callable[..., None]


def interpreted(kernel: Any) -> bool:
    """Whether TRITON_INTERPRET=1 was set when `kernel` was defined, so that it runs on a CPU."""
    return not isinstance(kernel, JITFunction)


class TmaPlace(NamedTuple):
    """What TMA reads or writes: tensor number `which` of a launch from element `offset` on, as a
    matrix, in blocks.
    """

    which: int
    shape: tuple[int, int]
    strides: tuple[int, int]
    block_shape: tuple[int, int]
    offset: int = 0


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
        self._ready: dict[tuple[int, int], Any] = {}

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

    def can_launch(self, tensors: Sequence[Tensor]) -> bool:
        """Whether nothing is left to load, or it may be: a graph that is captured can load none."""
        first, pointers = tensors[0], [tensor.data_ptr() for tensor in tensors]
        if (first.get_device(), _off_grid(pointers)) in self._ready:
            return True
        return not (first.is_cuda and torch.cuda.is_current_stream_capturing())

    def bound(
        self, grid: int, device: int, integers: Sequence[int], *, aligned: bool = True
    ) -> Launch:
        """`launch` as a function of tensors on the current device; `aligned`: all on the grid."""
        key, tail = (device, 0), (*integers, *self.fixed)

        def launch(*tensors: Tensor) -> None:
            ready = self._ready.get(key) if aligned else None
            if ready is None:
                self.launch(grid, tensors, integers)
                return
            stream = torch._C._cuda_getCurrentRawStream(device)
            ready(grid, stream, (*[tensor.data_ptr() for tensor in tensors], *tail))

        return launch

    def bound_to(
        self, grid: int, device: int, places: Sequence[TmaPlace], integers: Sequence[int],
        describe: Callable[[Tensor, TmaPlace], Any], others: int = 0,
    ) -> Launch:  # fmt: skip
        """As `bound`, for a kernel that takes descriptors of `places`, then the addresses of the
        last `others` tensors. All tensors are on the grid.

        A descriptor is made once for each address: Triton makes all of them at every launch, which
        takes 40 us for six. `describe` makes one as Triton takes it when it compiles.
        """
        made: list[tuple[TmaPlace, dict[int, list[Any]]]] = [(place, {}) for place in places]
        tail = (*integers, *self.fixed)

        def launch(*tensors: Tensor) -> None:
            ready = self._ready.get((device, 0))
            if ready is None:
                described = [describe(tensors[place.which], place) for place in places]
                arguments = (*described, *tensors[len(tensors) - others :], *tail)
                binary = self.kernel[(grid, 1, 1)](*arguments, **self.options)
                self._ready[device, 0] = _described_launcher(binary)
                return
            enter, make = ready
            pointers = [tensor.data_ptr() for tensor in tensors]
            given: list[Any] = []
            for number, (place, known) in enumerate(made):
                pointer = pointers[place.which]
                found = known.get(pointer)
                if found is None:
                    if len(known) >= _MOST_DESCRIBED:
                        known.clear()
                    start = pointer + place.offset * tensors[place.which].element_size()
                    found = known[pointer] = make(start, place, number)
                given += found
            stream = torch._C._cuda_getCurrentRawStream(device)
            enter(grid, stream, (*given, *pointers[len(pointers) - others :], *tail))

        return launch

    def _launch_through_triton(
        self, grid: int, tensors: Sequence[Tensor], integers: Sequence[int], key: tuple[int, int]
    ) -> None:
        arguments = (*tensors, *integers, *self.fixed)
        if interpreted(self.kernel):
            self.kernel[(grid, 1, 1)](*arguments, **self.options)
            return
        with torch.cuda.device(key[0]):
            binary = self.kernel[(grid, 1, 1)](*arguments, **self.options)
        self._ready[key] = _launcher(binary)


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
        return _entered(run.launch, binary)
    return lambda grid, stream, arguments: run(
        grid, 1, 1, stream, function, metadata, None, None, None, *arguments
    )


def _entered(enter: Any, binary: Any) -> Launcher:
    run, function, metadata = binary.run, binary.function, binary.packed_metadata
    cooperative, dependent = run.launch_cooperative_grid, run.launch_pdl
    return lambda grid, stream, arguments: enter(
        grid, 1, 1, stream, function, cooperative, dependent, None, None, metadata,
        None, None, None, *arguments,
    )  # fmt: skip


def _described_launcher(binary: Any) -> tuple[Launcher, Callable[..., list[Any]]] | None:
    """As `_launcher`, and a function that describes a place at an address, by its number."""
    run = binary.run
    inside = getclosurevars(run.launch).nonlocals if _VERSION == (3, 6) else {}
    enter, kinds = inside.get("launcher"), inside.get("tensordesc_meta")
    if enter is None or not kinds or None in kinds or run.global_scratch_size:
        return None
    from triton.backends.nvidia.driver import make_tensordesc_arg

    def make(start: int, place: TmaPlace, number: int) -> list[Any]:
        # What Triton reads of a tensor and its descriptor; its own class checks all of it.
        base = SimpleNamespace(data_ptr=lambda: start)
        about = {"shape": place.shape, "strides": place.strides, "padding": "zero"}
        return list(make_tensordesc_arg(SimpleNamespace(base=base, **about), kinds[number]))

    return _entered(enter, binary), make
