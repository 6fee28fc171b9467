"""Which kernels are launched: their order, and whether they are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from foretrace.analyze.guess.grammar import Slot, list_of
from foretrace.analyze.guess.kinds import (
    Measurement,
    Miss,
    Query,
    from_selection,
    known,
    per_window,
    prediction,
)
from foretrace.analyze.guess.selection import certain, label, launch_time, select
from foretrace.analyze.guess.windows import Unknown, Window
from foretrace.analyze.guess.words import (
    HEADS,
    LINEAR_WORDS,
    ParseFailure,
    Selector,
    Token,
    key_at,
    read_selector,
    text_at,
)


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


def _link(tokens: Sequence[Token], place: int) -> tuple[Selector, int]:
    """A selector, or a word that stands for a linear layer (`gate`, `down`): a matmul."""
    if key_at(tokens, place) in LINEAR_WORDS:
        return replace(HEADS["gemm"], text=text_at(tokens, place)), place + 1
    try:
        return read_selector(tokens, place)
    except ParseFailure as failure:
        raise ParseFailure(failure.place, [*failure.wanted, *LINEAR_WORDS]) from None


@known
def _evaluation_order(miss: Miss) -> bool:
    """The right kernels, each as often as predicted, in another order."""
    window, wanted = miss.found.window, miss.query.args.get("sequence")
    if window is None or not wanted or len(wanted) != len(miss.found.rows):
        return False
    left: list[Selector] = list(wanted)
    for row in miss.found.rows:
        fitting = next((one for one in left if row in select(window, one).sure), None)
        if fitting is None:
            return False
        left.remove(fitting)
    return any(selector.word for selector in wanted)


@prediction(
    "order",
    90,
    "{first:selector} before {second:selector}",
    "{first:selector} comes before {second:selector}",
    "{sequence:sequence}",
    slots={
        "sequence": Slot("two or more selectors between commas", list_of(_link, least=2)),
    },
    reasons=(_evaluation_order,),
)
@per_window
def _order(window: Window, query: Query) -> Measurement:
    """The order of launches: a list between commas names all kernels of the scope, one after the
    other.

    Without a scope the list can repeat, once per step. Each entry is a role (`gemm`), an op word
    (`gelu`), a family (`nvjet`) or a word for a linear layer (`gate`, `up`, `down`, `q_proj`, …). A
    trace does not say which weight a matmul used, so a layer's word stands for any matmul, and its
    position in the list is what is compared. `A before B` only compares the first A with the first
    B; both can be host ops or calls.
    """
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


_FOOTPRINT = ("grid", "block", "registers", "shared_memory")


def _bag(window: Window, selector: Selector, footprint: bool) -> Counter[str]:
    found = certain(window, selector)
    if not found.on_gpu:
        return Counter(map(window.evidence.name, found.sure))
    return Counter(_identity(window, row, footprint) for row in found.sure)


def _identity(window: Window, row: int, footprint: bool) -> str:
    """The name, with the footprint where that is compared."""
    name = window.evidence.operation(row).name
    if not footprint:
        return name
    facts = [f"{fact} {window.evidence.footprint(row, fact)}" for fact in _FOOTPRINT]
    return f"{name} ({', '.join(facts).replace('_', ' ')})"


def _against(
    window: Window, selector: Selector, wanted: Counter[str], footprint: bool
) -> Measurement:
    mine = _bag(window, selector, footprint)
    if mine == wanted:
        text = f"{mine.total()} {selector.text}, {len(mine)} distinct, all the same"
        return Measurement("hit", text)
    parts = (_listed("not in A", mine - wanted), _listed("only in A", wanted - mine))
    measured = "; ".join(part for part in parts if part)
    return from_selection(certain(window, selector), "miss", measured)


def _listed(word: str, bag: Counter[str]) -> str:
    names = [f"{count} x {name}" for name, count in bag.most_common(3)]
    return f"{word}: {', '.join(names)}{', …' if len(bag) > 3 else ''}" if names else ""


def _pair(window: Window, query: Query) -> Measurement:
    rows = []
    for selector in (query.args["first"], query.args["second"]):
        found = certain(window, selector)
        if not found.on_gpu or not found.sure:
            raise Unknown(f"no {selector.text} among the kernels of {window.label}")
        rows += found.sure
    names = list(dict.fromkeys(window.evidence.operation(row).name for row in rows))
    right = (len(names) == 1) is ("same" in query.args)
    return Measurement("hit" if right else "miss", " and ".join(names[:3]), rows=rows)


@known
def _added_in_place(miss: Miss) -> bool:
    if not miss.query.others:
        return False
    mine = {operation.name for operation in miss.operations}
    other = miss.query.others[0]
    theirs = {other.evidence.operation(row).name for row in other.rows.tolist()}
    return any(name not in theirs and name.replace("_badd_", "_bz_") in theirs for name in mine)


@prediction(
    "same",
    45,
    "same {what:selector} as {other:other}",
    "same {what:selector} footprints as {other:other}",
    "{first:selector} and {second:selector} are same kernel",
    "{first:selector} and {second:selector} are different kernels",
    reasons=(_added_in_place,),
)
def _same(query: Query) -> Measurement:
    """Whether kernels are the same: between two traces, or within one.

    `same gemm kernels as A` compares names, byte for byte, and how often each is launched in the
    same scope. `same gemm footprints` also compares grid, block, registers and shared memory: two
    kernels of one name can do different work.
    """
    if "first" in query.args:
        return per_window(_pair)(query)
    selector, footprint = query.what, "footprints" in query.args
    bags = [_bag(other, selector, footprint) for other in query.need_others()]
    if any(bag != bags[0] for bag in bags):
        raise Unknown("the calls in A differ from each other")
    if not bags[0]:
        raise Unknown(f"no {selector.text} in A")
    return per_window(lambda window, _: _against(window, selector, bags[0], footprint))(query)
