"""How often guesses of a map are right, as a sentence and as a table."""

from __future__ import annotations

from foretrace.base.units import count_text, percent_text, plural
from foretrace.schema.documents.gemms import KindAccuracy, MapAccuracy
from foretrace.show.render.terminal import Section

HEAD = ("kind", "matmuls", "family right", "tile right", "time within 15%")


def accuracy_text(found: MapAccuracy) -> str:
    """All unseen matmuls in one sentence, and the range of the kinds."""
    low, high = (choose(found.kinds, key=_time) for choose in (min, max))
    return (
        f"on {plural(found.matmuls, 'unseen matmul')}: family right on "
        f"{percent_text(found.family)}, tile on {percent_text(found.tile)}, time within 15% on "
        f"{percent_text(found.time)} ({percent_text(low.time)} of {low.kind}; "
        f"{percent_text(high.time)} of {high.kind})"
    )


def kind_text(found: MapAccuracy, kind: str) -> str:
    """Unseen matmuls of the kind in question; all of them where there was none."""
    own = next((each for each in found.kinds if each.kind == kind), None)
    if own is None:
        return accuracy_text(found)
    return (
        f"on {plural(own.matmuls, 'unseen matmul')} of this kind ({own.kind}): family right on "
        f"{percent_text(own.family)}, tile on {percent_text(own.tile)}, time within 15% on "
        f"{percent_text(own.time)}"
    )


def accuracy_section(found: MapAccuracy) -> Section:
    """Every kind in a row, best first."""
    kinds = sorted(found.kinds, key=_time, reverse=True)
    every = KindAccuracy("all", found.matmuls, found.family, found.tile, found.time)
    rows = [
        [
            each.kind,
            count_text(each.matmuls),
            *map(percent_text, (each.family, each.tile, each.time)),
        ]
        for each in (*kinds, every)
    ]
    median = f"Half of the times are within {percent_text(found.median_error)}."
    title = "Guesses on matmuls that the map does not hold"
    return Section(title, [median], head=HEAD, rows=rows, left=(0,))


def _time(each: KindAccuracy) -> float:
    return each.time
