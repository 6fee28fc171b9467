"""`KernelRow`: the row of one kernel, in every answer.

The launches of one kernel name with one signature of the op above them are one kernel. A fact about
a kernel is a field here, and nowhere else: `trace.kernel_rows`, `look`, `compare`, `why`, the pages
and predictions all read it. A field with a `Fact` says itself how it is worked out, and is in every
table of kernels too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from msgspec import Struct

from foretrace.work.kernel import CacheUse, KernelId

if TYPE_CHECKING:
    from foretrace.work.costs import OpCall


class Fact(Struct, frozen=True):
    """A field that follows from other columns of `trace.kernel_cases`: `of` takes such a row.

    One with a `head` is a column of `look --kernels` and of the CSV, and a word for predictions;
    `unit` is that of `base.tables.Column`.
    """

    of: Callable[[Mapping[str, Any]], Any]
    head: str = ""
    unit: str = "count"


@cache
def facts() -> dict[str, Fact]:
    """The fields of `KernelRow` that say how they are worked out."""
    hints = get_type_hints(KernelRow, include_extras=True)
    notes = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    return {name: note for name, all_of in notes.items() for note in all_of if type(note) is Fact}


class KernelRow(Struct, frozen=True, kw_only=True, dict=True):
    """Kernels of one name and op shapes.

    `number` is its place in `trace.kernel_cases`, `first` the event of its first launch. `count`,
    `total_ns` and the median are over all launches; `in_steps` and `in_steps_ns` are over those in
    steps, and null where there are no steps. `ops` launched it, and `chain` holds the ops above the
    first launch, outermost first. `shapes` are sizes and types of the op's operands. FLOP and bytes
    are per launch. `precision` names the peak that the FLOP count against, `roof_percent` is of the
    nearest roof, and `limited_by` says what holds the kernel there or below.

    `source` is the line that launched it. `sources` are all lines that a compiled kernel comes
    from, where the compiler's records are beside the trace. `cache_use` is of kernels that are
    faster than HBM: which inputs can have been in L2.
    """

    name: str
    short: str = ""
    family: str = ""
    role: str = ""
    fields: Mapping[str, Any] = {}
    number: int = -1
    first: Annotated[int, Fact(lambda case: case["kernels"][0])] = -1
    count: int = 0
    in_steps: int | None = None
    per_step: int | float | None = None
    total_ns: int | None = None
    in_steps_ns: int | None = None
    median_ns: int | float | None = None
    min_ns: int | None = None
    max_ns: int | None = None
    ops: list[str] = []
    chain: list[str] = []
    shapes: str | None = None
    flops: int | None = None
    bytes: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    tflops: float | None = None
    gbps: float | None = None
    precision: str = ""
    bound: str = ""
    roof_percent: float | None = None
    limited_by: str = ""
    cost_certainty: str = "none"
    cost_note: str | None = None
    modules: list[str] = []
    source: str | None = None
    sources: list[str] = []
    cache_use: CacheUse | None = None

    @cached_property
    def id(self) -> KernelId:
        """What the name says."""
        return KernelId(self.name, self.short, self.family, self.role, self.fields)

    @property
    def op(self) -> str:
        """The first op that launched it; "" where none did."""
        return self.ops[0] if self.ops else ""

    @property
    def call(self) -> OpCall | None:
        """The first recorded call of that op; None without one, and in a row read from JSON."""
        call: OpCall | None = self.__dict__.get("_call")
        return call

    def with_call(self, call: OpCall | None) -> KernelRow:
        """This row, which now knows the call."""
        self.__dict__["_call"] = call
        return self

    @property
    def launches(self) -> int:
        """The launches that count: those in steps, where there are steps."""
        return self.count if self.in_steps is None else self.in_steps

    @property
    def ns(self) -> int:
        """The time of the launches that count."""
        return (self.total_ns if self.in_steps is None else self.in_steps_ns) or 0
