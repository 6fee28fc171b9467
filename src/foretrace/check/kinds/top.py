"""The most expensive kernel, op, call or step."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

from foretrace.base.units import percent_text, time_text
from foretrace.check.kinds import Measurement, Query, per_window, prediction
from foretrace.check.kinds.bounds import gpu_waits
from foretrace.check.kinds.fusion import op_of
from foretrace.check.selection import certain, label, select
from foretrace.check.windows import Unknown, Window, named
from foretrace.check.words import HEADS, Selector


def _thing(window: Window, query: Query) -> Measurement:
    """Whether it takes more GPU time than any other kind of work; a bottleneck leaves no idle."""
    if "bottleneck" in query.args and not query.args["trait"].on_gpu:
        waited = {**query.args, "what": query.args["trait"]}
        return gpu_waits.measure(replace(query, args=waited))
    window.need_whole()
    found, gpu = certain(window, query.args["trait"]), window.evidence.trace.gpu
    if not found.on_gpu or not gpu.usable[window.rows].all():
        raise Unknown("this needs GPU operations with times")
    mine, times = set(found.sure), Counter[str]()
    for row in window.rows.tolist():
        work = window.evidence.operation(row)
        name = work.role if work.kind == "kernel" else work.kind
        times[query.args["trait"].text if row in mine else f"other {name}"] += int(gpu.length[row])
    if not times:
        raise Unknown(f"no GPU operations in {window.label}")
    top = max(times, key=lambda name: times[name])
    idle = 1 - gpu.busy(window.rows) / max(gpu.span(window.rows), 1)
    right = top == query.args["trait"].text
    share = percent_text(times[top] / times.total())
    measured = f"{top.removeprefix('other ')}: {time_text(times[top])}, {share} of GPU time"
    if right and "bottleneck" in query.args and idle > 0.5:
        raise Unknown(f"{measured}, and the GPU is idle for {percent_text(idle)} of the time")
    return Measurement(query.hit_if(right), measured, rows=found.sure)


def _op(window: Window, query: Query) -> Measurement:
    trait: Selector = query.args["trait"]
    # The name of the op that is meant; `conv backward` is `aten::convolution_backward`.
    kinds = {each.kind: each.value for each in trait.traits}
    if kinds.get("phase") == "backward" and kinds.keys() <= {"phase", "role"}:
        wanted = f"aten::*{trait.text.split()[0]}*backward*"
    elif kinds.keys() - {"role", "matmul"}:
        raise Unknown(f"`{trait.text}` is no name of an op")
    else:
        wanted = trait.name or f"aten::{op_of(trait) or trait.text}"
    on_gpu = not window.evidence.runs_on_cpu and "cpu" not in query.args
    if on_gpu:
        window.need_gpu()
    times, host = _by_op(window) if on_gpu else {}, _by_host(window)
    times = times or host
    if not times:
        raise Unknown(f"no ops in {window.label}")
    top = max(times, key=lambda name: times[name])
    wraps = window.evidence.runs_on_cpu and not named(wanted, top) and _wraps(window, wanted, top)
    right = named(wanted, top) or wraps
    measured = f"{top}: {time_text(times[top])}, {percent_text(times[top] / sum(times.values()))}"
    if not right and on_gpu and host and named(wanted, max(host, key=lambda name: host[name])):
        raise Unknown(f"by GPU time it is {top}; {wanted} takes the host longest")
    chains = [window.evidence.operation(row).chain for row in window.rows.tolist()]
    below = (chain for chain in chains if chain[-1:] == (top,))
    if not right and any(named(wanted, op) for chain in below for op in chain):
        raise Unknown(f"{wanted} calls {top}, which launches the work")
    pairs = zip(window.rows.tolist(), chains, strict=True)
    rows = [row for row, chain in pairs if chain[-1:] == (top,)]
    measured = f"{measured} of {'GPU' if on_gpu else 'op'} time"
    return Measurement(query.hit_if(right), measured, rows=rows)


def _wraps(window: Window, wanted: str, op: str) -> bool:
    """Whether every call of an op comes from the wanted one, as `max_pool2d_with_indices` does."""
    host = window.evidence.trace.host
    events = window.events(host.named(lambda name: name == op) & host.is_op)
    within = [_is_below(window, wanted, int(host.parent[event])) for event in events.tolist()]
    if any(within) and not all(within):
        raise Unknown(f"{wanted} calls {op}, and other ops call it too")
    return all(within)


def _is_below(window: Window, wanted: str, event: int) -> bool:
    while event >= 0 and not named(wanted, window.evidence.name(event)):
        event = int(window.evidence.trace.host.parent[event])
    return event >= 0


def _by_op(window: Window) -> dict[str, int]:
    """GPU time by the op that launched it itself."""
    window.need_whole()
    trace, found = window.evidence.trace, Counter[str]()
    for row in window.rows.tolist():
        chain = window.evidence.operation(row).chain
        found[chain[-1] if chain else ""] += int(trace.gpu.length[row])
    if window.lost or found[""] * 2 > found.total():
        raise Unknown("the trace does not say which op launched the GPU operations")
    return {name: time for name, time in found.items() if name}


def _by_host(window: Window) -> dict[str, int]:
    """Self time by op: an op that computes may call another first (`aten::mul_` a cast)."""
    host, found = window.evidence.trace.host, Counter[str]()
    for event in window.events(host.is_op & host.lasting).tolist():
        found[window.evidence.name(event)] += int(host.self_length[event])
    return dict(found)


def _call(window: Window, query: Query) -> Measurement:
    """Whether a runtime or driver call takes the host longest, in all and at once."""
    host, trait = window.evidence.trace.host, query.args["trait"]
    calls = window.events(host.is_call)
    if not len(calls):
        raise Unknown(f"no runtime or driver calls in {window.label}")
    wanted, times = {*certain(window, trait).sure}, Counter[str]()
    for event in calls.tolist():
        times["" if event in wanted else window.evidence.name(event)] += int(host.length[event])
    top, longest = max(times, key=lambda name: times[name]), int(calls[host.length[calls].argmax()])
    measured = (
        f"{top or trait.text}: {time_text(times[top])} of {time_text(times.total())} in calls"
    )
    if (top == "") != (longest in wanted):
        at_once = f"{window.evidence.name(longest)} takes longest at once"
        raise Unknown(f"{measured}; {at_once}: {time_text(int(host.length[longest]))}")
    return Measurement(query.hit_if(top == ""), measured, events=[longest])


def _step(window: Window, query: Query) -> Measurement:
    steps = window.evidence.trace.spans.steps
    if len(steps) < 2:
        raise Unknown("the trace has no two steps to compare")
    step = certain(window, query.args["trait"])
    if query.args["trait"].kind != "step" or len(step.sure) != 1:
        raise Unknown(f"`{query.args['trait'].text}` is not one step of this trace")
    pick = min if query.args["top"] == "fastest" else max
    longest = pick(steps, key=lambda span: span.cpu_ns)
    right = window.evidence.name(step.sure[0]) == longest.name
    return Measurement(
        query.hit_if(right), f"{longest.name}: {time_text(longest.cpu_ns)}", events=step.sure
    )


def _kernel(window: Window, query: Query) -> Measurement:
    kernels, gpu = certain(window, HEADS["kernels"]), window.evidence.trace.gpu
    if not kernels.sure:
        raise Unknown(f"no kernels in {window.label}")
    names: dict[str, list[int]] = defaultdict(list)
    for row in kernels.sure:
        names[window.evidence.operation(row).name].append(row)
    times = {name: int(gpu.length[rows].sum()) for name, rows in names.items()}
    if query.args["top"] == "top":
        rows = names[max(times, key=lambda name: times[name])]
    else:
        rows = [max(kernels.sure, key=lambda row: int(gpu.length[row]))]
    time = int(gpu.length[rows].sum())
    part = time / max(sum(times.values()), 1)
    share = f"{time_text(time)}, {percent_text(part)} of kernel time"
    measured = f"{label(window, kernels, rows[0])}: {share}"
    if "amount" in query.args:
        return Measurement(query.nearly(part), measured, rows=rows)
    trait: Selector = query.args["trait"]
    found = select(window, trait)
    if set(rows) & set(found.maybe):
        raise Unknown(found.why(trait))
    right = set(rows) <= set(found.sure) and found.on_gpu
    return Measurement(query.hit_if(right), measured, rows=rows)


@prediction(
    "top",
    29,
    "top kernel takes [{compare:compare}] {amount:share}",
    "top|longest kernel is [not] [a|an] {trait:selector}",
    "{trait:selector} is|are [not] top|longest kernel",
    "top [cpu] op is [not] {trait:selector}",
    "{trait:selector} is|are [not] top [cpu] op",
    "top call is [not] {trait:selector}",
    "{trait:selector} is|are [not] top call",
    "top|fastest step is [not] {trait:selector}",
    "{trait:selector} is [not] top|fastest step",
    "{trait:selector} is|are [not] top thing",
    "{trait:selector} is|are [not] top of {among:selector}",
    "{trait:selector} is|are [not] bottleneck",
)
@per_window
def _judge(window: Window, query: Query) -> Measurement:
    """What the most expensive kernel, op or step is.

    The top kernel is the name with the most time in the scope, the longest kernel the single launch
    that took longest. The top op is the one whose own launches take the most GPU time; on a CPU, or
    as the top cpu op, the one with the most self time, as `look` has it. An op that is above all
    others by another count only (host time, the ops around it) is unknown. The top call of the
    runtime or the driver takes the host longest, in all and at once. The longest step is the one
    that takes the host longest.
    """
    if "among" in query.args:
        mine, whole = (certain(window, query.args[name]) for name in ("trait", "among"))
        times, gpu = Counter[str](), window.evidence.trace.gpu
        if not (mine.on_gpu and whole.on_gpu and whole.sure and gpu.usable[whole.sure].all()):
            raise Unknown(f"this needs {query.args['among'].text} with times")
        for row in {*whole.sure} - {*mine.sure}:
            times[window.evidence.operation(row).label] += int(gpu.length[row])
        own = int(gpu.length[sorted({*mine.sure} & {*whole.sure})].sum())
        most = max([0, *times.values()])
        measured = f"{time_text(own)}, the others {time_text(times.total())}"
        if most <= own < times.total():
            raise Unknown(f"{measured}: whether they are one thing is not known")
        return Measurement(query.hit_if(own > most), measured, rows=mine.sure)
    if "thing" in query.args or "bottleneck" in query.args:
        return _thing(window, query)
    kinds = {"op": _op, "call": _call, "step": _step}
    return next((kinds[name] for name in kinds if name in query.args), _kernel)(window, query)
