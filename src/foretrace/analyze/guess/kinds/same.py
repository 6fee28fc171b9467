"""Whether kernels are the same: between two traces, or within one.

`same gemm kernels as A` compares names, byte for byte, and how often each is launched in the same
scope. `same gemm footprints` also compares grid, block, registers and shared memory: two kernels of
one name can do different work.
"""

from __future__ import annotations

from collections import Counter

from foretrace.analyze.guess import kinds
from foretrace.analyze.guess.selection import certain
from foretrace.analyze.guess.windows import Unknown, Window
from foretrace.analyze.guess.words import Selector

_FOOTPRINT = ("grid", "block", "registers", "shared_memory")


def measure(query: kinds.Query) -> kinds.Measurement:
    """Judge `same KERNELS as A`, or whether two kernels of one trace are the same."""
    if "first" in query.args:
        return kinds.per_window(_pair)(query)
    selector, footprint = query.what, "footprints" in query.args
    bags = [_bag(other, selector, footprint) for other in query.need_others()]
    if any(bag != bags[0] for bag in bags):
        raise Unknown("the calls in A differ from each other")
    if not bags[0]:
        raise Unknown(f"no {selector.text} in A")
    return kinds.per_window(lambda window, _: _against(window, selector, bags[0], footprint))(query)


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
) -> kinds.Measurement:
    mine = _bag(window, selector, footprint)
    if mine == wanted:
        text = f"{mine.total()} {selector.text}, {len(mine)} distinct, all the same"
        return kinds.Measurement("hit", text)
    parts = (_listed("not in A", mine - wanted), _listed("only in A", wanted - mine))
    measured = "; ".join(part for part in parts if part)
    return kinds.from_selection(certain(window, selector), "miss", measured)


def _listed(word: str, bag: Counter[str]) -> str:
    names = [f"{count} x {name}" for name, count in bag.most_common(3)]
    return f"{word}: {', '.join(names)}{', …' if len(bag) > 3 else ''}" if names else ""


def _pair(window: Window, query: kinds.Query) -> kinds.Measurement:
    rows = []
    for selector in (query.args["first"], query.args["second"]):
        found = certain(window, selector)
        if not found.on_gpu or not found.sure:
            raise Unknown(f"no {selector.text} among the kernels of {window.label}")
        rows += found.sure
    names = list(dict.fromkeys(window.evidence.operation(row).name for row in rows))
    right = (len(names) == 1) is ("same" in query.args)
    return kinds.Measurement("hit" if right else "miss", " and ".join(names[:3]), rows=rows)


def _added_in_place(miss: kinds.Miss) -> bool:
    if not miss.query.others:
        return False
    mine = {operation.name for operation in miss.operations}
    other = miss.query.others[0]
    theirs = {other.evidence.operation(row).name for row in other.rows.tolist()}
    return any(name not in theirs and name.replace("_badd_", "_bz_") in theirs for name in mine)


ADDED_IN_PLACE = kinds.known("added_in_place", _added_in_place)
KIND = kinds.GuessKind(
    "same",
    45,
    (
        "same {what:selector} as {other:other}",
        "same {what:selector} footprints as {other:other}",
        "{first:selector} and {second:selector} are same kernel",
        "{first:selector} and {second:selector} are different kernels",
    ),
    measure,
    reasons=(ADDED_IN_PLACE,),
)
