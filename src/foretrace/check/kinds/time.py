"""Times, sizes and rates, the predicted step, and memory: its peak, and what a snapshot says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from statistics import mean, median

import numpy as np
import polars as pl

from foretrace.base.units import bytes_text, count_text, percent_text, plural, time_text
from foretrace.check.grammar import Slot, list_of, one_phrase, read_name
from foretrace.check.kinds import (
    Measurement,
    Miss,
    Query,
    comparison,
    judge_all,
    known,
    per_window,
    prediction,
    tally,
)
from foretrace.check.selection import (
    CLOCKS,
    PER_SECOND,
    TEXTS,
    Measure,
    certain,
    each,
    select,
    unless_shown_otherwise,
    without_profiler,
)
from foretrace.check.traits import CROSSES
from foretrace.check.windows import Scope, Unknown, Window, named, windows_of
from foretrace.check.words import Amount, Compare, Selector, Trait
from foretrace.trace.allocator.categories import CATEGORIES, by_category
from foretrace.trace.allocator.view import MemoryView
from foretrace.trace.modules import CPU

_STATISTICS: dict[str, Callable[[list[float]], float]] = {
    **dict.fromkeys(("longest", "slowest", "biggest", "largest", "max"), max),
    **dict.fromkeys(("shortest", "min"), min),
    **dict.fromkeys(("mean", "average"), mean),
    "median": median,
}
_NOTES = {"cpu time": " (includes profiler overhead)", "wall time": " (without the profiler)"}


def _asks_step(query: Query) -> bool:
    """`a step takes 7 ms`; `every step`, `the model takes 7 ms` where the run record says it."""
    what: Selector | None = query.args.get("what")
    if what is None or what.ordinal is not None:
        return False
    if query.args.get("longest", "median") not in ("median", "mean", "average"):
        return False
    if what.kind == "region":
        region = query.windows[0].evidence.trace.run.rung.region
        return region is not None and named(what.name, region)
    if what.kind != "step" or what.name:
        return False
    several = {"each", "quantifier", "most", "part", "longest"} & set(query.args)
    return not several or without_profiler(_passes(query)[0]) is not None


def _passes(query: Query) -> list[Window]:
    first, what = query.windows[0], query.args.get("what")
    if what is not None and what.kind == "region":
        return windows_of(Scope("region", what.name), first.evidence)
    return windows_of(Scope("pass"), first.evidence) if first.whole else query.windows


def _answers(query: Query, values: Sequence[float]) -> list[bool | None]:
    """Whether each of these times is as predicted; None where that is open."""
    found_out = {"hit": True, "miss": False, "unknown": None}
    return [found_out[query.nearly(value)] for value in values]


def _step(query: Query) -> Measurement:
    """How long a step takes: without the profiler where a run record says it."""
    passes, run = _passes(query), query.windows[0].evidence.trace.run
    if passes[0].whole:
        raise Unknown("the trace has no steps: record with a schedule and call step()")
    recorded = without_profiler(passes[0])
    values = [Measure("step time", "step time").median(passes)]
    # `a step takes 7 ms` is about the typical one, `a step takes more than 9 ms` about any.
    typical = query.args.get("quantifier") == "some" and query.compare.symbol not in (">", ">=")
    if recorded is not None and {"each", "quantifier"} & set(query.args) and not typical:
        values = list(run.timing.block_ns) or values
    answers = _answers(query, values)
    verdict = judge_all(query.args.get("quantifier", "every"), answers, unclear=False)
    ends = " to ".join(dict.fromkeys(map(time_text, (min(values), max(values)))))
    note = _NOTES["cpu time" if recorded is None else "wall time"]
    return Measurement(verdict, ends + note, window=passes[0])


def _agreed(query: Query, what: Measure) -> float:
    """`the matmul takes 180 us`: each one, in a step, or `in total`; unknown where that matters."""
    first = query.windows[0]
    steps = windows_of(Scope("pass"), first.evidence)
    values = {}
    with suppress(Unknown):  # what follows the last step is in none
        values["per step"] = what.median(steps)
    plural = query.what.text.lower().endswith("s") and query.what.text != "cuda-graphs"
    if plural or len(steps) < 2:
        values["in total"] = what.of(first)
    if not plural:
        values["each"] = median(each(first, query.what, "time"))
    if len({query.nearly(value) for value in values.values()}) == 1:
        return next(iter(values.values()))
    shown = ", ".join(f"{time_text(value)} {name}" for name, value in values.items())
    raise Unknown(f"{shown}: say which is meant")


def _launches(query: Query) -> Measurement:
    """`median kernel time`: over all launches of the scope."""
    word, first = query.args["longest"], query.windows[0]
    values = [value for window in query.windows for value in each(window, query.what, "time")]
    value = _STATISTICS[word](values)
    shown = f"{time_text(value)} ({word} of {count_text(len(values))})"
    found = certain(first, query.what)
    rows = found.sure if found.on_gpu else []
    return Measurement(query.nearly(value), shown, window=first, rows=rows)


def _every(window: Window, query: Query) -> Measurement:
    values, found = each(window, query.what, "time"), certain(window, query.what)
    quantifier = query.args.get("quantifier", "every")
    answers = _answers(query, values)
    pairs = zip(found.sure, answers, strict=True)
    wrong = [item for item, answer in pairs if answer is (quantifier == "no")]
    least, most = time_text(min(values)), time_text(max(values))
    shown = least if len(values) == 1 else f"{least} to {most}"
    verdict = judge_all(quantifier, answers, unclear=False)
    if {"most", "part"} & set(query.args):
        many = answers.count(True)
        shown = f"{count_text(many)} of {count_text(len(answers))}, {shown}"
        said: Compare = query.args.get("share", Compare(">=" if "part" in query.args else ">"))
        verdict = said.of(many / len(answers), query.args.get("part", Amount("50%", 0.5)))
    return Measurement(verdict, shown, rows=wrong if found.on_gpu else [])


def _spread(query: Query) -> Measurement:
    """Over the whole scope at once: the same kernel in different steps is the point."""
    selector = query.what
    if selector.kind == "step":
        steps = [span.cpu_ns for span in query.windows[0].evidence.trace.spans.steps]
        if len(steps) < 2:
            raise Unknown("the trace has no two steps to compare")
        worst = (max(steps) - min(steps)) / median(steps)
        return Measurement(query.judge(worst), percent_text(worst), window=query.windows[0])
    if not selector.on_gpu:
        raise Unknown(f"`{selector.text}` is not a GPU operation")
    groups: dict[tuple[str, object], list[float]] = defaultdict(list)
    for window in query.windows:
        rows, times = certain(window, selector).sure, each(window, selector, "time")
        for row, time in zip(rows, times, strict=True):
            flops = window.evidence.kernel_fact(row, "flops")
            groups[window.evidence.operation(row).name, flops].append(time)
    repeated = [times for times in groups.values() if len(times) > 1]
    if not repeated:
        raise Unknown(f"no {selector.text} ran more than once")
    worst = max((max(times) - min(times)) / max(median(times), 1) for times in repeated)
    first = query.windows[0]
    rows = certain(first, selector).sure
    return Measurement(query.judge(worst), percent_text(worst), window=first, rows=rows)


@known
def masked_lanes(miss: Miss) -> bool:
    """Only Liger's kernels are slower than predicted, and their rows are not a power of two."""
    operations = miss.operations
    if miss.selector is None or miss.compare not in ("<", "<=") or not operations:
        return False
    geglu = [one.ident.family == "liger_triton" and "geglu" in one.name for one in operations]
    events = [int(miss.evidence.trace.origins.op[row]) for row in miss.found.rows]
    shapes = [miss.evidence.inputs(event, "shapes") for event in events]
    columns = [inputs[0][-1] for inputs in shapes if inputs]
    return all(geglu) and any(count & (count - 1) for count in columns)


@prediction(
    "time",
    70,
    f"[median] {'|'.join(CLOCKS)} time {{compare:compare}} {{amount:time}}",
    "[median] step [time] {compare:compare} {amount:time}",
    "longest|slowest|biggest|largest|max|shortest|min|median|mean|average|total "
    "{what:selector} "
    "[time|takes|take] [{compare:compare}] {amount:time}",
    "{what:selector} time {compare:compare} {amount:time} [each]",
    "{what:selector} takes|take [{compare:compare}] {amount:time} [each]",
    "{quantifier:quantifier} {what:selector} takes|take [{compare:compare}] {amount:time}",
    "most {what:selector} takes|take [{compare:compare}] {amount:time}",
    "[{share:phrase}] {part:share} of {what:selector} takes|take [{compare:compare}] {amount:time}",
    "{what:selector} time varies by {compare:compare} {amount:share}",
    reasons=(masked_lanes,),
)
def _timed_work(query: Query) -> Measurement:
    """Time: of the GPU (the union of its operations), of the host (the length of the window), of
    kernels (the sum of durations), of a call without the profiler (`wall time`, from a run record).
    A step takes its wall time where a run record has it, and else its host time.

    Several calls are judged by the one with the median GPU time. `median`, `mean`, `longest` and
    `shortest` before a kernel word are over all its launches in the scope. Host times include
    profiler overhead. `each` judges every launch. `== 56 us` holds for what rounds to 56; state a
    tolerance with `+- 10%` or `+- 3 us`, or write `about`. `varies by` is the spread of the
    durations of one kernel with the same shapes: longest minus shortest, over the median.
    """
    if "varies" in query.args:
        return _spread(query)
    if "step" in query.args or _asks_step(query):
        return _step(query)
    if {"each", "quantifier", "most", "part"} & set(query.args):
        return per_window(_every)(query)
    if query.args.get("longest", "total") != "total":
        return _launches(query)
    clock = f"{query.args[CLOCKS[0]]} time" if CLOCKS[0] in query.args else ""
    what = Measure(clock, clock) if clock else Measure("", "time", query.what)
    middle, window = what.median(query.windows), query.windows[0]
    if not clock and "takes" in query.args and window.whole and not query.says_total:
        middle = _agreed(query, what)
    shown = time_text(middle) + (_NOTES.get(clock) or query.median_of)
    verdict = query.nearly(middle)
    if verdict == "miss" and not query.on_cpu:
        unless_shown_otherwise(what, query.windows, lambda value: query.nearly(value) == "hit")
    return Measurement(verdict, shown, window=window, rows=what.rows(window))


_SIZES = ("flops", "bytes", *PER_SECOND)


@prediction(
    "sizes",
    60,
    *(f"{{what:selector}} {name} {{compare:compare}} {{amount:{name}}} [each]" for name in _SIZES),
    *(f"{{what:selector}} reaches [{{compare:compare}}] {{{name}:{name}}}" for name in PER_SECOND),
)
@per_window
def _size(window: Window, query: Query) -> Measurement:
    """Compute and memory traffic: FLOPs and bytes of kernels from recorded shapes, bytes of
    memcpys, and the rates they give.

    `each` judges every kernel; without it the sum over the scope is meant. `rate` and `bandwidth`
    are always of each kernel, at its own duration. FLOPs and bytes are those that the op must do
    and move; what a kernel in fact moved is not in a trace. Bytes that are only estimated (a Triton
    kernel's arguments do not say what is read and what is written) leave a prediction unknown.
    """
    quantity = next(name for name in _SIZES if name in query.args)
    loose = "amount" not in query.args  # `gemm reaches 500 TFLOP/s`
    if loose:
        at_least = {"compare": Compare(">="), "amount": query.args[quantity]}
        query = replace(query, args=at_least | dict(query.args))
    values = each(window, query.what, quantity)
    shown = values if "each" in query.args or quantity in PER_SECOND else [sum(values)]
    verdicts = [query.judge(value) for value in shown]
    texts = [TEXTS[quantity](value) for value in shown]
    measured = tally(texts) if len(texts) > 1 else texts[0]
    verdict = "miss" if "miss" in verdicts else "hit"
    if loose and verdict == "miss":
        base, times = (each(window, query.what, name) for name in (PER_SECOND[quantity], "time"))
        together = sum(base) / max(sum(times), 1) * 1e9
        if query.judge(together) == "hit":
            raise Unknown(f"{TEXTS[quantity](together)} of all together, but {measured}")
        if Trait("role", "copy") in query.what.traits:
            _unless_across(window, query, measured)
    return Measurement(verdict, measured, rows=select(window, query.what).sure)


def _unless_across(window: Window, query: Query, measured: str) -> None:
    """`Unknown` where the copies between host and GPU are as said: often they alone are meant."""
    across = Selector("host-device memcpy", "memcpy", traits=(Trait("direction", CROSSES),))
    values = each(window, across, "bandwidth") if certain(window, across).sure else []
    if values and all(query.judge(value) == "hit" for value in values):
        texts = tally([TEXTS["bandwidth"](value) for value in values])
        raise Unknown(f"{texts} between host and GPU, but {measured} of all")


@prediction(
    "predicted",
    56,
    "predicted step {compare:compare} {amount:time}",
    "predicted step {compare:compare} {amount:time} after {fixes:fixes}",
    slots={"fixes": Slot("names of fixes between commas or `and`", list_of(read_name, least=1))},
)
def _predicted(query: Query) -> Measurement:
    """The step without the profiler, as a replay of the typical step predicts it: as it is, or
    after fixes that apply (`foretrace look TRACE --fixes` lists their names).
    """
    found = query.windows[0].evidence.replayed
    if found is None:
        raise Unknown("no step of this trace can be replayed")
    names: list[str] = query.args.get("fixes", [])
    known = {each.fix: each for each in found.fixes}
    if missing := [name for name in names if name not in known]:
        applying = ", ".join(known) or "none"
        raise Unknown(f"{missing[0]} does not apply to this step; those that do: {applying}")
    value = found.together([known[name] for name in names]) if names else found.now_ns
    return Measurement(query.judge(value), f"about {time_text(value)}, predicted")


def _peak_held(query: Query, view: MemoryView) -> Measurement:
    value = int(view.reserved.max()) if "reserved" in query.args else view.peak_bytes
    return Measurement(query.judge(value), bytes_text(value))


@prediction(
    "memory", 55, "peak [reserved] memory {compare:compare} {amount:bytes}", held=_peak_held
)
@per_window
def _peak(window: Window, query: Query) -> Measurement:
    """Peak GPU memory: the most that torch's allocator had given out, or had reserved, at any time.

    It comes from the memory events of `profile_memory=True`, and is the most of any GPU. In a step
    or a region, the memory that was in use when it began counts too. Without such events, and for a
    snapshot of the allocator, it is the most that was live at once in the history of the snapshot.
    """
    column = "total_reserved" if "reserved" in query.args else "total_allocated"
    trace = window.evidence.trace
    table = trace.tables["memory"].filter(pl.col("device_type") != CPU, pl.col(column) > 0)
    devices = []
    for (_,), part in table.group_by("device_id"):
        times, values = trace.host.start[part["event"].to_numpy()], part[column].to_numpy()
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
        if window.start_ns is not None and window.end_ns is not None:
            first, last = np.searchsorted(times, (window.start_ns, window.end_ns))
            values = values[max(first - 1, 0) : last]
        devices += [int(values.max())] if len(values) else []
    view = window.evidence.trace.memory_view if not devices and window.whole else None
    if view is not None:
        return _peak_held(query, view)
    if not devices:
        of_cpu = window.evidence.trace.tables["memory"].height
        there = ", only those of a CPU: `foretrace memory TRACE` reads them" if of_cpu else ""
        needs = there or ": record with profile_memory=True"
        raise Unknown(f"no GPU memory events in this trace{needs}")
    window.need_whole()
    value = max(devices)
    return Measurement(query.judge(value), bytes_text(value))


LEAST_GROWTH = 0.001  # of the peak, each step: less is noise
FIRST = 2  # the first step makes the gradients and the optimizer's state
# the rest has names that nobody says
NAMED = CATEGORIES[: CATEGORIES.index("CUDA graph pool")]
_PARTS = {tuple(name.split()): name for name in NAMED}


def _held(query: Query, view: MemoryView) -> Measurement:
    if "growth" in query.args:
        # what follows the last whole step is not a step
        whole = len(view.facts.optimizes) if view.facts.optimizes else len(view.steps) - 1
        ends = [end - 1 for _, end in view.steps[: max(whole, 0)]]
        first = int(query.args["first"].value) if "first" in query.args else FIRST
        last = int(query.args["last"].value) if "last" in query.args else len(ends)
        if not 1 <= first < last <= len(ends):
            raise Unknown(f"the snapshot has {plural(len(ends), 'whole step')}")
        before, after = (int(view.curve[ends[step - 1]]) for step in (first, last))
        most = LEAST_GROWTH * view.peak_bytes * (last - first)
        text = f"{bytes_text(before)} after step {first}, {bytes_text(after)} after step {last}"
        return Measurement("hit" if after - before <= most else "miss", text)
    found = by_category(view.lives.size, view.category, view.holders)
    value = found.get(query.args["part"], 0)
    measured = f"{bytes_text(value)} of {bytes_text(view.peak_bytes)} at the peak"
    return Measurement(query.judge(value), measured)


@prediction(
    "held",
    57,
    "{part:held} [memory] {compare:compare} {amount:bytes}",
    "no growth [from] [step] [{first:count}] [to] [step] [{last:count}]",
    expected=lambda args: "no growth" if "growth" in args else comparison(args),
    slots={"held": Slot(", ".join(NAMED), one_phrase(_PARTS))},
    held=_held,
)
def _of_snapshot(query: Query) -> Measurement:
    """What a snapshot of the allocator says: parts of the peak, and growth from step to step.

    A part is what the parameters, gradients, optimizer state, activations, inputs, temporaries or
    workspaces hold at the peak. Growth compares what is live at the end of two steps; less than
    0.1% of the peak for each step is no growth. The steps are those of the snapshot, counted from
    1. The snapshot is a file of its own, or lies beside the trace (`record --memory`).
    """
    view = query.windows[0].evidence.trace.memory_view
    if view is None:
        raise Unknown("no snapshot of the allocator beside the trace: foretrace record --memory")
    if query.scope.kind != "trace":
        raise Unknown("a snapshot knows the peak and the steps of its own history alone")
    return _held(query, view)
