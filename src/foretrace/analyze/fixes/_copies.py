"""Copies between host and GPU in a step: the op that made each, and the tensor that it moved."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from foretrace.analyze.fixes._step import Step
from foretrace.model.costs import Tensor

LARGE = 1_000_000  # bytes: a copy of less is no work for the link
# What a link gives with pinned memory, in bytes per second: PCIe of the fourth and fifth generation
# (an H200's: 55 GB/s up and down). Only what is faster than the recorded copy counts.
LINK = 25e9
FAST_LINK = 55e9
FAST_CARDS = ("sm_90", "sm_10", "sm_12", "gfx94", "gfx95")
_MOVES = frozenset({"aten::to", "aten::_to_copy", "aten::copy_", "aten::cuda", "aten::cpu"})


class HostCopy(Struct, frozen=True):
    """A memcpy of a step: its row, the outermost op that only copies, and the tensor it moved."""

    row: int
    op: int
    bytes: int
    pageable: bool
    tensor: Tensor

    @property
    def key(self) -> tuple[tuple[int, ...], str]:
        """Equal for copies of tensors of one shape and type."""
        return self.tensor.dims, self.tensor.type


def host_copies(step: Step, way: str, least: int = LARGE) -> Iterator[HostCopy]:
    """Copies of at least this size whose ops recorded shapes; `way` is `HtoD` or `DtoH`."""
    gpu, host = step.trace.gpu, step.trace.host
    rows = step.rows[gpu.is_memcpy[step.rows] & (gpu.bytes[step.rows] >= least)]
    makers = host.nearest_op(gpu.launch[rows])
    for row, maker in zip(rows.tolist(), makers.tolist(), strict=True):
        name, call = step.name(int(gpu.id[row])), step.call(maker) if maker >= 0 else None
        tensor = call.tensor(1) if call and call.name == "aten::copy_" else None
        if tensor is not None and way in name:
            size = int(gpu.bytes[row])
            yield HostCopy(row, outermost_move(step, maker), size, "Pageable" in name, tensor)


def outermost_move(step: Step, event: int) -> int:
    """The call of `.to()` or `.cuda()` around a copy."""
    above = int(step.trace.host.parent[event])
    while above >= 0 and step.name(above) in _MOVES:
        event, above = above, int(step.trace.host.parent[above])
    return event


def link_rate(step: Step) -> float:
    """Bytes per second that the link gives with pinned memory."""
    arch = step.device.arch if step.device else ""
    return FAST_LINK if arch.startswith(FAST_CARDS) else LINK


def casts_of(step: Step, copy: HostCopy) -> dict[int, Tensor]:
    """Kernels that turn what was copied into another type, and what they make."""
    cases = {row: step.case(row) for row in step.rows.tolist()}
    calls = {row: case.call for row, case in cases.items() if case and case.call}
    pairs = {row: (call.tensor(1), call.tensor(0)) for row, call in calls.items()}
    return {
        row: target
        for row, (source, target) in pairs.items()
        if source and target and calls[row].name == "aten::copy_"
        if (source.dims, source.type) == copy.key and target.dims == source.dims
        if target.type != source.type
    }
