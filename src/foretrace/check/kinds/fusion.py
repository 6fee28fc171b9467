"""Whether several ops run as one kernel."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass, field, replace

import numpy as np

from foretrace.check.evidence import GpuOperation, launch_ops, with_records
from foretrace.check.grammar import Slot, list_of
from foretrace.check.kinds import (
    Measurement,
    Query,
    from_selection,
    judge_all,
    per_window,
    prediction,
    tally,
)
from foretrace.check.selection import Selection, cpu_kernels, cpu_part, label, select
from foretrace.check.windows import Unknown, Window, some_of
from foretrace.check.words import HEADS, Selector, Trait, read_selector
from foretrace.trace.cpu_ops import bare, cpu_does
from foretrace.work.families import MATMULS

_NONE = frozenset[str]()
_LISTED = 4  # names of kernels in an answer; the evidence has the rest
# Roles that are ops, by the op that stands for them.
_ROLE_OPS = {
    "gemm": "matmul",
    "softmax": "softmax",
    "conv": "convolution",
    "attention": "scaled_dot_product_attention",
}


_FUSED_OPTIMIZER = (
    r"_?fused_?(adam|sgd|adagrad|lamb|lion)|adamw?_kernel|multi_tensor_(adam|sgd|lamb)"
)
# part of a model -> how one kernel for all of it is named, or the ops that it lists
_WHOLE: dict[str, tuple[str, tuple[str, ...]]] = {
    "rmsnorm": (r"rms_?norm", ("rsqrt", "mean")),
    "rope": (r"rope|rotary", ()),
    "swiglu": (r"swiglu|silu_and_mul", ("silu", "mul")),
    "geglu": (r"geglu", ("gelu", "mul")),
    "loss": (r"_cross_entropy_kernel", ()),
    "optimizer": (_FUSED_OPTIMIZER, ()),
}


@dataclass(frozen=True, slots=True)
class _KernelOps:
    """Kernels of a window, the ops of each, those of which nothing says whether it does them, and
    the name of one whose ops are unknown.
    """

    found: Selection
    does: dict[int, frozenset[str]]
    may_do: dict[int, frozenset[str]] = field(default_factory=dict)
    opaque: str = ""

    def names(self, window: Window, items: list[int]) -> str:
        return some_of(dict.fromkeys(label(window, self.found, item) for item in items), _LISTED)


def op_of(selector: Selector) -> str:
    """The op that a selector means: `gelu`; empty where it means something else."""
    if selector.word:
        return selector.word
    roles = [trait.value for trait in selector.traits if trait.kind == "role"]
    if roles:
        return _ROLE_OPS.get(roles[0], "")
    return bare(selector.name) if selector.kind == "op" and "*" not in selector.name else ""


def _alone(window: Window, query: Query) -> Measurement:
    """Whether one part of the model, or the optimizer, is one kernel."""
    part, what = _part(window, query.what)
    if window.evidence.runs_on_cpu and part == "optimizer":
        host = window.evidence.trace.host
        stepping = cpu_part(window, query.what)
        inside = host.nearest(np.arange(host.count), stepping) >= 0
        events = window.events(window.evidence.computing & inside).tolist()
        if not events:
            raise Unknown(f"no optimizer's step in {window.label}")
        names = [window.evidence.name(event) for event in events]
        fused_ops = [at for at, name in zip(events, names, strict=True) if "_fused_" in name]
        most = 2 * host.length[fused_ops].sum() > host.length[events].sum() if fused_ops else False
        return Measurement(query.hit_if(bool(most)), tally(names), events=events)
    found = select(window, what)
    if found.unclear or not found.sure:
        raise Unknown(found.why(what) if found.unclear else f"no {what.text} in {window.label}")
    operations = [window.evidence.operation(row) for row in found.sure]
    answers = [_one_kernel(each, part) for each in operations]
    if part == "optimizer" and True in answers:  # a fused one counts its steps with a foreach op
        times = window.evidence.trace.gpu.length[found.sure]
        fused = sum(time for time, one in zip(times, answers, strict=True) if one)
        answers = [True if fused * 2 > times.sum() else None]
    verdict = judge_all("every", answers, unclear=False)
    if "not" in query.args:
        verdict = {"hit": "miss", "miss": "hit"}.get(verdict, verdict)
    why = "the names do not say whether one kernel does all of it" if verdict == "unknown" else ""
    return Measurement(verdict, tally([one.label for one in operations]), why, rows=found.sure)


def _part(window: Window, what: Selector) -> tuple[str, Selector]:
    """The part that a selector means, and its kernels."""
    kinds = {trait.kind: trait.value for trait in what.traits}
    role = kinds.get("role")
    if role == "optimizer":
        return role, replace(what, traits=(Trait("group", role),))
    if role == "attention" or "sdpa" in kinds:
        return "attention", what if "attention" in window.evidence.roles else HEADS["sdpa"]
    if not {"group", "optimizer"} & set(kinds):
        raise Unknown(f"say what it is fused with, as in `{what.text} and mul are fused`")
    return "optimizer" if "optimizer" in kinds else what.text.lower().split()[0], what


def _one_kernel(operation: GpuOperation, part: str) -> bool | None:
    """Whether a kernel does all of a part; by hand-written names, or by the ops that one lists."""
    if part == "attention":
        return operation.role == part
    names, wanted = _WHOLE.get(part, ("", ()))
    whole = wanted and set(wanted) <= operation.does
    said = names and re.search(names, " ".join((*operation.chain, operation.name)), re.IGNORECASE)
    if whole or said or (operation.role == "normalization" and part == "rmsnorm"):
        return True
    return False if operation.ident.family.startswith("aten") else None


def _own(window: Window, query: Query) -> Measurement:
    """Whether what an op does is in kernels that do nothing else; an absent op has none."""
    found = select(window, query.what)
    if found.unclear or not found.on_gpu:
        raise Unknown(found.why(query.what))
    operations = [window.evidence.operation(row) for row in found.sure]
    alone = [
        not each.ident.family.startswith(("inductor", "user_triton"))
        or each.does == {query.what.word}  # `triton_poi_fused_relu_0`
        for each in operations
    ]
    if any(alone) and not all(alone):
        raise Unknown(f"only some of {query.what.text} are in kernels of their own")
    measured = tally([each.label for each in operations]) or f"no {query.what.text}"
    return Measurement("hit" if any(alone) else "miss", measured, rows=found.sure)


def _on_gpu(window: Window) -> _KernelOps:
    window.need_gpu()
    if window.lost:
        raise Unknown("some launches have no GPU event: the trace does not say what ran there")
    operations = {row: window.evidence.operation(row) for row in window.rows.tolist()}
    kernels = {row: found for row, found in operations.items() if found.kind == "kernel"}
    opaque = next((found.ident.short for found in kernels.values() if _opaque(found)), "")
    does = {row: found.does for row, found in kernels.items()}
    may_do = {row: found.may_do for row, found in kernels.items() if found.may_do}
    return _KernelOps(Selection(True, list(kernels), []), does, may_do, opaque)


def _adding(window: Window, wanted: Set[str]) -> list[int]:
    """The matmuls that add, where a matmul and an add are wanted: `aten::addmm`, nvjet's `badd`."""
    if window.evidence.runs_on_cpu or not wanted <= {*MATMULS, "matmul"}:
        return []
    operations = {row: window.evidence.operation(row) for row in window.rows.tolist()}
    return [row for row, found in operations.items() if found.role == "gemm" and _adds(found)]


def _adds(operation: GpuOperation) -> bool:
    by_op = operation.chain[-1:] in (("aten::addmm",), ("aten::baddbmm",))
    return by_op or operation.ident.get("batch_mode") == "badd"


def _opaque(operation: GpuOperation) -> bool:
    """A kernel that may do anything: of no known family, or hand-written without known ops."""
    family = operation.ident.family
    return family == "unknown" or ("triton" in family and not operation.does - {"triton"})


def _on_cpu(window: Window) -> _KernelOps:
    trace, does, may_do = window.evidence.trace, dict[int, frozenset[str]](), {}
    for event in cpu_kernels(window):
        named, launch = cpu_does(window.evidence.name(event)), trace.compiled.get(event)
        recorded = [launch_ops(launch)] if launch else []
        if recorded and recorded[0].does:
            does[event], may_do[event] = with_records(named, _NONE, recorded)
        else:
            does[event], may_do[event] = named, _NONE
    return _KernelOps(Selection(False, list(does), []), does, may_do)


@prediction(
    "fusion",
    40,
    "{parts:parts} are|is [not] fused",
    "{parts:parts} are|is [not] fused into one kernel",
    "{first:selector} is|are [not] fused with {second:selector}",
    "{what:selector} is|are [not] fused",
    "{what:selector} has own-kernel",
    expected=lambda args: (
        "own kernel" if "own-kernel" in args else "not fused" if "not" in args else "fused"
    ),
    slots={
        "parts": Slot(
            "two or more selectors, with commas or `and`", list_of(read_selector, least=2)
        )
    },
)
@per_window
def _fused(window: Window, query: Query) -> Measurement:
    """Whether several ops run as one kernel.

    They are fused when one kernel does all of them: hand-written kernels say it in their own names
    (`geglu` is gelu and mul), a matmul that adds its bias does both, and Inductor's names list the
    ops that the fused nodes came from. That list alone is no proof for a matmul, a convolution or
    attention, nor for a reduction in a pointwise kernel: such an op counts only where no other
    kernel can have done it. Not fused means that each is done by some kernel and no kernel does
    all. On a CPU trace Inductor's C++ kernels are judged the same way. The compiler's records
    beside the trace, where there are any, say which ops of the program a kernel performs: they
    outrank its name.

    One part of a model is fused when one kernel does all of it: RMSNorm in one kernel, not as the
    pow, mean and mul of eager mode. An optimizer is fused when its fused op (`_fused_adamw_`) takes
    most of its time; foreach ops and loops over parameters are not. An op has its own kernel where
    no kernel that does it is generated for several.
    """
    if "what" in query.args:
        return (_own if "own-kernel" in query.args else _alone)(window, query)
    parts = query.args.get("parts") or [query.args["first"], query.args["second"]]
    wanted = {op_of(selector) for selector in parts}
    if "" in wanted:
        raise Unknown("fusion is about ops: say for example `gelu and mul are fused`")
    kernels = (_on_cpu if window.evidence.runs_on_cpu else _on_gpu)(window)
    whole = [item for item, does in kernels.does.items() if wanted <= does]
    some = [item for item, does in kernels.does.items() if wanted & does]
    missing = sorted(wanted - {word for item in some for word in kernels.does[item]})
    if not whole:
        window.need_whole()
    if not whole and "add" in wanted and (adding := _adding(window, wanted - {"add"})):
        if missing != ["add"]:
            raise Unknown("a matmul adds to its output, and other adds have kernels of their own")
        whole, missing = adding, []
    if not whole and kernels.opaque:
        raise Unknown(f"the name {kernels.opaque} does not say which ops the kernel does")
    doubt = [item for item, may in kernels.may_do.items() if wanted <= may | kernels.does[item]]
    if not whole and doubt:
        named = " and ".join(sorted(wanted & kernels.may_do[doubt[0]]))
        short = kernels.names(window, doubt[:1])
        raise Unknown(f"{short} lists {named}, and another kernel may do the work")
    if whole:
        measured = f"one kernel: {kernels.names(window, whole)}"
    elif missing:
        measured = f"no kernel does {' or '.join(missing)}"
    else:
        measured = f"separate kernels: {kernels.names(window, some)}"
    verdict = "hit" if not missing and bool(whole) is ("not" not in query.args) else "miss"
    return from_selection(kernels.found, verdict, measured, items=whole or some or None)
