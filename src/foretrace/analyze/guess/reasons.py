"""Known reasons why a sensible prediction misses, one function each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from foretrace.analyze.guess.amounts import EQUALS, Amount, Compare
from foretrace.analyze.guess.evidence import Evidence, GpuOperation
from foretrace.analyze.guess.fields import Field
from foretrace.analyze.guess.kinds import Measurement, Query
from foretrace.analyze.guess.measures import Measure
from foretrace.analyze.guess.selection import select
from foretrace.analyze.guess.selectors import Selector
from foretrace.analyze.guess.windows import Scope, windows_of
from foretrace.base import plugins


@dataclass(frozen=True, slots=True)
class Miss:
    """A prediction that missed: its kind, its query, what was measured."""

    kind: str
    query: Query
    found: Measurement

    @property
    def evidence(self) -> Evidence:
        """The evidence of the trace that missed."""
        return self.query.windows[0].evidence

    @property
    def operations(self) -> list[GpuOperation]:
        """The GPU operations that decided it, each distinct one once."""
        window = self.found.window
        found = [window.evidence.operation(row) for row in self.found.rows] if window else []
        return list({id(operation): operation for operation in found}.values())

    def has_family(self, word: str, *, anywhere: bool = False) -> bool:
        """Whether one of the operations (of the whole trace: `anywhere`) is of such a family."""
        found = self.evidence.operations if anywhere else self.operations
        return any(word in operation.ident.family for operation in found)

    @property
    def selector(self) -> Selector | None:
        """What was counted or measured."""
        left = self.query.args.get("left")
        found = self.query.args.get("what", left.selector if isinstance(left, Measure) else None)
        return found if isinstance(found, Selector) else None

    @property
    def compare(self) -> str:
        """The symbol of the comparison; empty without one."""
        compare = self.query.args.get("compare")
        return compare.symbol if isinstance(compare, Compare) else ""

    @property
    def wants_some(self) -> bool:
        """Whether the prediction was that something exists, not that nothing does."""
        return self.query.args.get("quantifier") in ("every", "some")

    def excess(self, kind: str) -> float:
        """How many more of that kind there are than predicted; negative for fewer, 0 for others."""
        counted = self.kind in ("counts", "launches")
        if not counted or self.selector is None or self.selector.kind != kind:
            return 0
        wanted = self.query.args.get("number")
        seen = len(self.found.rows) + len(self.found.events)
        return seen - (wanted.value if isinstance(wanted, Amount) else 0)

    def too_few(self, kind: str) -> bool:
        """Whether a count predicted more of that kind than there are."""
        return self.kind == "counts" and self.excess(kind) < 0

    def names(self, word: str) -> bool:
        """Whether a name in the prediction (of a call, a kernel, an op) begins with `word`."""
        values = self.query.args.values()
        texts = [text for value in values for text in (value, getattr(value, "name", ""))]
        return any(isinstance(text, str) and text.startswith(word) for text in texts)


Explains = Callable[[Miss], bool]


@dataclass(frozen=True, slots=True)
class Reason:
    """`explains` says whether this is the likely reason of a miss.

    `text` is the reason, `source` where it was seen, `example` a prediction that misses for it.
    """

    name: str
    explains: Explains
    example: str
    text: str
    source: str


_REASONS: list[Reason] = []


def _reason(example: str, text: str, source: str) -> Callable[[Explains], Explains]:
    """List the function below as a reason; its name is that of the reason."""

    def listed(explains: Explains) -> Explains:
        _REASONS.append(Reason(explains.__name__.lstrip("_"), explains, example, text, source))
        return explains

    return listed


def _too_many_below(miss: Miss, kind: str, *ops: str) -> bool:
    """More of that kind than predicted, launched by one of these ops."""
    below = any(operation.chain and operation.chain[-1] in ops for operation in miss.operations)
    return below and miss.excess(kind) > 0


@_reason(
    "in matmul_add: same gemm kernels as A",
    "The names differ in one word, bz and badd: the product now adds to an output that already "
    "contains the bias. Tile, pipeline and layout are the same.",
    "an H200, torch 2.11: nvjet_…_bz_…NNT in A, nvjet_…_badd_…NNT here",
)
def _added_in_place(miss: Miss) -> bool:
    if miss.kind != "same" or not miss.query.others:
        return False
    mine = {operation.name for operation in miss.operations}
    other = miss.query.others[0]
    theirs = {other.evidence.operation(row).name for row in other.rows.tolist()}
    return any(name not in theirs and name.replace("_badd_", "_bz_") in theirs for name in mine)


@_reason(
    "in matmul_add: memcpy == 0",
    "aten::addmm first copies a 2-D bias into the output, and the product adds to it. A 1-D "
    "bias is added in the epilogue and needs no copy.",
    "an H200, torch 2.11: Memcpy DtoD inside aten::addmm, then a product named badd",
)
def _addmm_copy(miss: Miss) -> bool:
    return _too_many_below(miss, "memcpy", "aten::addmm")


@_reason(
    "in linear_fwd: cpu time < 1x of A",
    "Every compiled call runs Dynamo's cache lookup, the guards and the runtime wrapper. With "
    "few ops that takes longer than the dispatch it saves.",
    "an H200, torch 2.11: linear_fwd takes the host 107 us in eager mode and 264 us compiled "
    "(medians, includes profiler overhead)",
)
def _compiled_overhead(miss: Miss) -> bool:
    left, others = miss.query.args.get("left"), miss.query.others
    if miss.kind != "ratios" or not isinstance(left, Measure) or not others:
        return False
    slower = left.name == "cpu time" and miss.compare in ("<", "<=")
    return slower and miss.evidence.is_compiled and not others[0].evidence.is_compiled


@_reason(
    "in mlp_fwd: gate, up, gelu, mul, down",
    "The kernels are the same, the order differs. Launches follow Python's evaluation order: "
    "gelu(gate(x)) * up(x) launches gelu before up. A compiler can group them differently.",
    "an H200, torch 2.11: eager launches gate, gelu, up, mul, down; compiled gate, up, "
    "gelu+mul, down",
)
def _evaluation_order(miss: Miss) -> bool:
    """The right kernels, each as often as predicted, in another order."""
    window, wanted = miss.found.window, miss.query.args.get("sequence")
    if miss.kind != "order" or window is None or not wanted or len(wanted) != len(miss.found.rows):
        return False
    left: list[Selector] = list(wanted)
    for row in miss.found.rows:
        fitting = next((one for one in left if row in select(window, one).sure), None)
        if fitting is None:
            return False
        left.remove(fitting)
    return any(selector.word for selector in wanted)


@_reason(
    "sync == 0",
    "The one sync comes after the last step: the profiler itself waits for the GPU when a "
    "recording ends.",
    "an H200, torch 2.11: one cudaDeviceSynchronize after ProfilerStep#4 in every recorded trace",
)
def _final_sync(miss: Miss) -> bool:
    selector, spans = miss.selector, miss.evidence.trace.spans
    if miss.query.scope.kind != "trace" or selector is None or not spans.steps:
        return False
    device_sync = miss.excess("call") > 0 and selector.name == "cudaDeviceSynchronize"
    if miss.excess("sync") <= 0 and not device_sync:
        return False
    waits = select(miss.query.windows[0], selector).sure
    end = max(span.end_ns for span in spans.steps)
    return len(waits) == 1 and int(spans.host.start[waits[0]]) >= end


_AMPERE = ("cutlass", "cublas", "ampere", "sm80")


def _is_ampere(selector: Selector) -> bool:
    traits = [trait.value for trait in selector.traits]
    return selector.name.startswith(_AMPERE) or any(value in _AMPERE for value in traits)


@_reason(
    "every gemm is cutlass",
    "On Hopper cuBLAS uses its nvjet kernels where Ampere used CUTLASS and ampere_ ones: "
    "predict fields, not names.",
    "an H200, torch 2.11: every product of the recorded traces is nvjet",
)
def _hopper_names(miss: Miss) -> bool:
    """Products with Ampere names were expected, and there are nvjet ones."""
    trait, selector = miss.query.args.get("trait"), miss.selector
    if miss.kind == "fields" and miss.wants_some and isinstance(trait, Selector):
        return _is_ampere(trait) and miss.has_family("nvjet")
    ampere = selector is not None and _is_ampere(selector) and miss.too_few("kernel")
    return ampere and miss.has_family("nvjet", anywhere=True)


@_reason(
    "in mlp_fwd: pointwise time <= 1.05x of A",
    "Liger gives each row one program whose block is the next power of two: at 3072 columns a "
    "quarter of the 4096 lanes do nothing.",
    "liger-kernel 0.8.5; an H200, torch 2.11: 44 us; Inductor's kernel for gelu(gate(x)) * up(x) "
    "37 us",
)
def _masked_lanes(miss: Miss) -> bool:
    """Only Liger's kernels are slower than predicted, and their rows are not a power of two."""
    measured = miss.kind in ("ratios", "time") and miss.selector is not None
    operations = miss.operations
    if not measured or miss.compare not in ("<", "<=") or not operations:
        return False
    geglu = [one.ident.family == "liger_triton" and "geglu" in one.name for one in operations]
    events = [int(miss.evidence.trace.origins.op[row]) for row in miss.found.rows]
    shapes = [miss.evidence.inputs(event, "shapes") for event in events]
    columns = [inputs[0][-1] for inputs in shapes if inputs]
    return all(geglu) and any(count & (count - 1) for count in columns)


@_reason(
    "every gemm is preceded by cudaOccupancyMaxActiveBlocksPerMultiprocessor",
    "On Hopper, cuBLAS launches its nvjet kernels through cuLaunchKernelEx without an occupancy "
    "query. On the articles' A100 it precedes cuBLAS's Ampere kernels.",
    "an H200, torch 2.11: none before the 765 nvjet kernels of llama_train_eager; its six queries "
    "belong to CUB's sort and scan",
)
def _occupancy_query(miss: Miss) -> bool:
    """The query was expected before products that are nvjet ones, or as a call."""
    preceded = miss.kind == "calls" and miss.wants_some and "preceded" in miss.query.args
    if not miss.names("cudaOccupancy") or not (preceded or miss.too_few("call")):
        return False
    return miss.has_family("nvjet", anywhere=not preceded)


@_reason(
    "in mlp_fwd: memset == 0",
    "cuBLAS clears a few bytes before some products (its 256x128 nvjet kernels on Hopper). This "
    "memset is not an op of the program.",
    "an H200, torch 2.11: 4 bytes, cudaMemsetAsync inside aten::mm, before each 256x128 kernel "
    "and no other",
)
def _product_memset(miss: Miss) -> bool:
    products = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")
    return _too_many_below(miss, "memset", *products)


@_reason(
    "every pointwise is launched by cudaLaunchKernel",
    "Triton launches through the driver API: cuLaunchKernel from Inductor's launcher, "
    "cuLaunchKernelEx from Triton's own.",
    "an H200, torch 2.11, Triton 3.6: both recorded",
)
def _triton_launch(miss: Miss) -> bool:
    launched = miss.kind == "calls" and miss.wants_some and "launched" in miss.query.args
    by_runtime = launched and miss.query.args["call"] == "cudaLaunchKernel"
    return by_runtime and miss.has_family("triton")


@_reason(
    "every pointwise has vec 4",
    "Newer ATen moves eight 16-bit elements per thread on this card, where the articles' A100 "
    "moved four.",
    "an H200, torch 2.11: vectorized_elementwise_kernel<8, …>",
)
def _vector_width(miss: Miss) -> bool:
    field, value = (miss.query.args.get(name) for name in ("field", "value"))
    four = isinstance(field, Field) and field.name == "vec" and value == "4" and miss.wants_some
    return four and any(operation.ident.get("vec") == 8 for operation in miss.operations)


@_reason(
    "kernels == 5",
    "This is the number per step, and the trace has several steps. Write `per step: …`, or name a "
    "region.",
    "any trace with steps",
)
def _whole_trace(miss: Miss) -> bool:
    """Every step has the count that was predicted for the whole trace."""
    selector, wanted = miss.selector, miss.query.args.get("number")
    several = len(miss.evidence.trace.spans.steps) > 1 and miss.query.scope.kind == "trace"
    if miss.kind != "counts" or not several or selector is None or selector.kind == "step":
        return False
    compare = miss.query.args.get("compare", EQUALS)
    if not isinstance(wanted, Amount) or wanted.value <= 0:
        return False
    steps = windows_of(Scope("steps"), miss.evidence)
    counts = [len(select(window, selector).sure) for window in steps]
    return compare.symbol in ("==", "<=", "~") and all(count == wanted.value for count in counts)


@cache
def every() -> tuple[Reason, ...]:
    """All reasons: those above, then those of other packages."""
    return (*_REASONS, *plugins.entries(Reason, "foretrace.reasons"))


def likely(miss: Miss) -> str:
    """The reasons that fit, as text."""
    return " ".join(reason.text for reason in every() if _fits(reason, miss))


def _fits(reason: Reason, miss: Miss) -> bool:
    try:
        return reason.explains(miss)
    except Exception:  # noqa: BLE001  another package's reason must not cost the reader the verdict
        return False
