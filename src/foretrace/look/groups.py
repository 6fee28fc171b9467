"""Where GPU time goes: the groups of a trace as rows, with their names and what limits each.

The rows of several steps are those of the step with the median GPU time (of two steps in the
middle, their mean). Kernels that run at the same time share it, so the rows add up to that time.

What one call of a region launches, in launch order, with medians over its calls.

The sequence shown is the one that most calls have; times are the medians of those calls, place by
place. In a long one, GPU operations of one kernel, shapes and op path are one row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from foretrace.base.arrays import coded, counted, distinct
from foretrace.base.errors import UsageError
from foretrace.base.units import plural
from foretrace.look.documents import (
    EACH_STEP,
    WHOLE,
    Composition,
    GroupRow,
    LaunchRow,
    LaunchSequence,
    Look,
    TimePart,
)
from foretrace.look.measured_step import MeasuredStep, cpu_groups
from foretrace.read.tables import NONE
from foretrace.trace.host import sums_above
from foretrace.trace.idle import spent_in
from foretrace.trace.intervals import Floats, Ints
from foretrace.trace.metadata import device_of
from foretrace.trace.module_calls import STEP
from foretrace.trace.spans import Span
from foretrace.trace.trace import Trace
from foretrace.work import families
from foretrace.work.costs.limits import AT_ROOF
from foretrace.work.kernel_row import KernelRow


class CaseTime(Struct, frozen=True):
    """How long the launches of one case took in a group."""

    case: KernelRow
    ns: int
    launches: int


class GroupWork(Struct, frozen=True, dict=True):
    """Rows of `gpu` of one group; `cases` have the time of their kernels here, the most first."""

    trace: Trace
    name: str
    rows: Ints
    cases: list[CaseTime]

    @cached_property
    def ns(self) -> int:
        """The time of all rows."""
        return int(self.trace.gpu.length[self.rows].sum())

    @cached_property
    def calls(self) -> Ints:
        """Kernels in each call of the group in the forward pass, where calls are known."""
        grouped, kernels = self.trace.grouped, self.rows[self.trace.gpu.is_kernel[self.rows]]
        forward = kernels[~grouped.backward[kernels]]
        call = grouped.call[forward]
        known = bool(len(call)) and bool((call >= 0).all())
        return counted(call)[1] if known else np.zeros(0, np.int64)


def works(trace: Trace, rows: Ints) -> Iterator[GroupWork]:
    """The groups among these rows."""
    place = trace.order.case_of_work
    group = trace.grouped.group[rows]
    for number in distinct(group).tolist():
        mine = rows[group == number]
        kernels = mine[place[mine] >= 0]
        numbers, at, count = np.unique(place[kernels], return_inverse=True, return_counts=True)
        time = np.bincount(at.reshape(-1), weights=trace.gpu.length[kernels])
        columns = zip(numbers.tolist(), time.tolist(), count.tolist(), strict=True)
        cases = [CaseTime(trace.kernel_rows[case], int(ns), many) for case, ns, many in columns]
        cases.sort(key=lambda each: (-each.ns, each.case.number))
        yield GroupWork(trace, trace.grouped.names[number], mine, cases)


# One M names the matmuls from this share of their time on. In the recorded decoding steps the
# batch size is the M of more than 90% of it.
MAIN_M = 0.8
NAMED = 0.1  # of a group's time: an implementation below is not named
# Attention kernels by family; a family that is not here is not named.
_ATTENTION = {
    "flash_attention_2": "FA2",
    "flash_attention_3": "FA3",
    "flash_attention_4_cute": "FA4",
    "cudnn_sdpa": "cuDNN",
    "cudnn_sdpa_aux": "cuDNN",
    "mem_efficient_attention": "mem-efficient",
    "inductor_triton": "Triton",
    "user_triton": "Triton",
}


def shown_name(work: GroupWork, rows_of_matmuls: int) -> str:
    """`GEMM, M=1`, `attention (FA2)`, `optimizer (AdamW, fused)`, or the plain name."""
    if work.name == "GEMM" and rows_of_matmuls:
        return f"GEMM, M={rows_of_matmuls}"
    if work.name == "attention":
        return _with_parts(work, [_attention(each.case) for each in work.cases])
    if work.name == "optimizer":
        # The class from the region around its step; how it runs from the names of its kernels.
        regions = {span.name for span in work.trace.spans.regions if span.name.startswith(STEP)}
        classes = {name.removeprefix(STEP).partition(".")[0] for name in regions}
        kinds = []
        for name in (each.case.id.short for each in work.cases):
            foreach = "foreach" if "foreach" in name else "for loop"
            kinds.append("fused" if name.startswith("fused") else foreach)
        return _with_parts(work, kinds, classes.pop() if len(classes) == 1 else "")
    return work.name


def _common_m(trace: Trace, parts: Sequence[Ints]) -> int:
    """The M of most matmuls of each of these steps or calls; 0 where it differs between them."""
    order, of_case = trace.order, np.array([_m(case) for case in trace.kernel_rows], np.int64)
    is_matmul = trace.work_groups == "GEMM"
    m = np.zeros(len(trace.gpu), np.int64)
    m[order.row] = of_case[order.case]
    found = set()
    for rows in (part[is_matmul[part]] for part in parts):
        if len(rows):  # the M of nearly all time of these matmuls
            sizes, place = coded(m[rows])
            times = np.bincount(place, weights=trace.gpu.length[rows])
            found.add(int(sizes[times.argmax()]) if times.max() >= MAIN_M * times.sum() else 0)
    return found.pop() if len(found) == 1 else 0


def _m(case: KernelRow) -> int:
    """The rows of the first operand of `mm` and `addmm`; 0 for other ops and unrecorded sizes."""
    place = {"aten::mm": 0, "aten::addmm": 1, "aten::_addmm_activation": 1}.get(case.op)
    tensor = case.call.tensor(place) if case.call and place is not None else None
    return tensor.dims[0] if tensor and len(tensor.dims) == 2 else 0


def _attention(case: KernelRow) -> str:
    """Matmuls and a softmax of their own: `by hand`, or the math of PyTorch."""
    if case.role in ("gemm", "gemv", "softmax"):
        return "unfused"
    return _ATTENTION.get(case.id.family, "") if case.role == "attention" else ""


def _with_parts(work: GroupWork, parts: list[str], first: str = "") -> str:
    """The parts that take a tenth of the time and more, the most first."""
    times: dict[str, int] = {}
    for part, each in zip(parts, work.cases, strict=True):
        times[part] = times.get(part, 0) + each.ns
    main = [part for part in times if part and times[part] >= NAMED * sum(times.values())]
    main.sort(key=lambda part: -times[part])
    words = [word for word in (first, *main) if word]
    return f"{work.name} ({', '.join(words)})" if words else work.name


# Kernels that torch.compile joins: it made one of each RMSNorm, SwiGLU and RoPE in the recorded
# models. A library's kernel stays as it is.
FUSABLE = frozenset({"pointwise", "copy", "reduction"})
LEAST_RATE = 0.1  # bytes per ns, which is GB/s
PART = 0.2  # of a group's time: a bound below is not worth a word
MINOR = 0.02  # of the time of a bound: cases below do not widen its range
_ROOFS = {"compute": "compute", "memory": "HBM"}
_COUNTED = {"last wave": "last wave partly full", "only ": "short kernels"}
_UNSURE = r"(?:about|at least|at most) (?=\d|under)"
_BLOCKS = r"(?<![\d,])([\d,]+) blocks? on (\d+) SMs"


def limited_by(work: GroupWork) -> str:
    """`8 kernels each, fusable`, `4 blocks on 132 SMs`, `82% of the HBM roof`, or ""."""
    if not work.cases:
        gpu, host = work.trace.gpu, work.trace.host
        name = host.name[gpu.id[work.rows]]
        found = []
        numbers, place = coded(name)
        spent, least = (
            np.bincount(place, gpu.length[work.rows]),
            PART * int(gpu.length[work.rows].sum()),
        )
        for number in numbers[spent >= least].tolist():  # at most five
            decoded, mine = families.decode(host.names[number]), work.rows[name == number]
            memory = {decoded.get("src"), decoded.get("dst")} & {"Pageable", "Pinned"}
            time, moved = int(gpu.length[mine].sum()), gpu.bytes[mine]
            if memory and time >= least:
                # a copy of a few bytes is all latency: it has no rate worth a word
                known = bool((moved >= 0).all()) and 0 < time * LEAST_RATE <= int(moved.sum())
                rate = f"{int(moved.sum()) / time:.3g} GB/s, " if known else ""
                found.append((-time, rate + memory.pop().lower()))
        return "; ".join(text for _, text in sorted(found))
    return _many(work) or _bounds(work)


def _many(work: GroupWork) -> str:
    calls, fusable = work.calls, all(each.case.role in FUSABLE for each in work.cases)
    if not len(calls) or calls.max() < 2:
        return ""
    count, backward = _range(calls.tolist()), bool(work.trace.grouped.backward[work.rows].any())
    every = "each forward" if backward else "each"
    if fusable:
        return f"{count} kernels {every}, fusable"
    by_hand = work.name == "attention" and any(each.case.role == "softmax" for each in work.cases)
    return f"{count} kernels {every}, not fused" if by_hand else ""


def _bounds(work: GroupWork) -> str:
    """The bounds that take a fifth of the group's time and more, the most first; at most two, and
    none where they do not explain half of it.
    """
    by_bound: dict[str, list[CaseTime]] = {}
    for each in work.cases:
        by_bound.setdefault(each.case.bound, []).append(each)
    times = {bound: _time(cases) for bound, cases in by_bound.items()}
    main = sorted((b for b in times if times[b] >= PART * work.ns), key=lambda b: -times[b])
    texts = {bound: _text(bound, by_bound[bound]) for bound in main[:2]}
    explained = sum(times[bound] for bound, text in texts.items() if text)
    return "; ".join(filter(None, texts.values())) if explained >= work.ns / 2 else ""


def _time(cases: Sequence[CaseTime]) -> int:
    return sum(each.ns for each in cases)


def _text(bound: str, cases: Sequence[CaseTime]) -> str:
    least = MINOR * _time(cases)
    main = [each for each in cases if each.ns >= least] or cases  # all of many small ones
    if bound in _ROOFS:
        roof = _ROOFS[bound]
        reached = [each.case.roof_percent for each in main]
        percents = [percent for percent in reached if percent is not None]
        if not percents:
            return ""
        span = f"{_range(map(int, percents))}%"
        unsure = {found[0] for each in main if (found := re.search(_UNSURE, each.case.limited_by))}
        span = f"{unsure.pop() if len(unsure) == 1 else 'about '}{span}" if unsure else span
        if int(min(percents)) >= 100 * AT_ROOF:
            return f"{span} of the {roof} roof"
        cause = _shared_cause(main)
        return f"{span} of {roof}" + (f": {cause}" if cause else "")
    if bound == "latency":
        few = [
            (found, each.ns) for each in main if (found := re.search(_BLOCKS, each.case.limited_by))
        ]
        if 2 * sum(ns for _, ns in few) > _time(main):
            blocks = [int(found[1].replace(",", "")) for found, _ in few]
            low, high = min(blocks), max(blocks)
            count = plural(high, "block") if low == high else f"{low} to {high} blocks"
            return f"{count} on {few[0][0][2]} SMs"
        return "latency: little work"
    if bound == "l2":
        # Each kernel has its own producer: the group says how near to L2's roof they come.
        said = {each.case.limited_by for each in main}
        percents = [share for each in main if (share := each.case.roof_percent) is not None]
        if len(said) == 1 or len(percents) < len(main):
            return said.pop() if len(said) == 1 else "from L2, faster than HBM"
        return f"from L2 ({_range(map(int, percents))}% of its roof)"
    said = {each.case.limited_by for each in main}
    return said.pop() if len(said) == 1 and bound != "unknown" else ""


def _range(numbers: Iterable[int]) -> str:
    """`3 to 5`, or `5` where all are the same."""
    return " to ".join(map(str, sorted({min(found := [*numbers]), max(found)})))


def _shared_cause(cases: Sequence[CaseTime]) -> str:
    """A cause that holds for more than half of the time; those with a number of each kernel's own
    are named without it.
    """
    times: dict[str, int] = {}
    for each in cases:
        cause = each.case.limited_by.partition(": ")[2]
        cause = next((text for start, text in _COUNTED.items() if cause.startswith(start)), cause)
        times[cause] = times.get(cause, 0) + each.ns
    most = max(times, key=lambda cause: times[cause])
    return most if times[most] > _time(cases) / 2 else ""


def usual_work(trace: Trace, spans: Sequence[Span] = ()) -> tuple[list[Ints], Floats]:
    """The rows of `gpu` of one step or call of `spans` (of two in the middle both), else of the
    recording, and the time of every row in them.
    """
    usable = trace.gpu.usable
    timed = [span for span in spans if bool(usable[span.work].any())]
    timed.sort(key=trace.spans.busy)
    middle = timed[(len(timed) - 1) // 2 : len(timed) // 2 + 1]
    parts = [span.work for span in middle] if spans else [np.flatnonzero(usable)]
    times = [trace.gpu.shared(span.work, trace.spans.since(span)) for span in middle]
    return parts, np.sum(times or [trace.gpu.shared(usable)], axis=0)


def group_rows(trace: Trace, spans: Sequence[Span] = ()) -> list[GroupRow]:
    """Every group, the most time first: per step or call of `spans`, else for the recording."""
    usable = trace.gpu.usable
    if not bool(usable.any()):
        return []
    parts, time = usual_work(trace, spans)
    rows = np.concatenate([part[usable[part]] for part in parts])
    m = _common_m(trace, [span.work for span in spans] or parts)
    found = [_row(work, time, len(parts), m) for work in works(trace, rows)]
    return sorted(found, key=lambda row: (-row.time_ns, row.name))


def shown_groups(trace: Trace, spans: Sequence[Span] = ()) -> dict[str, str]:
    """What `group_rows` calls each group."""
    parts, _ = usual_work(trace, spans)
    if not parts:
        return {}
    rows = np.concatenate([part[trace.gpu.usable[part]] for part in parts])
    m = _common_m(trace, [span.work for span in spans] or parts)
    return {shown_name(work, m): work.name for work in works(trace, rows)}


def _row(work: GroupWork, time: Floats, parts: int, m: int) -> GroupRow:
    ns = float(time[distinct(work.rows)].sum())  # two steps or calls may have the same work
    count = len(work.rows) // parts if len(work.rows) % parts == 0 else len(work.rows) / parts
    return GroupRow(
        shown_name(work, m),
        round(ns / parts),
        ns / max(float(time.sum()), 1.0),
        count,
        limited_by(work),
    )


RECORDING = "in the recording"


def of_first_screen(trace: Trace, step: MeasuredStep | None, look: Look) -> Composition | None:
    """What the first screen is about; None where neither a GPU nor a CPU has a time."""
    if step is not None:
        idle = max(step.wall_ns - step.busy_ns, 0.0)
        parts = _parts(trace, step.spans, step.busy_ns, step.idle_by_cause, idle)
        recorded = None if step.recorded_ns is None else float(step.recorded_ns)
        return Composition(step.per, float(step.wall_ns), parts, recorded)
    if not look.cpu:
        return None
    per = "per step" if look.steps else "per call"
    rows = [row for row in cpu_groups(look.cpu) if row.time_ns]
    parts = [TimePart("cpu", row.name, float(row.time_ns)) for row in rows]
    total = sum(part.ns for part in parts)
    return Composition(RECORDING if look.cpu[0].name == WHOLE else per, total, parts)


def of_recording(trace: Trace) -> Composition | None:
    """The whole recording, as it was recorded; None where no GPU event has a time."""
    if not trace.gpu.usable.any():
        return None
    spent = spent_in(trace.idle)
    idle = float(sum(spent.idle_by_cause.values()))
    parts = _parts(trace, (), float(spent.busy_ns), spent.idle_by_cause, idle)
    return Composition(RECORDING, spent.busy_ns + idle, parts)


def _parts(
    trace: Trace, spans: Sequence[Span], busy_ns: float, by_cause: Mapping[str, int], idle_ns: float
) -> list[TimePart]:
    """GPU time by role and idle time by cause; work that runs at once shares its time."""
    time = usual_work(trace, spans)[1]
    rows = np.flatnonzero(time)  # of one step: the names of all steps take ten times as long
    roles, place = np.unique(trace.work_roles[rows], return_inverse=True)
    spent = np.bincount(place.reshape(-1), time[rows], len(roles))
    shares = dict(zip(roles.tolist(), spent.tolist(), strict=True))
    causes = by_cause if any(by_cause.values()) else {"unknown": 1}
    return [*_scaled("busy", shares, busy_ns), *_scaled("idle", causes, idle_ns)]


def _scaled(kind: str, shares: Mapping[str, float], ns: float) -> list[TimePart]:
    """Parts in these proportions that add up to a time, the most first."""
    total = sum(shares.values()) or 1.0
    parts = [TimePart(kind, name, ns * part / total) for name, part in shares.items()]
    found = [part for part in parts if part.ns > 0]
    return sorted(found, key=lambda part: (-part.ns, part.name))


# A sequence of more GPU operations than this is folded: it does not fit a page, and layers repeat.
LONGEST = 40
# Regions and rows that a page has room for; what is left out is counted.
REGIONS, ROWS = 12, 60


def sequences(trace: Trace) -> list[LaunchSequence]:
    """One per region with GPU work, then the steps, else the recording; no sequence twice."""
    describe, seen = _Describer(trace), set[bytes]()
    found: list[LaunchSequence] = []
    for name, calls in _groups(trace):
        usual = _usual(trace, calls)
        key = _key(trace, usual[0].work) if usual else b""
        if key and key not in seen and len(found) < REGIONS:
            seen.add(key)
            found.append(describe.sequence(name, len(calls), usual))
    return found


def of_region(trace: Trace, name: str) -> list[LaunchSequence]:
    """The sequence that most calls of one region have; none where they launch nothing."""
    groups = trace.spans.region_groups()
    if name not in groups:
        known = ", ".join(list(groups)[:REGIONS]) or "none"
        raise UsageError(f"no region {name!r} in this trace; regions: {known}")
    calls = groups[name]
    usual = _usual(trace, calls)
    return [_Describer(trace).sequence(name, len(calls), usual)] if usual else []


def _groups(trace: Trace) -> Iterator[tuple[str, list[Span]]]:
    yield from trace.spans.region_groups().items()
    if trace.spans.steps:
        yield EACH_STEP, trace.spans.steps
        return
    yield WHOLE, [Span("", 0, 0, 0, 0, trace.gpu.launch_order)]


def _key(trace: Trace, rows: Ints) -> bytes:
    return trace.host.name[trace.gpu.id[rows]].tobytes()


def _usual(trace: Trace, calls: list[Span]) -> list[Span]:
    """The calls with the commonest sequence, of those that launched anything."""
    keys = [_key(trace, span.work) for span in calls]
    counted = Counter(key for key in keys if key)
    best = max(counted, key=lambda key: (counted[key], key), default=b"")
    return [span for span, key in zip(calls, keys, strict=True) if key == best and key]


class _Describer:
    """Describes the GPU operations of one trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.case = trace, trace.order.case_of_work
        self.chain = np.full(len(trace.gpu), -1, np.int64)
        self.chain[trace.order.row] = trace.order.chain
        host, below = trace.host, trace.work_below
        share = host.self_length / np.maximum(below, 1)
        self.shares = sums_above(host.parent, np.where(host.is_op | host.is_call, share, 0))
        device = device_of(trace.about)
        self.most = device.bytes_per_s / 1e9 if device else None

    def sequence(self, name: str, calls: int, usual: list[Span]) -> LaunchSequence:
        """The sequence that `usual` calls share."""
        places = np.stack([span.work for span in usual])  # one row per call, one column per place
        first, count = places[0], places.shape[1]
        groups = self._folded(first) if count > LONGEST else [[place] for place in range(count)]
        return LaunchSequence(
            *(name, calls, len(usual), count),
            folded=count > LONGEST,
            rows=[self._row(places[:, group]) for group in groups[:ROWS]],
            left_out=max(len(groups) - ROWS, 0),
        )

    def _folded(self, rows: Ints) -> list[list[int]]:
        groups: dict[tuple[int, ...], list[int]] = {}
        name = self.trace.host.name[self.trace.gpu.id[rows]]
        keys = zip(name.tolist(), self.case[rows].tolist(), self.chain[rows].tolist(), strict=True)
        for place, key in enumerate(keys):
            groups.setdefault(key, []).append(place)
        return list(groups.values())

    def _row(self, rows: Ints) -> LaunchRow:
        trace, gpu, every, first = self.trace, self.trace.gpu, rows.reshape(-1), int(rows[0, 0])
        name = trace.host.names[trace.host.name[gpu.id[first]]]
        case = trace.kernel_rows[int(self.case[first])] if gpu.is_kernel[first] else None
        ns = _median(gpu.length[every][gpu.usable[every]])
        flops, moved = (case.flops, case.bytes) if case else (None, self._copied(first))
        if bool((self.case[every] != self.case[first]).any()):
            flops = moved = None  # no one size: the shapes differ between calls
        launch = int(gpu.launch[first])
        launched = [trace.host.names[trace.host.name[launch]]] if launch >= 0 else []
        launches = gpu.launch[every]
        return LaunchRow(
            kernel=case.id.short if case else families.decode(name).short,
            name=name,
            role=str(trace.work_roles[first]),
            bound=str(trace.work_bounds[first]),
            chain=[*trace.origins.host.op_chain(int(trace.origins.op[first])), *launched],
            times=rows.shape[1],
            ns=ns,
            host_ns=_median(self.shares[launches[launches >= 0]]),
            delay_ns=_median(gpu.delay[every][gpu.delay[every] >= 0]),
            tflops=flops / ns / 1e3 if flops and ns else None,
            gbps=case.gbps if moved and case and case.bound == "l2" else self._rate(moved, ns),
            certainty=case.cost_certainty if case else "",
        )

    def _rate(self, moved: int | None, ns: float | None) -> float | None:
        """None beyond the bandwidth of the memory: a cache gave part of it."""
        rate = moved / ns if moved and ns else None
        return None if rate is None or (self.most and rate > self.most) else rate

    def _copied(self, row: int) -> int | None:
        """Bytes that a memcpy or memset moves: a copy within the device reads and writes."""
        size, name = int(self.trace.gpu.bytes[row]), self.trace.host.name[self.trace.gpu.id[row]]
        within = self.trace.host.names[name].startswith(("Memcpy DtoD", "Memcpy PtoP"))
        return None if size == NONE else size * (2 if within else 1)


def _median(values: NDArray[Any]) -> float | None:
    return float(np.median(values)) if len(values) else None
