"""The page of `look`: the story, what each region runs, steps, regions, kernels, host ops,
findings, and the ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foretrace.model.story import roles_text
from foretrace.render.section import Section
from foretrace.render.table import shorten
from foretrace.units import DASH, count_text, percent_text, time_text

Row = dict[str, Any]
# Rows of steps and regions that a page has room for; `--json` has all.
ROWS = 24
NAME = 40  # of a region, in a heading that is to fit one line


def sections(document: dict[str, Any], top: int) -> list[Section]:
    """The whole page, in reading order."""
    look = document["look"]
    parts = [_head(look), _banner(look), Section("", document["story"])]
    parts += [_sequence(entry, top) for entry in document["sequences"]]
    parts += [_totals(look), _steps(look), _regions(look), _kernels(look, top), _ops(look, top)]
    parts += [*_findings(look), _ledger(look)]
    return [part for part in parts if part.paragraphs or part.bullets or part.rows]


def _head(look: Row) -> Section:
    trace = look["trace"]
    arch = f" ({trace['arch']})" if trace["arch"] else ""
    rank = f", rank {trace['rank']}" if trace["rank"] is not None else ""
    counts = [_count(trace[kind], kind[:-1]) for kind in ("events", "steps", "regions")]
    return Section(
        trace["path"], [f"{trace['device'] or 'no GPU named'}{arch}{rank} · {' · '.join(counts)}"]
    )


def _banner(look: Row) -> Section:
    """What every page made from this trace must show."""
    grave = [note for note in look["ledger"]["notes"] if note["severity"] in ("data_loss", "error")]
    return Section("", bullets=[(f"! {_note(note)}", "") for note in grave])


def _sequence(entry: Row, top: int) -> Section:
    """One call of a region, piece by piece; equal pieces of a long one are folded into one row."""
    head = ["kernel", "asked for by", "host", "delay", "time", "TFLOP/s", "TB/s", "bound"]
    rows = [
        [
            _called(row),
            path(row["chain"]),
            time_text(row["host_ns"]),
            time_text(row["delay_ns"]),
            time_text(row["ns"]),
            _tflops(row["tflops"]),
            _terabytes(row["gbps"]),
            row["bound"],
        ]
        for row in entry["rows"]
    ]
    left_out = len(rows[top:]) + entry["left_out"]
    after = f"… and {left_out} more kinds (--top {len(rows)})" if left_out else ""
    alike, every = entry["alike"], entry["calls"]
    calls = _count(every, "call") if alike == every else f"{alike} of {every} calls"
    how = "by kind, in order of first launch" if entry["folded"] else "in launch order"
    title = (
        f"{shorten(entry['region'], NAME)}: {_count(entry['pieces'], 'piece')} of GPU work "
        f"{how}, medians of {calls}"
    )
    return Section(title, head=head, rows=rows[:top], left=(0, 1), after=after)


def _called(row: Row) -> str:
    return f"{row['times']}x {row['kernel']}" if row["times"] > 1 else str(row["kernel"])


def path(chain: list[str]) -> str:
    """`linear > matmul > mm`: the ops above a piece of work, without the launching call; that call
    alone if there is no op.
    """
    ops = [
        op.removeprefix("aten::").removeprefix("autograd::engine::evaluate_function: ")
        for op in chain[:-1]
    ]
    return " > ".join(ops) or (chain[-1] if chain else DASH)


def _totals(look: Row) -> Section:
    totals = look["totals"]
    busy, span = totals["gpu_busy_ns"], totals["gpu_span_ns"]
    share = (
        f", {percent_text(busy / span)} of the {time_text(span)} from first to last"
        if busy is not None and span
        else ""
    )
    kinds = {
        "kernels": "kernel",
        "memcpys": "memcpy",
        "memsets": "memset",
        "syncs": "sync",
        "cpu_ops": "host op",
    }
    counts = [_count(totals[key], word) for key, word in kinds.items()]
    launches = _count(totals["launches"], "launch", "launches")
    done = f"{', '.join(counts[:3])}, {launches}, {', '.join(counts[3:])}"
    return Section("Totals", [f"{done}; GPU busy {time_text(busy)}{share}"])


def _steps(look: Row) -> Section:
    head = ["step", "host", "kernels", "memcpys", "memsets", "gpu busy", "idle between", "bound"]
    rows = [
        [
            row["name"],
            time_text(row["cpu_ns"]),
            count_text(row["kernels"]),
            count_text(row["memcpys"]),
            count_text(row["memsets"]),
            time_text(row["gpu_busy_ns"]),
            time_text(row["gpu_idle_ns"]),
            row["bound"],
        ]
        for row in look["steps"]
    ]
    return Section(
        "Steps", head=head, rows=rows[:ROWS], after=_more(len(rows), ROWS, "--json has all")
    )


def _regions(look: Row) -> Section:
    head = ["region", "calls", "host/call", "kernels/call", "roles/call", "gpu/call", "bound"]
    rows = [
        [
            row["name"],
            count_text(row["count"]),
            time_text(row["cpu_ns"] / row["count"]),
            count_text(row["kernels_per_call"]),
            roles_text(row["roles_per_call"], 3) or DASH,
            time_text(None if row["gpu_busy_ns"] is None else row["gpu_busy_ns"] / row["count"]),
            row["bound"],
        ]
        for row in look["regions"]
    ]
    return Section(
        "Regions (per call: means over the calls)",
        head=head,
        rows=rows[:ROWS],
        left=(0, 4),
        after=_more(len(rows), ROWS, "--json has all"),
    )


def _kernels(look: Row, top: int) -> Section:
    head = ["kernel", "role", "op", "count", "total", "median", "TFLOP/s", "TB/s", "bound"]
    rows = [
        [
            row["short"] or row["name"],
            row["role"],
            row["ops"][0].removeprefix("aten::") if row["ops"] else DASH,
            count_text(row["count"]),
            time_text(row["total_ns"]),
            time_text(row["median_ns"]),
            _tflops(row["tflops"]),
            _terabytes(row["gbps"]),
            row["bound"],
        ]
        for row in look["kernels"]
    ]
    return Section(
        "Kernels",
        head=head,
        rows=rows[:top],
        left=(0, 1, 2),
        after=_more(len(rows), top, f"--top {len(rows)}"),
    )


def _ops(look: Row, top: int) -> Section:
    rows = [
        [
            row["name"],
            count_text(row["count"]),
            time_text(row["self_cpu_ns"]),
            time_text(row["total_cpu_ns"]),
            DASH if row["kernels"] is None else count_text(row["kernels"]),
            "metadata only" if row["metadata_only"] else "",
        ]
        for row in look["ops"]
    ]
    head = ["op", "calls", "self", "total", "kernels", ""]
    return Section(
        "Host ops", head=head, rows=rows[:top], after=_more(len(rows), top, f"--top {len(rows)}")
    )


def _findings(look: Row) -> list[Section]:
    """What was found by what mending it could save, then the rules that found nothing, and why."""
    found = [row for row in look["findings"] if row["state"] == "found"]
    per = "per step" if look["steps"] else "in the whole recording"
    bullets = [(f"{_saving(row)}{row['title']} [{row['rule']}]", row["detail"]) for row in found]
    rest = [
        _named(look, "clear", "Looked for and not there", lambda row: row["rule"]),
        _named(look, "skipped", "Skipped", lambda row: f"{row['rule']} ({row['detail']})"),
        _named(look, "crashed", "Failed", lambda row: f"{row['rule']} ({row['detail']})"),
    ]
    return [
        Section(f"Findings, by what mending them could save at most {per}", bullets=bullets),
        Section("", [text for text in rest if text]),
    ]


def _saving(row: Row) -> str:
    return f"at most {time_text(row['at_most_ns'])}: " if row["at_most_ns"] is not None else ""


def _named(look: Row, state: str, title: str, words: Callable[[Row], str]) -> str:
    """One paragraph for all rules in this state; rules that lack the same thing are named together."""
    rows = [row for row in look["findings"] if row["state"] == state]
    if state != "skipped":
        return f"{title}: {', '.join(words(row) for row in rows)}." if rows else ""
    lacks: dict[str, list[str]] = {}
    for row in rows:
        lacks.setdefault(row["detail"], []).append(row["rule"])
    return " ".join(f"{title}, {detail}: {', '.join(names)}." for detail, names in lacks.items())


def _ledger(look: Row) -> Section:
    ledger = look["ledger"]
    parts = [f"{count_text(ledger[key])} {key}" for key in ("kept", "repaired", "skipped")]
    notes = [(f"{note['severity']}: {_note(note)}", "") for note in ledger["notes"]]
    return Section(
        "Read", [f"{_count(ledger['seen'], 'record')} seen = {' + '.join(parts)}"], bullets=notes
    )


def _note(note: Row) -> str:
    return f"{note['code']} ({count_text(note['count'])}): {note['text']}"


def _tflops(value: float | None) -> str:
    return "" if not value or value < 0.05 else f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _terabytes(gbps: float | None) -> str:
    return "" if not gbps or gbps < 5 else f"{gbps / 1000:.2f}"


def _more(count: int, shown: int, how: str) -> str:
    return f"… and {count_text(count - shown)} more ({how})" if count > shown else ""


def _count(count: float, one: str, many: str = "") -> str:
    return f"{count_text(count)} {one if count == 1 else many or one + 's'}"
