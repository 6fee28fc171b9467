"""What computes on a CPU: Inductor's C++ kernels, and ATen ops that do work themselves.

A CPU trace has no kernels, only ops that call each other. Here an op counts when it is neither a
view nor an allocation and calls no op that counts, so `aten::linear` over `aten::mm` is one
product. Products count even when they copy a bias first.
"""

from __future__ import annotations

from functools import cache

from foretrace import families
from foretrace.families import PRODUCTS, VIEWS
from foretrace.guess.view import Unknown, View
from foretrace.guess.work import ATTENTION_DOES, OP_DOES, Work, bare
from foretrace.model.intervals import Ints

_COMPILED = "inductor_cpp"
# They rename, allocate or hand over; none computes an element.
_FREE = VIEWS | {
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "resize",
    "resolve_conj",
    "resolve_neg",
    "set",
    "item",
    "_local_scalar_dense",
    "is_nonzero",
    "contiguous",
    "detach",
    "lift_fresh",
    "result_type",
    "to",
    "unflatten",
    "flatten",
    "view_as",
    "narrow",
    "chunk",
    "movedim",
    "swapaxes",
    "numpy_T",
    "record_stream",
    "accumulate_grad",
}
# both products and the softmax, in one op
_ATTENTION = ("_scaled_dot_product_flash_attention_for_cpu",)
_SELF = frozenset(PRODUCTS) - {"matmul", "linear"}


def runs_on_cpu(work: Work) -> bool:
    """Nothing in the trace hints at a GPU: no GPU work, no runtime calls, no device in the header."""
    trace = work.trace
    return not trace.has("gpu") and not trace.host.is_call.any() and trace.about.device is None


def cpu_kernels(view: View) -> list[int]:
    """Event ids of the ops in this view that compute, in time order."""
    if not runs_on_cpu(view.work):
        raise Unknown(
            "this trace is of a GPU program: what its host ops computed cannot be told from them"
        )
    return working_ops(view)


def working_ops(view: View) -> list[int]:
    """The same without asking whether it was a CPU that computed: for whoever knows."""
    host = view.work.trace.host
    events = view.events(host.is_op & host.lasting).tolist()
    working = [event for event in events if _works(host.names[host.name[event]])]
    calls_another = _ancestors(host.parent, working)
    return [
        event
        for event in working
        if event not in calls_another or bare(host.names[host.name[event]]) in _SELF
    ]


def cpu_does(name: str) -> frozenset[str]:
    """Ops that a CPU kernel performs."""
    decoded = families.decode(name)
    if decoded.family == _COMPILED:
        return frozenset(decoded.get("ops") or ())
    op = bare(name)
    return frozenset((op, *(ATTENTION_DOES if op in _ATTENTION else OP_DOES.get(op, ()))))


@cache
def _works(name: str) -> bool:
    if families.decode(name).family == _COMPILED:
        return True
    return (
        "::" in name
        and bare(name) not in _FREE
        and not name.startswith(("profiler::", "autograd::"))
    )


def _ancestors(parent: Ints, events: list[int]) -> set[int]:
    above: set[int] = set()
    for event in events:
        at = int(parent[event])
        while at >= 0 and at not in above:
            above.add(at)
            at = int(parent[at])
    return above
