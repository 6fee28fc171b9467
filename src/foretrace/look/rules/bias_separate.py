"""An addition after a matmul, in a kernel of its own.

What it shows: matmuls whose result the very next kernel reads back: an addition of a bias vector
or of a whole matrix (a residual, a two-dimensional bias). Also matmuls whose library ran its
epilogue as a separate kernel.

Why it matters: the matmul could add it before its result leaves the chip. Now the result is
written, read and written again. A vector fits any GEMM's epilogue (`nn.Linear` with its bias,
`addmm`). A matrix can be added as beta times C, which in PyTorch today costs a copy of that matrix
first (see `addmm_copy`): measure before you change it.

How it is computed: in launch order on one stream, an `add` that follows a matmul directly and has
one operand of exactly the matmul's size. The saving is at most the time of the additions, less the
time to read the added matrix.

When it is wrong: a trace records shapes, not which tensor is which. An addition of another tensor
of the same size looks the same. A matmul whose result is also needed without the sum cannot drop
it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from foretrace.base.units import bytes_text, plural, time_text
from foretrace.look.rules._seen import LISTED, Found, Seen, bandwidth_ns, listing, rule, shapes_text
from foretrace.trace.kernels import Case

MATMULS = frozenset({"gemm", "gemv", "conv"})
VECTOR, MATRIX = "a bias vector", "a whole matrix"
ADDITIONS = frozenset({"aten::add", "aten::add_"})


@rule(
    "An addition after a matmul, in a kernel of its own",
    "gpu shapes",
    realised=0.5,
    example="llama_train_eager",
)
def _check(seen: Seen) -> Found:
    order, cases = seen.order, seen.cases
    second = seen.following(1, lambda left, right: _kind(left, right) != "")
    if not len(second):
        return
    both = np.stack((order.case[second - 1], order.case[second]))
    pairs, counts = np.unique(both, axis=1, return_counts=True)
    known = [
        (cases[left], cases[right], count)
        for left, right, count in zip(*pairs.tolist(), counts.tolist(), strict=True)
    ]
    known.sort(key=lambda entry: (-entry[1].ns, entry[1].name))
    moved = seen.step(sum(2 * (left.bytes_written or 0) * count for left, _, count in known))
    # what reading the added operand takes at the least stays
    added = [case.call.tensor(1) if case.call else None for case in cases]
    least = np.array([bandwidth_ns(seen.device, other.bytes if other else 0) for other in added])
    beyond = np.maximum(order.length[second] - least[order.case[second]], 0)
    saved, total = seen.step(float(beyond.sum())), seen.each(len(second))
    kinds = sorted({_kind(left, right) for left, right, _ in known})
    additions = f"{plural(total, 'addition')} {seen.per}"
    title = f"{additions} in a kernel after the matmul: {listing(kinds)}"
    copied = " PyTorch's addmm copies a whole matrix before it adds to it." * (MATRIX in kinds)
    detail = (
        f"Each writes the result again. If the matmul added it: {bytes_text(moved)} less memory "
        f"traffic {seen.per}, which saves at most {time_text(saved)}. The trace shows sizes and "
        f"order, not that it is the same tensor.{copied}"
    )

    def entry(matmul: Case, addition: Case, count: int) -> dict[str, Any]:
        told = {"addition": shapes_text(addition.call), "kind": _kind(matmul, addition)}
        spent = {"count": seen.each(count), "median_ns": addition.median_ns}
        return {"matmul": matmul.id.short} | told | spent

    shown = [entry(*each) for each in known[:LISTED]]
    evidence = {"additions": total, "kinds": kinds, "bytes": moved, "pairs": shown}
    fix = "give the bias to the matmul (nn.Linear, addmm)" if VECTOR in kinds else ""
    yield seen.found(title, detail, evidence, np.sort(order.event[second]), saved, fix)


def _kind(matmul: Case, addition: Case) -> str:
    """What the second adds to the first: a vector, a matrix, the library's epilogue; else ""."""
    if matmul.role not in MATMULS:
        return ""
    if addition.id.get("op") == "epilogue":
        return "the library's own epilogue"
    if addition.op not in ADDITIONS or addition.call is None or not matmul.bytes_written:
        return ""
    left, right = addition.call.tensor(0), addition.call.tensor(1)
    if left is None or right is None:
        return ""
    small, large = sorted((left, right), key=lambda tensor: tensor.elements)
    if large.bytes != matmul.bytes_written:
        return ""
    if small.bytes == matmul.bytes_written:
        return MATRIX
    # one value per row, column or channel: `[64]`, `[1, 64, 1, 1]`
    sized = [(at, size) for at, size in enumerate(reversed(small.dims)) if size != 1]
    fits = len(sized) == 1 and sized[0][0] < len(large.dims)
    return VECTOR if fits and large.dims[-1 - sized[0][0]] == sized[0][1] else ""
