"""The pages of `job`: the first screen, the tables of its options, and ranks as lanes of text."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from itertools import groupby
from statistics import fmean, median

import numpy as np
import polars as pl

from foretrace.base.terminal import (
    WIDTH,
    Column,
    Section,
    bulleted,
    filled,
    fitted,
    listing,
    shorten,
)
from foretrace.base.units import DASH, count_text, percent_text, plural, ratio_text, time_text
from foretrace.jobs.documents import JobCell, JobDocument, JobRank
from foretrace.jobs.lanes import JobLanes
from foretrace.jobs.rank_consistency import ranks_text
from foretrace.jobs.tables import step_name
from foretrace.jobs.verdict import CAUSES, cause_word, lines, title
from foretrace.look.lines import NAME
from foretrace.read.ledger import GRAVE

CHANGES = {  # of a replay
    "rank": "at the median of its stage",
    "ranks": "at the median of their stage",
    "host": "with the bandwidth of its equals",
    "group": "with the bandwidth of its equals",
    "link": "with the bandwidth of its equals",
    "collective": "free",
}
PARTS = ("stragglers", "exposed", "path", "network", "same")
MOST = 8  # ranks of the first screen
HOST = 16  # letters of a host's name beside a lane


def stragglers(document: JobDocument, top: int) -> list[Section]:
    """Every rank by how much it delays the others, and every host."""
    how = (
        "Per step. `others wait` counts from the median arrival on, `in all` sums over the ranks "
        "that wait. A rank counts as last where it is late beyond the clocks' error."
    )

    def slow(row: JobRank) -> str:
        ratio = f" {ratio_text(row.kernel_ratio)}" if row.slow == "gpu" and row.kernel_ratio else ""
        return f"{row.slow}{ratio}" or DASH

    def causes(row: JobRank) -> str:
        shares = sorted(row.causes.items(), key=lambda item: -item[1])
        words = [f"{cause_word(name)} {share:.0%}" for name, share in shares if name in CAUSES]
        return ", ".join(words) or _cause(row)

    late: dict[str, Column] = {
        "rank": "rank", "host": "host", "waits": "wait_ns", "last": "times_last",
        "of": "collectives", "others wait": "delays_ns", "in all": "made_others_wait_ns",
        "slow": slow, "cause": causes,
    }  # fmt: skip
    of_hosts: dict[str, Column] = {
        "host": "host", "ranks": "ranks", "last": "times_last", "others wait": "delays_ns",
        "in all": "made_others_wait_ns", "slow": lambda row: "yes" if row.slow else "no",
        "cause": _cause,
    }  # fmt: skip
    hosts = sorted(document.hosts, key=lambda row: -row.delays_ns)
    name = "Ranks, by how long the others wait for them"
    return [
        listing(name, _latest(document), late, top=top, left=(1, 7, 8), after=how),
        listing("Hosts", hosts, of_hosts, top=top, left=(0, 5, 6)),
    ]


def _latest(document: JobDocument) -> list[JobRank]:
    return sorted(document.ranks, key=lambda row: (-(row.delays_ns or 0), row.rank))


def _cause(row: JobRank) -> str:
    return cause_word(row.cause) or DASH


def exposed(document: JobDocument, top: int) -> list[Section]:
    """What a step's time is made of, by rank and by step; overlap by group and kind; bubbles."""
    times: dict[str, Column] = {
        "rank": "rank", "step": "wall_ns", "compute": "compute_ns", "both": "both_ns",
        "exposed": "exposed_ns", "share": lambda row: _share(row.exposed_ns, row.wall_ns),
        "copies": "copy_ns", "idle": "idle_ns", "data": "data_ns",
    }  # fmt: skip
    overlap: dict[str, Column] = {
        "group": "group", "collective": "collective", "n": "count", "time": "total_ns",
        "exposed": "exposed_ns",
        "hidden": lambda row: _share(row.total_ns - row.exposed_ns, row.total_ns),
        "waits": "wait_ns",
    }  # fmt: skip
    bubbles: dict[str, Column] = {
        "stage": "stage", "ranks": lambda row: ranks_text(row.ranks), "bubble": "bubble_ns",
        "share": "share",
    }  # fmt: skip
    ranks = sorted(document.ranks, key=lambda row: -(row.exposed_ns or 0))
    cells = sorted(document.cells, key=lambda each: each.step)
    by_step = [[*of_step] for _, of_step in groupby(cells, lambda each: each.step)]
    saves = document.perfect_overlap_ns
    best = f"Perfect overlap would save at most {time_text(saves)} per step." if saves else ""
    name = "Overlap by group and collective (per rank and step)"
    return [
        listing("Ranks, by exposed communication (means per step)", ranks, times, top=top),
        listing("Steps (means over the ranks)", by_step, _STEPS, top=top),
        listing(name, document.overlap[:top], overlap, left=(0, 1), after=best),
        listing("Pipeline bubbles (per step)", document.bubbles, bubbles, left=(1,)),
    ]


def _share(part: float | None, whole: float | None) -> str:
    return percent_text(part / whole if part is not None and whole else None)


def _mean(name: str) -> Column:
    def text(cells: list[JobCell]) -> str:
        known = [getattr(each, name) for each in cells if getattr(each, name) is not None]
        return time_text(fmean(known) if known else None)

    return text


def _longest(cells: list[JobCell]) -> JobCell:
    return max(cells, key=lambda each: each.wall_ns)


_STEPS: dict[str, Column] = {
    "step": lambda cells: DASH if cells[0].step < 0 else str(cells[0].step),
    "ranks": lambda cells: count_text(len(cells)),
    "longest": lambda cells: time_text(_longest(cells).wall_ns),
    "rank": lambda cells: str(_longest(cells).rank),
    "median": lambda cells: time_text(median(each.wall_ns for each in cells)),
    "compute": _mean("compute_ns"),
    "exposed": _mean("exposed_ns"),
    "idle": _mean("idle_ns"),
    "waits": _mean("wait_ns"),
}


def path(document: JobDocument, top: int) -> list[Section]:
    """The critical path through one step, part by part, and what a change would save."""
    found = document.path
    if found is None:
        return []
    kinds = ", ".join(f"{kind} {time_text(ns)}" for kind, ns in found.kinds.items())
    text = f"{time_text(found.length_ns)} over {ranks_text(found.ranks)}: {kinds}."
    apart = document.job.ranks - (found.compared or document.job.ranks)
    if apart:
        text += f" Without {plural(apart, 'rank')} whose clocks do not compare with these."
    segments: dict[str, Column] = {
        "at": "start_ns", "rank": "rank", "kind": "kind", "what": "name",
        "time": lambda row: time_text(row.end_ns - row.start_ns),
    }  # fmt: skip
    changes: dict[str, Column] = {
        "if": lambda row: f"{row.what} {CHANGES[row.kind]}", "saves": "saves_ns",
    }  # fmt: skip
    name = "What a replay of the step saves (an estimate)"
    return [
        Section(f"Critical path through {step_name(found.step)}", [text]),
        listing("", found.segments, segments, top=top, left=(2, 3)),
        listing(name, found.what_ifs, changes, top=top),
    ]


def network(document: JobDocument, top: int) -> list[Section]:
    """Bandwidths of the transfers alone, and what is slower than its equals."""
    rates: dict[str, Column] = {
        "collective": "collective", "dtype": "dtype", "message": "message_bytes",
        "ranks": "group_size", "group": "group", "n": "count", "transfer": "transfer_ns",
        "alg": "algorithm_gbps", "bus": "bus_gbps", "best": "best_bus_gbps",
    }  # fmt: skip
    slow: dict[str, Column] = {
        "what": lambda row: f"{row.kind} {row.what}", "collective": "collective",
        "message": "message_bytes", "bus": "bus_gbps", "usual": "usual_gbps", "n": "count",
    }  # fmt: skip
    how = "Waits for late ranks are taken out. Bandwidths are those of nccl-tests, in GB/s."
    return [
        listing("Network", document.network, rates, top=top, left=(0, 1, 4), after=how),
        listing("Slower than their equals", document.outliers, slow, top=top, left=(0, 1)),
    ]


def same(document: JobDocument, top: int) -> list[Section]:
    """Whether the traces are one job, the clocks, the files left out, the notes."""
    odd = [
        (f"{row.severity}: {row.text} [{row.code}]", ranks_text(row.ranks) if row.ranks else "")
        for row in document.same
    ]
    matched = f"{count_text(document.matched)} collectives were matched across ranks"
    how = f", {count_text(document.by_order)} of them by order" if document.by_order else ""
    left_out = [f"{each.path}: {each.text} [{each.code}]" for each in document.left_out]
    notes = [f"{note.severity}: {note.shown}" for note in document.notes]
    clocks: dict[str, Column] = {
        "rank": "rank",
        "host": "host",
        "offset": lambda row: time_text(row.clock.offset_ns) if row.clock.fitted else "not fitted",
        "drift": lambda row: (
            DASH if row.clock.drift_ppm is None else f"{row.clock.drift_ppm:.3f} ppm"
        ),
        "error": lambda row: time_text(row.clock.error_ns),
        "collectives": lambda row: count_text(row.clock.collectives),
    }
    return [
        Section("Are they the same job", [f"{matched}{how}."], bullets=odd),
        listing("Clocks, against the lowest rank", document.ranks, clocks, top=top, left=(1,)),
        bulleted("Not read", left_out),
        bulleted("Notes", notes),
    ]


def first_screen(document: JobDocument, width: int = WIDTH) -> list[Section]:
    """The verdict, what to do, the ranks that matter most, and how to see more: 25 lines."""
    top = head(document)
    options = " ".join(f"--{part}" for part in PARTS)
    more = Section("", [f"more: {options} --all --html FILE --perfetto FILE"])
    ordered = _latest(document)

    def page(most: int) -> list[Section]:
        left = len(ordered) - most
        after = f"and {plural(left, 'rank')} more" if left and most else ""
        table = listing(top.title, ordered[:most], _RANKS, left=(1, 8), after=after)
        return [replace(table, labelled=top.labelled, bullets=top.bullets), more]

    return fitted(page, min(MOST, len(ordered)), width)


_RANKS: dict[str, Column] = {
    "rank": "rank", "host": "host", "step": "wall_ns", "compute": "compute_ns",
    "exposed": "exposed_ns", "waits": "wait_ns", "last": "times_last", "others wait": "delays_ns",
    "cause": _cause,
}  # fmt: skip


def sections(document: JobDocument, wanted: Collection[str], top: int) -> list[Section]:
    """The parts of the page that the options name, below the verdict."""
    parts = (stragglers, exposed, path, network, same)
    chosen = [part for name, part in zip(PARTS, parts, strict=True) if name in wanted]
    return [head(document), *filled([each for part in chosen for each in part(document, top)])]


def head(document: JobDocument) -> Section:
    """Every page begins with the job and its verdict."""
    name = shorten(os.path.basename(document.job.path.rstrip("/")) or document.job.path, NAME)
    labelled = [(line.label, line.text) for line in lines(document)]
    grave = [note for note in document.notes if note.severity in GRAVE]
    warnings = [(f"! {note.shown}", "") for note in grave[:1]]
    return Section(f"{name} · {title(document)}", labelled=labelled, bullets=warnings)


# the rows of a rank; of two kinds in one column, the later one in this order is drawn
LANES = {"gpu": ("copy", "compute"), "comms": ("comms", "transfer", "wait"), "host": ("data",)}
SIGNS = {"compute": "█", "copy": "▒", "transfer": "=", "comms": "-", "wait": "·", "data": "d"}
_WORDS = {
    "compute": "compute",
    "copy": "copies",
    "transfer": "transfer",
    "wait": "waits for the last rank",
    "comms": "communication",
    "data": "data loader",
}


def job_timeline(lanes: JobLanes, step: int | None, width: int = WIDTH) -> Section:
    """One step of the chosen ranks; without a number the longest one."""
    if lanes.spans.is_empty() or lanes.steps.is_empty():
        return Section("Timeline", ["the traces of these ranks record no GPU work"])
    every: list[tuple[int, int, int]] = list(lanes.steps.iter_rows())
    chosen = [row for row in every if row[0] == step] or every
    number, start, end = max(chosen, key=lambda row: row[2] - row[1])
    shown = lanes.spans.filter(pl.col("start_ns") < end, pl.col("end_ns") > start)
    drawn = {kind for kind in SIGNS if kind in shown["kind"]}
    names = [lanes.name(rank, HOST) for rank in lanes.ranks]
    room = max(width - 4 - max(map(len, names)) - 7, 20)
    lines, label = list[str](), max(map(len, names))
    for rank, name in zip(lanes.ranks, names, strict=True):
        head = name
        for row, text in _drawn_rows(shown.filter(rank=rank), start, end, room):
            lines.append(f"{head:{label}} {row:5} {text}".rstrip())
            head = ""
    texts = [time_text((end - start) * part // 4) if part else "0" for part in range(4)]
    cells = "".join(f"|{text}".ljust(room // 4) for text in texts)
    axis = cells.ljust(room)[: room - 1] + "|"
    lines.append(f"{'':{label}} {'':5} {axis}")
    keys = ", ".join(f"{SIGNS[kind]} {text}" for kind, text in _WORDS.items() if kind in drawn)
    error = "not aligned: a clock could not be fitted"
    if lanes.error_ns is not None:
        error = f"clocks aligned within {time_text(lanes.error_ns)}"
    title = f"Timeline of {step_name(number)}: {time_text(end - start)}, {error}"
    return Section(title, after=keys, code="\n".join(lines))


def _drawn_rows(spans: pl.DataFrame, start: int, end: int, room: int) -> list[tuple[str, str]]:
    found, scale = [], room / max(end - start, 1)
    for row, kinds in LANES.items():
        cells = np.full(room, " ")
        for kind in kinds:
            mine = spans.filter(kind=kind)
            starts, ends = mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy()
            inside = np.clip((starts - start) * scale, 0, room).tolist()
            until = np.clip((ends - start) * scale, 0, room).tolist()
            cut = ((starts < start) | (ends > end)).tolist()
            # the columns of which a kind covers at least half, and of each span at least one
            for first, last, is_cut in zip(inside, until, cut, strict=True):
                low = min(round(first), room - 1)
                if last - first >= 0.5 or not is_cut:
                    cells[low : max(round(last), low + 1)] = SIGNS[kind]
        if (cells != " ").any():
            found.append((row, "".join(cells)))
    return found or [("gpu", "")]
