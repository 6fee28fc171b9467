"""How many there are: kernels, one role, one op, copies, launches, waits, host calls, steps.

Counts are whole numbers. A count of GPU things is exact only while every launch has its GPU event;
where some are missing, a prediction that the gap could overturn is unknown.
"""

from __future__ import annotations

from foretrace.guess.amounts import Amount, Compare
from foretrace.guess.reading import Ask, Kind, Reading, comparison, for_each
from foretrace.guess.select import Found, count_range, find
from foretrace.guess.things import Thing
from foretrace.guess.view import View
from foretrace.units import count_text


def measure(ask: Ask) -> Reading:
    thing: Thing = ask.args["what"]
    compare: Compare = ask.args.get("compare", Compare("=="))
    wanted: Amount = ask.args.get("number", Amount("0", 0))
    return for_each(ask, lambda view: _count(view, thing, compare, wanted))


def _count(view: View, thing: Thing, compare: Compare, wanted: Amount) -> Reading:
    found = find(view, thing)
    low, high = count_range(found)
    verdict = compare.verdict(low, high, wanted)
    measured = count_text(low) if low == high else f"{count_text(low)} or more"
    why = found.why(thing) if verdict == "unknown" else ""
    return evidence(found, Reading(verdict, measured, why))


def evidence(found: Found, reading: Reading) -> Reading:
    """The reading with everything that was found as its evidence."""
    items = found.sure + found.maybe
    return Reading(
        reading.verdict,
        reading.measured,
        reading.why,
        reading.view,
        items if found.on_gpu else [],
        [] if found.on_gpu else items,
    )


KIND = Kind(
    name="counts",
    order=10,
    patterns=(
        "{what:things} {compare:compare} {number:count}",
        "[{compare:phrase}] {number:count} {what:things}",
        "no {what:things}",
    ),
    measure=measure,
    expected=lambda args: comparison(args) or "== 0",
    examples={
        "kernels == 15": "the whole trace holds 15 GPU kernels",
        "in mlp_fwd: kernels == 5": "every call of the region launches 5 kernels",
        "per step: gemm == 3": "three matrix products in each step",
        "in step 2: pointwise <= 2": "in ProfilerStep#2",
        "5 kernels per step": "the same, said the other way round",
        "at most 2 pointwise in mlp_fwd": "phrases do what symbols do",
        "memcpy == 0": "nothing is copied between memories; `dtod memcpy` is one direction",
        "per step: sync == 0": "the host never waits for the GPU inside a step",
        "launches < 50": "calls that put a kernel or a graph on the GPU",
        "in mlp_fwd: aten::linear == 3": "a host op by its name",
        "in aten::linear: distinct ops == 9": "an op can be the place, too; it counts itself",
        "no call cudaOccupancyMaxActiveBlocksPerMultiprocessor": (
            "a runtime or driver call by its name"
        ),
        'op "Torch-Compiled Region*" == '
        "3": "`*` stands for anything; quote a name that holds spaces",
        "in mlp_fwd: distinct gemm kernels == 2": "names, not launches",
        "kernel triton_poi_fused_* == 3": "kernels by name",
        "gelu == 3": "kernels that do gelu, fused or not",
        "steps == 3": "ProfilerStep ranges",
        "cpu kernels == 15": "on a CPU: ops that compute, and Inductor's C++ kernels",
    },
)
