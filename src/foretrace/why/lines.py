"""The pages of `why`: the first screen, what its options show, the page of one kernel, and their
sentences. Times are per step where the trace has steps.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

from foretrace.base.tables import (
    BESIDE,
    BULLET,
    TEXT,
    WORDS,
    Column,
    Line,
    Table,
    bulleted,
    filled,
    fitted,
    listed,
    paragraphs,
)
from foretrace.base.terminal import WIDTH
from foretrace.base.units import (
    DASH,
    bytes_text,
    change_text,
    count_text,
    percent_text,
    plural,
    time_text,
    times_text,
)
from foretrace.read.compiler.records import MEMBER, NamedTensor, SourceLine, TunedMatmul
from foretrace.read.ledger import ABSENT
from foretrace.trace.compiled.accesses import base_op
from foretrace.why.documents import (
    BreakEntry,
    CompiledKernel,
    NotFused,
    OpMapping,
    RegionStages,
    Why,
)
from foretrace.why.not_fused import REASONS
from foretrace.work import LIBRARIES, families
from foretrace.work.kernel_row import KernelRow

ALL = "--json has all"
MOST = 12  # rows of each of its tables, at most
LISTED = 24  # ops of a region and accesses of a kernel that a page has room for
PARTS = ("stages", "kernels", "not_fused", "breaks", "cost", "strides")
PHASES, DEEPEST = 24, 5  # of one region; --json has all
VERSIONS, VALUES = 3, 4  # guards of one recompilation, values of one guard
_OPS = (
    Column("op", lambda op: op_label(op), WORDS),
    Column("source", lambda op: op.source.place if op.source else DASH, WORDS),
    Column("nodes", lambda op: len(op.post_grad)),
    Column("computed by", lambda op: ", ".join(op.kernels) or DASH, WORDS),
)
_ACCESSES = (
    Column("access", "mode", WORDS),
    Column("tensor", lambda each: each.tensor.name, WORDS),
    Column("argument", "argument", WORDS),
    Column("type", lambda each: each.tensor.dtype or DASH, WORDS),
    Column("shape", lambda each: shape(each.tensor), WORDS),
    Column("stride", lambda each: stride(each.tensor), WORDS),
    Column("bytes", "bytes"),
)
_GUARDS = (
    Column("guard", "what", WORDS),
    Column("of", "subject", TEXT),
    Column("failed", lambda row: times_text(len(row.caused)), TEXT),
    Column("expected", lambda row: _some(row.expected), TEXT),
    Column("met", lambda row: _some(row.actual), TEXT),
)
_PHASES = (
    Column("phase", lambda each: f"{'  ' * each.depth}{each.name}", WORDS),
    Column("stage", lambda each: each.stage, WORDS),
    Column("time", "ns", "ns"),
)
_VIEWS = (
    Column("op", lambda row: library_name(row.op), WORDS),
    Column("tensor", lambda row: f"{shape(row.source)} {stride(row.source)}", WORDS),
    Column("view", lambda row: f"{shape(row.result)} {stride(row.result)}", WORDS),
    Column("layout", "layout", WORDS),
    Column("read by", lambda row: ", ".join(row.used_by) or DASH, WORDS),
)


def first_screen(why: Why, width: int = WIDTH) -> list[Table]:
    """The answer, the compiled regions, the kernels that take most time: at most 25 lines."""
    options = " ".join(f"--{part}".replace("_", "-") for part in PARTS)
    more = paragraphs("", f"more: KERNEL {options} --all")

    def page(rows: int) -> list[Table]:
        return filled([head(why), regions(why, rows or 1), kernels(why, rows or 1), more])

    return fitted(page, MOST, width)


def sections(why: Why, wanted: Collection[str], top: int) -> list[Table]:
    """The parts of the page that the options name, below the answer."""
    became = "Region {}, {}: what became of each op"
    parts = {
        "stages": [
            regions(why, len(why.stages)),
            *(
                listed(became.format(row.region, row.graph), _OPS, row.ops, LISTED, ALL, what="op")
                for row in why.stages
                if row.ops
            ),
        ],
        "kernels": [kernels(why, top, f"--top {len(why.kernels)}")],
        "not_fused": not_fused(why, top),
        "breaks": [breaks(why), *recompiles(why)],
        "cost": cost(why),
        "strides": [strides(why, top)],
    }
    return [head(why), *(part for name in PARTS if name in wanted for part in parts[name])]


def head(why: Why) -> Table:
    """Every page begins with what was compiled."""
    warnings = [Line(BULLET, f"! {note.shown}") for note in why.ledger.banner]
    return Table(title(why), lines=[*lines(why), *warnings])


def regions(why: Why, most: int) -> Table:
    """A row for each compiled graph: the count of nodes at every stage, and the time."""

    def spent(row: RegionStages) -> float | None:
        return per_step(why, row.time_ns) if row.time_ns and row.launches else None

    def region(row: RegionStages) -> str:
        graph = "" if row.graph == "inference" else f" {row.graph}"
        return f"{row.region}{graph}" + ("" if row.rank is None else f" rank {row.rank}")

    def fusion(row: RegionStages) -> str | None:
        scheduled = (row.before_fusion, row.after_fusion)
        return None if None in scheduled else " to ".join(map(count_text, scheduled))

    def calls(row: RegionStages) -> str | None:
        counts = (row.generated_calls, row.library_calls)
        return None if counts == (None, None) else f"{' + '.join(map(count_text, counts))} lib"

    columns = [
        Column("region", region, WORDS),
        Column("source", lambda row: row.function.place if row.function else DASH, WORDS),
        Column("ops", "dynamo_ops"),
        Column("nodes", "post_grad_nodes"),
        Column("fusion", fusion, TEXT),
        Column("kernels", calls, TEXT),
        *([Column(unit(why), spent, "ns")] if why.launches is not None else []),
        Column("compile", "compile_ns"),
    ]
    ordered = sorted(why.stages, key=lambda row: not row.launches)  # what ran comes first
    return listed("", columns, ordered, most, "--stages")


def kernels(why: Why, most: int, more: str = "--kernels") -> Table:
    """The kernels that take most time; without a trace those that move most."""
    return listed("", _kernel_columns(why), by_cost(why), most, more, what="kernel")


def _kernel_columns(why: Why) -> list[Column]:
    named = labels(why.kernels)

    def roof(row: CompiledKernel) -> str:
        kernel = row.kernel or KernelRow(name="", bound="unknown")
        share = f" {kernel.roof_percent:.0f}%" if _near_roof(kernel) else ""
        return f"{kernel.bound}{share}" if row.launches and why.device else DASH

    def spent(row: CompiledKernel) -> float | None:
        return per_step(why, row.time_ns) if row.time_ns else None

    columns = [
        Column("kernel", lambda row: named[id(row)], WORDS),
        Column("source", lambda row: first_place(row.sources) or DASH, WORDS),
        Column("nodes", lambda row: len(row.nodes)),
    ]
    if why.launches is None:
        return [
            *columns,
            Column("calls", lambda row: len(row.calls)),
            Column("bytes", moved, TEXT),
        ]
    return [
        *columns,
        Column("n", lambda row: per_step(why, row.launches or 0)),
        Column(unit(why), spent, "ns"),
        Column("bytes", moved, TEXT),
        Column("roof", roof, TEXT),
    ]


def kernel_page(why: Why, row: CompiledKernel) -> list[Table]:
    """One kernel: lines, nodes, traffic, launches, code."""
    accesses, columns = [*row.loads, *row.stores], list(_ACCESSES)
    if any(each.certainty != "exact" for each in accesses):
        columns.append(Column("certainty", "certainty", WORDS))
    page = [
        Table(kernel_title(row), lines=kernel_lines(why, row)),
        *filled([listed("", columns, accesses, LISTED, "--json")]),
    ]
    if row.code:
        # a Triton kernel without its imports and metadata, which `--json` has
        at, code, inside = row.code.find("\n@triton.jit"), list[str](), False
        for line in row.code[at + 1 :].splitlines():
            inside = line.startswith("@triton_heuristics") or (inside and line != "@triton.jit")
            code += [] if inside else [line]
        title = "Call in the wrapper" if row.extern else f"Generated code ({row.language})"
        page.append(Table(title, code="\n".join(code).strip("\n")))
    return page


def kernel_pages(why: Why, rows: Sequence[CompiledKernel], top: int) -> list[Table]:
    """The page of each; of many, a table to choose from."""
    if len(rows) > 4:
        call = Column("call", lambda row: row.calls[0].handle, WORDS)
        return [Table(title(why), [call, *_kernel_columns(why)], rows[:top])]
    return [part for row in rows for part in kernel_page(why, row)]


def not_fused(why: Why, top: int) -> list[Table]:
    """Every reason with its cost, then the pairs that cost most."""
    if not why.reasons:
        none = "nothing: no two neighbours with shared data stay apart"
        return [paragraphs("Not fused", none)]

    def at_most(row: object) -> float | None:
        at_most_ns = row.at_most_ns  # type: ignore[attr-defined]
        return None if at_most_ns is None else per_step(why, at_most_ns)

    columns = [
        Column("reason", "reason", WORDS),
        Column("pairs", "pairs"),
        Column("refusals", "refusals"),
        Column("fused later", "fused_later"),
        Column("bytes", "bytes"),
        Column("at most", at_most, "ns"),
    ]
    per = f", times {unit(why)}" if why.launches is not None else ""
    reasons = Table(f"Not fused, by reason{per}", columns, why.reasons)
    # pairs with the same text, as those of equal layers, are together
    same = defaultdict[tuple[object, ...], list[NotFused]](list)
    for row in why.not_fused:
        texts = stays_apart(row), places(row.sources), other_run(row)
        same[*texts, row.code, row.bytes, row.a_target, row.inductor].append(row)
    saved = {key: sum(row.at_most_ns or 0 for row in rows) for key, rows in same.items()}
    groups = sorted(same, key=lambda key: (-saved[key], -(same[key][0].bytes or 0)))
    known = any(each.refusals for each in why.reasons)
    silent = "Inductor's log has no line about it" if known else "TORCH_LOGS=+fusion records it"
    pairs = []
    for key in groups[:top]:
        row, count, amounts = same[key][0], len(same[key]), list[str]()
        if row.at_most_ns is not None:
            amounts.append(f"at most {time_text(per_step(why, saved[key]))} {unit(why)}")
        if row.bytes is not None:
            amounts.append(f"{bytes_text(row.bytes)} a run")
        cost = f"; {', '.join(amounts)}" if amounts else ""
        where = f" at {places(row.sources, 2)}" if row.sources else ""
        often = f"{count}x " if count > 1 else ""
        pair = f"{often}{stays_apart(row)}{where}: {row.reason}{cost}"
        own = f'Inductor: "{row.inductor}"' if row.inductor else ""
        text = ". ".join(filter(None, (apart_detail(row, why.device), own))) or silent
        text = f"{text}. {other_run(row)}" if row.elsewhere else text
        pairs.append(Line(BULLET, pair, text))
    left = sum(len(same[key]) for key in groups[top:])
    more = f"… and {plural(left, 'more pair')} (--top {len(groups)})" if left > 0 else ""
    return [reasons, Table("Pairs, by the largest possible saving", lines=pairs, more=more)]


def breaks(why: Why) -> Table:
    """Each graph break with its line, reason and hint; each line once."""
    held = defaultdict[tuple[object, ...], list[BreakEntry]](list)
    for row in why.graph_breaks:
        held[row.source, row.reason, row.skipped].append(row)
    texts = []
    for rows in held.values():
        row, regions = rows[0], ", ".join(each.region for each in rows)
        code = f": {row.source.code}" if row.source.code else ""
        rest = f"; the rest is {', '.join(row.resumed)}" if row.resumed else ""
        split = f"ends graph {regions}{rest}"
        ended = "the whole function runs eagerly" if row.skipped else split
        texts.append(f"{row.source.place} in {row.source.function or DASH}{code} ({ended})")
        labels = (("", row.reason), ("Why: ", row.explanation), ("Hint: ", row.hint), ("", row.url))
        texts += [f"    {label}{' '.join(text.split())}" for label, text in labels if text]
    return bulleted("Graph breaks", texts) if texts else paragraphs("Graph breaks", "none")


def recompiles(why: Why) -> list[Table]:
    """Each recompilation with the guards that failed and their values."""
    lines = []
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
        lines.append(Line(BULLET, f"{row.region}{function}{took}", "; ".join([*guards, *more])))
    table = Table("Recompilations", lines=lines or [Line("", "none")])
    return filled([table, Table("Guards that failed", _GUARDS, why.guards)])


def _some(values: Sequence[str]) -> str:
    """`2, 3, 4, 5`, or `2, 3, 4, … 16`."""
    shown = values if len(values) <= VALUES else [*values[: VALUES - 1], f"… {values[-1]}"]
    return ", ".join(shown) or DASH


def cost(why: Why) -> list[Table]:
    """Compile time by phase, the answers of the caches, and skipped CUDA graphs."""
    tables = []
    for row in why.compile_cost:
        least = max(row.compile_ns or 0, 1) / 100  # a phase below 1% is not listed
        phases = [each for each in row.phases if each.ns >= least and each.depth <= DEEPEST]
        stages = ", ".join(f"{name} {time_text(ns)}" for name, ns in row.stages.items())
        cache = ", ".join(f"{name}: {state}" for name, state in row.cache.items())
        notes = [f"By stage: {stages}"] if stages else []
        notes += [f"Tuned {tuned_text(each)}" for each in row.tuned]
        notes += [f"Caches: {cache}"] if cache else []
        notes += [f"CUDA graphs skipped: {text}" for text in row.cudagraph_skips]
        notes += [f"Not compiled: {row.failure}"] if row.failure else []
        took = f": compiled in {time_text(row.compile_ns)}" if row.compile_ns else ", by phase"
        lines = [Line("", note) for note in notes]
        tables.append(Table(f"Region {row.region}{took}", _PHASES, phases[:PHASES], lines=lines))
    again = [f"{row.compile_id} {row.function}: {row.reason}" for row in why.rerecordings]
    return [*tables, bulleted("CUDA graphs recorded again", again)] if again else tables


def strides(why: Why, top: int) -> Table:
    """Views in another order of dimensions, and the calls that read them without a copy."""
    title = "Strides: views that copy nothing"
    if not why.strides:
        return paragraphs(title, "no view in another order of dimensions")
    return listed(title, _VIEWS, why.strides, top, ALL, what="view")


MOST_PLACES, MOST_OPS = 3, 12
LEAST_TFLOPS, LEAST_GBPS = 0.05, 5  # a lower rate is that of hardly any work
NO_TRACE = "no trace beside the log: no times (foretrace record --why keeps both)"
BOUNDS = {"at_most": "<= ", "at_least": ">= "}
GEMMS = frozenset(["mm", "addmm", "bmm", "baddbmm", "_int_mm", "_scaled_mm"])
# Ops that torch itself registers, as it does those that begin with `_`: their kernels say whose.
TORCHS_OWN = frozenset(
    ["aten", "c10d", "c10d_functional", "inductor", "mkldnn", "prims", "quantized"]
)
LIBRARY = ("extern_kernels.", "torch.ops.aten.", "torch.ops.")


def title(why: Why) -> str:
    """`unfusable · NVIDIA H200 · 3 steps`."""
    name = why.path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    for end in (".gz", ".zst", ".zip", ".json", ".pt.trace", ".log", ".txt", ".why"):
        name = name.removesuffix(end)
    parts = [name, *([why.device] if why.device else [])]
    return " · ".join([*parts, *([plural(why.steps, "step")] if why.steps else [])])


def lines(why: Why) -> list[Line]:
    """The first screen above its tables."""
    lost = [note.text for note in why.ledger.notes if note.code in ABSENT]
    found = [Line("INCOMPLETE", f"{text}; what follows holds for the rest") for text in lost[:1]]
    # a number that began again, after a reset, is another function
    regions = {(row.rank, row.region, row.function) for row in why.stages}
    again, breaks = len(why.recompiles), [each.source for each in why.graph_breaks]
    lines = {(line.file, line.line) for line in breaks}  # each once, however often compiled
    at = f" ({places(breaks)})" if breaks else ""
    counts = [
        plural(len(regions), "graph"),
        f"{_count(len(lines), 'graph break')}{at}",
        _count(again, "recompilation"),
    ]
    failed = sum(bool(cost.failure) for cost in why.compile_cost)
    counts += [f"{plural(failed, 'function')} not compiled"] if failed else []
    took = "" if why.compile_ns is None else f"; compiling took {time_text(why.compile_ns)}"
    found += [Line("COMPILED", f"{', '.join(counts)}{took}"), Line("KERNELS", _kernels(why))]
    if why.not_fused:
        pairs = plural(len(why.not_fused), "pair of neighbours", "pairs of neighbours")
        first = max(why.not_fused, key=lambda row: (row.at_most_ns or 0, row.bytes or 0))
        text = f"{pairs} with shared data; largest: {stays_apart(first)}: {first.reason}"
        if first.at_most_ns:
            text += f", at most {time_text(per_step(why, first.at_most_ns))} {unit(why)}"
        found.append(Line("NOT FUSED", text))
    if why.gated_mlps and _is_nvidia(why.device):
        found.append(Line("SWAP", _gated(why)))
    skipped = [text for cost in why.compile_cost for text in cost.cudagraph_skips]
    if skipped:
        more = f" (and {len(skipped) - 1} more)" if len(skipped) > 1 else ""
        found.append(Line("CUDA GRAPHS", f"skipped: {skipped[0]}{more}"))
    if why.unexplained:
        short = dict.fromkeys(families.decode(name).short for name in why.unexplained)
        names = ", ".join([*short][:2])
        count = plural(len(why.unexplained), "kernel")
        found.append(Line("NOT EXPLAINED", f"{count} of compiled graphs in no record: {names}"))
    if why.lacks:
        found.append(Line("NOT KNOWN", "; ".join(why.lacks)))
    return found


def _count(count: int, one: str) -> str:
    return plural(count, one) if count else f"no {one}"


def _kernels(why: Why) -> str:
    if all(row.generated_calls is None for row in why.stages) and not why.launches:
        return "unknown: the log has no generated code"
    if why.launches is None:
        generated = sum(row.generated_calls or 0 for row in why.stages)
        libraries = sum(row.library_calls or 0 for row in why.stages)
        split = f"{generated:,} of generated kernels, {libraries:,} of libraries"
        return f"{plural(generated + libraries, 'call')} in the generated code: {split}; {NO_TRACE}"
    if not why.launches:
        return "no launch of a compiled graph in the trace: record steps that run compiled code"
    own = [row for row in why.kernels if not row.extern]
    others = [row for row in why.kernels if row.extern]
    by_library = _launched(why, others, "libraries", backends(others))
    shares = [_launched(why, own, "generated kernels"), by_library]
    of_all = ""
    if why.compiled_ns and why.gpu_ns:
        of_all = f"; {percent_text(min(why.compiled_ns / why.gpu_ns, 1))} of GPU time"
    if why.gpu_ns is None:
        of_all = "; on the CPU, profiler overhead included"
    count = plural(per_step(why, why.launches), "launch", "launches")
    return f"{count} {unit(why)}: {', '.join(filter(None, shares))}{of_all}"


def _launched(
    why: Why, rows: Sequence[CompiledKernel], what: str, names: Sequence[str] = ()
) -> str:
    launches = sum(row.launches or 0 for row in rows)
    spent = per_step(why, sum(row.time_ns or 0 for row in rows))
    by = ", ".join([time_text(spent), *names])
    return f"{per_step(why, launches):,.4g} of {what} ({by})" if launches else ""


def backends(rows: Sequence[CompiledKernel]) -> list[str]:
    """Whose kernels ran: `cuBLAS`, or the package that an op of its own belongs to."""
    found = list[str]()
    for row in rows:
        owner = row.name.removeprefix("torch.ops.").partition(".")[0]
        own_op = row.name.startswith("torch.ops.") and not owner.startswith("_")
        libraries = (families.decode(name).fields.get("lib") for name in row.gpu_names)
        named = [LIBRARIES.get(str(each), str(each)) for each in libraries if each]
        found += [owner] if own_op and owner not in TORCHS_OWN else named
    return [*dict.fromkeys(found)]


def _gated(why: Why) -> str:
    """What to try: our kernels take such an MLP where their table says that they are faster."""
    rows = why.gated_mlps
    kinds = dict.fromkeys((row.activation, row.size) for row in rows)
    (activation, size), *others = kinds
    shape = "" if size is None else f", {size[0]:,} rows, {size[1]:,} to {size[2]:,}"
    more = f", and {plural(len(others), 'other kind')}" if others else ""
    count = plural(len(rows), "gated MLP")
    spent = [row.time_ns for row in rows if row.time_ns]
    taken = f": {time_text(per_step(why, sum(spent)))} {unit(why)} forward" if spent else ""
    at = places([row.source for row in rows if row.source])
    return (
        f"{count} ({activation}{shape}{more}; {at}){taken}; "
        "foretrace.kernels.inductor.enable() before compiling replaces those for which its table "
        "has a faster kernel"
    )


def kernel_title(row: CompiledKernel) -> str:
    """`triton_poi_fused_gelu_mul_0 · generated (triton) · region 0/0, inference`."""
    kind = "library call" if row.extern else f"generated ({row.language})"
    rank = "" if row.rank is None else f", rank {row.rank}"
    return f"{kernel_label(row)} · {kind} · region {row.region}, {row.graph}{rank}"


def kernel_lines(why: Why, row: CompiledKernel) -> list[Line]:
    """What is known of one kernel."""
    lines = [
        line.place
        + (f" in {line.function}" if line.function else "")
        + (f": {line.code}" if line.code else "")
        for line in row.sources[:MOST_PLACES]
    ] or ["unknown: the log has no source line for it"]
    if more := row.sources[MOST_PLACES:]:
        lines.append(f"and {plural(len(more), 'line')} more: {places(more, 8)}")
    found = [Line(BESIDE if at else "FROM", text) for at, text in enumerate(lines)]
    found += [Line("CONTAINS", _contains(why, row))] if row.nodes else []
    found.append(Line("MOVES", _moves(row)))
    if row.unfused is not None and row.bytes and not row.extern:
        unfused = ((row.unfused.ops, "ops"), (row.unfused.nodes, "graph nodes"))
        for count, what in [each for each in unfused if each[0] is not None][:1]:
            least = "at least " if row.unfused.shared else ""
            ratio = f"{(count or 0) / row.bytes:.2f}x as much"
            text = f"its {what} one by one would move {least}{bytes_text(count)}, {ratio}"
            found.append(Line("UNFUSED", text))
    found.append(Line("LAUNCHES", _launches(row)))
    others = [families.decode(name).short for name in row.gpu_names if name != row.name]
    found += [Line("RAN AS", ", ".join(others))] if others else []
    config = ", ".join(f"{name} {value:,}" for name, value in row.config.items())
    return [*found, *([Line("CONFIG", config)] if config else [])]


def _contains(why: Why, row: CompiledKernel) -> str:
    """The nodes of one call: others of the same kernel compute other layers."""
    nodes = row.calls[0].nodes if row.calls else row.nodes
    count = plural(len(nodes), "graph node")
    each = f" in the first of {len(row.calls)} calls" if len(row.calls) > 1 else ""
    same = (row.rank, row.region, row.graph)
    held = {
        op_label(op): set(op.post_grad) & set(nodes)
        for stage in why.stages
        if (stage.rank, stage.region, stage.graph) == same
        for op in stage.ops
    }
    ops = [f"{op} ({len(found)})" for op, found in held.items() if found]
    other = len(set(nodes).difference(*held.values()))  # passes of Inductor add nodes
    inside = ops or nodes
    shown = ", ".join(inside[:MOST_OPS]) + (", …" if len(inside) > MOST_OPS else "")
    of_ops = f" of {plural(len(ops), 'op')}" if ops else ""
    rest = f"; {other} of no recorded op" if ops and other else ""
    return f"{count}{of_ops}{each}: {shown}{rest}"


def _moves(row: CompiledKernel) -> str:
    if row.bytes is None:
        if row.run_bytes:
            return f"{moved(row)} per run, by the sizes that it met"
        return "unknown: the code does not say how many bytes one of its accesses moves"
    if any(each.bytes is None for each in (*row.loads, *row.stores)):
        return f"{moved(row)} per run, with the size that it met"
    read = sum(each.bytes or 0 for each in row.loads)
    written = bytes_text(row.bytes - read)
    return f"{moved(row)} per run: reads {bytes_text(read)}, writes {written}"


def _near_roof(kernel: KernelRow) -> bool:
    return kernel.roof_percent is not None and kernel.bound in ("compute", "memory")


def _launches(row: CompiledKernel) -> str:
    if row.launches is None:
        return f"unknown: {NO_TRACE}"
    if not row.launches:
        return "none in the trace"
    count = f"{row.launches:,} in the trace"
    calls = f" of {plural(len(row.calls), 'call')} in the code" if len(row.calls) > 1 else ""
    median, ends = time_text(row.median_ns), ""
    if time_text(row.min_ns) != time_text(row.max_ns):
        ends = f" ({change_text(row.min_ns, row.max_ns)})"
    kernel = row.kernel or KernelRow(name="")
    tflops, gbps = kernel.tflops or 0.0, kernel.gbps or 0.0
    rates = [
        f"{tflops:,.3g} TFLOP/s" if tflops >= LEAST_TFLOPS else "",
        f"{gbps / 1000:.3g} TB/s" if gbps >= LEAST_GBPS else "",
    ]
    rate = ", ".join(filter(None, rates))
    limit = f"; {kernel.limited_by}" if kernel.limited_by else ""
    if _near_roof(kernel):
        limit = f", {kernel.roof_percent:.0f}% of the {kernel.bound} roof"
    return f"{count}{calls}, median {median}{ends}" + (f": {rate}" if rate else "") + limit


def apart_detail(row: NotFused, device: str | None = None) -> str:
    """The evidence for a reason: both index expressions, both sizes, the library."""
    later, (calls, subject, of) = "", _calls(row, device)
    if row.inductor and calls:  # Inductor asks about templates, and tuning may choose a library
        were = "were templates" if len(calls) > 1 else "was a template"
        chosen = f"extern {of}calls" if len(calls) > 1 else f"an extern {of}call"
        later = f"{subject} {were} when Inductor decided this; tuning chose {chosen} later"
    return ". ".join(filter(None, (_shown_by(row, device), later)))


def _shown_by(row: NotFused, device: str | None) -> str:
    shared = f"{row.shared[0].name} {shape(row.shared[0])}" if row.shared else "the shared data"
    if row.code == "sizes" and row.a_sizes and row.b_sizes and row.a_sizes != row.b_sizes:
        first, second = (" x ".join(map(str, sizes)) for sizes in (row.a_sizes, row.b_sizes))
        return f"iterations: {first} and {second}"
    if row.code in ("order", "loops", "sizes") and row.a_index and row.b_index:
        return f"{shared}: the first goes through it as {row.a_index}, the second as {row.b_index}"
    if row.code == "extern":
        return _in_the_way(row, device)
    if row.stopped_at is not None:
        regions = f"{row.region} and {row.b_region}"
        return f"the graph break at {row.stopped_at.place} lies between {regions}"
    return ""


def places(lines: Sequence[SourceLine], most: int = 3) -> str:
    """`record.py:52, model.py:41 and 2 more`; each line once."""
    names = list(dict.fromkeys(line.place for line in lines))
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def by_cost(why: Why) -> list[CompiledKernel]:
    """The kernels that take most time first; without a trace those that move most."""
    return sorted(why.kernels, key=lambda row: (-(row.time_ns or 0), -(row.bytes or 0)))


def first_place(lines: Sequence[SourceLine]) -> str:
    """`record.py:52 +2`, for a column."""
    names = list(dict.fromkeys(line.place for line in lines))
    return f"{names[0]} +{len(names) - 1}" if len(names) > 1 else "".join(names)


def moved(row: CompiledKernel) -> str:
    """`151.0 MB`, `<= 28.3 MB`; with dynamic sizes the smallest and the largest run."""
    bound = BOUNDS.get(row.certainty, "")
    if row.bytes is None and len(row.run_bytes) > 1:
        return bound + change_text(row.run_bytes[0], row.run_bytes[-1], bytes_text)
    return f"{'' if row.bytes is None else bound}{bytes_text(row.bytes)}"


def unit(why: Why) -> str:
    """What times and counts are per."""
    return "per step" if why.steps else "in the trace"


def per_step(why: Why, amount: float) -> float:
    """An amount of the whole trace, per step where it has steps."""
    return amount / why.steps if why.steps else amount


def library_name(name: str) -> str:
    """`extern_kernels.mm` -> `mm`."""
    short = next((name.removeprefix(start) for start in LIBRARY if name.startswith(start)), name)
    return short.removesuffix(".default")


def tuned_text(each: TunedMatmul) -> str:
    """`mm 8192x768, 768x3072: mm 58.8 us, the best of 19 Triton templates 69.0 us`."""
    best = f"{each.op} {each.shape}: {each.best} {time_text(each.best_ns)}"
    if each.template_ns is None:
        return f"{best}, the best of {plural(each.candidates, 'candidate')}"
    others = each.candidates - each.templates
    if each.best_ns == each.template_ns:  # a template won: nobody wrote down the time of the others
        return f"{best}, a Triton template, faster than {plural(others, 'other candidate')}"
    templates = plural(each.templates, "Triton template")
    return f"{best}, the best of {templates} {time_text(each.template_ns)}"


def _in_the_way(row: NotFused, device: str | None) -> str:
    """Why Inductor cannot fuse a library's call, and whether a template may: these are for GEMMs.

    Only a trace says which library a GEMM goes to; a log alone may be of any device.
    """
    calls, subject, of = _calls(row, device)
    if not calls:  # a Triton kernel of the program has no target
        subject = (row.a if row.a_kind == "extern" else row.b).rpartition(":")[0]
    if len(calls) > 1:
        return f"{subject} are extern {of}calls: Inductor cannot join them"
    template = "a Triton template" if _is_nvidia(device) else "a template"
    may = f"; max-autotune may use {template}, which takes pointwise code in"
    pointwise = "pointwise" in (row.a_kind, row.b_kind)
    hint = may if pointwise and any(base_op(name) in GEMMS for name in calls) else ""
    return f"{subject} is an extern {of}call: Inductor cannot put code into it{hint}"


def _calls(row: NotFused, device: str | None) -> tuple[list[str], str, str]:
    """The library calls of a pair, their names, and whose they are where that is one."""
    calls = [name for name in (row.a_target, row.b_target) if name]
    names = " and ".join(dict.fromkeys(map(library_name, calls)))
    whose = {_library(name, _is_nvidia(device)) for name in calls}
    subject = f"both {names}" if len(set(calls)) < len(calls) else names
    return calls, subject, whose.pop() if len(whose) == 1 else ""


def _is_nvidia(device: str | None) -> bool:
    return bool(device and device.startswith("NVIDIA"))


def _library(name: str, nvidia: bool) -> str:
    """Whose code an extern call runs, as far as its name says; with a space behind."""
    if nvidia and base_op(name) in GEMMS:
        return "cuBLAS "
    known = {"extern_kernels.": "ATen ", "mkl._mkl": "MKL ", "mkldnn.": "oneDNN ", "aten.": "ATen "}
    return next((library for part, library in known.items() if part in name), "")


def op_label(op: OpMapping) -> str:
    """`gelu`, `linear_1`; Dynamo names a node after the user's variable: `y = add`."""
    called = op.target.rpartition(".")[2] if ".ops." not in op.target else base_op(op.target)
    return op.op if not called or called in op.op else f"{op.op} = {called}"


def kernel_label(row: CompiledKernel) -> str:
    """A generated kernel by its name, a library's call by its op and the shapes that it reads."""
    if not row.extern:
        return row.name
    loads = row.loads[-2:] if base_op(row.name) in GEMMS else row.loads  # without a bias
    shapes = ["x".join(map(str, each.tensor.shape)) for each in loads]
    return " ".join([library_name(row.name), *(shapes if len(shapes) < 3 else [])])


def labels(rows: Sequence[CompiledKernel]) -> dict[int, str]:
    """By the id of each row: its label, with its region or its call where two rows share one."""

    def in_region(row: CompiledKernel, label: str) -> str:
        rank = "" if row.rank is None else f" rank {row.rank}"
        return f"{row.region}{rank}{'' if row.graph == 'inference' else f' {row.graph}'} {label}"

    def in_code(row: CompiledKernel, label: str) -> str:
        return f"{label} :{row.calls[0].handle.rpartition(':')[2]}" if row.calls else label

    found = {id(row): kernel_label(row) for row in rows}
    for more in (in_region, in_code):
        shared = Counter(found.values())
        found |= {id(row): more(row, t) for row in rows if shared[t := found[id(row)]] > 1}
    return found


def shape(tensor: NamedTensor) -> str:
    """`[8192, 768]`."""
    return f"[{', '.join(map(str, tensor.shape))}]"


def stride(tensor: NamedTensor) -> str:
    """`(768, 1)`."""
    return f"({', '.join(map(str, tensor.stride))})"


def stays_apart(row: NotFused) -> str:
    """`mm and gelu+mul`: what the two compute, by their names."""
    names = [each.rpartition(":")[0] or each for each in (row.a, row.b)]
    numbers = [name.rpartition("_")[2] for name in names]
    words = []
    for name in names:  # `extern_kernels.mm` is mm, `triton_poi_fused_gelu_mul_0` is gelu+mul
        known = families.decode(name)
        if known.family.startswith("inductor"):
            words.append(known.short.removeprefix("triton ").removeprefix("cpp "))
        else:
            node = MEMBER.match(name)
            words.append(f"scheduler node {name}" if node else library_name(name))
    a, b = words
    if a == b and numbers[0] != numbers[1] and all(map(str.isdecimal, numbers)):
        return f"{a} (kernel {numbers[0]}) and {b} (kernel {numbers[1]})"
    return f"{a} and {b}"


def other_run(row: NotFused) -> str:
    """What a second run made of the two: one kernel, or which kernels still compute them."""
    made = row.elsewhere
    if made is None or not (made.a and made.b):
        return ""
    if made.fused:
        return f"The other run has one kernel for both: {made.fused}"
    names = f"The other run keeps {made.a[0]} and {made.b[0]} apart"
    why = f": {REASONS[made.reason]}" if made.reason in REASONS else ""
    return names + why + (f' (Inductor: "{made.inductor}")' if made.inductor else "")
