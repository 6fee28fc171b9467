"""The parts of `why` that give reasons: not fused, graph breaks, recompilations, compile time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foretrace.base.units import DASH, bytes_text, count_text, plural, time_text, times_text
from foretrace.schema.compiler import GuardFailure, GuardTally
from foretrace.schema.documents.why import BreakEntry, NotFused, ReasonRow, RecompileEntry, Why
from foretrace.show.overview.why import apart_detail
from foretrace.show.overview.why_words import (
    library_name,
    other_run,
    per_step,
    places,
    shape,
    stays_apart,
    stride,
    unit,
)
from foretrace.show.render.terminal import Section

PHASES, DEEPEST = 24, 5  # of one region; --json has all
VERSIONS, VALUES = 3, 4  # guards of one recompilation, values of one guard


def not_fused(why: Why, top: int) -> list[Section]:
    """Every reason with its cost, then the pairs that cost most."""
    if not why.reasons:
        return [Section("Not fused", ["nothing: no two neighbours with shared data stay apart"])]
    titles = ["reason", "pairs", "refusals", "fused later", "bytes", "at most"]
    rows = [_reason_cells(why, row) for row in why.reasons]
    per = f", times {unit(why)}" if why.launches is not None else ""
    reasons = Section(f"Not fused, by reason{per}", head=titles, rows=rows)
    groups = _same(why.not_fused)
    bullets = [(_pair(why, rows), _told(why, rows[0])) for rows in groups[:top]]
    left = sum(map(len, groups[top:]))
    after = f"… and {plural(left, 'more pair')} (--top {len(groups)})" if left > 0 else ""
    return [reasons, Section("Pairs, by the largest possible saving", bullets=bullets, after=after)]


def _same(pairs: Sequence[NotFused]) -> list[list[NotFused]]:
    """Pairs that read the same, as the layers of a model do, together; the largest saving first."""
    groups: dict[tuple[object, ...], list[NotFused]] = {}
    for row in pairs:
        told = (row.inductor, other_run(row))
        key = (stays_apart(row), row.code, row.bytes, places(row.sources), *told)
        groups.setdefault(key, []).append(row)
    return sorted(groups.values(), key=lambda rows: (-_total(rows), -(rows[0].bytes or 0)))


def _total(rows: Sequence[NotFused]) -> int:
    return sum(row.at_most_ns or 0 for row in rows)


def _reason_cells(why: Why, row: ReasonRow) -> list[str]:
    counts = map(count_text, (row.pairs, row.refusals, row.fused_later))
    return [row.reason, *counts, bytes_text(row.bytes), _saving(why, row.at_most_ns)]


def _saving(why: Why, at_most_ns: int | None) -> str:
    return DASH if at_most_ns is None else time_text(per_step(why, at_most_ns))


def _pair(why: Why, rows: Sequence[NotFused]) -> str:
    row, amounts = rows[0], []
    if row.at_most_ns is not None:
        amounts.append(f"at most {_saving(why, _total(rows))} {unit(why)}")
    if row.bytes is not None:
        amounts.append(f"{bytes_text(row.bytes)} a run")
    where = f" at {places(row.sources, 2)}" if row.sources else ""
    cost = f"; {', '.join(amounts)}" if amounts else ""
    count = f"{len(rows)}x " if len(rows) > 1 else ""
    return f"{count}{stays_apart(row)}{where}: {row.reason}{cost}"


def _told(why: Why, row: NotFused) -> str:
    detail = apart_detail(row, why.device)
    own = f'Inductor: "{row.inductor}"' if row.inductor else ""
    known = any(each.refusals for each in why.reasons)
    silent = "Inductor's log has no line about it" if known else "TORCH_LOGS=+fusion records it"
    told = ". ".join(filter(None, (detail, own))) or silent
    return f"{told}. {other_run(row)}" if row.elsewhere else told


def breaks(why: Why) -> Iterator[Section]:
    """Each graph break with its line, reason and hint; a line that was met again stands once."""
    held: dict[tuple[object, ...], list[BreakEntry]] = {}
    for row in why.graph_breaks:
        held.setdefault((row.source, row.reason, row.skipped), []).append(row)
    bullets = []
    for rows in held.values():
        row, regions = rows[0], ", ".join(each.region for each in rows)
        code = f": {row.source.code}" if row.source.code else ""
        rest = f"; the rest is {', '.join(row.resumed)}" if row.resumed else ""
        split = f"ends graph {regions}{rest}"
        ended = "the whole function runs eagerly" if row.skipped else split
        bullets.append((f"{row.source.place} in {row.source.function or DASH}{code} ({ended})", ""))
        labels = (("", row.reason), ("Why: ", row.explanation), ("Hint: ", row.hint), ("", row.url))
        told = [f"    {label}{' '.join(text.split())}" for label, text in labels if text]
        bullets += [(text, "") for text in told]
    yield Section("Graph breaks", [] if bullets else ["none"], bullets=bullets)


def recompiles(why: Why) -> Iterator[Section]:
    """Each recompilation with the guards that failed and their values."""
    bullets = [(_again(row), _failed(row)) for row in why.recompiles]
    yield Section("Recompilations", [] if bullets else ["none"], bullets=bullets)
    if why.guards:
        titles = ["guard", "of", "failed", "expected", "met"]
        yield Section("Guards that failed", head=titles, rows=[_tally(row) for row in why.guards])


def _failed(row: RecompileEntry) -> str:
    """The guards of the latest versions: every earlier one failed, too."""
    left = len(row.failures) - VERSIONS
    more = [f"{plural(left, 'more guard')} of earlier versions"] if left > 0 else []
    return "; ".join([*map(_guard, row.failures[:VERSIONS]), *more])


def _values(values: Sequence[str]) -> str:
    """`2, 3, 4, 5`, or `2, 3, 4, … 16`."""
    shown = values if len(values) <= VALUES else [*values[: VALUES - 1], f"… {values[-1]}"]
    return ", ".join(shown) or DASH


def _tally(row: GuardTally) -> list[str]:
    values = [_values(each) for each in (row.expected, row.actual)]
    return [row.what or DASH, row.subject or DASH, times_text(len(row.caused)), *values]


def _again(row: RecompileEntry) -> str:
    function = f" {row.function.function} {row.function.place}" if row.function else ""
    took = "" if row.compile_ns is None else f", compiled in {time_text(row.compile_ns)}"
    return f"{row.region}{function}{took}"


def _guard(each: GuardFailure) -> str:
    return f"{each.text} (guard of {each.version})" if each.version else each.text


def cost(why: Why) -> list[Section]:
    """What compiling cost, by phase; what the caches and CUDA graphs said."""
    found = []
    for row in why.compile_cost:
        least = max(row.compile_ns or 0, 1) / 100  # a phase below 1% is not listed
        phases = [
            [f"{'  ' * each.depth}{each.name}", each.stage, time_text(each.ns)]
            for each in row.phases
            if each.ns >= least and each.depth <= DEEPEST
        ]
        cache = ", ".join(f"{name}: {state}" for name, state in row.cache.items())
        notes = [f"Caches: {cache}"] if cache else []
        notes += [f"CUDA graphs skipped: {text}" for text in row.cudagraph_skips]
        notes += [f"Not compiled: {row.failure}"] if row.failure else []
        took = f": compiled in {time_text(row.compile_ns)}" if row.compile_ns else ", by phase"
        title = f"Region {row.region}{took}"
        stages = ", ".join(f"{name} {time_text(ns)}" for name, ns in row.stages.items())
        notes = [f"By stage: {stages}", *notes] if stages else notes
        head = ["phase", "stage", "time"]
        found.append(Section(title, notes, head=head, rows=phases[:PHASES], left=(0, 1)))
    again = [(f"{row.compile_id} {row.function}: {row.reason}", "") for row in why.rerecordings]
    return [*found, Section("CUDA graphs recorded again", bullets=again)] if again else found


def strides(why: Why, top: int) -> list[Section]:
    """Views in another order of dimensions, and the calls that read them without a copy."""
    rows = []
    for row in why.strides[:top]:
        tensors = (row.source, row.result)
        shown = [f"{shape(each)} {stride(each)}" for each in tensors]
        name = library_name(row.op)
        rows.append([name, *shown, row.layout or DASH, ", ".join(row.used_by) or DASH])
    titles = ["op", "tensor", "view", "layout", "read by"]
    left = len(why.strides) - top
    after = f"… and {plural(left, 'more view')} (--json has all)" if left > 0 else ""
    none = [] if rows else ["no view in another order of dimensions"]
    title = "Strides: views that copy nothing"
    return [Section(title, none, head=titles, rows=rows, left=(0, 1, 2, 3, 4), after=after)]
