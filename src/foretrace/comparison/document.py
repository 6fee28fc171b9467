"""A comparison as the document of `foretrace compare --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from foretrace.comparison.fusion import Fusion
from foretrace.comparison.kernels import KernelRow
from foretrace.comparison.launched import Config, Kernel
from foretrace.comparison.measure import Measured
from foretrace.comparison.ops import OpRow
from foretrace.comparison.side import Side
from foretrace.schema.documents.look import LedgerEntry

if TYPE_CHECKING:
    from foretrace.comparison.comparison import Comparison

SCHEMA = 1


def document(found: Comparison) -> dict[str, Any]:
    """The contract's document; with more than two traces `others` holds one for each further trace
    against A.

    `bare_wall_ns` and `bare_host_ns` are there where both run records have times without the
    profiler.
    """
    kernels, ops, worth = found.kernels, found.ops, found.worth
    answer = {
        "schema": SCHEMA,
        "a": _side(found.a),
        "b": _side(found.b),
        "kernels": {
            name: [_kernel(row) for row in getattr(kernels, name)]
            for name in ("same", "changed", "removed", "added")
        },
        "ops": {
            name: [_op(row) for row in getattr(ops, name)] for name in ("removed", "added", "same")
        },
        "fusions": [_fusion(fusion) for fusion in kernels.fusions],
        "gpu_ns": _measured(found.gpu_ns),
        "cpu_ns": _measured(found.cpu_ns),
        "wall_ns": _measured(found.wall_ns),
        "changed": list(found.changed),
        "unchanged": list(found.unchanged),
        "worth": {
            "saves_ns_per_call": worth.saves_ns_per_call,
            "cost_s": worth.cost_s,
            "break_even_calls": worth.break_even_calls,
            "text": worth.text,
        },
    }
    if found.bare_wall_ns.saved is not None:
        answer |= {
            "bare_wall_ns": _measured(found.bare_wall_ns),
            "bare_host_ns": _measured(found.bare_host_ns),
        }
    return answer | (
        {"others": [document(other) for other in found.others]} if found.others else {}
    )


def _side(side: Side) -> dict[str, Any]:
    """The trace as `look` names it, and what of it was compared: counts are per unit."""
    trace, about, spans = side.trace, side.trace.about, side.trace.spans
    return {
        "path": trace.path,
        "source": trace.source,
        "device": about.device,
        "arch": about.arch,
        "rank": about.rank,
        "events": trace.event_count,
        "steps": len(spans.steps),
        "regions": len(spans.region_groups()),
        "ledger": to_builtins(LedgerEntry.of(side.trace.ledger)),
        "unit": {
            "kind": side.unit.kind,
            "name": side.unit.name or None,
            "repeats": len(side.repeats.spans),
        },
        "per_unit": {
            "kernels": len(side.kernels),
            "memcpys": side.memcpys,
            "memsets": side.memsets,
            "launches": side.launches,
            "gpu_idle_ns": side.idle.median,
        },
    }


def _measured(value: Measured) -> dict[str, Any]:
    return {"a": value.a, "b": value.b, "ratio": value.ratio, "noise": value.noise}


def _kernel(row: KernelRow) -> dict[str, Any]:
    entry = _described(row.kernel) | {
        "a": row.count if row.a else 0,
        "b": row.count if row.b else 0,
        "median_ns": _measured(row.ns),
    }
    if row.a is not None and row.b is not None and row.why:
        entry["to"] = _described(row.b)
    return entry | ({"why": list(row.why)} if row.why else {})


def _described(kernel: Kernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "short": kernel.short,
        "role": kernel.role,
        "op": kernel.op,
        "shapes": kernel.shapes,
        "config": _config(kernel.config),
    }


def _config(config: Config) -> dict[str, Any]:
    return {
        "grid": config.grid,
        "block": config.block,
        "registers": config.registers,
        "shared_memory": config.shared_memory,
    }


def _op(row: OpRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "a": row.a,
        "b": row.b,
        "self_cpu_ns": {"a": row.a_ns, "b": row.b_ns},
        "gpu_ns": {"a": row.a_gpu_ns, "b": row.b_gpu_ns},
    }


def _fusion(fusion: Fusion) -> dict[str, Any]:
    return {
        "kernel": fusion.kernel,
        "backend": fusion.backend,
        "replaces": list(fusion.replaces),
        "bytes_saved": fusion.bytes_saved,
        "ns_saved": fusion.ns_saved,
        "count": fusion.count,
        "sign": fusion.sign,
    }
