"""`Comparison`: two traces aligned and measured, as data."""

from __future__ import annotations

from msgspec import Struct

from foretrace.comparison.kernels import KernelTable
from foretrace.comparison.measure import Change
from foretrace.comparison.ops import OpTable
from foretrace.comparison.repeats import Unit
from foretrace.comparison.side import Side
from foretrace.comparison.worth import pace_setter, unprofiled, worth
from foretrace.schema.display import Displayed
from foretrace.schema.documents.compare import Worth


class Comparison(Displayed, Struct, frozen=True):
    """B compared with A: medians over the repeats of `unit`, counts of a typical repeat.

    `bare_wall_ns` and `bare_host_ns` are one unit without the profiler, unknown unless both run
    records have them. `changed` and `unchanged` (within the noise) have one sentence each. With
    more than two traces `others` compares each further one with A.
    """

    unit: Unit
    a: Side
    b: Side
    kernels: KernelTable
    ops: OpTable
    gpu_ns: Change
    cpu_ns: Change
    wall_ns: Change
    idle_ns: Change
    pace_ns: Change
    bare_wall_ns: Change
    bare_host_ns: Change
    cost_s: float | None
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    others: tuple[Comparison, ...] = ()

    @property
    def worth(self) -> Worth:
        """By times without the profiler where both run records have them, else by the traces."""
        if self.bare_wall_ns.saved is None:
            who = pace_setter(self.pace_ns, self.cpu_ns, self.gpu_ns)
            return worth(self.pace_ns, self.gpu_ns, self.cost_s, self.unit.word, who=who)
        how = unprofiled(self.bare_wall_ns, self.bare_host_ns)
        return worth(self.bare_wall_ns, self.gpu_ns, self.cost_s, self.unit.word, how)
