"""What a CPU computes: a trace without a GPU has no kernels, only ops that call each other.

An op counts as a kernel when it is neither a view nor an allocation and calls no op that counts, so
`aten::linear` over `aten::mm` is one matmul. Matmuls count even when they copy a bias first.
Inductor's C++ kernels count too.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from foretrace.base.arrays import distinct, median
from foretrace.base.patterns import regex
from foretrace.read.compiler import records as compiled
from foretrace.trace.intervals import Bools, Ints, split_by, union_length
from foretrace.trace.spans import Span
from foretrace.trace.trace import Trace
from foretrace.work import families
from foretrace.work.families import MATMULS, VIEWS, role_of_op
from foretrace.work.kernel import KernelId

# What an op does besides its own name: a matmul with bias is one kernel that multiplies and adds.
OP_DOES = {
    "mm": ("matmul",),
    "bmm": ("matmul",),
    "addmm": ("mm", "matmul", "add"),
    "baddbmm": ("bmm", "matmul", "add"),
    "linear": ("matmul",),
    "silu_and_mul": ("silu", "mul"),
    "_softmax": ("softmax",),
    "_safe_softmax": ("softmax",),
    "native_layer_norm": ("layer_norm",),
    "fused_add_rms_norm": ("add", "rms_norm"),
}
# Attention in one kernel: both matmuls and the softmax between them.
ATTENTION_DOES = ("matmul", "bmm", "softmax", "scaled_dot_product_attention")
ROWWISE = ("reduction", "scan", "normalization", "softmax", "sort")
_CPP = "inductor_cpp"
_TEMPLATES = ("template", None)  # None: a backend other than Triton, which makes templates alone
# Ops of serving engines; each is a kernel of its own.
_CUSTOM = regex(r"fused_add_rms_norm|rotary_emb|silu_and_mul|fp8_quant|fmha")
# They rename, allocate or pass on; none computes an element.
_FREE_OPS = """
empty empty_like empty_strided new_empty new_empty_strided resize resolve_conj resolve_neg
set item type_as _local_scalar_dense is_nonzero contiguous detach lift_fresh result_type to
_to_copy unflatten flatten view_as narrow chunk unsafe_chunk movedim swapaxes numpy_T mT mH adjoint
record_stream accumulate_grad cudnn_is_acceptable
"""
_FREE = VIEWS | set(_FREE_OPS.split())
# both matmuls and the softmax, in one op
_CPU_ATTENTION = ("_scaled_dot_product_flash_attention_for_cpu",)
_CPU_MATMULS = frozenset(MATMULS) - {"matmul", "linear"}
# They compute, though they call other ops that do.
_CPU_KERNELS = """
mkldnn_rnn_layer mkldnn_rnn_layer_backward _embedding_bag _embedding_bag_dense_backward sort std var
std_mean var_mean _unique2 linalg_lu_solve _linalg_svd binary_cross_entropy
binary_cross_entropy_backward
"""
# They fill or copy memory, and nothing else.
_MOVING_OPS = """
fill_ zero_ copy_ zeros zeros_like new_zeros ones ones_like new_ones full full_like new_full fill
zero clone copy reshape repeat tile pad constant_pad_nd select_backward slice_backward
scalar_tensor eye lift_fresh_copy expand_copy pin_memory _pin_memory _foreach_zero_ _foreach_copy_
"""
_KERNELS, _MOVING = frozenset(_CPU_KERNELS.split()), frozenset(_MOVING_OPS.split())
# Ranges that torch adds; their names contain counters and hashes.
TORCH_REGIONS = (*compiled.ROWS, "##", "Optimizer.", "DataLoader", "enumerate(DataLoader)")
WRAPPER_NS, MOSTLY = 50_000, 0.5  # what a wrapper takes at most, or of its time
_LONGEST_NAME = 1_000  # characters of a region that a prediction can spell


def bare(op: str) -> str:
    """`aten::mul_` -> `mul`."""
    name = op.rpartition("::")[2]
    return name.rstrip("_") or name


def listed_ops(ident: KernelId) -> tuple[list[str], list[str]]:
    """The ops that an Inductor kernel's name proves, and those that it merely lists."""
    ops, category = [bare(op) for op in ident.get("ops") or ()], ident.get("category")
    if category in _TEMPLATES and ident.family != _CPP:
        return ops, []
    pointwise = category in ("pointwise", "foreach/combo") or ident.role == "pointwise"
    beyond = ROWWISE if pointwise else ()
    elsewhere = {bare(op) for op in ident.get("elsewhere") or ()}
    elsewhere |= {op for op in ops if role_of_op(op) in beyond or _CUSTOM.search(op)}
    return [op for op in ops if op not in elsewhere], [op for op in ops if op in elsewhere]


def cpu_does(name: str) -> frozenset[str]:
    """Ops that a CPU kernel performs."""
    decoded = families.decode(name)
    if decoded.family == _CPP:
        return frozenset(listed_ops(decoded)[0])
    op = bare(name)
    return frozenset((op, *(ATTENTION_DOES if op in _CPU_ATTENTION else OP_DOES.get(op, ()))))


def runs_on_cpu(trace: Trace) -> bool:
    """Nothing hints at a GPU: no GPU operations, no runtime calls, no device in the header."""
    return not trace.has("gpu") and not trace.host.is_call.any() and trace.about.device is None


def quotable_regions(trace: Trace) -> dict[str, int]:
    """Names of regions that a prediction can spell, and how many GPU operations each launches."""
    return {
        name: sum(len(call.work) for call in calls)
        for name, calls in trace.spans.region_groups().items()
        if name.isprintable() and '"' not in name and "::" not in name and len(name) < _LONGEST_NAME
    }


def own_regions(trace: Trace) -> dict[str, int]:
    """Those of them that the program names itself: torch writes the others."""
    found = quotable_regions(trace)
    return {name: size for name, size in found.items() if not name.startswith(TORCH_REGIONS)}


def cpu_region(trace: Trace) -> str:
    """The region that has at least half of the work of a CPU trace without steps; else empty."""
    groups = trace.spans.region_groups()
    names = own_regions(trace)
    times = {name: sum(span.cpu_ns for span in groups[name]) for name in names}
    longest = max(times, key=lambda name: times[name], default="")
    ops = trace.host.is_op & trace.host.lasting
    held = 2 * times.get(longest, 0) >= int(trace.host.self_length[ops].sum())
    return longest if held else ""


def cpu_call(trace: Trace, region: str = "") -> Span | None:
    """The step or call of median length that stands for a CPU trace; None: the whole recording."""
    groups = trace.spans.region_groups()
    calls = groups[region] if region else trace.spans.steps or groups.get(cpu_region(trace), [])
    calls = sorted(trace.whole(calls), key=lambda span: span.cpu_ns)
    return calls[(len(calls) - 1) // 2] if calls else None


def started_inside(trace: Trace, span: Span, wanted: Bools) -> Ints:
    """The wanted host events that begin inside a span."""
    host = trace.host
    end = max(span.end_ns, span.start_ns + 1)
    inside = wanted & host.lasting & (host.start >= span.start_ns) & (host.start < end)
    if span.event >= 0:
        inside &= host.namespace == host.namespace[span.event]
    return np.flatnonzero(inside)


def ops_inside(trace: Trace, span: Span) -> tuple[int, int]:
    """How many host ops begin inside a step or call, and the time of its thread inside them."""
    host, ops = trace.host, started_inside(trace, span, trace.host.is_op)
    mine = ops if span.event < 0 else ops[host.track[ops] == host.track[span.event]]
    return len(ops), union_length(host.start[mine], np.minimum(host.end[mine], span.end_ns))


def computing_ops(trace: Trace) -> tuple[Bools, Bools]:
    """Which ops of a CPU compute, and which events call one that does, at any depth.

    An op that calls one that computes does not count itself, unless it is a matmul, or all that it
    calls changes the type of its inputs, fills its output or copies its inputs (`aten::sum` fills,
    `aten::mkldnn_convolution` copies). So does one that is busy itself most of the time (a
    convolution's backward pass that calls `aten::sum` for the bias).
    """
    host = trace.host
    casts = host.named(lambda name: name == "aten::to")
    every = host.is_op & host.lasting & host.named(_works)
    # Copies of a number that Python passed, to another type: no op of the program.
    of_scalars = np.zeros(host.count, bool)
    for event in np.flatnonzero(every & host.named(lambda name: name == "aten::copy_")):
        known = trace.origins.arguments.of(int(event))
        of_scalars[event] = known is not None and not any(known.tensors)
    callers, working = _above(host.parent, every), every & ~of_scalars
    passing = _above(host.parent, working, casts)  # up to the change of a type, and no further
    moving = host.named(lambda name: bare(name) in _MOVING or not name.startswith("aten::"))
    computes = ~_above(host.parent, working & ~moving, casts) & ~moving
    kernels = host.named(lambda name: bare(name) in _KERNELS) & working
    computes |= host.named(lambda name: bare(name) in _CPU_MATMULS)
    computes |= kernels & ~_above(host.parent, kernels)
    computes |= _busy(trace, working & passing & ~moving)
    return working & (~passing | computes), callers


def _busy(trace: Trace, events: Bools) -> Bools:
    """Those whose name usually spends most of its time in itself, and longer than any wrapper."""
    host, found = trace.host, np.zeros(trace.host.count, bool)
    rows = np.flatnonzero(events)
    for same in split_by(host.name[rows], rows):
        own = host.self_length[same]
        long = median(own.tolist()) >= WRAPPER_NS
        found[same] = long and median((own / np.maximum(host.length[same], 1)).tolist()) >= MOSTLY
    return found


def _above(parent: Ints, events: Bools, end: Bools | None = None) -> Bools:
    """Everything that calls one of these events; not what calls it through one of `end`."""
    found = np.zeros(len(parent), bool)
    above = parent[events]
    while len(above := distinct(above[above >= 0])):
        above = above[~found[above]]
        found[above] = True
        above = parent[above if end is None else above[~end[above]]]
    return found


@cache
def _works(name: str) -> bool:
    if families.decode(name).family == _CPP:
        return True
    profiler = name.startswith(("profiler::", "autograd::"))
    return "::" in name and bare(name) not in _FREE and not profiler
