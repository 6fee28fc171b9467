"""Every number of `look --json` that has a name is a prediction, as printed, and a hit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from foretrace.base.units import bytes_text, percent_text, time_text
from foretrace.check import check
from foretrace.look.documents import Look
from foretrace.read.recordings import traces
from opened_traces import opened, overview

RECORDED = Path(__file__).parents[1] / "recorded"
SHIPPED = [*traces().values(), *sorted(RECORDED.glob("*.json.gz"))]


def screen(look: Look) -> Iterator[str]:
    """The numbers of a trace as predictions."""
    yield from _totals(look)
    yield from _step(look)
    yield from _places(look)
    for word in ("mfu", "mbu"):
        for name, share in (
            (word, getattr(look, word)),
            (f"gpu.{word}", getattr(look, f"{word}_gpu")),
        ):
            if share is not None:
                yield _is(name, percent_text(share))
    if look.verdict.bound != "unknown" and not look.cpu:
        yield f"bound == {look.verdict.bound}"
    if look.memory is not None:
        yield _is("peak", bytes_text(look.memory.peak_bytes))
    seen: dict[str, tuple[int, int]] = {}
    for row in look.kernels:
        count, time = seen.get(row.name, (0, 0))
        seen[row.name] = count + row.count, time + row.total_ns
    for name, (count, _) in sorted(seen.items(), key=lambda pair: -pair[1][1])[:3]:
        if '"' not in name and len(name) < 1_900:
            yield f'total.count("{name}") == {count}'
    for op in sorted(look.ops, key=lambda row: -row.total_cpu_ns)[:3]:
        yield f'total.calls("{op.name}") == {op.count}'


def _is(name: str, printed: str) -> str:
    """`<1%` is written as it is printed."""
    return f"{name} < {printed[1:]}" if printed.startswith("<") else f"{name} == {printed}"


def _totals(look: Look) -> Iterator[str]:
    totals = look.totals
    # of what a trace has none at all, it was not recorded: that is unknown, not 0
    if totals.kernels + totals.memcpys + totals.memsets:
        yield f"total.kernels == {totals.kernels}"
        yield f"total.memcpys == {totals.memcpys}"
        yield f"total.memsets == {totals.memsets}"
    if totals.launches + totals.syncs:
        yield f"total.launches == {totals.launches}"
        yield f"total.waits == {totals.syncs}"
    if totals.cpu_ops:
        yield f"total.ops == {totals.cpu_ops}"
    if totals.gpu_busy_ns:
        yield f"total.gpu.time == {time_text(totals.gpu_busy_ns)}"
    if look.steps:
        yield f"steps == {len(look.steps)}"


def _step(look: Look) -> Iterator[str]:
    whole = look.composition
    if whole is None:
        return
    scope = ""
    if whole.per.startswith("per call of "):
        start = whole.per.removeprefix("per call of ").removesuffix("…")
        region = next(each.name for each in look.regions if each.name.startswith(start))
        if '"' in region or "*" in region:
            return
        scope = f'in "{region}": '
    elif whole.per != "per step" or look.cpu:
        return
    busy = sum(part.ns for part in whole.parts if part.kind == "busy")
    yield f"{scope}step.time == {time_text(whole.wall_ns)}"
    if whole.recorded_ns is not None:
        yield f"{scope}step.recorded == {time_text(whole.recorded_ns)}"
    if not look.cpu:
        yield scope + _is("gpu.busy", percent_text(busy / whole.wall_ns))
        yield scope + _is("gpu.idle", percent_text(1 - busy / whole.wall_ns))
    # a count holds in every step; of steps that differ the screen has the typical one, or a mean
    steps = {(each.kernels, each.memcpys, each.memsets) for each in look.steps}
    differ = len(steps) > 1 or len(look.steps) == 2
    for row in look.groups:
        name = f'"{row.name}"'
        yield f"{scope}time({name}) == {time_text(row.time_ns)}"
        yield scope + _is(f"share({name})", percent_text(row.share))
        if isinstance(row.count, int) and not differ:
            yield f"{scope}count({name}) == {row.count}"


def _places(look: Look) -> Iterator[str]:
    for step in look.steps if not look.cpu else ():
        scope = f"in step {step.index}: "
        if sum(each.index == step.index for each in look.steps) > 1 or step.gpu_busy_ns is None:
            continue
        yield f"{scope}kernels == {step.kernels}"
        yield f"{scope}memcpys == {step.memcpys}"
        yield f"{scope}host.time == {time_text(step.cpu_ns)}"
        if step.bound != "unknown":
            yield f"{scope}bound == {step.bound}"
        if step.kernels:
            yield f"{scope}gpu.time == {time_text(step.gpu_busy_ns)}"
            if step.recorded_ns is not None:
                yield f"{scope}step.recorded == {time_text(step.recorded_ns)}"
    for region in look.regions[:6] if not look.cpu else ():
        if '"' in region.name or "*" in region.name or not region.kernels_per_call:
            continue
        scope = f'in "{region.name}": '
        if region.gpu_ns_per_call:
            yield f"{scope}gpu.time == {time_text(region.gpu_ns_per_call)}"
        if region.bound != "unknown":
            yield f"{scope}bound == {region.bound}"


def wrong(path: Path) -> tuple[int, list[str]]:
    """How many numbers a trace has, and those that are no hit."""
    texts = list(dict.fromkeys(screen(overview(path).look)))
    verdicts = check(opened(path), texts)
    return len(texts), [
        f"{each.verdict}: {each.text}: {each.measured} {each.why}"
        for each in verdicts
        if each.verdict != "hit"
    ]


@pytest.mark.sweep(6)
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name.partition(".")[0])
def test_a_number_copied_from_the_screen_is_a_hit(path: Path) -> None:
    count, missed = wrong(path)
    assert count > 3
    assert not missed, "\n".join(missed)
