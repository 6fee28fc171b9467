"""One quantity against another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Any

from foretrace.base.units import percent_text, ratio_text
from foretrace.check.grammar import Slot, one_of
from foretrace.check.kinds import Measurement, Miss, Query, known, prediction
from foretrace.check.kinds.fields import written_out
from foretrace.check.kinds.time import masked_lanes
from foretrace.check.selection import Measure, certain, unless_shown_otherwise
from foretrace.check.windows import Scope, Unknown, Window, windows_of
from foretrace.check.words import EQUALS, HEADS, PHASES, Amount, Compare, Selector, Trait
from foretrace.work.families import VIEWS

_GPU_TIME = Measure("gpu time", "gpu time")
_STEP_TIME = Measure("step time", "cpu time")
_SOME = (">", ">=", "==", "~")  # a share of this much needs something to take it
_NOISE = 0.01  # of one step against another
_LONGER = {word: word for word in ("more", "less", "slower", "faster")}
_SPEEDS = {"faster": Compare("<="), "slower": Compare(">=")}


def _on_one_clock(query: Query) -> dict[str, Measure]:
    """Both sides in GPU time, or both in host time; a share of the whole on the clock of its part.

    An op has a time on both clocks, everything else on one.
    """
    left, right = query.args["left"], query.args.get("right", query.args["left"])
    if right.name == "count":
        right = replace(right, name=left.name, text=f"{right.text} {left.name}")
    sides = {"left": left} | ({"right": right} if "right" in query.args else {})
    parts = [side for side in (left, right) if side.selector and side.name.endswith("time")]
    if query.on_cpu:
        return {name: _as_time(side) for name, side in sides.items()}
    if not parts:
        return sides
    if any(side.name == "cpu time" for side in parts):
        return {name: _on_host(side, query.windows[0]) for name, side in sides.items()}
    on_gpu = any(side.selector.on_gpu or side.name == "gpu time" for side in parts)
    if right in (_GPU_TIME, _STEP_TIME) and not on_gpu:
        sides["right"] = _GPU_TIME if query.says_gpu_time else _STEP_TIME
    if on_gpu or query.says_gpu_time:
        return {name: _on_gpu(side) for name, side in sides.items()}
    return sides


def _on_gpu(side: Measure) -> Measure:
    what = side.selector
    if side.more:
        return side
    if what is None or not side.name.endswith("time") or (what.on_gpu and side.name != "gpu time"):
        return side
    if what.name == HEADS["torch.compile"].name:
        raise Unknown(f"`{what.text}` launches nothing itself: it has a time on the host alone")
    if what.kind == "op" and not what.under and what.ordinal is None and not what.distinct:
        what = replace(what, text=f"{what.text} kernels", kind="kernel", name="", under=what.name)
    if what.kind in ("region", "module"):
        what = replace(what, kind="kernel", name="", traits=(Trait(what.kind, what.name),))
    if not what.on_gpu:
        raise Unknown(f"`{what.text}` has a time on the host alone, not on the GPU")
    return Measure(f"{what.text} time", "time", what)


def _on_host(side: Measure, window: Window) -> Measure:
    what, host = side.selector, window.evidence.trace.host
    name = what.text.lower() if what else ""
    if name in (*PHASES, "optimizer") and (host.is_region & host.named(name.__eq__)).any():
        return Measure(side.text, "time", Selector(name, "region", name=name))
    if what and what.word and not what.traits:
        what = Selector(what.text, "op", name=f"aten::{what.word}", ordinal=what.ordinal)
        return Measure(side.text, "time", what)
    if what and what.on_gpu:
        raise Unknown(f"`{what.text}` has a time on the GPU alone, not on the host")
    return _as_time(side)


def _as_time(side: Measure) -> Measure:
    """Host time is the time of what runs on the host."""
    return replace(side, name="time") if side.selector and side.name == "cpu time" else side


def _is_phase(args: Mapping[str, Any]) -> bool:
    """Whether it compares what each step does, of which the recording may begin with a part."""
    sides = [args["left"].selector, getattr(args.get("right"), "selector", None)]
    phase = any(
        side and side == replace(HEADS["forward"], text=side.text, written=side.written)
        for side in sides
    )
    return phase or ("longer" in args and sides[0] is not None and sides[0].kind == "kernel")


def _none(query: Query, what: Selector) -> bool:
    """Whether it is certain that there is nothing whose share could be large."""
    there = any(certain(each, what).sure for each in query.windows)
    if not there and what.word in VIEWS:
        raise Unknown(f"{what.word} is a view: it launches nothing")
    if not there and what.text == "attention" and written_out(query.windows[0]):
        raise Unknown("attention is written out as matmuls and a softmax")
    return what.on_gpu and not there and not query.windows[0].evidence.mentions(what.word)


def _complete(args: Mapping[str, Any], *, on_cpu: bool = False) -> Mapping[str, Any]:
    """The arguments with what the wording leaves out: `mostly gemm`, `10% faster than A`."""
    added: dict[str, Any] = {}
    whole = _GPU_TIME
    if "what" in args:
        what: Selector = args["what"]
        added = {"left": Measure(f"{what.text} time", "time", what), "compare": EQUALS}
        whole = _GPU_TIME if what.on_gpu and not on_cpu else _STEP_TIME
    if "share" in args and isinstance(args["share"], Amount):
        return {**added, **args, "ratio": args["share"], "right": whole}
    if {"mostly", "most", "dominates"} & set(args):
        added |= {"compare": Compare(">"), "ratio": Amount("50%", 0.5), "right": whole}
    if args.get("right") == _GPU_TIME and whole is _STEP_TIME:
        return {**added, **args, "right": whole}
    left, right = args.get("left"), args.get("right")
    if left and right and {"longer", "as-long"} & set(args):
        sides = {"left": _timed(left), "right": _timed(right)}
        word = "slower" if args.get("longer") in ("more", "slower") else "faster"
        speed = _speed(word, args.get("ratio")) if "longer" in args else {}
        return {"compare": EQUALS, **args, **sides, **speed}
    if left and right and left.name == "count" and right.name.endswith("time"):
        return {**args, "left": _timed(left)}
    if "fewer" in args and "count" not in args:
        added = {"compare": Compare(">" if args["fewer"] == "more" else "<")}
    if "faster" in args:
        added = {"left": _GPU_TIME, **_speed(args["faster"], args.get("ratio"))}
        return {**args, **added}
    return {**added, **args}


def _timed(measure: Measure) -> Measure:
    """The time of what is not said to be counted."""
    if measure.name != "count":
        return measure
    return Measure(f"{measure.text} time", "time", measure.selector)


def _speed(word: str, by: Amount | None) -> dict[str, Any]:
    """`1.5x faster` is at most 1/1.5 of the time, `10% slower` at least 1.1x."""
    compare = Compare("<" if word == "faster" else ">") if by is None else _SPEEDS[word]
    if by is None:
        return {"compare": compare}
    change = -by.value if word == "faster" else by.value
    in_percent = by.text.endswith("%")
    ratio = 1 + change if in_percent else by.value if word == "slower" else 1 / (by.value or 1)
    return {"compare": compare, "ratio": Amount(ratio_text(ratio), ratio)}


def expected(args: Mapping[str, Any]) -> str:
    """`< 0.9x of A`, `< A`, `1 fewer than A`."""
    args = _complete(args)
    other = args["right"].text if "right" in args else "A"
    if "count" in args:
        return f"{args['count'].text} {'fewer' if 'fewer' in args else 'more'} than {other}"
    ratio = f"{args['ratio'].text} of " if "ratio" in args else ""
    return f"{args['compare'].symbol} {ratio}{other}"


def _verdict(query: Query, mine: float, theirs: float) -> str:
    if "count" in query.args:
        step = query.args["count"].value
        return "hit" if mine - theirs == (-step if "fewer" in query.args else step) else "miss"
    compare: Compare = query.args["compare"]
    if theirs and "longer" in query.args and abs(mine / theirs - 1) < _NOISE:
        raise Unknown("they differ by less than 1%: that is within the noise")
    if theirs:
        ratio = query.args.get("ratio", Amount("1x", 1.0))
        found = compare.of(mine / theirs, ratio)
        near = found == "miss" and "takes" in query.args and compare is EQUALS
        if near and Compare("~").of(mine / theirs, ratio) == "hit":
            raise Unknown(f"{percent_text(mine / theirs)} is near it: write `about`, or `exactly`")
        return found
    if "ratio" in query.args:
        raise Unknown("the other quantity is zero: there is no ratio")
    return compare.of(mine, Amount("0", 0))


@known
def _compiled_overhead(miss: Miss) -> bool:
    left, others = miss.query.args.get("left"), miss.query.others
    if not isinstance(left, Measure) or not others:
        return False
    slower = left.name == "cpu time" and miss.compare in ("<", "<=")
    return slower and miss.evidence.is_compiled and not others[0].evidence.is_compiled


def _same_sort(query: Query) -> None:
    """`Unknown` for a share of kernels that is a count of something else."""
    left, right = query.args["left"], query.args.get("right")
    if "ratio" not in query.args or not right or not (left.name == right.name == "count"):
        return
    share = query.args["ratio"].text.endswith("%")
    if share and left.selector and right.selector and left.selector.on_gpu != right.selector.on_gpu:
        raise Unknown(f"{left.selector.text} are no part of {right.selector.text}")


@prediction(
    "ratios",
    80,
    "{left:measure} takes|take|is|are [{compare:compare}] {ratio:part} as-long {right:measure}",
    "{left:measure} {compare:compare} {ratio:part} of {other:other}",
    "{left:measure} {compare:compare} {ratio:part} of {right:measure}",
    "{left:measure} {compare:compare} {other:other}",
    "{count:count} fewer {left:measure} than {other:other}",
    "{count:count} more {left:measure} than {other:other}",
    "fewer|less|more {left:measure} than {other:other}",
    "{what:selector} takes|take|is|are [{compare:compare}] {ratio:part} of {right:measure}",
    "{what:selector} [time|share] {compare:compare} {share:share}",
    "{left:measure} takes|take|is|are [{ratio:part}] {longer:longer} than {right:measure}",
    "{left:measure} {compare:compare} {right:measure}",
    "[{compare:compare}] {ratio:part} of {right:measure} is [a|an] {what:selector}",
    "most [of] [gpu|kernel|total] time is [a|an] {what:selector}",
    "{what:selector} dominates|dominate",
    "mostly {what:selector}",
    "[gpu] [time] [is|be] [{ratio:part}] faster|slower than {other:other}",
    expected=expected,
    slots={"longer": Slot("longer, slower, more, less, faster", one_of(_LONGER))},
    reasons=(_compiled_overhead, masked_lanes),
)
def measure(query: Query) -> Measurement:
    """One quantity against another: of the other trace (`A`, given with --against), or of something
    else in the same trace.

    `gpu time < 0.9x of A` compares medians over the same scope in both traces; `10% faster than A`
    means at least that much less GPU time. `last gemm time < 0.95x of first gemm` stays within this
    one, and so does a share: `gemm time > 40% of kernel time`. What dominates takes more than half
    of the GPU time. A selector without a quantity is counted: `kernels < A`. On a CPU the time of
    ops stands for that of kernels and the step for the whole, unless the prediction speaks of a
    GPU. `aten::sum gpu time` is the time of the kernels below an op. Host time is never compared
    with that of kernels.
    """
    query = replace(query, args=_complete(query.args, on_cpu=query.on_cpu))
    query = replace(query, args={**query.args, **_on_one_clock(query)})
    left: Measure = query.args["left"]
    first = query.windows[0]
    of_step = query.args.get("right") is _STEP_TIME or _is_phase(query.args)
    if of_step and first.whole and first.evidence.trace.spans.steps:
        query = replace(query, windows=windows_of(Scope("steps"), first.evidence))
    kernels = left.selector and replace(left.selector, text="kernels", written="")
    if kernels == HEADS["kernels"] and query.args.get("right") is _GPU_TIME and not query.says_gpu:
        raise Unknown(
            "all kernels are nearly all of the GPU time: say `gpu busy`, or `of the step`"
        )
    some = "right" in query.args and query.compare.symbol in _SOME
    some &= "ratio" in query.args or (left.name == "time" and query.compare.symbol in (">", ">="))
    if some and left.selector and not query.on_cpu and _none(query, left.selector):
        return Measurement("miss", f"0%: no {left.selector.text}", window=query.windows[0])
    _same_sort(query)
    mine = left.median(query.windows)
    if "right" in query.args:
        right: Measure = query.args["right"]
        theirs = right.median(query.windows)
    else:
        right, theirs = replace(left, text="A"), left.median(query.need_others())
    verdict = _verdict(query, mine, theirs)
    if verdict == "miss" and not query.on_cpu:
        hits = lambda value: _verdict(query, value, theirs) == "hit"  # noqa: E731
        unless_shown_otherwise(left, query.windows, hits)
    if query.says_step and right == _GPU_TIME and left.selector and left.selector.on_gpu:
        steps = query.windows[0].evidence.trace.spans.steps
        per_step = mine / (len(steps) if query.windows[0].whole else 1) if steps else 0
        length = median(span.cpu_ns for span in steps) if steps else 0
        if length and _verdict(query, per_step, length) != verdict:
            raise Unknown(
                f"{percent_text(per_step / length)} of the length of a step: say `gpu time`"
            )
    in_percent = "%" in getattr(query.args.get("ratio"), "text", "")
    shown = percent_text if in_percent else ratio_text
    ratio = f" ({shown(mine / theirs)})" if theirs else ""
    measured = f"{left.shown(mine)}, {right.text}: {right.shown(theirs)}{ratio}"
    window = query.windows[0]
    if query.on_cpu:
        return Measurement(verdict, f"{measured}; both include profiler overhead", window=window)
    return Measurement(verdict, measured, window=window, rows=left.rows(window))
