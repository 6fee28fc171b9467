"""Kernels and copies that move data and compute nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from foretrace.base.units import bytes_text, listing, plural, time_text, times_text
from foretrace.look.rules import (
    BACKWARD,
    LAYOUT,
    LISTED,
    Found,
    Seen,
    amount_text,
    bandwidth_ns,
    bare,
    cast_of,
    rule,
)
from foretrace.read.tables import NONE
from foretrace.trace.intervals import Ints, split_by
from foretrace.work.costs import Tensor
from foretrace.work.kernel_row import KernelRow

WIDER_TYPE = "which tensors need the wider type"


@rule(
    "Kernels that only change the data type",
    "gpu",
    realised=0.25,
    first=WIDER_TYPE,
    example="llama_train_eager",
)
def casts(seen: Seen) -> Found:
    """Kernels that only change the data type.

    What it shows: copies from one type to another, by pair of types: how many, how many bytes, how
    long.

    Why it matters: a cast reads and writes a whole tensor to change its type. Autocast, norms
    computed in float32 and float32 optimizers make many. A kernel before or after could read or
    write the other type at no cost.

    How it is computed: copy kernels whose op recorded two types (`copy_(bf16, f32)`), else those
    whose name states source and destination. The saving is at most their whole time.

    When it is wrong: some casts are needed for accuracy, and removing them changes results. Without
    recorded shapes, a cast is known only where the kernel's name states it.
    """
    pairs: dict[str, list[KernelRow]] = {}
    for case in seen.cases:
        if case.launches and (types := cast_of(case)):
            pairs.setdefault(types, []).append(case)
    whole = seen.together([case for cases in pairs.values() for case in cases])
    if whole is None:
        return

    def entry(types: str, cases: list[KernelRow]) -> dict[str, Any]:
        moved = [case.bytes * case.launches for case in cases if case.bytes is not None]
        size = seen.step(sum(moved)) if len(moved) == len(cases) else None
        count, ns = seen.each(sum(case.launches for case in cases)), sum(case.ns for case in cases)
        return {"cast": types, "count": count, "ns": seen.step(ns), "bytes": size}

    kinds = [entry(*pair) for pair in pairs.items()]
    kinds.sort(key=lambda kind: (-kind["ns"], kind["cast"]))
    words = [
        f"{kind['cast']} ({plural(kind['count'], 'cast')}, {amount_text(kind)})" for kind in kinds
    ]
    title = f"{plural(whole.count, 'kernel')} {seen.per} for casts alone"
    advice = "A kernel before or after could read or write the other type."
    detail = f"{', '.join(words[:3])}. {advice}"
    evidence = {"count": whole.count, "ns": whole.ns, "casts": kinds[:LISTED]}
    fix = "keep one data type, or fuse the casts with a neighbour"
    yield seen.found(title, detail, evidence, whole.events, whole.ns, fix)


ADDING = frozenset({"aten::addmm", "aten::addmm_", "aten::baddbmm", "aten::baddbmm_"})
MAKERS = frozenset({"aten::copy_", "aten::clone"})


@rule(
    "The matrix that addmm copies before it multiplies",
    "gpu ops",
    example="matmul_add_4096_compiled",
)
def addmm_copy(seen: Seen) -> Found:
    """The matrix that addmm copies before it multiplies.

    What it shows: `addmm` (or `baddbmm`) calls that first copy their two-dimensional bias into the
    result and then add the matmul to it. The copy is a memcpy or a copy kernel.

    Why it matters: the copy reads and writes the whole matrix. A bias vector needs no copy: the
    matmul adds it in its epilogue. `torch.compile` turns `x @ w + b` into such an `addmm`, so
    compiling can add a copy that eager code does not have.

    How it is computed: copies whose innermost op is an `addmm` or `baddbmm`. The saving is at most
    their time.

    When it is wrong: the copy is certain. Measure whether avoiding it pays: the separate addition
    that eager code makes instead moves three times as much.
    """
    chosen = [rows for rows, path in copies_by_path(seen) if path and path[-1] in ADDING]
    if not chosen:
        return
    mine = np.sort(np.concatenate(chosen))
    count, ns, size = seen.each(len(mine)), seen.ns(mine), moved_bytes(seen, mine)
    title = f"addmm copies its two-dimensional bias first, {times_text(count)} {seen.per}"
    detail = (
        f"The copies read and write {bytes_text(size)} in {time_text(ns)} {seen.per}. A matmul "
        "adds a bias vector in its epilogue, without a copy."
    )
    evidence = {"count": count, "ns": ns, "bytes": size}
    yield seen.found(title, detail, evidence, seen.gpu.id[mine], ns)


def copies_by_path(seen: Seen) -> list[tuple[Ints, tuple[str, ...]]]:
    """Rows of `gpu` that copy within one device and keep the type, by the path of ops above."""

    def copies(case: KernelRow) -> bool:
        made = case.op in MAKERS or case.id.get("op") == LAYOUT
        return made and case.role == "copy" and not cast_of(case)

    gpu, order, origins = seen.gpu, seen.order, seen.trace.origins
    numbers = [case.number for case in seen.cases if copies(case)]
    chosen = np.zeros(len(gpu), bool)
    chosen[order.row[np.isin(order.case, numbers)]] = True
    on_device = seen.host.named(lambda name: name.startswith(("Memcpy DtoD", "Memcpy PtoP")))
    rows = np.flatnonzero((chosen | (gpu.is_memcpy & on_device[gpu.id])) & seen.counted)
    op = origins.op[rows]
    groups = split_by(origins.host.op_paths.numbers(op), np.arange(len(rows)))
    return [(rows[group], origins.host.op_chain(int(op[group[0]]))) for group in groups]


def moved_bytes(seen: Seen, rows: Ints) -> int | None:
    """Bytes that these rows read and write in a step; None where one of them is not known."""
    gpu, known = seen.gpu, seen.trace.kernels["bytes"].cast(float).fill_null(np.nan)
    total = np.full(len(gpu), np.nan)
    total[gpu.is_kernel] = known.to_numpy()
    engine = ~gpu.is_kernel
    passes = np.where(gpu.is_memset[engine], 1, 2)  # a fill only writes
    total[engine] = np.where(gpu.bytes[engine] == NONE, np.nan, gpu.bytes[engine]) * passes
    amount = total[rows].sum()
    return None if np.isnan(amount) else seen.step(int(amount))


# Tried in this order: all of them call `clone`, and that calls `copy_`.
COPY_CAUSES = {
    "aten::contiguous": "contiguous",
    "aten::reshape": "reshape",
    "aten::flatten": "reshape",
    "aten::cudnn_convolution": "convolution",
    "aten::miopen_convolution": "convolution",
    "aten::convolution_backward": "convolution",
}
COPY_FIXES = "channels_last contiguous grouped_queries"


@rule(
    "Copies that an op makes on its own", "gpu ops", fixes=COPY_FIXES, example="llama_train_eager"
)
def hidden_copies(seen: Seen) -> Found:
    """Copies that an op makes on its own.

    What it shows: device-to-device copies of one data type, by cause: `contiguous`, `reshape` and
    `clone` of a tensor whose strides do not fit, the layout changes around a convolution, and
    copies inside other ops.

    Why it matters: they move whole tensors and compute nothing. Another order of transposes,
    `channels_last`, or a kernel that takes strides removes many of them. A copy right before a
    custom kernel often exists because that kernel needs contiguous input.

    How it is computed: copy kernels and device-to-device memcpys below another op, by the path of
    ops above them. Casts, the matrix that `addmm` copies, and copies at the top level (someone
    called `copy_`) are left out. What it saves to leave them out is predicted by the fixes for
    their causes (`channels_last`, `contiguous`, `grouped_queries`).

    When it is wrong: a copy may be intended (a `clone` to keep a value), and the op path does not
    say so. Copies made inside a graph replay have no path and are not counted.
    """
    by_cause: dict[str, list[Ints]] = {}
    for mine, path in copies_by_path(seen):
        if len(path) < 2 or path[-1] in ADDING:
            continue  # an explicit copy, or another rule's
        known = (cause for op, cause in COPY_CAUSES.items() if op in path)
        inside = f"inside {path[0].removeprefix(f'{BACKWARD}: ')}"
        cause = "clone" if path[0] == "aten::clone" else next(known, inside)
        by_cause.setdefault(cause, []).append(mine)
    if not by_cause:
        return

    def entry(cause: str, parts: list[Ints]) -> dict[str, Any]:
        rows = np.concatenate(parts)
        known = {"ns": seen.ns(rows), "bytes": moved_bytes(seen, rows)}
        return {"cause": cause, "count": seen.each(len(rows))} | known

    causes = [entry(*each) for each in by_cause.items()]
    causes.sort(key=lambda entry: (-entry["ns"], entry["cause"]))
    every = np.sort(np.concatenate([mine for parts in by_cause.values() for mine in parts]))
    count = seen.each(len(every))
    words = [
        f"{entry['cause']} ({plural(entry['count'], 'copy', 'copies')}, {amount_text(entry)})"
        for entry in causes
    ]
    title = f"{plural(count, 'hidden copy', 'hidden copies')} {seen.per}"
    detail = f"By cause: {', '.join(words[:4])}. A copy moves data and computes nothing."
    evidence = {"count": count, "ns": seen.ns(every), "causes": causes[:LISTED]}
    yield seen.found(title, detail, evidence, seen.gpu.id[every])


@rule(
    "masked_fill that copies its input first",
    "gpu ops",
    realised=0.5,
    example="attention_naive_8x16x1024x64_bf16",
)
def masked_fill(seen: Seen) -> Found:
    """`masked_fill` that copies its input first.

    What it shows: calls of `masked_fill`, each of which copies the whole input and then fills the
    copy.

    Why it matters: the tensor is read and written twice. With a mask that is broadcast, the second
    kernel is also not vectorized. Measured on an H200 (torch 2.11, bf16, [64, 12, 512, 512]): `mul`
    of two such tensors 277 us, `masked_fill` with a mask of the same shape 426 us, with a mask of
    [512, 512] 774 us (2.8 times as long as `mul`), `torch.where` with the latter 494 us,
    `masked_fill_` in place 235 us, `masked_fill` in one compiled kernel 234 us.

    How it is computed: the GPU operations launched below `aten::masked_fill`. One pass reads the
    input and the mask and writes the result; the saving is at most the measured time, less the time
    of that pass at the card's full bandwidth.

    When it is wrong: `masked_fill_` changes its input; a program that needs the old values, as the
    backward pass may, cannot use it.
    """
    gpu, origins = seen.gpu, seen.trace.origins
    ops = seen.within(origins.op, lambda name: name == "aten::masked_fill")
    calls = origins.calls(ops)
    rows = np.flatnonzero((calls >= 0) & seen.counted & gpu.usable)
    rows = rows[np.bincount(calls[rows])[calls[rows]] > 1]
    if not len(rows):
        return
    _, first, call = np.unique(calls[rows], return_index=True, return_inverse=True)
    time = np.bincount(call.reshape(-1), weights=gpu.length[rows])
    operands = [_fill_operands(seen, each) for each in ops[rows[first]].tolist()]
    # one pass reads the input and the mask, and writes the result
    passes = [2 * (pair[0].bytes or 0) + (pair[1].bytes or 0) for pair in operands if pair]
    least = sum(bandwidth_ns(seen.device, size) for size in passes)
    ns, count = seen.ns(rows), seen.each(len(first))
    saved = seen.step(max(int(gpu.length[rows].sum()) - least, 0.0))
    slowest = operands[int(time.argmax())]
    title = f"masked_fill copies its input {times_text(count)} {seen.per}"
    shape, mask = [list(each.dims) for each in slowest] if slowest else (None, None)
    filled = f"The slowest fills {slowest[0].text} by a mask {mask}. " if slowest else ""
    detail = (
        f"{filled}{time_text(ns)} {seen.per} for the copy and the fill. One pass "
        f"over the tensor would save at most {time_text(saved)}."
    )
    evidence = {"calls": count, "ns": ns, "shape": shape, "mask": mask}
    broadcast = slowest is not None and slowest[1].elements < slowest[0].elements
    fix = "use torch.where" if broadcast else "fill in place (masked_fill_)"
    yield seen.found(title, detail, evidence, gpu.id[rows], saved, fix)


def _fill_operands(seen: Seen, call: int) -> tuple[Tensor, Tensor] | None:
    values, mask = seen.call(call).tensor(0), seen.call(call).tensor(1)
    return (values, mask) if values and mask else None


# Up to 64 KiB the driver takes a copy of pageable memory and returns before the transfer is done.
STAGED = 65_536


@rule("Copies from memory that is not pinned", "gpu", fixes="pinned_copies keep_on_gpu")
def pageable_copies(seen: Seen) -> Found:
    """Copies between host and device from memory that is not pinned.

    What it shows: memcpys from or to pageable host memory: how many, how many bytes, how fast.

    Why it matters: the driver copies pageable memory through a pinned buffer of its own. It holds
    the calling thread until it has read the source, even where the call says asynchronous.
    `pin_memory=True` in the data loader with `non_blocking=True` makes the copy overlap with
    kernels.

    How it is computed: from the names of the memcpys (`Memcpy HtoD (Pageable -> Device)`); bytes
    and times are those of a step, the median over steps. What pinning saves is predicted by the fix
    `pinned_copies`. Copies up to 64 KiB are left out: they do not block the host, and pinning costs
    more than they do.

    When it is wrong: traces of AMD cards do not tell pageable from pinned memory, so nothing is
    said about them.
    """
    gpu, host = seen.gpu, seen.host
    pageable = host.named(lambda name: name.startswith("Memcpy") and "Pageable" in name)[gpu.id]
    rows = np.flatnonzero(gpu.is_memcpy & pageable & (gpu.bytes > STAGED) & seen.counted)
    if not len(rows):
        return
    launch, first = np.unique(gpu.launch[rows], return_index=True)
    calls = rows[first[launch >= 0]]  # a row for each call
    moved, ns = (_typical_copy(seen, rows, values[rows]) for values in (gpu.bytes, gpu.length))
    held, count = _typical_copy(seen, calls, host.length[gpu.launch[calls]]), seen.each(len(rows))
    rate = round(moved / ns, 2) if ns else None
    speed = f" at {rate:.1f} GB/s" if rate is not None else ""
    title = f"{plural(count, 'copy', 'copies')} {seen.per} through pageable host memory"
    detail = (
        f"{bytes_text(moved)}{speed}: {time_text(ns)} on the GPU, "
        f"{time_text(held)} in the host calls {seen.per}. Pinned memory copies faster and "
        "does not block the host."
    )
    evidence = {"count": count, "bytes": moved, "ns": ns, "host_ns": held, "gb_per_s": rate}
    yield seen.found(title, detail, evidence, gpu.id[rows])


def _typical_copy(seen: Seen, rows: Ints, values: Ints) -> int:
    """The sum in a step, the median over steps: copies vary more than kernels do."""
    if not seen.order.steps:
        return int(values.sum())
    spans = seen.trace.spans
    sums = np.bincount(spans.step_of_work()[rows], weights=values, minlength=len(spans.steps))
    return round(float(np.median(sums[[span.index for span in spans.steps if len(span.work)]])))


# counters and semaphores are a few bytes to a few kilobytes; a buffer for sums is a tensor
LARGE_FILL = 65_536


@rule("Fills that a library makes beside its own kernel", "gpu ops", example="llama_train_eager")
def library_fills(seen: Seen) -> Found:
    """Fills that a library makes beside its own kernel.

    What it shows: memsets inside an op that also launched a kernel. A GEMM that keeps a counter or
    a workspace clears it first.

    Why it matters: no line of the program makes these launches. Each moves a few bytes and costs a
    launch, so they count where the run is host-bound. They are why a trace holds more GPU
    operations than kernels. The library decides which of its kernels needs one: on an H200 the
    256x128 GEMM tiles do, the 192x128 ones do not.

    How it is computed: memsets whose innermost op also launched a kernel. The saving is at most
    their time on the GPU.

    When it is wrong: an op that fills its result and then writes part of it (`index_put`,
    `scatter`) needs the fill. Such fills are large, and the detail says so.
    """
    gpu, host, op = seen.gpu, seen.trace.origins.host, seen.trace.origins.op
    launches = np.zeros(host.count, bool)
    launches[op[gpu.is_kernel & (op >= 0)]] = True
    rows = np.flatnonzero(gpu.is_memset & (op >= 0) & seen.counted)
    rows = rows[launches[op[rows]]]
    if not len(rows):
        return
    ops = Counter(host.names[name] for name in host.name[op[rows]].tolist())
    count, ns, size = seen.each(len(rows)), seen.ns(rows), moved_bytes(seen, rows)
    names = listing([bare(op) for op, _ in ops.most_common(3)])
    title = f"{plural(count, 'memset')} {seen.per} beside a kernel of the same op"
    small = size is not None and size < seen.step(len(rows) * LARGE_FILL)
    buffers = f"buffers that {'its' if len(ops) == 1 else 'their'} kernels add into"
    purpose = "the library's own bookkeeping" if small else buffers
    detail = f"{names} cleared {bytes_text(size)} in {time_text(ns)} {seen.per}: {purpose}."
    makers = {op: seen.each(number) for op, number in sorted(ops.items())}
    evidence = {"count": count, "ns": ns, "bytes": size, "ops": makers}
    yield seen.found(title, detail, evidence, gpu.id[rows], ns)
