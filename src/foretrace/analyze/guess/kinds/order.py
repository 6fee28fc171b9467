"""The order of launches: a list between commas names all kernels of the scope, one after the other.

Without a scope the list can repeat, once per step. Each entry is a role (`gemm`), an op word
(`gelu`), a family (`nvjet`) or a word for a linear layer (`gate`, `up`, `down`, `q_proj`, …). A
trace does not say which weight a matmul used, so a layer's word stands for any matmul, and
its position in the list is what is compared. `A before B` only compares the first A with the first
B; both can be host ops or calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from foretrace.analyze.guess import words
from foretrace.analyze.guess.grammar import Slot, list_of
from foretrace.analyze.guess.kinds import GuessKind, Measurement, Miss, Query, known, per_window
from foretrace.analyze.guess.selection import label, launch_time, select
from foretrace.analyze.guess.windows import Unknown, Window


def _judge(window: Window, query: Query) -> Measurement:
    if "second" in query.args:
        return _before(window, query.args["first"], query.args["second"])
    wanted: list[words.Selector] = query.args["sequence"]
    kernels = select(window, words.HEADS["kernels"])
    matches = [set(_sure(window, selector)) for selector in wanted]
    if kernels.unclear:
        raise Unknown(kernels.why(words.HEADS["kernels"]))
    rows = kernels.sure
    repeats = window.whole and len(rows) % len(wanted) == 0 and len(rows) > 0
    right = (len(rows) == len(wanted) or repeats) and all(
        row in matches[place % len(wanted)] for place, row in enumerate(rows)
    )
    names = [label(window, kernels, row) for row in rows]
    more = f", … ({len(names)} in all)" if len(names) > 12 else ""
    measured = ", ".join(names[:12]) + more or "no kernels"
    return Measurement("hit" if right else "miss", measured, rows=rows)


def _sure(window: Window, selector: words.Selector) -> list[int]:
    if not selector.on_gpu:
        raise Unknown(
            f"`{selector.text}` is not a kernel: a list compares kernels; use `before` for host "
            "ops and calls"
        )
    found = select(window, selector)
    if found.maybe:
        raise Unknown(found.why(selector))
    return found.sure


def _before(window: Window, first: words.Selector, second: words.Selector) -> Measurement:
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


def _link(tokens: Sequence[words.Token], place: int) -> tuple[words.Selector, int]:
    """A selector, or a word that stands for a linear layer (`gate`, `down`): a matmul."""
    if words.key_at(tokens, place) in words.LINEAR_WORDS:
        return replace(words.HEADS["gemm"], text=words.text_at(tokens, place)), place + 1
    try:
        return words.read_selector(tokens, place)
    except words.ParseFailure as failure:
        raise words.ParseFailure(failure.place, [*failure.wanted, *words.LINEAR_WORDS]) from None


def _evaluation_order(miss: Miss) -> bool:
    """The right kernels, each as often as predicted, in another order."""
    window, wanted = miss.found.window, miss.query.args.get("sequence")
    if window is None or not wanted or len(wanted) != len(miss.found.rows):
        return False
    left: list[words.Selector] = list(wanted)
    for row in miss.found.rows:
        fitting = next((one for one in left if row in select(window, one).sure), None)
        if fitting is None:
            return False
        left.remove(fitting)
    return any(selector.word for selector in wanted)


EVALUATION_ORDER = known("evaluation_order", _evaluation_order)
KIND = GuessKind(
    "order",
    90,
    (
        "{first:selector} before {second:selector}",
        "{first:selector} comes before {second:selector}",
        "{sequence:sequence}",
    ),
    per_window(_judge),
    slots={
        "sequence": Slot("two or more selectors between commas", list_of(_link, least=2)),
    },
    reasons=(EVALUATION_ORDER,),
)
