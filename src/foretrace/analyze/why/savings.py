"""Time that kernels spend on some of their bytes, by the trace: the most that could be saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from foretrace.schema.compiler import KernelCall

if TYPE_CHECKING:
    from foretrace.analyze.why.launches import CallRun


class Measured:
    """What a trace says about calls: `ran` gives the runs of one."""

    def __init__(
        self, ran: Callable[[KernelCall], Sequence[CallRun]], bytes_per_s: float | None
    ) -> None:
        self.ran, self.bytes_per_s = ran, bytes_per_s

    def whole(self, call: KernelCall) -> int:
        """Time of all runs."""
        return sum(run.ns for run in self.ran(call))

    def spent(
        self, call: KernelCall, count: int | None, names: Iterable[str], other: KernelCall
    ) -> int | None:
        """Time that all runs of a call spend on `count` bytes, never more than all of it.

        Where shapes are dynamic, `count` is None and the bytes are those of the named tensors in
        each run of this call or the other. A generated loop moves bytes at its own rate. What a
        library's kernel or a template computes meanwhile is not known: its bytes count at the
        GPU's bandwidth.
        """
        runs, total = self.ran(call), 0.0
        computes = call.extern or call.kernel.startswith("triton_tem_")
        sizes = _sizes(names, runs, self.ran(other)) if count is None else [count] * len(runs)
        for run, size in zip(runs, sizes, strict=True):
            if size is None or (computes and not self.bytes_per_s):
                return None
            if not computes and run.bytes:
                total += run.ns * min(size / run.bytes, 1.0)
            elif self.bytes_per_s:
                total += min(size / self.bytes_per_s * 1e9, run.ns)
        return round(total) if runs else None


def _sizes(
    names: Iterable[str], runs: Sequence[CallRun], others: Sequence[CallRun]
) -> Iterator[int | None]:
    wanted = tuple(names)
    for place, run in enumerate(runs):
        known: dict[str, int | None] = {}
        for each in (*others[place : place + 1], run):
            for access in each.call.accesses if each.call else ():
                known[access.tensor.name] = access.tensor.bytes
        found = [known.get(name) for name in wanted]
        yield None if None in found else sum(size for size in found if size is not None)
