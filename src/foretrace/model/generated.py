"""What compiled kernels move, from the code that Inductor generated for them.

A trace records which tensors a compiled kernel was given, not which of them it reads, writes or
both. Its code says so: each element that it loads counts once, and so does each that it stores.
Where a mask or an index leaves elements out the sum is an upper bound, hence an estimate. Such a
sum replaces no lower bound, and code that is not understood replaces nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from foretrace.model.recording import Recording
from foretrace.schema.compiler import Access, KernelCall
from foretrace.schema.cost import Certainty

EXACT = "each element that the generated code loads and stores, once"
AT_MOST = "estimate: at most what the generated code loads and stores; it skips some elements"
_COST = {
    **dict.fromkeys(("bytes_read", "bytes_written", "bytes"), pl.Int64),
    **dict.fromkeys(("cost_certainty", "cost_note"), pl.String),
}
Row = tuple[int, int, int, int, str, str]


def with_code(trace: Recording, kernels: pl.DataFrame) -> pl.DataFrame:
    """The kernels with the traffic of their generated code, where that is known."""
    rows = list(_rows(trace))
    if not rows:
        return kernels
    schema = {"id": kernels.schema["id"]} | {f"{name}_code": kind for name, kind in _COST.items()}
    code = pl.DataFrame(rows, schema, orient="row")
    joined = kernels.join(code, on="id", how="left", maintain_order="left")
    bound = (Certainty.EXACT, Certainty.AT_LEAST)
    better = pl.col("bytes_code").is_not_null() & (
        pl.col("cost_certainty_code").is_in([str(one) for one in bound])
        | ~pl.col("cost_certainty").is_in([str(one) for one in bound])
    )
    chosen = [pl.when(better).then(f"{name}_code").otherwise(name).alias(name) for name in _COST]
    return joined.with_columns(chosen).select(kernels.columns)


def _rows(trace: Recording) -> Iterator[Row]:
    known: dict[int, tuple[int, int, int, str, str] | None] = {}
    for event, launch in trace.compiled.items():
        call = launch.call
        if id(call) not in known:
            known[id(call)] = None if call.extern else traffic(call)
        if found := known[id(call)]:
            yield (event, *found)


def traffic(call: KernelCall) -> tuple[int, int, int, str, str] | None:
    """(bytes read, bytes written, both, certainty, note); None where one access is not known."""
    if call.bytes is None:
        return None
    read = sum(_read(access) for access in call.accesses)
    exact = all(access.certainty == "exact" for access in call.accesses)
    certainty, note = (Certainty.EXACT, EXACT) if exact else (Certainty.ESTIMATE, AT_MOST)
    return read, call.bytes - read, call.bytes, str(certainty), note


def _read(access: Access) -> int:
    """The bytes that an access reads; an atomic addition reads half and writes half of its own."""
    return {"load": access.bytes or 0, "atomic": (access.bytes or 0) // 2}.get(access.mode, 0)
