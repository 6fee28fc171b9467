"""What a selector matches in a window (certain and possible matches), and quantities of those:
time, FLOPs, bytes, number.

A CPU trace has no kernels: there, the ops that compute stand for them (`model.cpu_ops`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np

from foretrace.base.patterns import regex
from foretrace.base.units import bytes_text, count_text, flops_text, plural, time_text
from foretrace.check.evidence import Evidence, GpuOperation
from foretrace.check.traits import has_trait, is_torchs_triton
from foretrace.check.windows import Differs, Unknown, Window, module_named, named
from foretrace.check.words import COPIES, HEADS, Selector, Trait, that_are
from foretrace.trace.bounds import spent, unprofiled_ns, unprofiled_step_ns
from foretrace.trace.cpu_ops import bare, cpu_does
from foretrace.trace.intervals import Bools, union_length
from foretrace.trace.module_calls import PREFIX
from foretrace.work import families
from foretrace.work.families import MATMULS, role_of_op
from foretrace.work.kernel import INEXACT

NO_CALLS = "no runtime or driver calls in this trace: record with ProfilerActivity.CUDA"


@dataclass(frozen=True, slots=True)
class Selection:
    """`sure` and `maybe` are rows of `trace.gpu` when `on_gpu`, else event ids.

    `lost` more may exist that were never recorded. `gap` says why there may be any number more: the
    trace is incomplete.
    """

    on_gpu: bool
    sure: list[int]
    maybe: list[int]
    lost: int = 0
    gap: str = ""

    @property
    def unclear(self) -> bool:
        """Whether there may be more than the certain matches."""
        return bool(self.maybe or self.lost or self.gap)

    def why(self, selector: Selector) -> str:
        """Why the number is not certain."""
        if self.maybe and not self.gap:
            are = "kernel is" if len(self.maybe) == 1 else "kernels are"
            return f"the trace does not say whether {len(self.maybe):,} {are} `{selector.text}`"
        return self.gap or (
            f"{plural(self.lost, 'launch', 'launches')} without a GPU event, or GPU operations "
            "without a launch"
        )


def select(window: Window, selector: Selector) -> Selection:
    """The matches in order: GPU operations by launch, host events by start.

    `Unknown` when the trace has no data of that kind.
    """
    if selector.on_gpu:
        found = _on_gpu(window, selector)
    else:
        found = Selection(False, _on_host(window, selector), [], gap=window.gap)
    if selector.distinct:
        trace = window.evidence.trace
        first: dict[int, int] = {}
        for item in found.sure:
            first.setdefault(
                int(trace.host.name[trace.gpu.id[item] if found.on_gpu else item]), item
            )
        return replace(found, sure=list(first.values()))
    if selector.ordinal is None:
        return found
    if found.unclear:
        raise Unknown(found.why(selector))
    at = selector.ordinal if selector.ordinal >= 0 else len(found.sure) + selector.ordinal
    return Selection(found.on_gpu, found.sure[at : at + 1] if at >= 0 else [], [])


def certain(window: Window, selector: Selector) -> Selection:
    """The matches, when they are certain; else `Unknown`."""
    found = select(window, selector)
    if found.unclear:
        raise Unknown(found.why(selector))
    return found


_TRITON = (Trait("family", "triton"),)


def _on_gpu(window: Window, selector: Selector) -> Selection:
    evidence = window.evidence
    if evidence.runs_on_cpu and selector.is_collective:
        return Selection(False, _collectives(window, selector), [], gap=window.gap)
    window.need_gpu()
    mask = evidence.where(selector, lambda operation: _matches(operation, selector))
    may = evidence.where((selector, "may"), lambda operation: selector.word in operation.may_do)
    sure, maybe = [], []
    for row in window.rows[(mask | may)[window.rows]].tolist():
        answers = [has_trait(evidence, row, trait) for trait in selector.traits]
        if selector.traits == _TRITON and answers[0] and is_torchs_triton(evidence, row):
            answers = [None]
        if all(answers) and mask[row]:
            sure.append(row)
        elif False not in answers:
            maybe.append(row)
    if selector.under and not selector.traits:
        sure = sorted(sure + _launched_before(window, {*sure}))
    return Selection(True, sure, maybe, window.lost, window.gap)


def _launched_before(window: Window, rows: set[int]) -> list[int]:
    """More kernels of an op, whose launches came before the recording: no other op has theirs."""
    operations = {row: window.evidence.operation(row) for row in window.rows.tolist()}
    known = [(row, one.name) for row, one in operations.items() if one.chain]
    own = {name for row, name in known if row in rows}
    own -= {name for row, name in known if row not in rows}
    return [row for row, one in operations.items() if not one.chain and one.name in own]


def _collectives(window: Window, selector: Selector) -> list[int]:
    """Ranges that torch.distributed writes around a collective: `gloo:all_reduce`."""
    host, families = window.evidence.trace.host, [t for t in selector.traits if t.kind == "family"]
    said = [trait.value for trait in selector.traits if trait.kind == "collective"]
    mask = host.is_region & host.named(
        lambda name: bool(
            re.match(rf"(gloo|nccl|mpi|ucc):.*{said[0]}", name, re.IGNORECASE)
            and all(name.startswith(family.value) for family in families)
        )
    )
    found: list[int] = window.events(mask).tolist()
    return found


def _matches(operation: GpuOperation, selector: Selector) -> bool:
    copied = selector.text in COPIES and operation.kind == "memcpy"
    if operation.kind != selector.kind and not copied:
        return False
    if selector.name:
        # a short name from the page, or the one that it shares with other kernels of the trace
        shared = families.decode(operation.name).short
        names = (operation.name, operation.function, operation.ident.short, shared)
        return any(named(selector.name, name) for name in names)
    if selector.word:
        backward = Trait("phase", "backward") in selector.traits
        return _does(operation, selector.word) or (backward and _undoes(operation, selector.word))
    return not selector.under or any(named(selector.under, op) for op in operation.chain)


def _does(operation: GpuOperation, word: str) -> bool:
    """Whether a kernel does the op `word`, or is a part of it.

    Neither a copy below a matmul nor attention, which multiplies inside, is a matmul.
    """
    if word in MATMULS:
        return word in operation.does and operation.role in ("gemm", "gemv")
    if word == "add" and operation.role in ("gemm", "gemv", "conv"):
        return "aten::add" in operation.chain  # a bias in its epilogue makes no matmul an add
    if word in operation.does or f"aten::{word}" in operation.chain:
        return True
    forward = word.removesuffix("_backward")
    return forward != word and _undoes(operation, forward)


def _undoes(operation: GpuOperation, word: str) -> bool:
    """Whether a kernel is the backward of the op `word`: by its own op, or by its name."""
    last, plain = bare("".join(operation.chain[-1:])), word.replace("_", "")
    nodes = {op.rpartition(" ")[2].lower().partition("backward")[0] for op in operation.chain}
    mine = plain in last.replace("_", "") or nodes & {plain, f"native{plain}"}
    named = word in operation.name.lower() and "backward" in operation.name.lower()
    return ("backward" in last and bool(mine)) or named


# Ranges that users and frameworks put around their own loading: `## data_load ##`, `get_batch`.
_LOADING = regex(
    r"(?i)data[ _-]?load|load(?:ing)?[ _-]?(?:data|batch)|(?:next|fetch|get)[ _-]?batch"
)


def _on_host(window: Window, selector: Selector) -> list[int]:
    if selector.kind == "cpu":
        _host_mask(window.evidence, "op")
        return cpu_kernels(window)
    if selector.kind in ("stream", "work"):
        return (_streams if selector.kind == "stream" else _work)(window)
    mask = _host_mask(window.evidence, selector.kind)
    if selector.name:
        fits = module_named if selector.kind == "module" else named
        names = window.evidence.trace.host.named
        by_name = mask & names(lambda name: fits(selector.name, name))
        if selector.name.startswith("enumerate(DataLoader)") and not by_name.any():
            by_name = mask & names(lambda name: _LOADING.search(name) is not None)
        mask = by_name
    events: list[int] = window.events(mask).tolist()
    if not selector.under:
        return events
    chain = window.evidence.trace.host.op_chain
    return [event for event in events if any(named(selector.under, op) for op in chain(event))]


def _work(window: Window) -> list[int]:
    """The GPU operations; none where nothing hints at a GPU."""
    if not window.evidence.runs_on_cpu:
        window.need_gpu()
    found: list[int] = window.evidence.trace.gpu.id[window.rows].tolist()
    return found


def _streams(window: Window) -> list[int]:
    """The first GPU event of each stream."""
    window.need_gpu()
    if window.lost:
        raise Unknown("some launches have no GPU event: their stream is not known")
    gpu = window.evidence.trace.gpu
    _, first = np.unique(gpu.lane[window.rows], return_index=True)
    return [int(event) for event in gpu.id[window.rows[np.sort(first)]]]


def _host_mask(evidence: Evidence, kind: str) -> Bools:
    """Which host events are of this kind; `Unknown` when the trace records none."""
    host = evidence.trace.host
    if kind in ("call", "launch", "sync"):
        if not host.is_call.any():
            raise Unknown(NO_CALLS)
        return {"call": host.is_call, "launch": host.is_launch, "sync": host.is_wait}[kind]
    if kind == "op":
        if not host.is_op.any():
            raise Unknown(
                "no host ops in this trace: ProfilerActivity.CPU was off, or a CUDA graph ran"
            )
        return host.is_op & host.lasting
    mask = host.is_step if kind == "step" else host.is_region
    if kind == "module":
        mask = host.is_kind("python_function") & host.named(lambda name: name.startswith(PREFIX))
    if not mask.any():
        raise Unknown(f"no {kind}s in this trace")
    return mask


def launch_time(window: Window, found: Selection, item: int) -> int:
    """When the host launched it, or when a host event began."""
    trace = window.evidence.trace
    if not found.on_gpu:
        return int(trace.host.start[item])
    launch = int(trace.gpu.launch[item])
    return int(trace.host.start[launch]) if launch >= 0 else int(trace.gpu.start[item])


def label(window: Window, found: Selection, item: int) -> str:
    """A short name for one match."""
    evidence = window.evidence
    return evidence.operation(item).label if found.on_gpu else evidence.name(item)


def cpu_kernels(window: Window) -> list[int]:
    """Event ids of the ops in this window that compute on the CPU, in time order."""
    if not window.evidence.runs_on_cpu:
        raise Unknown("the program runs on a GPU: its host ops do not say what ran on the CPU")
    return working_ops(window)


def working_ops(window: Window) -> list[int]:
    """The same, for a caller who knows that the CPU computed."""
    found: list[int] = window.events(window.evidence.computing).tolist()
    return found


def cpu_part(window: Window, selector: Selector) -> Bools:
    """The ops, or the ranges of an optimizer, that a selector of kernels means on a CPU."""
    host, kinds = window.evidence.trace.host, {trait.kind: trait.value for trait in selector.traits}
    if selector.kind != "kernel" or selector.name or selector.distinct or len(kinds) > 1:
        window.need_gpu()
    optimizer = kinds.get("optimizer", "") if kinds.get("role") != "optimizer" else "."
    stepping = host.is_region & host.named(lambda name: name.startswith("Optimizer.step#"))
    backward = host.is_op & host.named(lambda name: name.startswith("autograd::engine"))
    if optimizer:
        return stepping & host.named(lambda name: optimizer in name.lower())
    if "phase" in kinds:
        loading = host.named(lambda name: name.startswith(("enumerate(DataLoader)", "Optimizer.")))
        within = backward | (host.is_region & loading)
        apart = host.nearest(np.arange(host.count), within) >= 0
        # what follows the last backward, such as metrics, is no forward
        last = int(host.start[window.events(backward)].max(initial=-1))
        return host.is_op & ~apart & ((host.start < last) | (last < 0))
    if role := kinds.get("role"):
        return window.evidence.computing & host.named(lambda name: role_of_op(bare(name)) == role)
    if selector.under:
        return host.is_op & host.named(lambda name: named(selector.under, name))
    if not selector.word or kinds:
        window.need_gpu()
    word = selector.word
    does = host.named(lambda name: bare(name) == word or word in cpu_does(name))
    if word not in MATMULS:
        return host.is_op & does
    # attention, which multiplies inside, is no matmul; `aten::linear` calls one
    found = window.evidence.computing & does & host.named(lambda name: bare(name) in MATMULS)
    return found if found.any() else host.is_op & host.named(lambda name: bare(name) == word)


# Words for kernels -> the group of the first screen, which may hold other kernels of the same ops.
SHOWN_AS = {
    "conv": "convolution",
    "gelu": "GELU",
    "gemm": "GEMM",
    "layernorm": "LayerNorm",
    "softmax": "softmax",
}
EXTREMES = {"longest time": max, "shortest time": min}  # of one launch
CLOCKS = ("gpu", "cpu", "wall")
PER_KERNEL = ("time", "flops", "bytes")
PER_SECOND = {"rate": "flops", "bandwidth": "bytes"}
TEXTS: dict[str, Callable[[float], str]] = {
    "flops": flops_text,
    "bytes": bytes_text,
    "rate": lambda value: flops_text(value) + "/s",
    "bandwidth": lambda value: bytes_text(value) + "/s",
    "count": count_text,
}
_NO_TIME = "some GPU operations have no time"


@dataclass(frozen=True, slots=True)
class Measure:
    """`name` is gpu, cpu, wall or step time, or time, flops, bytes or count of `selector`'s
    matches, of the time also of those that `more` match.
    """

    text: str
    name: str
    selector: Selector | None = None
    more: tuple[Selector, ...] = ()

    def of(self, window: Window) -> float:
        """The quantity in one window; `Unknown` when the trace does not say."""
        if self.selector is None:
            return _TIMES[self.name](window)
        if self.name == "count":
            return len(certain(window, self.selector).sure)
        if self.more:
            return self._together(window)
        if self.name in EXTREMES:
            return EXTREMES[self.name](each(window, self.selector, "time"))
        if self.name == "time" and self.selector.on_gpu and window.evidence.runs_on_cpu:
            # The time of a CPU in what stands for these kernels; `Unknown` where only a GPU
            # decides.
            window.need_whole()
            host = window.evidence.trace.host
            events = window.events(cpu_part(window, self.selector) & host.lasting)
            return union_length(host.start[events], host.end[events])
        return sum(each(window, self.selector, self.name))

    def _together(self, window: Window) -> float:
        """The time of several kinds of GPU operations or of calls, each counted once."""
        found = [certain(window, each) for each in (self.selector, *self.more) if each]
        if not any(each.on_gpu for each in found) and all(each.sure for each in found):
            events, host = sorted({event for each in found for event in each.sure}), window.evidence
            return float(union_length(host.trace.host.start[events], host.trace.host.end[events]))
        if not all(each.on_gpu and each.sure for each in found):
            raise Unknown(f"no GPU operations for each of {self.text} in {window.label}")
        rows = sorted({row for each in found for row in each.sure})
        return float(window.evidence.trace.gpu.length[rows].sum())

    def median(self, windows: list[Window]) -> float:
        """The median over several windows.

        What is on the GPU is that of the window with the median GPU time, of those that launched
        anything: the parts of a step then add up to it, as `foretrace look` shows them.
        """
        if self.name == "gpu time" or (self.selector and self.name == "time"):
            windows = middle(windows)
        return median(self.of(window) for window in windows)

    def rows(self, window: Window) -> list[int]:
        """The GPU operations it is measured on."""
        if self.selector and self.selector.on_gpu:
            found = certain(window, self.selector)
            return found.sure if found.on_gpu else []
        rows: list[int] = window.rows.tolist()
        return rows

    def shown(self, value: float) -> str:
        """A value for people."""
        return TEXTS.get(self.name, time_text)(value)


def unless_shown_otherwise(
    what: Measure, windows: list[Window], hits: Callable[[float], bool]
) -> None:
    """`Unknown` where the first screen's group of that name hits what its kernels alone miss."""
    whole = as_shown(what)
    word, group = what.selector, whole.selector
    if not word or not group or word == group:
        return
    if any(not certain(window, group).sure for window in windows):
        return
    mine, shown = what.median(windows), whole.median(windows)
    if hits(shown):
        names = f"kernels of {word.text.lower()}", f"the group {group.text}"
        texts = f"{time_text(mine)} in {names[0]}, {time_text(shown)} in {names[1]}"
        raise Differs(f"{texts} of the first screen")


def as_shown(what: Measure) -> Measure:
    """The time of the first screen's group of that name; the same measure where it has none."""
    word = what.selector.text.lower().replace("_", "") if what.selector else ""
    name = SHOWN_AS.get(word) or SHOWN_AS.get(word.removesuffix("s"))
    if name is None or what.name != "time" or what.more:
        return what
    return replace(what, selector=that_are(name, "group", name))


def middle(windows: list[Window]) -> list[Window]:
    """The window with the median GPU time, or the two in the middle; on a CPU the median time."""
    working = [window for window in windows if len(window.rows)]
    working.sort(key=lambda window: window.evidence.trace.spans.busy(window.span))
    if not working and windows[0].evidence.runs_on_cpu:
        working = sorted(windows, key=lambda window: window.length_ns)
    return working[(len(working) - 1) // 2 : len(working) // 2 + 1] or windows


def each(window: Window, selector: Selector, quantity: str) -> list[float]:
    """The quantity of every match; no match is unknown, since there is nothing to measure."""
    found = certain(window, selector)
    if not found.sure:
        named_step = selector.kind == "step" and selector.name
        steps = window.evidence.trace.spans.steps[:6] if named_step else []
        there = f"; it has {', '.join(span.name for span in steps)}" if steps else ""
        raise Unknown(f"no {selector.text} in {window.label}{there}")
    read = {"time": _time, "flops": _flops, "bytes": _bytes}[PER_SECOND.get(quantity, quantity)]
    values = [read(window, found, item) for item in found.sure]
    if quantity not in PER_SECOND:
        return values
    times = [max(_time(window, found, item), 1) for item in found.sure]
    return [value / time * 1e9 for value, time in zip(values, times, strict=True)]


def _time(window: Window, found: Selection, item: int) -> float:
    trace = window.evidence.trace
    if not found.on_gpu:
        return int(trace.host.length[item])
    if not trace.gpu.usable[item]:
        raise Unknown(_NO_TIME)
    return int(trace.gpu.length[item])


def _flops(window: Window, found: Selection, item: int) -> float:
    flops = window.evidence.kernel_fact(item, "flops") if found.on_gpu else None
    return _known(flops, window, found, item, "flops")


def _bytes(window: Window, found: Selection, item: int) -> float:
    evidence, moved = window.evidence, None
    if found.on_gpu and evidence.operation(item).kind != "kernel":
        moved = evidence.copy_bytes.get(int(evidence.trace.gpu.id[item]))
    elif found.on_gpu:
        moved = evidence.kernel_fact(item, "bytes")
        if evidence.kernel_fact(item, "cost_certainty") in INEXACT:
            note = evidence.kernel_fact(item, "cost_note")
            short = evidence.operation(item).ident.short
            raise Unknown(f"the bytes of {short} are not known exactly ({note})")
    return _known(moved, window, found, item, "bytes")


def _known(value: float | None, window: Window, found: Selection, item: int, what: str) -> float:
    if value is not None:
        return float(value)
    if not found.on_gpu:
        raise Unknown(f"{what} belong to GPU operations, not to host events")
    if not window.evidence.trace.has("shapes"):
        raise Unknown(f"{what} need recorded shapes: record with record_shapes=True")
    raise Unknown(f"the {what} of {window.evidence.operation(item).ident.short} are not known")


def _gpu_time(window: Window) -> float:
    window.need_gpu()
    window.need_whole()
    gpu = window.evidence.trace.gpu
    if window.lost:
        raise Unknown("some launches have no GPU event: the time is incomplete")
    if not len(window.rows):
        raise Unknown(f"no GPU operations in {window.label}")
    if not gpu.usable[window.rows].all():
        raise Unknown(_NO_TIME)
    return window.evidence.trace.spans.busy(window.span)


def _cpu_time(window: Window) -> float:
    window.need_whole()
    if window.start_ns is None or window.end_ns is None:
        raise Unknown(
            "`cpu time` needs a step, a region or an op: say which, as in `per step: cpu "
            "time < 1 ms`"
        )
    return window.end_ns - window.start_ns


def _wall_time(window: Window) -> float:
    """The run record beside the trace has the wall time of one step, or one call of its region."""
    run = window.evidence.trace.run
    wall, region = run.timing.wall_ns_per_call, run.rung.region
    if wall is None:
        needs = "a run record beside the trace: record with `foretrace record`"
        raise Unknown(f"wall time needs {needs}")
    found = wall if window.whole else without_profiler(window)
    if found is None:
        what = "a step" if region is None else f"a call of {region}"
        raise Unknown(f"the run record has the wall time of {what} alone")
    return found


def without_profiler(window: Window) -> float | None:
    """The time of a step or a region's call that the run record has; None where it has none."""
    window.need_whole()
    trace, span = window.evidence.trace, window.span
    if span.event < 0:
        return None
    time = spent(trace, span)
    if time is not None:
        return None if time.profiled else time.wall_ns
    is_step = bool(trace.host.is_step[span.event])
    return unprofiled_step_ns(trace) if is_step else unprofiled_ns(trace, span.name)


_TIMES: dict[str, Callable[[Window], float]] = {
    "gpu time": _gpu_time,
    "cpu time": _cpu_time,
    "wall time": _wall_time,
    # as `foretrace look` gives it: without the profiler where a run record says so
    "step time": lambda window: without_profiler(window) or _cpu_time(window),
}


_MATMULS = ("gemm", "gemms", "matmul", "matmuls")


def wider_reading(value: Any) -> Any:
    """What a word may mean besides: `convolutions` all that their ops launch, `copies` memcpys."""
    if isinstance(value, Measure) and value.selector:
        return replace(value, selector=wider_reading(value.selector))
    if isinstance(value, Selector) and value.text.lower() in COPIES:
        return replace(HEADS["memcpy"], text="memcpy")
    if isinstance(value, Selector) and value.text.lower() in _MATMULS:
        return replace(value, word="", traits=(Trait("matmul", ""),), written="")
    if isinstance(value, Selector) and Trait("role", "attention") in value.traits:
        return replace(value, traits=(*value.traits, Trait("main", "")))
    if isinstance(value, Selector) and value.traits == (Trait("role", "pointwise"),):
        return replace(value, traits=(Trait("elementwise", ""),))  # copies with ATen's name
    conv = isinstance(value, Selector) and (value.written or value.text).lower().startswith("conv")
    if not conv:
        return value
    phases = (trait for trait in value.traits if trait.kind == "phase")
    by_op = Trait("called", r"aten::\w*conv(\dd|olution|_)")
    return replace(value, traits=(by_op, *phases), written="")
