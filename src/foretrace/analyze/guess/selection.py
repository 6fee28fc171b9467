"""What a selector matches in a window (certain and possible matches), the fields of a kernel, and
quantities of the matches: time, FLOPs, bytes, number.

A field is what a name states, how the kernel was launched, or its roofline bound. One that does not
apply (the layout of a gelu) is absent. One that applies and that the name does not state is
unknown, and so is a prediction about it. The exception is marks that a family of names always
writes when they apply: nvjet writes `bias` and `splitK`, so a name without them states their
absence. A CPU trace has no kernels: there, the ops that compute stand for them (`model.cpu_ops`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import median
from typing import Any

import numpy as np

from foretrace.analyze.guess.evidence import Evidence, GpuOperation
from foretrace.analyze.guess.windows import Unknown, Window, named
from foretrace.analyze.guess.words import (
    DTYPES,
    EQUALS,
    NUMBER,
    UNITS,
    Amount,
    Compare,
    ParseFailure,
    Selector,
    Token,
    Trait,
    key_at,
    language,
    text_at,
)
from foretrace.base.units import bytes_text, count_text, flops_text, plural, time_text
from foretrace.model.costs.attention import BACKWARD, FORWARD
from foretrace.model.costs.attention import described as described_call
from foretrace.model.intervals import Bools
from foretrace.model.recording import op_call
from foretrace.names import families
from foretrace.names.families import MATMULS
from foretrace.schema.traffic import INEXACT

ABSENT = object()  # the kernel has no such thing
UNSTATED = object()  # it may have it; nothing in the trace says


@dataclass(frozen=True, slots=True)
class Field:
    """`keys` are tried in order; `roles` are those it applies to (empty: all).

    `source` is name, case (family and role), launch or bound. With `mark`, a name without the field
    states its absence.
    """

    name: str
    meaning: str
    keys: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    source: str = "name"
    mark: bool = False


_ATTENTION = FORWARD | BACKWARD
_SPACED = ("shared_memory", "tensor_core", "head_dim", "batch_mode")
_PHRASES = {name.replace("_", " "): name for name in _SPACED}
_PHRASES |= {"vector width": "vec", "split k": "splitk"}
_YES, _NO = ("yes", "true", "on"), ("no", "false", "off")


@cache
def described() -> tuple[Field, ...]:
    """The fields that the manual lists."""
    return tuple(map(_described, language("fields").strip().splitlines()))


def _described(line: str) -> Field:
    name, source, roles, keys, meaning = (part.strip() for part in line.split("|"))
    applies, mark = (tuple(keys.split()), tuple(roles.split())), name.endswith("*")
    return Field(name.removesuffix("*"), meaning, *applies, source, mark)


@cache
def fields() -> dict[str, Field]:
    """Every field by name: those described, and whatever else a family of names states."""
    stated = {key for family in families.every() for key in family.states}
    known = {field.name: field for field in described()}
    others = sorted(stated - set(known))
    return known | {key: Field(key, "as `foretrace name` prints it", (key,)) for key in others}


@cache
def _stated_by(family: str) -> frozenset[str]:
    """The fields that names of this family can state."""
    return frozenset(key for each in families.every() if each.name == family for key in each.states)


def read_field(tokens: Sequence[Token], place: int) -> tuple[Field, int]:
    """`layout`, `shared memory`, `splitk`."""
    words = " ".join(token.key for token in tokens[place : place + 2])
    if words in _PHRASES:
        return fields()[_PHRASES[words]], place + 2
    word = key_at(tokens, place)
    if word not in fields():
        raise ParseFailure(place, [*fields(), *(phrase.split()[0] for phrase in _PHRASES)])
    return fields()[word], place + 1


def read_value(tokens: Sequence[Token], place: int) -> tuple[str, int]:
    """One word; a size can have a unit: `100 kB` is `100000`."""
    text = text_at(tokens, place)
    if place >= len(tokens) or (not tokens[place].quoted and text in "==!=<=>=,:~"):
        raise ParseFailure(place, ["a value"])
    unit = UNITS["bytes"].get(text_at(tokens, place + 1))
    if unit is not None and NUMBER.fullmatch(text) and text.isascii() and text.isdigit():
        return str(int(int(text) * unit)), place + 2
    return text, place + 1


def value_of(evidence: Evidence, row: int, field: Field) -> Any:
    """What the kernel in this row states for the field, else `ABSENT` or `UNSTATED`."""
    operation = evidence.operation(row)
    if field.source == "case":
        return operation.ident.family if field.name == "family" else operation.role
    if field.name == "roof":
        roof = evidence.roof(row)
        return UNSTATED if roof is None else roof
    if field.source == "bound":
        bound = evidence.trace.work_bounds[row]
        return UNSTATED if bound == "unknown" else bound
    if field.source == "launch":
        value = evidence.footprint(row, field.name)
        return UNSTATED if value is None else value
    stated = _stated(operation, field)
    return _from_arguments(evidence, row, field) if stated is UNSTATED else stated


def _from_arguments(evidence: Evidence, row: int, field: Field) -> Any:
    """What the op that launched the kernel was called with."""
    call = op_call(evidence.trace, int(evidence.trace.origins.op[row]))
    places = _ATTENTION.get(call.name) if call and field.name in ("head_dim", "causal") else None
    said = described_call(call, places) if call and places else None
    value = said and getattr(said, field.name)
    return UNSTATED if value is None else value


def _stated(operation: GpuOperation, field: Field) -> Any:
    ident = operation.ident
    stated = next((ident.get(key) for key in field.keys if ident.get(key) is not None), None)
    if stated is not None:
        return stated
    if field.roles and operation.role not in field.roles:
        return ABSENT
    return ABSENT if field.mark and field.name in _stated_by(ident.family) else UNSTATED


def agrees(actual: Any, compare: Compare | None, wanted: str | None) -> bool | None:
    """Whether a value is the wanted one; without a wanted value, whether there is one at all."""
    if actual is UNSTATED:
        return None
    if actual is ABSENT:
        return False
    if wanted is None:
        return bool(actual)
    symbol = (compare or EQUALS).symbol
    if symbol in ("==", "!="):
        return _same(actual, wanted) is (symbol == "==")
    number = _number(wanted)
    if number is None or not isinstance(actual, int | float):
        return None
    return Compare(symbol).of(actual, Amount(wanted, number)) == "hit"


def _number(word: str) -> float | None:
    found = NUMBER.fullmatch(word.removesuffix("%"))
    return float(found[1]) if found and not found[3] else None


def _same(actual: Any, wanted: str) -> bool:
    word = wanted.lower()
    if isinstance(actual, bool):
        return word in (_YES if actual else _NO)
    if isinstance(actual, list):
        return _same_list(actual, word)
    if isinstance(actual, int | float):
        return _number(word) == actual
    return str(actual).lower() in (word, DTYPES.get(word, word))


def _same_list(actual: list[Any], word: str) -> bool:
    """Sizes can be cut short (`256x128` is any depth); of several words one is enough."""
    if all(isinstance(item, int) for item in actual):
        sizes = word.split("x")
        return len(sizes) <= len(actual) and [str(item) for item in actual[: len(sizes)]] == sizes
    return word in [str(item).lower() for item in actual]


def value_text(actual: Any) -> str:
    """A value for people."""
    if isinstance(actual, float):
        return f"{actual:.0f}"
    if actual is UNSTATED or actual is ABSENT:
        return "not stated" if actual is UNSTATED else "none"
    return families.value_text(actual)


NO_CALLS = "no runtime or driver calls in this trace: record with ProfilerActivity.CUDA"
_SDPA = "aten::scaled_dot_product_attention"
_BACKEND = re.compile(r"_(flash|efficient|cudnn)_attention")
_BACKENDS = {"flash": "flash", "efficient": "mem_efficient", "cudnn": "cudnn"}


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
            kernels = plural(len(self.maybe), "kernel")
            return f"the trace does not say whether {kernels} are `{selector.text}`"
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
        return replace(found, sure=_distinct(window, found))
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


def _distinct(window: Window, found: Selection) -> list[int]:
    """The first of each name."""
    trace = window.evidence.trace
    first: dict[int, int] = {}
    for item in found.sure:
        first.setdefault(int(trace.host.name[trace.gpu.id[item] if found.on_gpu else item]), item)
    return list(first.values())


def _on_gpu(window: Window, selector: Selector) -> Selection:
    window.need_gpu()
    evidence = window.evidence
    mask = evidence.where(selector, lambda operation: _matches(operation, selector))
    may = evidence.where((selector, "may"), lambda operation: selector.word in operation.may_do)
    sure, maybe = [], []
    for row in window.rows[(mask | may)[window.rows]].tolist():
        answers = [has_trait(evidence, row, trait) for trait in selector.traits]
        if all(answers) and mask[row]:
            sure.append(row)
        elif False not in answers:
            maybe.append(row)
    return Selection(True, sure, maybe, window.lost, window.gap)


def _matches(operation: GpuOperation, selector: Selector) -> bool:
    if operation.kind != selector.kind:
        return False
    if selector.name:
        # a short name from the page, or the one that it shares with other kernels of the trace
        shared = families.decode(operation.name).short
        names = (operation.name, operation.function, operation.ident.short, shared)
        return any(named(selector.name, name) for name in names)
    if selector.word:
        return _does(operation, selector.word)
    return not selector.under or any(named(selector.under, op) for op in operation.chain)


def _does(operation: GpuOperation, word: str) -> bool:
    """Whether a kernel does the op `word`, or is a part of it.

    Neither a copy below a matmul nor attention, which multiplies inside, is a matmul.
    """
    if word in MATMULS:
        return word in operation.does and operation.role in ("gemm", "gemv")
    return word in operation.does or f"aten::{word}" in operation.chain


def has_trait(evidence: Evidence, row: int, trait: Trait) -> bool | None:
    """Whether a kernel is `bf16`, `nvjet`, `memory-bound`, …; None when the trace does not say."""
    operation = evidence.operation(row)
    if trait.kind == "role":
        return operation.role == trait.value
    if trait.kind == "family":
        return _of_family(operation, trait.value)
    if trait.kind == "sdpa":
        below = not evidence.has_attention and _SDPA in operation.chain
        return operation.role == "attention" or below
    if trait.kind == "direction":
        return trait.value in operation.name.lower()
    if trait.kind == "group":
        return trait.value == str(evidence.trace.work_groups[row])
    if trait.kind == "work":
        return operation.role != "comms"
    if trait.kind == "cast":
        return evidence.is_cast(row)
    field = "tensor_core" if trait.kind == "core" else trait.kind
    value = value_of(evidence, row, fields()[field])
    if value is UNSTATED:
        return None
    return str(value).lower() in (trait.value, DTYPES.get(trait.value, trait.value))


def _of_family(operation: GpuOperation, word: str) -> bool | None:
    """By the family of the name, for attention also by the backend that its op names."""
    family = operation.ident.family
    found = _BACKEND.search(" ".join(operation.chain)) if operation.role == "attention" else None
    if word in family or (found and _BACKENDS[found[1]] == word):
        return True
    hidden = operation.role == "attention" and "triton" in family and not found
    return None if family == "unknown" or hidden else False


def _on_host(window: Window, selector: Selector) -> list[int]:
    if selector.kind == "cpu":
        _host_mask(window.evidence, "op")
        return cpu_kernels(window)
    if selector.kind == "stream":
        return _streams(window)
    mask = _host_mask(window.evidence, selector.kind)
    if selector.name:
        mask = mask & window.evidence.trace.host.named(lambda name: named(selector.name, name))
    return [int(event) for event in window.events(mask)]


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


CLOCKS = ("gpu", "cpu", "wall")
PER_KERNEL = ("time", "flops", "bytes")
_TEXTS = {"flops": flops_text, "bytes": bytes_text, "count": count_text}
_NO_TIME = "some GPU operations have no time"


@dataclass(frozen=True, slots=True)
class Measure:
    """`name` is gpu, cpu or wall time, or time, flops, bytes or count of `selector`'s matches."""

    text: str
    name: str
    selector: Selector | None = None

    def of(self, window: Window) -> float:
        """The quantity in one window; `Unknown` when the trace does not say."""
        if self.selector is None:
            return _TIMES[self.name](window)
        if self.name == "count":
            return len(certain(window, self.selector).sure)
        return sum(each(window, self.selector, self.name))

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
            return certain(window, self.selector).sure
        rows: list[int] = window.rows.tolist()
        return rows

    def shown(self, value: float) -> str:
        """A value for people."""
        return _TEXTS.get(self.name, time_text)(value)


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
        raise Unknown(f"no {selector.text} in {window.label}")
    read = {"time": _time, "flops": _flops, "bytes": _bytes}[quantity]
    return [read(window, found, item) for item in found.sure]


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
    """The run record beside the trace has the wall time of one call of its region."""
    run, where = window.evidence.trace.run, window.region
    wall, region = run.timing.wall_ns_per_call, run.rung.region
    if wall is None or region is None:
        raise Unknown("wall time needs a run record beside the trace: record with `foretrace run`")
    if not named(where or region, region):
        raise Unknown(f"the run record has the wall time of a call of {region} alone")
    return wall


_TIMES = {"gpu time": _gpu_time, "cpu time": _cpu_time, "wall time": _wall_time}
