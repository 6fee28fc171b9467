"""Finds what a selector matches in a window: certain matches, and possible ones.

A CPU trace has no kernels: there, the ops that compute stand for them (`model.cpu_ops`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from foretrace.analyze.guess.evidence import Evidence, GpuOperation
from foretrace.analyze.guess.fields import UNSTATED, fields, value_of
from foretrace.analyze.guess.selectors import DTYPES, Selector, Trait
from foretrace.analyze.guess.windows import Unknown, Window, named
from foretrace.base.units import plural
from foretrace.model.intervals import Bools
from foretrace.names import families
from foretrace.names.families import MATMULS

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
