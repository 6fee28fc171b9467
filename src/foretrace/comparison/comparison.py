"""`Comparison`: traces aligned and measured. `sentences` has the words, `document` the JSON."""

from __future__ import annotations

from msgspec import Struct

from foretrace.comparison.kernels import KernelTable, compare_kernels
from foretrace.comparison.launched import launch_recorded
from foretrace.comparison.measure import Change, Sample, measured
from foretrace.comparison.ops import OpTable, compare_ops
from foretrace.comparison.repeats import Unit
from foretrace.comparison.sentences import changed, unchanged
from foretrace.comparison.side import Side, side
from foretrace.comparison.worth import pace_setter, unprofiled, worth
from foretrace.model.trace import Trace
from foretrace.schema.display import Displayed
from foretrace.schema.documents.compare import Worth
from foretrace.schema.run_record import RecordedRun, read_run


class Comparison(Displayed, Struct, frozen=True):
    """B compared with A. Times are medians over the repeats of `unit`; counts are those of a
    typical repeat.

    `bare_wall_ns` and `bare_host_ns` are one unit without the profiler, unknown unless both run
    records have them. With more than two traces `others` compares each further one with A.
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
    others: tuple[Comparison, ...] = ()

    @property
    def changed(self) -> tuple[str, ...]:
        """What changed, one sentence each; empty when nothing did."""
        return changed(self)

    @property
    def unchanged(self) -> tuple[str, ...]:
        """What stayed the same, or changed by no more than the noise; one sentence each."""
        return unchanged(self)

    @property
    def worth(self) -> Worth:
        """By times without the profiler where both run records have them, else by the traces."""
        if self.bare_wall_ns.saved is None:
            who = pace_setter(self.pace_ns, self.cpu_ns, self.gpu_ns)
            return worth(self.pace_ns, self.gpu_ns, self.cost_s, self.unit.word, who=who)
        how = unprofiled(self.bare_wall_ns, self.bare_host_ns)
        return worth(self.bare_wall_ns, self.gpu_ns, self.cost_s, self.unit.word, how)


def compare_two(a: Trace, b: Trace, unit: Unit, compile_seconds: float | None) -> Comparison:
    """Compare the repeats of `unit` in B with those in A."""
    launch = launch_recorded(a, b)
    left, right = side(a, unit, launch), side(b, unit, launch)
    runs = [read_run(trace.path) for trace in (a, b)]
    timed = all(_timed(run, unit) for run in runs)
    hosts = [Sample(run.timing.host_ns_per_call) if timed else Sample() for run in runs]
    return Comparison(
        unit,
        left,
        right,
        compare_kernels(left.kernels, right.kernels),
        compare_ops(left.ops, right.ops),
        gpu_ns=measured(left.gpu, right.gpu),
        cpu_ns=measured(left.cpu, right.cpu),
        wall_ns=measured(left.wall, right.wall),
        idle_ns=measured(left.idle, right.idle),
        pace_ns=measured(left.pace, right.pace),
        bare_wall_ns=measured(*(_wall(run) if timed else Sample() for run in runs)),
        bare_host_ns=measured(*hosts),
        cost_s=compile_seconds if compile_seconds is not None else runs[1].compile.seconds,
    )


def _timed(run: RecordedRun, unit: Unit) -> bool:
    """Whether a record timed the unit: a step is one call, and so is the region it names."""
    return unit.kind == "step" or (unit.kind == "region" and unit.name == run.rung.region)


def _wall(run: RecordedRun) -> Sample:
    """The spread is the range of the batches, which is wider than a standard deviation."""
    wall, spread = run.timing.wall_ns_per_call, run.timing.wall_spread
    return Sample(wall, wall * spread if wall is not None and spread is not None else None)
