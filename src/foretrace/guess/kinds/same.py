"""Whether kernels are the same: between two traces, or within one.

`same gemm kernels as A` compares names, byte for byte, and how often each is launched in the same
place. `same gemm footprints` also compares grid, block, registers and shared memory: two kernels of
one name need not do the same work.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from foretrace.guess.measures import certain
from foretrace.guess.reading import Ask, Kind, Reading, for_each
from foretrace.guess.things import Thing
from foretrace.guess.view import Unknown, View

_FOOTPRINT = ("grid", "block", "registers", "shared_memory")


def measure(ask: Ask) -> Reading:
    if "first" in ask.args:
        return for_each(
            ask, lambda view: _pair(view, ask.args["first"], ask.args["second"], "same" in ask.args)
        )
    thing: Thing = ask.args["what"]
    others = ask.need_others()
    footprint = "footprints" in ask.args
    wanted = _bags(others, thing, footprint)
    if len(wanted) > 1:
        raise Unknown("the calls in A differ among themselves")
    if not wanted[0]:
        raise Unknown(f"no {thing.text} in A")
    return for_each(ask, lambda view: _against(view, thing, wanted[0], footprint))


def _bags(views: list[View], thing: Thing, footprint: bool) -> list[Counter[Any]]:
    bags: list[Counter[Any]] = []
    for view in views:
        bag = _bag(view, thing, footprint)
        if bag not in bags:
            bags.append(bag)
    return bags


def _bag(view: View, thing: Thing, footprint: bool) -> Counter[Any]:
    found = certain(view, thing)
    if not found.on_gpu:
        host = view.work.trace.host
        return Counter(host.names[host.name[event]] for event in found.sure)
    return Counter(_identity(view, row, footprint) for row in found.sure)


def _identity(view: View, row: int, footprint: bool) -> Any:
    name = view.work.case(row).name
    return (
        (name, *(str(view.work.footprint(row, part)) for part in _FOOTPRINT)) if footprint else name
    )


def _against(view: View, thing: Thing, wanted: Counter[Any], footprint: bool) -> Reading:
    found = certain(view, thing)
    mine = _bag(view, thing, footprint)
    if mine == wanted:
        return Reading(
            "hit", f"{sum(mine.values())} {thing.text}, {len(mine)} distinct, all the same"
        )
    gone, new = wanted - mine, mine - wanted
    measured = "; ".join(
        part for part in (_listed("not in A", new), _listed("only in A", gone)) if part
    )
    rows, events = (found.sure, []) if found.on_gpu else ([], found.sure)
    return Reading("miss", measured, rows=rows, events=events)


def _listed(word: str, bag: Counter[Any]) -> str:
    names = [
        f"{count} x {name if isinstance(name, str) else _footprint(name)}"
        for name, count in bag.most_common(3)
    ]
    return f"{word}: {', '.join(names)}{', …' if len(bag) > 3 else ''}" if names else ""


def _footprint(parts: tuple[str, ...]) -> str:
    """The name, and what may differ where the names do not."""
    name, grid, block, registers, shared = parts
    return f"{name} (grid {grid}, block {block}, registers {registers}, shared memory {shared})"


def _pair(view: View, first: Thing, second: Thing, same: bool) -> Reading:
    rows = []
    for thing in (first, second):
        found = certain(view, thing)
        if not found.on_gpu or not found.sure:
            raise Unknown(f"no {thing.text} among the kernels of {view.label}")
        rows += found.sure
    names = list(dict.fromkeys(view.work.case(row).name for row in rows))
    return Reading(
        "hit" if (len(names) == 1) is same else "miss", " and ".join(names[:3]), rows=rows
    )


KIND = Kind(
    name="same",
    order=45,
    patterns=(
        "same {what:things} as {other:other}",
        "same {what:things} footprints as {other:other}",
        "{first:things} and {second:things} are the same kernel",
        "{first:things} and {second:things} are different kernels",
    ),
    measure=measure,
    examples={
        "in mlp_fwd: same gemm kernels as A": "the same names, equally often",
        "in linear_fwd: same gemm footprints as "
        "A": "and the same grid, block, registers and shared memory",
        "in mlp_fwd: same ops as A": "host ops, too",
        "in mlp_fwd: first gemm and second gemm are the same kernel": "gate and up",
        "in mlp_fwd: first gemm and last gemm are different kernels": "gate and down",
    },
)
