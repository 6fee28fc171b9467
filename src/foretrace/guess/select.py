"""Finds the things that a prediction speaks of in one view: those that surely are it, and those
that may be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from foretrace.guess.cpu import cpu_kernels
from foretrace.guess.fields import NOT_STATED, fields, value_of
from foretrace.guess.scope import named
from foretrace.guess.things import DTYPES, Thing, Trait
from foretrace.guess.view import Unknown, View
from foretrace.guess.work import Case, Work


@dataclass(frozen=True, slots=True)
class Found:
    """`sure` and `maybe` are rows of `trace.gpu` when `on_gpu`, else event ids; `lost` more may
    never have been recorded.

    `gap` says why there may be any number more: the trace is not whole.
    """

    on_gpu: bool
    sure: list[int]
    maybe: list[int]
    lost: int = 0
    gap: str = ""

    @property
    def unclear(self) -> bool:
        return bool(self.maybe or self.lost or self.gap)

    def why(self, thing: Thing) -> str:
        """Why the number is not certain."""
        if self.gap:
            return self.gap
        if self.maybe:
            return f"for {len(self.maybe)} kernels nothing says whether they are `{thing.text}`"
        return (
            f"{self.lost} launches left no GPU event, or GPU work lacks its launch: it cannot "
            "be placed"
        )


def find(view: View, thing: Thing) -> Found:
    """The things in order: GPU work by launch, host events by start. `Unknown` when the trace
    cannot hold them.
    """
    found = (
        _on_gpu(view, thing)
        if thing.on_gpu
        else Found(False, _on_host(view, thing), [], gap=view.gap)
    )
    if thing.distinct:
        return replace(found, sure=_distinct(view, found))
    if thing.ordinal is None:
        return found
    if found.unclear:
        raise Unknown(found.why(thing))
    place = thing.ordinal if thing.ordinal >= 0 else len(found.sure) + thing.ordinal
    return Found(found.on_gpu, found.sure[place : place + 1] if place >= 0 else [], [])


def _distinct(view: View, found: Found) -> list[int]:
    """The first of each name."""
    trace = view.work.trace
    first: dict[int, int] = {}
    for item in found.sure:
        first.setdefault(int(trace.host.name[trace.gpu.id[item] if found.on_gpu else item]), item)
    return list(first.values())


def _on_gpu(view: View, thing: Thing) -> Found:
    view.need_gpu()
    mask = view.work.where(thing, lambda case: _is_case(case, thing))
    sure, maybe = [], []
    for row in view.rows[mask[view.rows]].tolist():
        answers = [has_trait(view.work, row, trait) for trait in thing.traits]
        if all(answers):
            sure.append(row)
        elif not any(answer is False for answer in answers):
            maybe.append(row)
    return Found(True, sure, maybe, view.lost, view.gap)


def _is_case(case: Case, thing: Thing) -> bool:
    if case.kind != thing.kind:
        return False
    if thing.name:
        return any(named(thing.name, name) for name in (case.name, case.function, case.ident.short))
    if thing.word:
        return thing.word in case.does or f"aten::{thing.word}" in case.chain
    return not thing.under or any(named(thing.under, op) for op in case.chain)


def has_trait(work: Work, row: int, trait: Trait) -> bool | None:
    """Whether a kernel is `bf16`, `nvjet`, `memory-bound`, …; None when nothing says."""
    case = work.case(row)
    if trait.kind == "role":
        return case.role == trait.value
    if trait.kind == "family":
        return trait.value in case.ident.family if case.ident.family != "unknown" else None
    if trait.kind == "direction":
        return trait.value in case.name.lower()
    value = value_of(work, row, fields()[{"core": "tensor_core"}.get(trait.kind, trait.kind)])
    if value is NOT_STATED:
        return None
    return str(value).lower() in (trait.value, DTYPES.get(trait.value, trait.value))


def _on_host(view: View, thing: Thing) -> list[int]:
    host = view.work.trace.host
    if thing.kind in ("call", "launch", "sync"):
        if not host.is_call.any():
            raise Unknown(
                "no runtime or driver calls in this trace: they are recorded with the GPU activity"
            )
        mask = {"call": host.is_call, "launch": host.is_launch, "sync": host.is_wait}[thing.kind]
    elif thing.kind in ("op", "cpu"):
        if not host.is_op.any():
            raise Unknown("no host ops in this trace: record the CPU activity")
        mask = host.is_op & host.lasting
    else:
        mask = {"step": host.is_step, "region": host.is_region}[thing.kind]
        if not mask.any():
            raise Unknown(f"no {thing.kind}s in this trace")
    if thing.kind == "cpu":
        return cpu_kernels(view)
    if thing.name:
        mask = mask & host.named(lambda name: named(thing.name, name))
    return [int(event) for event in view.events(mask)]


def count_range(found: Found) -> tuple[int, float]:
    """The least and the most there can be."""
    most = float("inf") if found.lost or found.gap else len(found.sure) + len(found.maybe)
    return len(found.sure), most


def moment(view: View, found: Found, item: int) -> int:
    """When the host asked for it."""
    trace = view.work.trace
    if not found.on_gpu:
        return int(trace.host.start[item])
    launch = int(trace.gpu.launch[item])
    return int(trace.host.start[launch]) if launch >= 0 else int(trace.gpu.start[item])


def label(view: View, found: Found, item: int) -> str:
    """A short name for one thing."""
    trace = view.work.trace
    if not found.on_gpu:
        return str(trace.host.names[trace.host.name[item]])
    case = view.work.case(item)
    return case.ident.short if case.kind == "kernel" else case.name
