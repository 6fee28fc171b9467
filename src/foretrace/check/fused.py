"""Whether several ops run as one kernel.

They are fused when one kernel does all of them, and not when each is done by some kernel and none
does all. Inductor's list of ops alone is no proof for a matmul, a convolution, attention or, in a
pointwise kernel, a reduction. The compiler's records beside the trace outrank a name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from foretrace.check.compiled import NO_RECORDS, mine
from foretrace.check.evidence import GpuOperation, launch_ops, with_records
from foretrace.check.language import Selector, Unknown
from foretrace.check.selectors import choose
from foretrace.check.windows import Window
from foretrace.read.compiler.records import CompiledLaunch
from foretrace.trace.cpu_ops import bare, cpu_does
from foretrace.trace.trace import Trace
from foretrace.why.not_fused import across_breaks, not_fused
from foretrace.work.families import MATMULS

# part of a model -> how one kernel for all of it is named, or the ops that it lists
_FUSED_OPTIMIZER = (
    r"_?fused_?(adam|sgd|adagrad|lamb|lion)|adamw?_kernel|multi_tensor_(adam|sgd|lamb)"
)
_WHOLE: dict[str, tuple[str, frozenset[str]]] = {
    "rmsnorm": (r"rms_?norm", frozenset({"rsqrt", "mean"})),
    "rope": (r"rope|rotary", frozenset()),
    "swiglu": (r"swiglu|silu_and_mul", frozenset({"silu", "mul"})),
    "geglu": (r"geglu", frozenset({"gelu", "mul"})),
    "loss": (r"_cross_entropy_kernel", frozenset()),
    "optimizer": (_FUSED_OPTIMIZER, frozenset()),
    "attention": ("", frozenset()),
}
_OPS = {"gemm": "matmul", "conv": "convolution", "bias": "add"}
_OPS |= {"attention": "scaled_dot_product_attention"}
_LISTED = 4  # names of kernels in an answer
Fused = tuple[bool | None, str, str, tuple[int, ...], tuple[int, ...]]


def fused(window: Window, ops: Sequence[str]) -> Fused:
    """(whether they are, the kernels, what is not known, rows, events)."""
    if len(ops) == 1:
        return _part(window, ops[0])
    on_gpu = not window.evidence.runs_on_cpu
    does, may_do, opaque = _kernels(window) if on_gpu else _on_cpu(window)
    wanted = {_OPS.get(op, bare(op)) for op in ops}
    whole = [item for item, own in does.items() if wanted <= own]
    some = [item for item, own in does.items() if wanted & own]
    missing = sorted(wanted - {word for item in some for word in does[item]})

    def answer(holds: bool | None, text: str, why: str = "", items: Sequence[int] = ()) -> Fused:
        places = tuple(items)
        return holds, text, why, places if on_gpu else (), () if on_gpu else places

    if not whole and window.gap:
        raise Unknown(window.gap)
    if not whole and "add" in wanted and (adding := _adding(window, wanted - {"add"})):
        if missing != ["add"]:
            raise Unknown("a matmul adds to its output, and other adds have kernels of their own")
        whole, missing = adding, []
    if whole:
        return answer(True, f"one kernel: {_names(window, whole, on_gpu)}", items=whole)
    if opaque:
        raise Unknown(f"the name {opaque} does not say which ops the kernel does")
    doubt = [item for item, may in may_do.items() if wanted <= may | does[item]]
    if doubt:
        named = " and ".join(sorted(wanted & may_do[doubt[0]]))
        short = _names(window, doubt[:1], on_gpu)
        raise Unknown(f"{short} lists {named}, and another kernel may do the work")
    if missing:
        raise Unknown(f"no kernel does {' or '.join(missing)}")
    return answer(False, f"separate kernels: {_names(window, some, on_gpu)}", items=some)


def separated(trace: Trace, ops: set[str]) -> tuple[str, ...]:
    """Why no compiled kernel does both ops: the reason of every pair of kernels that share data."""
    if trace.compiler_run is None:
        raise Unknown(NO_RECORDS)
    wanted = {_OPS.get(op, bare(op)) for op in ops}
    compilations = [*mine(trace.compiler_run, trace)]
    does: dict[tuple[str, int | None], frozenset[str]] = {
        (each.id, place): launch_ops(CompiledLaunch(each, call)).does & wanted
        for each in compilations
        for place, call in enumerate(each.calls)
    }
    if missing := wanted.difference(*does.values()):
        raise Unknown(f"no compiled kernel does {' or '.join(sorted(missing))}")
    if wanted in does.values():
        return ("fused",)
    pairs = [pair for each in compilations for pair in not_fused(each)]
    sides = (
        (pair.code, does.get((pair.region, pair.a_call)), does.get((pair.b_region, pair.b_call)))
        for pair in [*pairs, *across_breaks(trace.compiler_run)]
    )
    codes = [code for code, a, b in sides if a and b and a | b == wanted]
    if not codes and any(each.breaks for each in compilations):
        places = [{region for (region, _), found in does.items() if op in found} for op in wanted]
        if not set.intersection(*places):  # each in a graph of its own
            return ("graph_break",)
    return tuple(codes) or ("no_shared_data",)


def _names(window: Window, items: Sequence[int], on_gpu: bool) -> str:
    evidence = window.evidence
    names = [evidence.operation(at).label if on_gpu else evidence.name(at) for at in items]
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - _LISTED} more" if distinct[_LISTED:] else ""
    return ", ".join(distinct[:_LISTED]) + more


def _kernels(
    window: Window,
) -> tuple[dict[int, frozenset[str]], dict[int, frozenset[str]], str]:
    window.need_gpu()
    if window.lost:
        raise Unknown("some launches have no GPU event: the trace does not say what ran there")
    works = {row: window.evidence.operation(row) for row in window.rows.tolist()}
    kernels = {row: work for row, work in works.items() if work.kind == "kernel"}
    opaque = next((work.label for work in kernels.values() if _opaque(work)), "")
    does = {row: work.does for row, work in kernels.items()}
    return does, {row: work.may_do for row, work in kernels.items() if work.may_do}, opaque


def _opaque(work: GpuOperation) -> bool:
    """A kernel that may do anything: of no known family, or hand-written without known ops."""
    family = work.ident.family
    return family == "unknown" or ("triton" in family and not work.does - {"triton"})


def _on_cpu(window: Window) -> tuple[dict[int, frozenset[str]], dict[int, frozenset[str]], str]:
    trace, does, may_do = window.evidence.trace, dict[int, frozenset[str]](), {}
    for event in choose(window, Selector(0, "kernel")).sure:
        named, launch = cpu_does(window.evidence.name(event)), trace.compiled.get(event)
        recorded = [launch_ops(launch)] if launch else []
        does[event], may_do[event] = named, frozenset[str]()
        if recorded and recorded[0].does:
            does[event], may_do[event] = with_records(named, frozenset(), recorded)
    return does, may_do, ""


def _adding(window: Window, wanted: set[str]) -> list[int]:
    """The matmuls that add, where a matmul and an add are wanted: `aten::addmm`, nvjet's `badd`."""
    if window.evidence.runs_on_cpu or not wanted <= {*MATMULS, "matmul"}:
        return []
    works = {row: window.evidence.operation(row) for row in window.rows.tolist()}
    matmuls = {row: work for row, work in works.items() if work.role == "gemm"}
    return [
        row
        for row, work in matmuls.items()
        if work.chain[-1:] in (("aten::addmm",), ("aten::baddbmm",))
        or work.ident.get("batch_mode") == "badd"
    ]


def _part(window: Window, part: str) -> Fused:
    """Whether one part of the model, or the optimizer, is one kernel."""
    if part not in _WHOLE:
        raise Unknown(f"say what it is fused with, as in `fused({part}, mul)`")
    chosen = choose(window, Selector(0, part))
    if not chosen.certain or not chosen.sure:
        raise Unknown(chosen.why(part) if not chosen.certain else f"no {part} in {window.label}")
    evidence, names = window.evidence, _names(window, chosen.sure, chosen.on_gpu)
    if not chosen.on_gpu:
        called = [evidence.name(event) for event in window.events(evidence.computing).tolist()]
        return any("_fused_" in name for name in called), names, "", (), tuple(chosen.sure)
    answers = [_one_kernel(evidence.operation(row), part) for row in chosen.sure]
    if part == "optimizer" and True in answers:  # a fused one counts its steps with a foreach op
        times = evidence.trace.gpu.length[chosen.sure]
        fused_ns = sum(ns for ns, one in zip(times.tolist(), answers, strict=True) if one)
        answers = [True if fused_ns * 2 > times.sum() else None]
    holds = False if False in answers else None if None in answers else True
    why = "the names do not say whether one kernel does all of it" if holds is None else ""
    return holds, names, why, tuple(chosen.sure), ()


def _one_kernel(work: GpuOperation, part: str) -> bool | None:
    """Whether a kernel does all of a part; by hand-written names, or by the ops that one lists."""
    if part == "attention":
        return work.role == part
    pattern, wanted = _WHOLE[part]
    whole = bool(wanted) and wanted <= work.does
    said = re.search(pattern, " ".join((*work.chain, work.name)), re.IGNORECASE)
    if whole or said or (work.role == "normalization" and part == "rmsnorm"):
        return True
    return False if work.ident.family.startswith("aten") else None
