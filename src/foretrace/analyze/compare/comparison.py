"""`Comparison`: two traces aligned and measured, as data."""

from __future__ import annotations

from msgspec import Struct

from foretrace.analyze.compare.changes import WorkChange
from foretrace.analyze.compare.kernels import KernelTable
from foretrace.analyze.compare.measure import Change
from foretrace.analyze.compare.ops import OpTable
from foretrace.analyze.compare.repeats import RepeatUnit
from foretrace.analyze.compare.side import Side
from foretrace.analyze.compare.worth import weigh
from foretrace.schema.display import Displayed, View, view
from foretrace.schema.documents.compare import CompareVerdict, Worth


class Comparison(Displayed, Struct, frozen=True):
    """B compared with A: medians over the repeats of `unit`, counts of a typical repeat.

    `verdict` says whether B is faster. `work` has one row for each change on the GPU; its rows add
    up to the GPU work of both sides. `bare_wall_ns` and `bare_host_ns` are one unit without the
    profiler, unknown unless both run records have them. `changed` and `unchanged` (within the
    noise) have one sentence each. With more than two traces `others` compares each further one
    with A.
    """

    unit: RepeatUnit
    a: Side
    b: Side
    verdict: CompareVerdict
    work: tuple[WorkChange, ...]
    kernels: KernelTable
    ops: OpTable
    gpu_ns: Change
    cpu_ns: Change
    wall_ns: Change
    idle_ns: Change
    bare_wall_ns: Change
    bare_host_ns: Change
    cost_s: float | None
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    others: tuple[Comparison, ...] = ()

    @property
    def worth(self) -> Worth:
        """What the change saves against what it costs once."""
        return weigh(self.verdict, self.gpu_ns, self.cost_s, self.unit.word)

    def plot(self) -> View:
        """All its traces on one ruler, for a notebook."""
        more = (other.b.trace for other in self.others)
        return view("timeline", self.a.trace, self.b.trace, *more)
