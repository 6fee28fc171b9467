"""What an expert would say about a trace: one function per rule.

`@rule(...)` declares a function as a rule of its name, and its docstring is the manual page. To
write it into one of these files is all it takes; other packages bring rules through the entry point
group `foretrace.analyses`. A rule returns findings and draws nothing.

`Seen` is a trace as a rule sees it: what counts, totals of a step, idle time, and what was found.

Idle time is that of a typical step, and only what the trace proves. The typical step is the one
with the median idle time, so a cold first step counts for nothing and the parts of a figure add up.
Without steps, it is the whole recording. A run record beside the trace limits what a faster host
can save.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, wraps
from itertools import islice
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from foretrace.base import budget, plugins
from foretrace.base.arrays import coded
from foretrace.base.errors import LimitError
from foretrace.base.units import bytes_text, listing, plural, time_text
from foretrace.look.documents import Finding, Findings
from foretrace.read.compiler import records as compiled
from foretrace.read.ledger import ABSENT
from foretrace.trace import bounds
from foretrace.trace.arguments import made, operands
from foretrace.trace.idle import Idle, lost_launches, unproven, windows_of
from foretrace.trace.intervals import Bools, Ints, innermost
from foretrace.trace.metadata import device_of
from foretrace.trace.recording import op_call
from foretrace.trace.trace import Trace
from foretrace.work.costs import OpCall, Tensor, peak_flops, short_type
from foretrace.work.costs.matmul import OPERANDS
from foretrace.work.devices import Device
from foretrace.work.kernel_row import KernelRow

# Ops that add their first argument to the matmul of the next two.
ADDING = frozenset({"aten::addmm", "aten::_addmm_activation", "aten::baddbmm", "aten::addmv"})
LAYOUT = "layout_transform"  # what the families call a change between NCHW and NHWC
BACKWARD = "autograd::engine::evaluate_function"


def bare(op: str) -> str:
    """`aten::gelu` -> `gelu`."""
    return op.removeprefix("aten::")


def shortened(words: Sequence[str], most: int = 6) -> str:
    """`a, b, c and 12 more`: no more than fit a line."""
    more = len(words) - most
    return listing([*words[:most], f"{more} more"] if more > 1 else words)


def amount_text(entry: dict[str, Any]) -> str:
    """`277 us, 204.5 MB` of an entry with `ns` and `bytes`; the time alone without bytes."""
    size = entry["bytes"]
    return time_text(entry["ns"]) + ("" if size is None else f", {bytes_text(size)}")


def shapes_text(call: OpCall | None) -> str:
    """The shapes of the tensor arguments, `[8192, 768] x [768, 3072]`; a result that is passed in
    is left out. What a matmul is added to comes last: `[8192, 768] x [768, 3072] + [3072]`.
    """
    tensors = call.every_tensor() if call else ()
    if call and call.name in OPERANDS:
        tensors = tensors[: OPERANDS[call.name]]
    texts = [f"[{', '.join(str(size) for size in tensor.dims)}]" for tensor in tensors]
    if call and call.name in ADDING and len(texts) == 3:
        return f"{texts[1]} x {texts[2]} + {texts[0]}"
    return " x ".join(texts)


def bandwidth_ns(device: Device | None, count: int | None) -> float:
    """The least time to move this many bytes; 0 if unknown or if the cache may hold them."""
    if device is None or not count or count <= (device.l2_bytes or 0):
        return 0.0
    return count / device.bytes_per_s * 1e9


def matmul_ns(device: Device | None, case: KernelRow, kind: str = "") -> float | None:
    """The least time of one launch's arithmetic at the card's peak for `kind`, or its own type."""
    stated = case.id.get("dtype_in") or ""
    own = {"f16": "fp16", "f32": "tf32", "tf32": "tf32"}.get(stated, stated)
    top = peak_flops(device, kind or own, True)
    return None if top is None or case.flops is None else case.flops / top * 1e9


@cache
def generation(arch: str | None) -> int | None:
    """`sm90` -> 9, `sm100f` -> 10; None for other cards than NVIDIA's."""
    if not arch or not arch.startswith("sm"):
        return None
    digits = "".join(letter for letter in arch if letter.isdigit())
    return int(digits) // 10 if digits else None


def cast_of(case: KernelRow) -> str:
    """`bf16 -> f32` for a kernel that changes the type, else ""."""
    if case.role != "copy":
        return ""
    call = case.call if case.op == "aten::copy_" else None
    target, source = (call.tensor(0), call.tensor(1)) if call else (None, None)
    types = [case.id.get("src_dtype"), case.id.get("dst_dtype")]
    if target and source and target.type == source.type:
        return ""
    if target and source:
        types = [short_type(source.type), short_type(target.type)]
    return f"{types[0]} -> {types[1]}" if all(types) and types[0] != types[1] else ""


class Traffic(Struct, frozen=True):
    """What one kernel for a group must move, and the largest tensor that it need not."""

    least: int
    largest: int
    name: str


def traffic_of(cases: Sequence[KernelRow], matmuls: Counter[int]) -> Traffic:
    """`matmuls` counts the matmuls that wrote a tensor of some size before the group.

    Operands of one shape from outside count as one tensor, or as many as matmuls made of it. A
    slice (half of a head, an item of a list) counts as part of the largest.
    """
    inside: Counter[int] = Counter()
    outside: Counter[tuple[Any, ...]] = Counter()
    read: dict[int, Tensor] = {}  # what is made and read inside, by size
    pairs = [(case, made(case)) for case in cases]
    for case, result in pairs:
        taken: Counter[int] = Counter()
        for tensor, size in operands(case):
            if inside[size] > taken[size]:
                taken[size] += 1
                read[size] = tensor
            else:
                is_slice = not tensor.type or has_gaps(tensor)
                outside[tensor.dims, tensor.type, is_slice, size] += 1
        inside[result] += 1
    largest = max((size for *_, size in outside), default=0)
    least = sum(
        size * min(times, matmuls[size] or 1)
        for (*_, part, size), times in outside.items()
        if size == largest or not part
    )
    final = sum(case.bytes_written or 0 for case, result in pairs if result not in read)
    size = max(read, default=0)
    maker = next((bare(case.op) for case, result in pairs if result == size), "")
    name = f"The {bytes_text(size)} intermediate that {maker} makes"
    if (shown := read.get(size)) and shown.elements == shown.stored:
        name += f" ({shown.text})"
    return Traffic(least + max(final, cases[-1].bytes_written or 0), size, name)


def has_gaps(tensor: Tensor) -> bool:
    """Whether its elements span more memory than they fill: it is part of a larger tensor."""
    pairs = zip(tensor.dims, tensor.strides or (), strict=False)
    return 1 + sum((size - 1) * abs(stride) for size, stride in pairs) > tensor.stored


# A finding names at most this many events, enough to jump to; the evidence holds the count.
EVENTS = 50
# A finding lists at most this many kinds of a thing, the most expensive first.
LISTED = 8
# A step of a large model has thousands of gaps; the longest show where to look.
RANGES = 200
Found = Iterator[Finding]
Facts = dict[str, Any]


class Group(Struct, frozen=True):
    """Cases, the most expensive first: launches and time per step, their share of kernel time."""

    cases: list[KernelRow]
    count: float
    ns: int
    share: float
    events: tuple[int, ...]


class Seen:
    """One trace under one rule. Times and counts are those of a step, where there are steps."""

    def __init__(self, trace: Trace, name: str = "", title: str = "") -> None:
        self.trace, self.name, self.title = trace, name, title
        self.gpu, self.host = trace.gpu, trace.host
        self.order = trace.order
        self.step = trace.order.per_step
        self.per = "per step" if trace.order.steps else "in the whole recording"

    @property
    def cases(self) -> list[KernelRow]:
        """Every kind of kernel."""
        return self.trace.kernel_rows

    @cached_property
    def device(self) -> Device | None:
        """The card of the trace, where it is known."""
        return device_of(self.trace.about)

    @cached_property
    def counted(self) -> Bools:
        """Which rows of `gpu` count: all, or those in steps where there are steps."""
        steps = self.trace.spans.step_of_work
        return steps() >= 0 if self.order.steps else np.ones(len(self.gpu), bool)

    @cached_property
    def idle(self) -> Idle:
        """The gaps of the step with the median idle time; of the recording without steps."""
        return self.trace.gaps.typical or self.trace.idle

    def found(
        self,
        title: str,
        detail: str,
        evidence: Mapping[str, Any],
        events: Ints | Iterable[int],
        at_most_ns: int | None = None,
        fix: str = "",
        gaps: Idle | None = None,
    ) -> Finding:
        """What the rule found; `events` prove it, and `gaps` are what it is about."""
        shown = ranges(gaps) if gaps is not None else ()
        first = tuple(int(event) for event in islice(events, EVENTS))
        return Finding(self.name, "found", title, detail, at_most_ns, evidence, first, fix, shown)

    def each(self, count: float) -> float:
        """A count per step, whole where it is whole."""
        share = count / max(self.order.steps, 1)
        return int(share) if float(share).is_integer() else round(share, 1)

    def ns(self, rows: Ints) -> int:
        """The GPU time of these rows in a step."""
        return self.step(int(self.gpu.length[rows].sum()))

    def inside_steps(self, rows: Ints) -> Ints:
        """Of these host events those that lie in a step; all, where there are no steps."""
        if not self.order.steps:
            return rows
        edges = np.array([(span.start_ns, span.end_ns) for span in self.trace.spans.steps])
        edges = edges[np.argsort(edges[:, 0], kind="stable")]
        return rows[innermost(edges[:, 0], edges[:, 1], self.host.start[rows]) >= 0]

    def costliest_groups(self, rows: Ints) -> list[str]:
        """The three groups that have most of the time of these rows: `RMSNorm`, `RoPE`."""
        names, place = coded(self.trace.work_groups[rows])
        time = np.bincount(place.reshape(-1), weights=self.gpu.length[rows], minlength=len(names))
        return [str(names[at]) for at in np.argsort(-time, kind="stable")[:3]]

    def together(self, cases: Sequence[KernelRow]) -> Group | None:
        """These cases as one; None when none of them was launched where it counts."""
        order, seen = self.order, [case for case in cases if case.launches]
        if not seen:
            return None
        seen.sort(key=lambda case: (-case.ns, case.name, case.number))
        ns, every = sum(case.ns for case in seen), max(int(order.length[order.counts].sum()), 1)
        rows = np.flatnonzero(order.counts & np.isin(order.case, [case.number for case in seen]))
        count, events = self.each(sum(case.launches for case in seen)), order.events_of(rows)
        shown = tuple(int(event) for event in events[:EVENTS])
        return Group(seen, count, self.step(ns), round(ns / every, 4), shown)

    def where(self, test: Callable[[KernelRow], bool]) -> Group | None:
        """The cases that pass a test, as one."""
        return self.together([case for case in self.cases if test(case)])

    def facts(self, cases: Sequence[KernelRow], wanted: str) -> list[dict[str, Any]]:
        """What the evidence says of the first of these cases: the facts that `wanted` names."""
        return [
            {word: _FACTS[word](self, case) for word in wanted.split()} for case in cases[:LISTED]
        ]

    def within(self, at: Ints, wanted: Callable[[str], bool]) -> Ints:
        """The nearest range of a wanted name around each of these events of `origins`, or -1."""
        host = self.trace.origins.host
        return host.nearest(at, host.named(wanted))

    def call(self, event: int) -> OpCall:
        """An op with its arguments; with none where they were not recorded."""
        return op_call(self.trace, event) or OpCall("")

    def following(self, distance: int, test: Callable[[KernelRow, KernelRow], bool]) -> Ints:
        """Places of launches whose case, with that of the launch `distance` before, passes a test.

        Both lie on one stream and in one step, and both count. A pair of cases is tested once.
        """
        order, size = self.order, len(self.order.row)
        if size <= distance:
            return np.empty(0, np.int64)
        left, right = slice(0, size - distance), slice(distance, size)
        together = order.lane[left] == order.lane[right]
        together &= (order.step[left] == order.step[right]) & order.counts[right]
        base = len(self.cases)
        found, inverse = coded(order.case[left] * base + order.case[right])
        pairs = (divmod(code, base) for code in found.tolist())
        passes = np.array([test(self.cases[one], self.cases[two]) for one, two in pairs], bool)
        return np.flatnonzero(together & passes[inverse]) + distance

    def proven(self) -> Bools:
        """Which of the idle time the trace proves."""
        return ~unproven(self.trace, self.idle)

    def untold(self) -> Finding | None:
        """The answer of a rule that has none because most idle time is not proven."""
        if self.idle.length[~self.proven()].sum() <= self.idle.length.sum() / 2:
            return None
        count = plural(len(lost_launches(self.trace)), "launch", "launches")
        detail = f"needs the GPU events of captured or lost launches: {count} without any"
        return Finding(self.name, "skipped", self.title, detail)

    def limited(self, ns: float) -> int:
        """A saving of host time, at most what the run record leaves of it."""
        limit = bounds.idle_limit_ns(self.trace)
        return round(ns if limit is None else min(ns, limit))

    def host_note(self) -> str:
        """What every figure of host time needs beside it."""
        limit = bounds.idle_limit_ns(self.trace)
        if limit is None:
            return "Host times include profiler overhead."
        idle = f"the GPU is idle for at most {time_text(round(limit))}"
        return f"Host times are profiled; without the profiler {idle} (run record)."


_FACTS: dict[str, Callable[[Seen, KernelRow], Any]] = {
    "kernel": lambda _, case: case.id.short,
    "name": lambda _, case: case.name,
    "op": lambda _, case: case.op,
    "arch": lambda _, case: case.id.get("arch"),
    "shapes": lambda _, case: shapes_text(case.call),
    "count": lambda seen, case: seen.each(case.launches),
    "ns": lambda seen, case: seen.step(case.ns),
    "median_ns": lambda _, case: case.median_ns,
    "tflops": lambda _, case: case.tflops,
}


class Rule(Struct, frozen=True):
    """One thing an expert would look for; the docstring of its function is the manual page.

    `needs` are words that the trace must have (`shapes`, `gpu`, `steps`, ...; see
    `NEEDS`): without them the rule is skipped and the capture option named. `check` takes
    a `Trace` and yields what it found; nothing means clear.

    A rule observes. `fixes` are the names of those that act on what it sees: a replay of the step
    decides what they save. A rule without such a fix may bound a saving itself and advise (`fix` of
    its findings): `realised` is the share of its bound to expect, and `first` what must be known
    before. `example` is a recording that ships with foretrace and shows it.
    """

    name: str
    title: str
    check: Callable[[Any], Iterable[Finding]]
    needs: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    realised: float = 0.0
    first: str = ""
    example: str = ""


def rule(
    title: str,
    needs: str,
    *,
    fixes: str = "",
    realised: float = 0.0,
    first: str = "",
    example: str = "",
) -> Callable[[Callable[[Seen], Found]], Rule]:
    """Declare a function as the rule of its name; its docstring is the manual."""

    def declared(check: Callable[[Seen], Found]) -> Rule:
        name = check.__name__

        @wraps(check)
        def checked(trace: Trace) -> Found:
            return check(Seen(trace, name, title))

        wanted = tuple(needs.split()), tuple(fixes.split())
        return Rule(name, title, checked, *wanted, realised, first, example)

    return declared


def step_ns(trace: Trace) -> int:
    """How long a step takes on all its GPUs together, busy or idle; or the recording."""
    windows = [windows_of(trace, span) for span in trace.spans.steps]
    times = [sum(end - begin for _, begin, end in mine) for mine in windows if mine]
    return int(np.median(times)) if times else trace.idle.window_ns


def ranges(idle: Idle) -> tuple[tuple[int, int, int], ...]:
    """The longest of these gaps; parts of one gap that follow each other are one range."""
    order = np.lexsort((idle.start, idle.device))
    start, end, device = (part[order] for part in (idle.start, idle.end, idle.device))
    apart = (start[1:] != end[:-1]) | (device[1:] != device[:-1])
    first, last = np.ones(len(start), bool), np.ones(len(start), bool)
    first[1:], last[:-1] = apart, apart
    start, end, device = start[first], end[last], device[first]
    longest = np.argsort(start - end, kind="stable")[:RANGES]
    columns = (part[longest].tolist() for part in (start, end, device))
    return tuple(zip(*columns, strict=True))


def _has_records(trace: Trace) -> bool:
    """Code that is not compiled has no records, and needs none."""
    needed = any(map(compiled.is_row, trace.host.names))
    return not needed or bool(trace.compiled) or trace.compiler_run is not None


# What a rule may need: how to tell whether the trace has it, and which capture option supplies it.
NEEDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "gpu": (
        lambda trace: trace.has("gpu"),
        "GPU events: record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    ),
    "ops": (
        lambda trace: bool(trace.host.is_op.any() or trace.origins.is_captured.any()),
        "host ops: record with ProfilerActivity.CPU among the activities",
    ),
    "launches": (
        lambda trace: bool((trace.gpu.launch >= 0).any()),
        "launches of GPU operations: record host and GPU together",
    ),
    "clock": (lambda trace: trace.gpu.aligned, "one clock for GPU and host"),
    "shapes": (lambda trace: trace.has("shapes"), "shapes: record with record_shapes=True"),
    "steps": (
        lambda trace: trace.has("steps"),
        "steps: record with schedule=... and call prof.step() after every step",
    ),
    "compiler": (
        _has_records,
        "the compiler's records of compiled code: record with `foretrace record --why`",
    ),
    "footprint": (
        lambda trace: trace.tables["gpu"]["registers"].is_not_null().any(),
        "registers and shared memory per kernel, which this trace lacks (AMD's never have them)",
    ),
}


INCOMPLETE = ABSENT | {"gpu_events_missing"}


@cache
def rules() -> tuple[Rule, ...]:
    """Every rule, by name."""
    found = plugins.declared(sys.modules[__name__], Rule, "foretrace.analyses")
    return tuple(sorted(found, key=lambda rule: rule.name))


def run_all(trace: Trace) -> Findings:
    """Every rule on one trace; one that fails is listed as crashed and hides no other."""
    return ordered(finding for rule in rules() for finding in run(rule, trace))


def ordered(found: Iterable[Finding]) -> Findings:
    """Findings by largest possible saving, then the rest by name."""

    def place(finding: Finding) -> tuple[bool, int, str]:
        known = finding.state == "found"
        saving = finding.at_most_ns if finding.at_most_ns is not None else -1
        return not known, -saving if known else 0, finding.rule

    return Findings(sorted(found, key=place))


def run(rule: Rule, trace: Trace) -> list[Finding]:
    """What one rule says: its findings, or one finding that says why it has no others.

    Where events are missing, finding nothing proves nothing.
    """
    # shapes are those of ops: a trace without ops lacks more than an option
    needs = {*rule.needs, "ops"} if "shapes" in rule.needs else {*rule.needs}
    for need, (has, advice) in NEEDS.items():
        if need in needs and not has(trace):
            return [Finding(rule.name, "skipped", rule.title, f"needs {advice}")]

    try:
        budget.check()
        found = list(rule.check(trace))
        # kernels that overlap take more than a step together
        if any(each.at_most_ns for each in found) and (limit := step_ns(trace)):
            found = [
                replace(each, at_most_ns=each.at_most_ns and min(each.at_most_ns, limit))
                for each in found
            ]
    except (LimitError, MemoryError):
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - one bad rule must not hide the others
        return [Finding(rule.name, "crashed", rule.title, f"{type(error).__name__}: {error}")]
    missing = next((note for note in trace.ledger.notes if note.code in INCOMPLETE), None)
    if found or missing is None:
        return found or [Finding(rule.name, "clear", rule.title)]
    return [Finding(rule.name, "skipped", rule.title, f"needs a complete trace: {missing.text}")]
