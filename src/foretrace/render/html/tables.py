"""What a page knows beside the events: names decoded, shapes, launch configurations, kernels by
case, the roofs.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from foretrace import families
from foretrace.look import look
from foretrace.model.about import device_of
from foretrace.model.arguments import json_text
from foretrace.model.trace import Trace
from foretrace.render.safe import plain
from foretrace.schema.tables import KINDS

CONFIG = (
    "device",
    "stream",
    "grid",
    "block",
    "registers",
    "shared_memory",
    "blocks_per_sm",
    "warps_per_sm",
    "occupancy",
    "graph_id",
    "bytes",
)
_KERNEL = (
    "count",
    "median_ns",
    "min_ns",
    "max_ns",
    "role",
    "flops",
    "bytes",
    "tflops",
    "gbps",
    "bound",
    "cost_note",
    "ops",
)


def about(trace: Trace) -> dict[str, Any]:
    """Everything about one trace that is not an event."""
    document = look(trace)
    # a report travels: where it was made stays behind
    document["trace"]["path"] = plain(os.path.basename(trace.path))
    del document["kernels"]  # `kernels` below has the same rows with more in them
    return {
        "look": document,
        "names": trace.host.names,
        "kinds": KINDS,
        "kernels": kernel_rows(trace),
        "decoded": decoded(trace),
        "shapes": shapes(trace),
        "roofs": roofs(trace),
    }


def kernel_rows(trace: Trace) -> list[dict[str, Any]]:
    """One row per case, in the order of `trace.kernel_cases`: an event's `case` is a position in
    this list.
    """
    steps = len(trace.spans.steps)
    number = {name: at for at, name in enumerate(trace.host.names)}
    return [_kernel(trace, row, number, steps) for row in trace.kernel_cases.iter_rows(named=True)]


def _kernel(
    trace: Trace, row: dict[str, Any], number: dict[str, int], steps: int
) -> dict[str, Any]:
    return {name: row[name] for name in _KERNEL} | {
        "name": number[row["name"]],
        "short": row["short"] or row["name"],
        "per_step": row["in_steps"] / steps if steps else None,
        "total_ns": row["total_ns"] if row["timed"] else None,
        "first": row["kernels"][0],
        "chain": list(trace.host.op_chain(row["op"])) if row["op"] is not None else [],
        "shape": row["signature"] if row["signature"] >= 0 else None,
    }


def decoded(trace: Trace) -> list[dict[str, Any]]:
    """What the name of each distinct kernel says, part by part."""
    found = []
    for number in np.unique(trace.host.name[trace.gpu.id]).tolist():
        kernel = families.decode(trace.host.names[number])
        found.append(
            {
                "name": number,
                "short": kernel.short,
                "family": kernel.family,
                "role": kernel.role,
                "parts": [
                    [part.text, part.field, part.meaning, part.certainty] for part in kernel.parts
                ],
            }
        )
    return found


def shapes(trace: Trace) -> list[list[Any]]:
    """`[signature, dims, types, concrete]`, one per distinct form."""
    return [
        [
            number,
            *(json_text(each) if each else None for each in (form.dims, form.types, form.concrete)),
        ]
        for number, form in enumerate(trace.arguments.signatures)
    ]


def configs(trace: Trace) -> tuple[list[list[Any]], Any]:
    """Distinct launch configurations (see `CONFIG`), and for every row of the `gpu` table which of
    them it has.
    """
    table = trace.tables["gpu"].select(CONFIG)
    _, first, number = np.unique(
        table.hash_rows().to_numpy(), return_index=True, return_inverse=True
    )
    distinct = [
        [json_text(cell) if isinstance(cell, list) else cell for cell in row]
        for row in table[first].iter_rows()
    ]
    return distinct, number.reshape(-1)


def roofs(trace: Trace) -> dict[str, Any] | None:
    """The peaks of the GPU, where it is in the table of devices."""
    device = device_of(trace.about)
    if device is None:
        return None
    return {
        "name": device.name,
        "bytes_per_s": device.bytes_per_s,
        "peaks": dict(device.peak_flops),
        "source": device.source,
    }
