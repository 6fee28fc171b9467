"""The order of launches: a list between commas names all kernels of the scope, one after the other.

Without a scope the list can repeat, once per step. Each entry is a role (`gemm`), an op word
(`gelu`), a family (`nvjet`) or a word for a linear layer (`gate`, `up`, `down`, `q_proj`, …). A
trace does not say which weight a product used, so a layer's word stands for any matrix product, and
its position in the list is what is compared. `A before B` only compares the first A with the first
B; both can be host ops or calls.
"""

from __future__ import annotations

from foretrace.analyze.guess.kinds import GuessKind, Measurement, Query, per_window
from foretrace.analyze.guess.selection import label, launch_time, select
from foretrace.analyze.guess.selectors import HEADS, Selector
from foretrace.analyze.guess.windows import Unknown, Window


def _judge(window: Window, query: Query) -> Measurement:
    if "second" in query.args:
        return _before(window, query.args["first"], query.args["second"])
    wanted: list[Selector] = query.args["sequence"]
    kernels = select(window, HEADS["kernels"])
    matches = [set(_sure(window, selector)) for selector in wanted]
    if kernels.unclear:
        raise Unknown(kernels.why(HEADS["kernels"]))
    rows = kernels.sure
    repeats = window.whole and len(rows) % len(wanted) == 0 and len(rows) > 0
    right = (len(rows) == len(wanted) or repeats) and all(
        row in matches[place % len(wanted)] for place, row in enumerate(rows)
    )
    names = [label(window, kernels, row) for row in rows]
    more = f", … ({len(names)} in all)" if len(names) > 12 else ""
    measured = ", ".join(names[:12]) + more or "no kernels"
    return Measurement("hit" if right else "miss", measured, rows=rows)


def _sure(window: Window, selector: Selector) -> list[int]:
    if not selector.on_gpu:
        raise Unknown(
            f"`{selector.text}` is not a kernel: a list compares kernels; use `before` for host "
            "ops and calls"
        )
    found = select(window, selector)
    if found.maybe:
        raise Unknown(found.why(selector))
    return found.sure


def _before(window: Window, first: Selector, second: Selector) -> Measurement:
    found = [select(window, selector) for selector in (first, second)]
    for selector, there in zip((first, second), found, strict=True):
        if there.gap or (there.unclear and not there.sure):
            raise Unknown(there.why(selector))
        if not there.sure:
            return Measurement("miss", f"there is no {selector.text} in {window.label}")
    times = [launch_time(window, there, there.sure[0]) for there in found]
    earlier = times[0] < times[1]
    return Measurement(
        "hit" if earlier else "miss",
        f"{first.text} comes {'first' if earlier else 'later'}",
        rows=[there.sure[0] for there in found if there.on_gpu],
        events=[there.sure[0] for there in found if not there.on_gpu],
    )


KIND = GuessKind(
    "order",
    90,
    (
        "{first:selector} before {second:selector}",
        "{first:selector} comes before {second:selector}",
        "{sequence:sequence}",
    ),
    per_window(_judge),
)
