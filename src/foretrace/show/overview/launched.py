"""How a kernel was launched in a trace: what its name alone does not say."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from math import prod

import polars as pl

from foretrace.base.errors import UsageError
from foretrace.model.costs.limits import WARP
from foretrace.model.recording import op_call
from foretrace.model.trace import Trace
from foretrace.schema.documents.name import NameLaunch

_CONFIG = ("grid", "block", "registers", "shared_memory")
_LIGER = "liger_triton"


def launches(trace: Trace, name: str) -> list[NameLaunch]:
    """Each way in which the kernel of this name was launched, the most frequent first."""
    found = trace.kernels.filter(pl.col("name") == name)
    if not found.height:
        near = get_close_matches(name, trace.kernels["name"].unique().to_list(), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"{trace.path} has no kernel of this name{hint}")
    ways = found.group_by(_CONFIG, maintain_order=True).agg(
        pl.len().alias("count"), pl.col("op").first(), pl.col("family").first()
    )
    rows = sorted(ways.iter_rows(named=True), key=lambda way: -way["count"])
    return [_launch(trace, **row) for row in rows]


def _launch(
    trace: Trace,
    grid: Sequence[int] | None,
    block: Sequence[int] | None,
    registers: int | None,
    shared_memory: int | None,
    count: int,
    op: int | None,
    family: str,
) -> NameLaunch:
    call = op_call(trace, op) if op is not None else None
    dims = next((tensor.dims for tensor in call.every_tensor()), ()) if call else ()
    one_per_row = bool(grid and dims) and prod(grid or ()) == prod(dims[:-1])
    nvidia = bool(trace.about.arch and trace.about.arch.startswith("sm"))
    return NameLaunch(
        count,
        list(grid) if grid else None,
        list(block) if block else None,
        -(-prod(block) // WARP) if block and nvidia else None,
        registers,
        shared_memory,
        call.name if call else "",
        list(dims) or None,
        1 << (dims[-1] - 1).bit_length() if family == _LIGER and one_per_row else None,
    )
