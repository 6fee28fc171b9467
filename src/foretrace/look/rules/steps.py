"""Why one step, or one launch, takes longer than another of the same work."""

from __future__ import annotations

from typing import Any

import numpy as np

from foretrace.base.arrays import coded, distinct
from foretrace.base.units import listing, percent_text, plural, ratio_text, time_text
from foretrace.look.rules import LISTED, Facts, Found, Seen, bare, rule, shapes_text
from foretrace.trace.arguments import distinct_lists
from foretrace.trace.host import HOST_KINDS
from foretrace.trace.intervals import IntervalUnion, Ints, split_by, union_length
from foretrace.trace.spans import Span

# Warm steps of the recorded traces differ by at most 1.1 from their median, cold first ones by 1.4
# (compiled MLP) to 3.5 (matmul + add at size 64).
COLD = 1.25
# The first step must be this much slower than any other.
SLOWEST = 1.1


@rule("A first step that is slower than the others", "steps", example="linear_compiled")
def cold_start(seen: Seen) -> Found:
    """A first step that is slower than the others.

    What it shows: the first recorded step against the median of the rest, on the host and on the
    GPU.

    Why it matters: the first step pays for what is done once: loading kernels, growing pools,
    choosing algorithms, filling caches. A mean over all steps includes that. Warm up before the
    profiler starts, give its schedule a `warmup` step, or leave the first step out.

    How it is computed: the host time of the first step over the median host time of the others with
    as many GPU operations, and the same for GPU time. The first step must also be slower than the
    slowest of the others: where a later step is as slow, the first is not slow because it is the
    first.

    When it is wrong: steps that do different work (sequences of different lengths) differ for that
    reason. With two steps there is only one to compare with.
    """
    spans = seen.trace.spans
    first, *others = spans.steps
    rest = [span for span in others if len(span.work) == len(first.work)]
    if not rest:
        return
    busy, *busy_others = (spans.busy(span) for span in (first, *rest))
    times = [span.cpu_ns for span in rest]
    usual, usual_busy = int(np.median(times)), int(np.median(busy_others))
    ratio = _ratio_text(first.cpu_ns, usual, max(times))
    gpu_ratio = _ratio_text(busy, usual_busy, max(busy_others))
    if max(ratio, gpu_ratio) < COLD:
        return
    where = "host" if ratio >= gpu_ratio else "GPU"
    slower = ratio_text(max(ratio, gpu_ratio))
    title = f"The first step takes {slower} the {where} time of the others"
    gpu = f"; GPU time {time_text(busy)} against {time_text(usual_busy)}" if len(seen.gpu) else ""
    detail = (
        f"{first.name} took {time_text(first.cpu_ns)} on the host, the others {time_text(usual)} "
        f"(median){gpu}. Leave it out of means, or warm up longer before the recording."
    )
    share = round(first.cpu_ns / max(usual, 1), 3)
    evidence = {"first_ns": first.cpu_ns, "usual_ns": usual, "ratio": share}
    evidence |= {"first_busy_ns": busy, "usual_busy_ns": usual_busy} if len(seen.gpu) else {}
    yield seen.found(title, detail, evidence, (first.event,))


def _ratio_text(first: int, usual: int, slowest: int) -> float:
    """The first over the median of the others; 0 where the slowest of them is as slow."""
    return first / usual if usual and first >= SLOWEST * slowest else 0.0


SETUP_NS = 1_000_000
SETUP_BUSY = 0.1  # part of a call in which the GPU may work


@rule("Runtime calls that set up the GPU", "gpu clock")
def first_use(seen: Seen) -> Found:
    """Runtime calls that set up the GPU inside the recording.

    What it shows: runtime and driver calls of 1 ms or more during which the GPU ran nothing, in a
    recording without a second step to compare with: how long they took, and the longest by name.

    Why it matters: the first use of a GPU creates a context, loads kernels and reserves memory. A
    call that usually takes microseconds then takes milliseconds or seconds. Such a recording says
    little about the program: it looks host-bound, and no change of the program makes it faster.

    How it is computed: calls that do not wait for the GPU and capture no graph, and that overlap
    with GPU work for less than a tenth of their length; reported from a fifth of the step on, or
    without steps of the recording. With two steps or more that launch work, `cold_start` compares
    them instead.

    When it is wrong: a program that reserves much memory in every call shows the same. No saving is
    claimed: record a second step to see what remains.
    """
    host, steps = seen.host, [span for span in seen.trace.spans.steps if len(span.work)]
    every = host.lasting & host.is_kind(*HOST_KINDS)
    if len(steps) > 1 or not every.any():
        return
    begin, end = int(host.start[every].min()), int(host.end[every].max())
    if steps:
        begin, end = (at - seen.gpu.lag for at in seen.trace.spans.window(steps[0]))
    calls, recorded = _setup_calls(seen, begin, end), end - begin
    taken = union_length(host.start[calls], np.minimum(host.end[calls], end))
    if not len(calls) or taken < 0.2 * recorded:
        return
    longest = calls[np.argsort(-host.length[calls], kind="stable")][:LISTED]
    named = [{"call": host.names[host.name[row]], "ns": int(host.length[row])} for row in longest]
    number, verb = plural(len(calls), "runtime call"), "take" if len(calls) > 1 else "takes"
    of = f"of the {'step' if steps else 'recording'}'s {time_text(recorded)}"
    title = f"{number} {verb} {time_text(taken)} {of}, with the GPU idle"
    listed = listing([f"{entry['call']} ({time_text(entry['ns'])})" for entry in named[:3]])
    detail = (
        f"Longest: {listed}. So long a call sets up the GPU, loads a kernel or reserves memory, "
        "mostly once. Run the step once before the recording, or record a second one."
    )
    evidence = {"calls": len(calls), "taken_ns": taken, "recorded_ns": recorded, "longest": named}
    yield seen.found(title, detail, evidence, np.sort(calls))


def _setup_calls(seen: Seen, begin: int, end: int) -> Ints:
    """Long calls of this time that neither wait nor capture, while the GPU ran next to nothing."""
    host, gpu = seen.host, seen.gpu
    captures = host.named(lambda name: "Graph" in name or "Capture" in name)
    long = host.is_call & host.lasting & (host.length >= SETUP_NS)
    long &= (host.start >= begin) & (host.start < end)
    calls = np.flatnonzero(long & ~host.is_wait & ~captures)
    busy = IntervalUnion(gpu.start[gpu.usable], gpu.end[gpu.usable])
    worked = busy.between(host.start[calls], host.end[calls])
    found: Ints = calls[worked < SETUP_BUSY * host.length[calls]]
    return found


# Known shapes take 0.04 to 0.13 ms with the profiler on, new ones 55 ms (an H200's host).
PLAN_NS = 5_000_000


@rule("cuDNN plans made for new shapes", "gpu ops shapes", realised=0.9)
def cudnn_plans(seen: Seen) -> Found:
    """cuDNN plans made for new shapes.

    What it shows: calls of cuDNN ops that keep the host busy for milliseconds, each with shapes
    that no call before had.

    Why it matters: cuDNN chooses and builds a plan for every new shape. On an H200 (torch 2.11) a
    call of attention with one query takes 0.1 ms on the host when its shape is known and 55 ms when
    it is new. A cache that grows by one token a step gives a new shape at every step. No graph and
    no fusion helps; fixed shapes do, and flash attention needs no plan.

    How it is computed: calls of ops with `cudnn` in their name that take at least 5 ms on the host,
    ops inside them left out, and whose recorded shapes are new in the trace. The saving is at most
    their time, and at most the idle time of the GPU.

    When it is wrong: shapes of before the recording are not known. A first call of all, with the
    library's loading, looks the same; so one such call in a trace is not told.
    """
    host = seen.host
    calls = np.flatnonzero(host.is_op & host.lasting & host.named(lambda name: "cudnn" in name))
    shapes = seen.trace.arguments.numbers(calls)
    calls, shapes = calls[shapes >= 0], shapes[shapes >= 0]
    key = host.name[calls].astype(np.int64) * (int(shapes.max(initial=0)) + 1) + shapes
    # the first call of each op and shape
    rows: Ints = calls[np.sort(np.unique(key, return_index=True)[1])]
    rows = seen.inside_steps(rows[host.self_length[rows] >= PLAN_NS])
    if len(rows) < 2:
        return
    time = host.self_length[rows]
    spent, median = seen.step(int(time.sum())), float(np.median(time))
    ops = listing(sorted({bare(host.names[name]) for name in host.name[rows].tolist()}))
    # no saving on the host alone can exceed the idle time of the GPU
    idle = seen.idle.length[seen.proven() & ~seen.idle.of("queue")].sum()
    saved = min(spent, seen.limited(idle))
    before, after = (seen.call(int(row)).every_tensor() for row in (rows[0], rows[-1]))
    pairs = [(old.text, new.text) for old, new in zip(before, after, strict=False) if old != new]
    first, last = pairs[0] if pairs else ("one", "another")
    title = f"cuDNN made {plural(len(rows), 'plan')} for new shapes of {ops}"
    detail = (
        f"Each keeps the host for {time_text(median)} (median). The shapes go from "
        f"{first} to {last}. Fixed shapes would save at most {time_text(saved)} {seen.per}."
    )
    evidence: Facts = {"plans": len(rows), "ns": spent, "median_ns": int(median)}
    evidence |= {"first_shape": first, "last_shape": last}
    flash = " (pad the cache), or use flash attention" if "attention" in ops else ""
    yield seen.found(title, detail, evidence, rows, saved, f"keep the shapes fixed{flash}")


# Of ten equal steps on an H200 53% of the pairs rise and the thirds differ by 0.2%; with a growing
# cache all pairs rise and the last third is 62% above the first.
RISING, GROWTH = 0.9, 0.1


@rule("Steps that take longer and longer", "gpu steps", fixes="cache_by_cat")
def drifting_steps(seen: Seen) -> Found:
    """Steps that take longer and longer.

    What it shows: GPU time per step, or the time of the steps themselves, that grows from the first
    steps to the last. For GPU time it names the op that grows most, and whether its shapes, its
    number or only its time grows.

    Why it matters: the mean of such steps describes none of them, and a longer run is slower than
    the recording. A cache that grows by `torch.cat` copies itself at every step; a list that is
    never cleared grows for ever.

    How it is computed: over at least six steps, the busy time of the GPU work that each launched;
    if that does not drift, the host time of the step. A time drifts when 90% of all pairs of steps
    are in rising order and the median of the last third is at least 10% above that of the first
    third. The saving is at most the mean time above the median of the first third.

    When it is wrong: steps of different kinds in rising order (a curriculum, batches sorted by
    length) look the same. Time that a growing sequence needs cannot be saved.
    """
    steps = [span for span in seen.trace.spans.steps if len(span.work)]
    if len(steps) < 6:
        return
    busy, host = [seen.trace.spans.busy(span) for span in steps], [span.cpu_ns for span in steps]
    on_gpu = _drift(busy)
    drift = on_gpu or _drift(host)
    if drift is None:
        return
    if on_gpu:
        third = len(steps) // 3
        growing = _growing(seen, steps[:third], steps[-third:])
        most = growing[0]
        what, times = "GPU time", busy
        told = (
            f"{bare(most['op'])} grows most: "
            f"{time_text(most['first_ns'])} to {time_text(most['last_ns'])} a step, "
            f"{_growth_text(most)}."
        )
    else:
        what, times, growing = "host time (includes profiler overhead)", host, []
        told = "GPU time per step does not grow: the host's does."
    first_ns, last_ns, rising, above_ns = drift
    title = f"Steps drift: {what} grows from {time_text(first_ns)} to {time_text(last_ns)}"
    pairs = f"{percent_text(rising)} of all pairs rise"
    detail = f"Medians of the first and last third of {len(steps)} steps; {pairs}. {told}"
    evidence = {"step_ns": times, "growing": growing}
    yield seen.found(title, detail, evidence, (span.event for span in steps), above_ns)


def _drift(times: list[int]) -> tuple[float, float, float, int] | None:
    """The medians of the first and the last third, the share of rising pairs, and the mean time
    above the first median; None where a time does not grow from step to step.
    """
    time, third = np.array(times), len(times) // 3
    first, last = float(np.median(time[:third])), float(np.median(time[-third:]))
    pairs = _rising(time) / (len(time) * (len(time) - 1) / 2)
    if pairs < RISING or last < first * (1 + GROWTH):
        return None
    return first, last, pairs, round(float(np.maximum(time - first, 0).mean()))


def _rising(time: Ints) -> int:
    """How many pairs rise; by halves, as all pairs of many steps do not fit the memory."""
    if len(time) <= 64:  # of these the pairs are compared one by one
        return int(np.triu(time[None, :] > time[:, None], 1).sum())
    left, right = np.array_split(time, 2)
    return int(np.searchsorted(np.sort(left), right).sum()) + _rising(left) + _rising(right)


def _growing(seen: Seen, early: list[Span], late: list[Span]) -> list[dict[str, Any]]:
    """What each op's GPU operations take in a step early and late, by growth."""
    gpu, origins, steps = seen.gpu, seen.trace.origins, len(early)

    def by_op(spans: list[Span]) -> dict[str, Ints]:
        rows = np.concatenate([span.work for span in spans])
        op = origins.op[rows]
        name = np.where(op >= 0, origins.host.name[np.maximum(op, 0)], -1)
        numbers = distinct(name).tolist()
        names = [origins.host.names[number] if number >= 0 else "(no op)" for number in numbers]
        return dict(zip(names, split_by(name, rows), strict=True))

    def shapes(rows: Ints) -> str:
        ops = origins.op[rows]
        return next((shapes_text(seen.call(int(op))) for op in ops if op >= 0), "")

    before, after, none = by_op(early), by_op(late), np.empty(0, np.int64)
    found: list[dict[str, Any]] = []
    for op in before | after:
        sides = {"first": before.get(op, none), "last": after.get(op, none)}
        ns = {f"{at}_ns": round(int(gpu.length[rows].sum()) / steps) for at, rows in sides.items()}
        count = {f"{at}_count": round(len(rows) / steps, 1) for at, rows in sides.items()}
        first, last = shapes(sides["first"][:1]), shapes(sides["last"][-1:])
        known = {"first_shapes": first, "last_shapes": last}
        found.append({"op": op, **ns, **count, **known})
    found.sort(key=lambda entry: (entry["first_ns"] - entry["last_ns"], entry["op"]))
    return found[:LISTED]


def _growth_text(entry: dict[str, Any]) -> str:
    if entry["first_count"] < entry["last_count"]:
        return f"launched {entry['first_count']:g} to {entry['last_count']:g} times"
    if entry["first_shapes"] and entry["first_shapes"] != entry["last_shapes"]:
        return f"its shapes {entry['first_shapes']} to {entry['last_shapes']}"
    known = entry["first_shapes"] == entry["last_shapes"] != ""
    return "with the same shapes" if known else "shapes not recorded"


# On the recorded H200 traces matmuls of one shape stay within 1.05 of their median, strided
# kernels within 1.2.
WIDE = 1.5


@rule("Kernels whose launches differ widely in time", "gpu shapes")
def varying_kernels(seen: Seen) -> Found:
    """Kernels whose launches differ widely in time.

    What it shows: kernels of one name, one op shape and one grid whose slowest launch takes at
    least 1.5 times the median: mean, median, shortest and longest.

    Why it matters: a mean over such launches describes none of them. The usual reasons are clocks
    that drop, another process or another stream on the card, cold caches, or (for collectives)
    waiting for the other ranks.

    How it is computed: launches by kernel name, op shapes and grid, at least three of them.
    Reported when the launches above their median cost 1% of all kernel time together. Kernels over
    lists of tensors (`foreach`, fused optimizers) are left out: their launches have one grid and
    different tensors. So are those whose op states no shapes (an all-to-all of a list of tensors).
    No saving is claimed, since the trace does not tell the reason.

    When it is wrong: three launches are few; record more steps.
    """
    order = seen.order
    # launches of one grid are one problem, but for lists of tensors and unknown shapes
    alike = [
        case.id.family != "aten_multi_tensor" and bool(shapes_text(case.call))
        for case in seen.cases
    ]
    known = order.counts & seen.gpu.usable[order.row] & np.array(alike, bool)[order.case]
    rows = np.flatnonzero(known)
    if not len(rows):
        return
    group, length = _problems(seen, rows), order.length[rows]
    ordered, size = length[np.lexsort((length, group))], np.bincount(group)
    start = np.concatenate(([0], np.cumsum(size)))[:-1]
    middle = (ordered[start + (size - 1) // 2] + ordered[start + size // 2]) / 2
    above = np.bincount(group, weights=np.maximum(length - middle[group], 0))
    longest = ordered[start + size - 1]
    wide = np.flatnonzero((size >= 3) & (longest >= WIDE * middle))
    if above[wide].sum() < 0.01 * length.sum() or not len(wide):
        return
    worst = wide[np.argsort(-above[wide], kind="stable")][:LISTED]
    members = [np.flatnonzero(group == number) for number in worst.tolist()]
    kinds: list[Facts] = []
    for mine in members:
        case, times = seen.cases[int(order.case[rows[mine[0]]])], length[mine]
        told: Facts = {"kernel": case.id.short, "name": case.name, "op": case.op, "role": case.role}
        mean, median = round(float(times.mean())), int(np.median(times))
        spent = {"count": len(times), "median_ns": median, "mean_ns": mean}
        kinds.append(told | spent | {"min_ns": int(times.min()), "max_ns": int(times.max())})
    first, extra = kinds[0], seen.step(float(above[wide].sum()))
    ratio = ratio_text(first["max_ns"] / max(first["median_ns"], 1))
    title = f"{plural(len(wide), 'kernel')} with widely varying times: use the median, not the mean"
    detail = (
        f"{first['kernel']}: median {time_text(first['median_ns'])}, longest "
        f"{time_text(first['max_ns'])} ({ratio}), mean {time_text(first['mean_ns'])} over "
        f"{first['count']:,} launches. Launches above their median take {time_text(extra)} "
        f"{seen.per} more than the median."
    )
    slow = np.concatenate([mine[length[mine] >= WIDE * middle[group[mine]]] for mine in members])
    evidence = {"kernels": kinds, "above_median_ns": extra}
    yield seen.found(title, detail, evidence, np.sort(order.event[rows[slow]]))


def _problems(seen: Seen, rows: Ints) -> Ints:
    """A number for each kernel name, op shape and grid."""
    kernels, order = seen.trace.kernels, seen.order
    _, grid = distinct_lists(kernels["grid"])
    place = np.searchsorted(kernels["id"].to_numpy(), order.event[rows])
    numbers: Ints = coded(order.case[rows] * (int(grid.max()) + 1) + grid[place])[1]
    return numbers
