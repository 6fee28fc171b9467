"""The step without the profiler, as a replay of the typical step predicts it: as it is, or after
fixes that apply (`foretrace whatif TRACE` lists their names).
"""

from __future__ import annotations

from foretrace.analyze.fixes import Predicted
from foretrace.analyze.guess.grammar import Slot, list_of, read_name
from foretrace.analyze.guess.kinds import GuessKind, Measurement, Query
from foretrace.analyze.guess.windows import Unknown
from foretrace.base.units import time_text


def _measure(query: Query) -> Measurement:
    found = query.windows[0].evidence.replayed
    if found is None:
        raise Unknown("no step of this trace can be replayed")
    names: list[str] = query.args.get("fixes", [])
    value = _after(found, names) if names else found.now_ns
    return Measurement(query.judge(value), f"about {time_text(value)}, predicted")


def _after(found: Predicted, names: list[str]) -> float:
    """The step with these fixes."""
    known = {each.fix: each for each in found.fixes}
    missing = [name for name in names if name not in known]
    if missing:
        applying = ", ".join(known) or "none"
        raise Unknown(f"{missing[0]} does not apply to this step; those that do: {applying}")
    return found.together([known[name] for name in names])


KIND = GuessKind(
    "predicted",
    56,
    (
        "predicted step {compare:compare} {amount:time}",
        "predicted step {compare:compare} {amount:time} after {fixes:fixes}",
    ),
    _measure,
    slots={"fixes": Slot("names of fixes between commas or `and`", list_of(read_name, least=1))},
)
