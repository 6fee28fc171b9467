"""The pages of `look` on a folder or zip (with `--all` everything), and the table of recordings."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from foretrace.base.units import DASH, count_text, percent_text, plural, ratio_text, time_text
from foretrace.schema.documents.look import Look
from foretrace.schema.documents.sets import LookSet
from foretrace.schema.ledger import GRAVE
from foretrace.show.overview.fixes import WORTH, saving_text
from foretrace.show.overview.page import Overview
from foretrace.show.overview.ranks import Spread, host_per_step, lines, per_step, spreads
from foretrace.show.overview.sentences import device_text
from foretrace.show.overview.verdict import LABELS
from foretrace.show.render.look_page import BANNER, NAME, banner, note_text
from foretrace.show.render.terminal import WIDTH, Section, fitted, shorten, table


def first_screen(root: str, found: LookSet, width: int = WIDTH) -> list[Section]:
    """What the traces are to each other, a row for each, and how to see more: at most 25 lines."""
    head, ranks = _head(root, found), ["rank"] if found.job else []
    names = ["trace", *ranks, "kernels", "gpu busy", "busy", "bound", "do first", "saves"]
    rows = [_verdict(look, root, bool(ranks)) for look in found.traces]
    words = (0, len(ranks) + 4, len(ranks) + 5)
    if all(look.cpu for look in found.traces):
        names, words = (
            ["trace", "host/step", "ops/step", "most self time in", "do first"],
            (0, 3, 4),
        )
        rows = [_cpu_verdict(look, root) for look in found.traces]
    waits = f"who waits for whom: foretrace job {shlex.quote(root)}; " if found.job else ""
    more = f"{waits}more: --all; one trace: foretrace look {shlex.quote(_example(found))}"

    def page(shown: int) -> list[Section]:
        left = f"and {plural(len(rows) - shown, 'trace')} more" if shown < len(rows) else ""
        table = Section(
            head.title,
            labelled=head.labelled,
            bullets=_warnings(root, found)[:BANNER],
            head=names,
            rows=rows[:shown],
            left=words,
            after=left,
        )
        return [table, Section("", [more])]

    return fitted(page, len(rows), width)


def _verdict(look: Look, root: str, ranked: bool) -> list[str]:
    rank, _, _, kernels, time, busy, _ = _numbers(look)
    name = _name(look, root)
    # the page of the trace says how
    what, saves = _first(look)
    ranks = [rank] if ranked else []
    return [name, *ranks, kernels, time, busy, look.verdict.bound, what, saves]


def _name(look: Look, root: str) -> str:
    return _label(look.trace.path, root).removesuffix(".gz").removesuffix(".json")


def _cpu_verdict(look: Look, root: str) -> list[str]:
    ops = count_text(per_step(look, lambda step: step.ops))
    order = look.verdict.first.partition(": ")[0] or DASH
    return [_name(look, root), time_text(host_per_step(look)), ops, look.ops[0].name, order]


def _device(look: Look) -> str:
    return "CPU" if look.cpu else device_text(look.trace)


def _first(look: Look) -> tuple[str, str]:
    """The first advice, and the time of a step that it saves."""
    if look.step is not None and look.fixes:
        fix = look.fixes[0]
        return fix.order.partition(" (")[0], time_text(max(look.step.ns - fix.ns, 0))
    bounded = (each for each in look.findings if each.fix)
    said = next((each for each in bounded if look.verdict.first.startswith(each.fix)), None)
    if said is None:
        return DASH, DASH
    return said.fix.partition(" (")[0], time_text(said.at_most_ns)


def _warnings(root: str, found: LookSet) -> list[tuple[str, str]]:
    """Traces that lost data, then what is wrong with the set."""
    lost = [look for look in found.traces if look.ledger.banner]
    said = []
    for look in lost[:1]:
        first = f"{_label(look.trace.path, root)} ({look.ledger.banner[0].code})"
        said.append(f"{len(lost)} of {plural(len(found.traces), 'trace')} lost data: {first}")
    said += [note_text(note) for note in found.notes if note.severity in GRAVE]
    return [(f"! {text}", "") for text in said]


def sections(root: str, found: LookSet) -> list[Section]:
    """The whole page, in reading order; `root` is the folder or zip."""
    names = [_label(look.trace.path, root) for look in found.traces]
    parts = [_head(root, found), banner([note for note in found.notes if note.severity in GRAVE])]
    parts += [_traces(names, found), _findings(names, found), _ranks(found)]
    left_out = [(_label(each.path, root), f"{each.text} [{each.code}]") for each in found.left_out]
    notes = [(f"{note.severity}: {note_text(note)}", "") for note in found.notes]
    parts += [
        Section("Not read: files named like traces that cannot be read", bullets=left_out),
        Section("The set", bullets=notes),
        Section("", [f"For one trace: foretrace look {shlex.quote(_example(found))}"]),
    ]
    return [part for part in parts if part.filled]


def _label(path: str, root: str) -> str:
    """The path inside the folder or zip."""
    member = path.removeprefix(f"{root}::")
    return member if member != path else os.path.relpath(path, root)


def _head(root: str, found: LookSet) -> Section:
    counts = f"{plural(len(found.traces), 'trace')} · {len(found.left_out)} not read"
    devices = {_device(look) for look in found.traces}
    device = f" · {devices.pop()}" if len(devices) == 1 else ""
    labelled = [(line.label, line.text) for line in lines(found)]
    name = shorten(os.path.basename(root.rstrip("/")) or root, NAME)
    return Section(f"{name} · {counts}{device}", labelled=labelled)


def _traces(names: list[str], found: LookSet) -> Section:
    """The device has a column where the traces differ in it; elsewhere the head names it."""
    several = len({_device(look) for look in found.traces}) > 1
    head = ["trace", *(["device"] if several else []), "rank", "events", "steps", "kernels"]
    rows = [
        [name, *([_device(look)] if several else []), *_numbers(look)]
        for name, look in zip(names, found.traces, strict=True)
    ]
    head += ["gpu busy", "busy", "host/step"]
    return Section("Traces", head=head, rows=rows, left=(0, 1) if several else (0,))


def _numbers(look: Look) -> list[str]:
    trace, busy, span = look.trace, look.totals.gpu_busy_ns, look.totals.gpu_span_ns
    return [
        DASH if trace.rank is None else str(trace.rank),
        count_text(trace.events),
        count_text(trace.steps),
        count_text(look.totals.kernels),
        time_text(busy),
        percent_text(busy / span if busy is not None and span else None),
        time_text(host_per_step(look)),
    ]


def _worst(look: Look) -> str:
    """The worst note above `info`, how many more; `!` where data was lost or is wrong."""
    notes = [note for note in look.ledger.notes if note.severity != "info"]
    if not notes:
        return "complete"
    more = f" +{len(notes) - 1}" if len(notes) > 1 else ""
    return f"{'! ' if notes[0].severity in GRAVE else ''}{notes[0].code}{more}"


def _findings(names: list[str], found: LookSet) -> Section:
    rows = []
    for name, look in zip(names, found.traces, strict=True):
        first = next((row for row in look.findings if row.state == "found"), None)
        title, saving = (first.title, saving_text(first)) if first else ("nothing found", "")
        rows.append([name, _worst(look), title, saving or DASH])
    head = ["trace", "ledger", "largest finding", "saves"]
    title = "Ledger, largest finding, and largest possible saving per step"
    return Section(title, head=head, rows=rows, left=(0, 1, 2))


def _ranks(found: LookSet) -> Section:
    spread = spreads(found)
    waits = (
        "Time in a collective includes waiting for its last rank: a rank with far less of it "
        "keeps the others waiting."
    )
    return Section(
        "Ranks, by largest difference (medians over the steps)",
        head=["", "least", "rank", "most", "rank", "most/least"],
        rows=[_spread_cells(each) for each in spread],
        after=waits if any("collectives" in each.what for each in spread) else "",
    )


def _spread_cells(spread: Spread) -> list[str]:
    text = time_text if spread.unit == "ns" else count_text
    # where all have the same, no rank has the least
    ranks = (spread.least_rank, spread.most_rank)
    least, most = (DASH, DASH) if spread.least == spread.most else map(str, ranks)
    ends = (text(spread.least), least, text(spread.most), most)
    return [spread.what, *ends, ratio_text(spread.ratio)]


def _example(found: LookSet) -> str:
    """The trace to look at by itself: the first with data loss, else the first."""
    first = next((look for look in found.traces if look.ledger.banner), found.traces[0])
    return first.trace.path


_UNCUT = 200  # a name is there to be typed


def recordings_text(overviews: Mapping[str, Overview]) -> str:
    """A table of all recordings, per step, with the times and the word of `foretrace look`."""
    head = ["recording", "kernels", "memcpys", "memsets", "gpu busy", "step", "host, profiled", ""]
    rows = [_row(name, overview) for name, overview in overviews.items()]
    devices = sorted({str(overview.look.trace.device) for overview in overviews.values()})
    title = f"{len(overviews)} recordings ({', '.join(devices)}), per step, without the profiler"
    return f"{title}\n{table(head, rows, left=(0, len(head) - 1), width=_UNCUT)}"


def _row(name: str, overview: Overview) -> list[str]:
    document = overview.look
    return [
        name,
        count_text(per_step(document, lambda step: step.kernels)),
        count_text(per_step(document, lambda step: step.memcpys)),
        count_text(per_step(document, lambda step: step.memsets)),
        time_text(per_step(document, lambda step: step.gpu_busy_ns)),
        time_text(overview.worth_ns / WORTH or None),  # the step as the verdict has it
        time_text(host_per_step(document)),
        next((line.label for line in overview.lines if line.label in LABELS.values()), ""),
    ]


def more_text(counts: Mapping[str, int]) -> str:
    """The recordings that are not in the table: how many of each rung."""
    rungs = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
    return f"  and {sum(counts.values())} of the ladder (recordings RUNG lists them): {rungs}"
