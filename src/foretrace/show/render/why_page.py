"""The pages of `why`: the first screen, what its options show, and the page of one kernel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from foretrace.base.units import DASH, bytes_text, count_text, plural, time_text, times_text
from foretrace.schema.documents.why import (
    BreakEntry,
    CompiledKernel,
    NotFused,
    RegionStages,
    Why,
)
from foretrace.show.overview import why as words
from foretrace.show.render.look_page import banner
from foretrace.show.render.terminal import WIDTH, Column, Section, bulleted, filled, fitted, listing

ALL = "--json has all"
MOST = 12  # rows of each of its tables, at most
LISTED = 24  # ops of a region and accesses of a kernel that a page has room for
PARTS = ("stages", "kernels", "not_fused", "breaks", "cost", "strides")
PHASES, DEEPEST = 24, 5  # of one region; --json has all
VERSIONS, VALUES = 3, 4  # guards of one recompilation, values of one guard


def first_screen(why: Why, width: int = WIDTH) -> list[Section]:
    """The answer, the compiled regions, the kernels that take most time: at most 25 lines."""
    options = " ".join(f"--{part}".replace("_", "-") for part in PARTS)
    more = Section("", [f"more: KERNEL {options} --all"])
    return fitted(
        lambda rows: filled([head(why), regions(why, rows or 1), kernels(why, rows or 1), more]),
        MOST,
        width,
    )


def sections(why: Why, wanted: Collection[str], top: int) -> list[Section]:
    """The parts of the page that the options name, below the answer."""
    parts: dict[str, list[Section]] = {
        "stages": [regions(why, len(why.stages)), *_every_stage(why)],
        "kernels": [kernels(why, top, f"--top {len(why.kernels)}")],
        "not_fused": not_fused(why, top),
        "breaks": [*breaks(why), *recompiles(why)],
        "cost": cost(why),
        "strides": strides(why, top),
    }
    chosen = [part for name in PARTS if name in wanted for part in parts[name]]
    return [head(why), *chosen]


def head(why: Why) -> Section:
    """Every page begins with what was compiled."""
    labelled = [(line.label, line.text) for line in words.lines(why)]
    warnings = banner(why.ledger.banner).bullets
    return Section(words.title(why), labelled=labelled, bullets=warnings)


def regions(why: Why, most: int) -> Section:
    """A row for each compiled graph: the count of nodes at every stage, and the time."""

    def spent(row: RegionStages) -> str:
        return time_text(words.per_step(why, row.time_ns) if row.time_ns and row.launches else None)

    columns: dict[str, Column] = {
        "region": _region,
        "source": lambda row: row.function.place if row.function else DASH,
        "ops": "dynamo_ops",
        "nodes": "post_grad_nodes",
        "fusion": _fusion,
        "kernels": _calls,
        **({words.unit(why): spent} if why.launches is not None else {}),
        "compile": "compile_ns",
    }
    ordered = sorted(why.stages, key=lambda row: not row.launches)  # what ran comes first
    return listing("", ordered, columns, top=most, how="--stages", left=(0, 1))


def _region(row: RegionStages) -> str:
    graph = "" if row.graph == "inference" else f" {row.graph}"
    return f"{row.region}{graph}" + ("" if row.rank is None else f" rank {row.rank}")


def _fusion(row: RegionStages) -> str:
    scheduled = (row.before_fusion, row.after_fusion)
    return DASH if None in scheduled else " to ".join(map(count_text, scheduled))


def _calls(row: RegionStages) -> str:
    calls = (row.generated_calls, row.library_calls)
    return DASH if calls == (None, None) else f"{' + '.join(map(count_text, calls))} lib"


def kernels(why: Why, most: int, more: str = "--kernels") -> Section:
    """The kernels that take most time; without a trace those that move most."""
    columns, ordered = _kernel_columns(why), words.by_cost(why)
    return listing("", ordered, columns, top=most, how=more, what="kernel", left=(0, 1))


def _kernel_columns(why: Why) -> dict[str, Column]:
    named = words.labels(why.kernels)
    columns: dict[str, Column] = {
        "kernel": lambda row: named[id(row)],
        "source": lambda row: words.first_place(row.sources) or DASH,
        "nodes": lambda row: count_text(len(row.nodes)),
    }
    if why.launches is None:
        return columns | {"calls": lambda row: count_text(len(row.calls)), "bytes": words.moved}
    return columns | {
        "n": lambda row: count_text(words.per_step(why, row.launches or 0)),
        words.unit(why): lambda row: time_text(
            words.per_step(why, row.time_ns) if row.time_ns else None
        ),
        "bytes": words.moved,
        "roof": lambda row: _roof(row) if row.launches and why.device else DASH,
    }


def _roof(row: CompiledKernel) -> str:
    at_roof = row.roof_percent is not None and row.bound in ("compute", "memory")
    return f"{row.bound} {row.roof_percent:.0f}%" if at_roof else row.bound


def _every_stage(why: Why) -> Iterator[Section]:
    columns: dict[str, Column] = {
        "op": words.op_label,
        "source": lambda op: op.source.place if op.source else DASH,
        "nodes": lambda op: count_text(len(op.post_grad)),
        "computed by": lambda op: ", ".join(op.kernels) or DASH,
    }
    for row in why.stages:
        title = f"Region {row.region}, {row.graph}: what became of each op"
        if row.ops:
            left = (0, 1, 3)
            yield listing(title, row.ops, columns, top=LISTED, how=ALL, what="op", left=left)


def kernel_page(why: Why, row: CompiledKernel) -> list[Section]:
    """One kernel: lines, nodes, traffic, launches, code."""
    labelled = [(line.label, line.text) for line in words.kernel_lines(why, row)]
    accesses = [*row.loads, *row.stores]
    columns, left = _ACCESS, tuple(range(6))
    if any(each.certainty != "exact" for each in accesses):
        columns, left = columns | {"certainty": "certainty"}, (*left, 7)
    table = listing("", accesses, columns, top=LISTED, how="--json", left=left)
    title = "Call in the wrapper" if row.extern else f"Generated code ({row.language})"
    page = [Section(words.kernel_title(row), labelled=labelled), *([table] if table.rows else [])]
    return [*page, *([Section(title, code=_body(row.code))] if row.code else [])]


def _body(code: str) -> str:
    """A Triton kernel without its imports and metadata, which `--json` has."""
    at, kept, inside = code.find("\n@triton.jit"), [], False
    for line in code[at + 1 :].splitlines():
        inside = line.startswith("@triton_heuristics") or (inside and line != "@triton.jit")
        kept += [] if inside else [line]
    return "\n".join(kept).strip("\n")


_ACCESS: dict[str, Column] = {
    "access": "mode",
    "tensor": lambda each: each.tensor.name,
    "argument": "argument",
    "type": lambda each: each.tensor.dtype or DASH,
    "shape": lambda each: words.shape(each.tensor),
    "stride": lambda each: words.stride(each.tensor),
    "bytes": "bytes",
}


def kernel_pages(why: Why, rows: Sequence[CompiledKernel], top: int) -> list[Section]:
    """The page of each; of many, a table to choose from."""
    if len(rows) > 4:
        columns = {"call": lambda row: row.calls[0].handle, **_kernel_columns(why)}
        return [listing(words.title(why), rows[:top], columns, left=(0, 1, 2))]
    return [part for row in rows for part in kernel_page(why, row)]


def not_fused(why: Why, top: int) -> list[Section]:
    """Every reason with its cost, then the pairs that cost most."""
    if not why.reasons:
        return [Section("Not fused", ["nothing: no two neighbours with shared data stay apart"])]
    columns: dict[str, Column] = {
        "reason": "reason", "pairs": "pairs", "refusals": "refusals", "fused later": "fused_later",
        "bytes": "bytes", "at most": lambda row: _saving(why, row.at_most_ns),
    }  # fmt: skip
    per = f", times {words.unit(why)}" if why.launches is not None else ""
    reasons = listing(f"Not fused, by reason{per}", why.reasons, columns)
    groups = _same(why.not_fused)
    bullets = [(_pair(why, rows), _evidence(why, rows[0])) for rows in groups[:top]]
    left = sum(map(len, groups[top:]))
    after = f"… and {plural(left, 'more pair')} (--top {len(groups)})" if left > 0 else ""
    return [reasons, Section("Pairs, by the largest possible saving", bullets=bullets, after=after)]


def _same(pairs: Sequence[NotFused]) -> list[list[NotFused]]:
    """Pairs with the same text, as those of equal layers, together; the largest saving first."""
    groups = defaultdict[tuple[object, ...], list[NotFused]](list)
    for row in pairs:
        texts = words.stays_apart(row), words.places(row.sources), words.other_run(row)
        groups[*texts, row.code, row.bytes, row.a_target, row.inductor].append(row)
    return sorted(groups.values(), key=lambda rows: (-_total(rows), -(rows[0].bytes or 0)))


def _total(rows: Sequence[NotFused]) -> int:
    return sum(row.at_most_ns or 0 for row in rows)


def _saving(why: Why, at_most_ns: int | None) -> str:
    return DASH if at_most_ns is None else time_text(words.per_step(why, at_most_ns))


def _pair(why: Why, rows: Sequence[NotFused]) -> str:
    row, amounts = rows[0], []
    if row.at_most_ns is not None:
        amounts.append(f"at most {_saving(why, _total(rows))} {words.unit(why)}")
    if row.bytes is not None:
        amounts.append(f"{bytes_text(row.bytes)} a run")
    where = f" at {words.places(row.sources, 2)}" if row.sources else ""
    cost = f"; {', '.join(amounts)}" if amounts else ""
    count = f"{len(rows)}x " if len(rows) > 1 else ""
    return f"{count}{words.stays_apart(row)}{where}: {row.reason}{cost}"


def _evidence(why: Why, row: NotFused) -> str:
    detail = words.apart_detail(row, why.device)
    own = f'Inductor: "{row.inductor}"' if row.inductor else ""
    known = any(each.refusals for each in why.reasons)
    silent = "Inductor's log has no line about it" if known else "TORCH_LOGS=+fusion records it"
    text = ". ".join(filter(None, (detail, own))) or silent
    return f"{text}. {words.other_run(row)}" if row.elsewhere else text


def breaks(why: Why) -> Iterator[Section]:
    """Each graph break with its line, reason and hint; each line once."""
    held = defaultdict[tuple[object, ...], list[BreakEntry]](list)
    for row in why.graph_breaks:
        held[row.source, row.reason, row.skipped].append(row)
    bullets = []
    for rows in held.values():
        row, regions = rows[0], ", ".join(each.region for each in rows)
        code = f": {row.source.code}" if row.source.code else ""
        rest = f"; the rest is {', '.join(row.resumed)}" if row.resumed else ""
        split = f"ends graph {regions}{rest}"
        ended = "the whole function runs eagerly" if row.skipped else split
        bullets.append((f"{row.source.place} in {row.source.function or DASH}{code} ({ended})", ""))
        labels = (("", row.reason), ("Why: ", row.explanation), ("Hint: ", row.hint), ("", row.url))
        bullets += [(f"    {label}{' '.join(text.split())}", "") for label, text in labels if text]
    yield Section("Graph breaks", [] if bullets else ["none"], bullets=bullets)


def recompiles(why: Why) -> Iterator[Section]:
    """Each recompilation with the guards that failed and their values."""
    bullets = []
    for row in why.recompiles:
        function = f" {row.function.function} {row.function.place}" if row.function else ""
        took = "" if row.compile_ns is None else f", compiled in {time_text(row.compile_ns)}"
        # The guards of the latest versions; those of every earlier version failed, too.
        left = len(row.failures) - VERSIONS
        more = [f"{plural(left, 'more guard')} of earlier versions"] if left > 0 else []
        guards = [
            f"{each.text} (guard of {each.version})" if each.version else each.text
            for each in row.failures[:VERSIONS]
        ]
        bullets.append((f"{row.region}{function}{took}", "; ".join([*guards, *more])))
    yield Section("Recompilations", [] if bullets else ["none"], bullets=bullets)
    if why.guards:
        yield listing("Guards that failed", why.guards, _GUARDS)


def _values(values: Sequence[str]) -> str:
    """`2, 3, 4, 5`, or `2, 3, 4, … 16`."""
    shown = values if len(values) <= VALUES else [*values[: VALUES - 1], f"… {values[-1]}"]
    return ", ".join(shown) or DASH


_GUARDS: dict[str, Column] = {
    "guard": "what",
    "of": "subject",
    "failed": lambda row: times_text(len(row.caused)),
    "expected": lambda row: _values(row.expected),
    "met": lambda row: _values(row.actual),
}


def cost(why: Why) -> list[Section]:
    """Compile time by phase, the answers of the caches, and skipped CUDA graphs."""
    found = []
    for row in why.compile_cost:
        least = max(row.compile_ns or 0, 1) / 100  # a phase below 1% is not listed
        phases = [
            [f"{'  ' * each.depth}{each.name}", each.stage, time_text(each.ns)]
            for each in row.phases
            if each.ns >= least and each.depth <= DEEPEST
        ]
        cache = ", ".join(f"{name}: {state}" for name, state in row.cache.items())
        notes = [f"Tuned {words.tuned_text(each)}" for each in row.tuned]
        notes += [f"Caches: {cache}"] if cache else []
        notes += [f"CUDA graphs skipped: {text}" for text in row.cudagraph_skips]
        notes += [f"Not compiled: {row.failure}"] if row.failure else []
        took = f": compiled in {time_text(row.compile_ns)}" if row.compile_ns else ", by phase"
        title = f"Region {row.region}{took}"
        stages = ", ".join(f"{name} {time_text(ns)}" for name, ns in row.stages.items())
        notes = [f"By stage: {stages}", *notes] if stages else notes
        head = ["phase", "stage", "time"]
        found.append(Section(title, notes, head=head, rows=phases[:PHASES], left=(0, 1)))
    again = [f"{row.compile_id} {row.function}: {row.reason}" for row in why.rerecordings]
    return [*found, bulleted("CUDA graphs recorded again", again)] if again else found


def strides(why: Why, top: int) -> list[Section]:
    """Views in another order of dimensions, and the calls that read them without a copy."""
    title = "Strides: views that copy nothing"
    if not why.strides:
        return [Section(title, ["no view in another order of dimensions"])]
    columns: dict[str, Column] = {
        "op": lambda row: words.library_name(row.op),
        "tensor": lambda row: f"{words.shape(row.source)} {words.stride(row.source)}",
        "view": lambda row: f"{words.shape(row.result)} {words.stride(row.result)}",
        "layout": "layout",
        "read by": lambda row: ", ".join(row.used_by) or DASH,
    }
    left = tuple(range(5))
    return [listing(title, why.strides, columns, top=top, how=ALL, what="view", left=left)]
