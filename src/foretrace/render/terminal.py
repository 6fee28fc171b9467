"""`look` as text for people: fits 100 columns, readable without colour."""

from __future__ import annotations

from typing import Any

from ..units import DASH, bytes_text, count_text, flops_text, percent_text, time_text
from .safe import plain
from .table import table


def look_text(document: dict[str, Any], top: int) -> str:
    """The whole page."""
    look = document["look"]
    parts = [_head(look), _banner(look), _totals(look), _steps(look), _regions(look), _kernels(look, top), _ops(look, top),
             _ledger(look)]
    return "\n\n".join(part for part in parts if part)


def _head(look: dict[str, Any]) -> str:
    trace = look["trace"]
    device = trace["device"] or "no GPU named"
    arch = f" ({trace['arch']})" if trace["arch"] else ""
    rank = f", rank {trace['rank']}" if trace["rank"] is not None else ""
    return f"{plain(trace['path'])}\n{plain(device)}{arch}{rank} · {count_text(trace['events'])} events · " \
           f"{trace['steps']} steps · {trace['regions']} regions"


def _banner(look: dict[str, Any]) -> str:
    """What every page made from this trace must show."""
    grave = [note for note in look["ledger"]["notes"] if note["severity"] in ("data_loss", "error")]
    return "\n".join(f"! {note['code']} ({count_text(note['count'])}): {plain(note['text'])}" for note in grave)


def _totals(look: dict[str, Any]) -> str:
    totals = look["totals"]
    busy, span = totals["gpu_busy_ns"], totals["gpu_span_ns"]
    share = f" ({percent_text(busy / span)} of {time_text(span)})" if busy is not None and span else ""
    return (f"Totals: {count_text(totals['kernels'])} kernels, {count_text(totals['memcpys'])} memcpys, "
            f"{count_text(totals['memsets'])} memsets, {count_text(totals['launches'])} launches, "
            f"{count_text(totals['syncs'])} syncs, {count_text(totals['cpu_ops'])} ops\n"
            f"GPU busy {time_text(busy)}{share}")


def _steps(look: dict[str, Any]) -> str:
    if not look["steps"]:
        return ""
    rows = [[row["name"], time_text(row["cpu_ns"]), str(row["kernels"]), str(row["memcpys"]), str(row["memsets"]),
             time_text(row["gpu_busy_ns"]), time_text(row["gpu_idle_ns"]), row["bound"]] for row in look["steps"]]
    return "Steps\n" + table(["step", "host", "kernels", "memcpys", "memsets", "gpu busy", "gpu idle", "bound"], rows[:32])


def _regions(look: dict[str, Any]) -> str:
    if not look["regions"]:
        return ""
    rows = [[row["name"], count_text(row["count"]), time_text(row["cpu_ns"] / row["count"]), count_text(row["kernels_per_call"]),
             ", ".join(f"{count_text(count)} {role}" for role, count in row["roles_per_call"].items()) or DASH,
             time_text(None if row["gpu_busy_ns"] is None else row["gpu_busy_ns"] / row["count"]), row["bound"]]
            for row in look["regions"]]
    head = ["region", "calls", "host/call", "kernels/call", "roles/call", "gpu/call", "bound"]
    return "Regions\n" + table(head, rows[:32], left=(0, 4))


def _kernels(look: dict[str, Any], top: int) -> str:
    if not look["kernels"]:
        return ""
    rows = [[row["short"] or row["name"], row["role"], row["ops"][0] if row["ops"] else DASH, count_text(row["count"]),
             time_text(row["total_ns"]), time_text(row["median_ns"]), _rate(row["tflops"], "TFLOP/s"), _bandwidth(row["gbps"]),
             row["bound"]] for row in look["kernels"]]
    head = ["kernel", "role", "op", "count", "total", "median", "", "", "bound"]
    return "Kernels\n" + table(head, rows[:top], left=(0, 1, 2)) + _more(len(rows), top)


def _rate(value: float | None, unit: str) -> str:
    return "" if not value or value < 0.05 else f"{value:,.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"


def _bandwidth(gbps: float | None) -> str:
    return "" if gbps is None else f"{gbps / 1000:.2f} TB/s"


def _ops(look: dict[str, Any], top: int) -> str:
    if not look["ops"]:
        return ""
    rows = [[row["name"], count_text(row["count"]), time_text(row["self_cpu_ns"]), time_text(row["total_cpu_ns"]),
             DASH if row["kernels"] is None else count_text(row["kernels"]), "metadata only" if row["metadata_only"] else ""]
            for row in look["ops"]]
    return "Host ops\n" + table(["op", "calls", "self", "total", "kernels", ""], rows[:top]) + _more(len(rows), top)


def _more(count: int, top: int) -> str:
    return f"\n  … and {count - top} more (--top {count})" if count > top else ""


def _ledger(look: dict[str, Any]) -> str:
    ledger = look["ledger"]
    lines = [f"Read: {count_text(ledger['seen'])} records seen = {count_text(ledger['kept'])} kept + "
             f"{count_text(ledger['repaired'])} repaired + {count_text(ledger['skipped'])} skipped"]
    lines += [f"  {note['severity']:<9} {note['code']} ({count_text(note['count'])}): {plain(note['text'])}"
              for note in ledger["notes"]]
    return "\n".join(lines)


def size_text(row: dict[str, Any]) -> str:
    """Work and traffic of one kernel row."""
    return f"{flops_text(row['flops'])}, {bytes_text(row['bytes'])}"
