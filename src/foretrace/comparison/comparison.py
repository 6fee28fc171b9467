"""`Comparison`: traces aligned and measured, as plain data. `sentences` puts it into words,
`document` into JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from foretrace.comparison.kernels import KernelTable, compare_kernels
from foretrace.comparison.launched import launch_recorded
from foretrace.comparison.measure import Measured, Sample, measured
from foretrace.comparison.ops import OpTable, compare_ops
from foretrace.comparison.record import UNKNOWN, read_record
from foretrace.comparison.repeats import Unit
from foretrace.comparison.sentences import changed, unchanged
from foretrace.comparison.side import Side, side
from foretrace.comparison.worth import Worth, pace_setter, unprofiled, worth
from foretrace.model.trace import Trace


@dataclass(frozen=True, slots=True)
class Comparison:
    """What B is, seen from A. Times are medians over the repeats of `unit`; counts are those of a
    typical repeat.

    `bare_wall_ns` and `bare_host_ns` are one unit without the profiler, from the run records of
    both, else unknown. With more than two traces `others` compares each further one with A.
    """

    unit: Unit
    a: Side
    b: Side
    kernels: KernelTable
    ops: OpTable
    gpu_ns: Measured
    cpu_ns: Measured
    wall_ns: Measured
    idle_ns: Measured
    pace_ns: Measured
    bare_wall_ns: Measured
    bare_host_ns: Measured
    cost_s: float | None
    others: tuple[Comparison, ...] = ()

    @property
    def changed(self) -> tuple[str, ...]:
        """What changed, one sentence each; empty when nothing did."""
        return changed(self)

    @property
    def unchanged(self) -> tuple[str, ...]:
        """What stayed as it was, or changed by no more than the noise; one sentence each."""
        return unchanged(self)

    @property
    def worth(self) -> Worth:
        """By times without the profiler where both run records have them, else by those of the
        traces.
        """
        if self.bare_wall_ns.saved is None:
            who = pace_setter(self.pace_ns, self.cpu_ns, self.gpu_ns)
            return worth(self.pace_ns, self.gpu_ns, self.cost_s, self.unit.word, who=who)
        how = unprofiled(self.bare_wall_ns, self.bare_host_ns)
        return worth(self.bare_wall_ns, self.gpu_ns, self.cost_s, self.unit.word, how)

    def _repr_html_(self) -> str:
        """The comparison as tables in a notebook; drawing lies above this, so it is found by name."""
        found: str = import_module("foretrace.render.html.notebook").comparison_html(self)
        return found


def compare_two(a: Trace, b: Trace, unit: Unit, compile_seconds: float | None) -> Comparison:
    """Compare the repeats of `unit` in B with those in A."""
    launch = launch_recorded(a, b)
    left, right = side(a, unit, launch), side(b, unit, launch)
    records = [read_record(trace.path) for trace in (a, b)]
    timed = all(record.times(unit) for record in records)
    walls = [record.wall if timed else UNKNOWN for record in records]
    hosts = [Sample(record.host_ns, None) if timed else UNKNOWN for record in records]
    return Comparison(
        unit,
        left,
        right,
        compare_kernels(left.kernels, right.kernels),
        compare_ops(left, right),
        gpu_ns=measured(left.gpu, right.gpu),
        cpu_ns=measured(left.cpu, right.cpu),
        wall_ns=measured(left.wall, right.wall),
        idle_ns=measured(left.idle, right.idle),
        pace_ns=measured(left.pace, right.pace),
        bare_wall_ns=measured(*walls),
        bare_host_ns=measured(*hosts),
        cost_s=compile_seconds if compile_seconds is not None else records[1].compile_s,
    )
