"""The order of launches: things between commas are all the kernels of the place, one after the
other.

Without a place the list may repeat, once per step. Each thing is a role (`gemm`), an op word
(`gelu`), a family (`nvjet`) or a word for a linear layer (`gate`, `up`, `down`, `q_proj`, …). A
trace does not say which weight a product used, so a layer's word stands for any matrix product, and
its position in the list is what is compared. `A before B` asks only whether the first A is issued
before the first B; both may be host ops or calls.
"""

from __future__ import annotations

from foretrace.guess.reading import Ask, Kind, Reading, for_each
from foretrace.guess.select import Found, find, label, moment
from foretrace.guess.things import Thing
from foretrace.guess.view import Unknown, View


def measure(ask: Ask) -> Reading:
    if "second" in ask.args:
        return for_each(ask, lambda view: _before(view, ask.args["first"], ask.args["second"]))
    return for_each(ask, lambda view: _in_order(view, ask.args["sequence"]))


def _in_order(view: View, wanted: list[Thing]) -> Reading:
    kernels = find(view, Thing("kernels", "kernel"))
    matches = [set(_sure(view, thing)) for thing in wanted]
    rows = kernels.sure
    repeats = view.whole and len(rows) % len(wanted) == 0 and len(rows) > 0
    right = (len(rows) == len(wanted) or repeats) and all(
        row in matches[place % len(wanted)] for place, row in enumerate(rows)
    )
    measured = _shown([label(view, kernels, row) for row in rows])
    if kernels.unclear:
        raise Unknown(kernels.why(Thing("kernels", "kernel")))
    return Reading("hit" if right else "miss", measured, rows=rows)


def _sure(view: View, thing: Thing) -> list[int]:
    if not thing.on_gpu:
        raise Unknown(
            f"`{thing.text}` is no kernel: a list compares kernels; use `before` for host ops and "
            "calls"
        )
    found = find(view, thing)
    if found.maybe:
        raise Unknown(found.why(thing))
    return found.sure


def _shown(names: list[str]) -> str:
    return (
        ", ".join(names[:12]) + (f", … ({len(names)} in all)" if len(names) > 12 else "")
        or "no kernels"
    )


def _before(view: View, first: Thing, second: Thing) -> Reading:
    found = [find(view, thing) for thing in (first, second)]
    for thing, there in zip((first, second), found, strict=True):
        if there.gap or (there.unclear and not there.sure):
            raise Unknown(there.why(thing))
        if not there.sure:
            return Reading("miss", f"there is no {thing.text} in {view.label}")
    times = [moment(view, there, there.sure[0]) for there in found]
    measured = f"{first.text} comes {'first' if times[0] < times[1] else 'later'}"
    return Reading(
        "hit" if times[0] < times[1] else "miss",
        measured,
        rows=_firsts(found, True),
        events=_firsts(found, False),
    )


def _firsts(found: list[Found], on_gpu: bool) -> list[int]:
    return [there.sure[0] for there in found if there.on_gpu is on_gpu]


KIND = Kind(
    name="order",
    order=90,
    patterns=(
        "{first:things} before {second:things}",
        "{first:things} comes before {second:things}",
        "{sequence:sequence}",
    ),
    measure=measure,
    examples={
        "in mlp_fwd: gate, up, gelu, mul, down": "five kernels in this order",
        "gemm, gelu, gemm, mul, gemm": "all kernels of the trace, in rounds of these five",
        'op "TorchDynamo Cache Lookup" before '
        "gemm": "the guards run before the first product is launched",
        "aten::addmm before call cudaDeviceSynchronize": "host ops and calls by when they begin",
    },
)
