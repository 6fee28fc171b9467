"""The pages of `why`: the first screen, what its options show, and the page of one kernel."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from foretrace.base.units import DASH, bytes_text, count_text, plural, time_text
from foretrace.schema.compiler import Access
from foretrace.schema.documents.why import CompiledKernel, RegionStages, Why
from foretrace.show.overview import why as words
from foretrace.show.overview.why_words import (
    first_place,
    kernel_label,
    moved,
    op_label,
    per_step,
    shape,
    stride,
    unit,
)
from foretrace.show.render.look_page import banner
from foretrace.show.render.terminal import WIDTH, Section, drawn
from foretrace.show.render.why_reasons import breaks, cost, not_fused, recompiles, strides

LINES = 25  # of the first screen
MOST = 12  # rows of each of its tables, at most
LISTED = 24  # ops of a region and accesses of a kernel that a page has room for
PARTS = ("stages", "kernels", "not_fused", "breaks", "cost", "strides")


def first_screen(why: Why, width: int = WIDTH) -> list[Section]:
    """The answer, the compiled regions, the kernels that take most time: at most 25 lines."""
    options = " ".join(f"--{part}".replace("_", "-") for part in PARTS)
    more = Section("", [f"more: KERNEL {options} --all"])
    for rows in range(MOST, 0, -1):
        page = [head(why), regions(why, rows), kernels(why, rows), more]
        page = [part for part in page if part.rows or part.labelled or part.paragraphs]
        if drawn(page, width=width).count("\n") < LINES:
            break
    return page


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
    titles = ["region", "source", "ops", "nodes", "fusion", "kernels"]
    titles += [unit(why)] if why.launches is not None else []
    ordered = sorted(why.stages, key=lambda row: not row.launches)  # what ran comes first
    rows = [_region_cells(why, row) for row in ordered[:most]]
    left = len(why.stages) - most
    after = f"… and {left} more (--stages)" if left > 0 else ""
    return Section("", head=[*titles, "compile"], rows=rows, left=(0, 1), after=after)


def _region_cells(why: Why, row: RegionStages) -> list[str]:
    graph = "" if row.graph == "inference" else f" {row.graph}"
    rank = "" if row.rank is None else f" rank {row.rank}"
    scheduled = (row.before_fusion, row.after_fusion)
    fusion = DASH if None in scheduled else " to ".join(map(count_text, scheduled))
    spent = per_step(why, row.time_ns) if row.time_ns and row.launches else None
    calls = (row.generated_calls, row.library_calls)
    kernels = " + ".join(DASH if count is None else count_text(count) for count in calls)
    return [
        f"{row.region}{graph}{rank}",
        row.function.place if row.function else DASH,
        count_text(row.dynamo_ops),
        count_text(row.post_grad_nodes),
        fusion,
        f"{kernels} lib" if calls != (None, None) else DASH,
        *([time_text(spent)] if why.launches is not None else []),
        time_text(row.compile_ns),
    ]


def kernels(why: Why, most: int, more: str = "--kernels") -> Section:
    """The kernels that take most time; without a trace those that move most."""
    ordered = sorted(why.kernels, key=lambda row: (-(row.time_ns or 0), -(row.bytes or 0)))
    titles = ["kernel", "source", "nodes", "calls", "bytes"]
    if why.launches is not None:
        titles = ["kernel", "source", "nodes", "n", unit(why), "bytes", "roof"]
    rows = [_kernel_cells(why, row) for row in ordered[:most]]
    left = len(ordered) - most
    after = f"… and {plural(left, 'more kernel')} ({more})" if left > 0 else ""
    return Section("", head=titles, rows=rows, left=(0, 1), after=after)


def _kernel_cells(why: Why, row: CompiledKernel) -> list[str]:
    cells = [kernel_label(row), first_place(row.sources) or DASH, count_text(len(row.nodes))]
    if why.launches is None:
        return [*cells, count_text(len(row.calls)), moved(row)]
    spent = per_step(why, row.time_ns) if row.time_ns else None
    count = count_text(per_step(why, row.launches or 0))
    at_roof = row.roof_percent is not None and row.bound in ("compute", "memory")
    roof = f"{row.bound} {row.roof_percent:.0f}%" if at_roof else row.bound
    roof = roof if row.launches and why.device else DASH
    return [*cells, count, time_text(spent), moved(row), roof]


def _every_stage(why: Why) -> Iterator[Section]:
    """Each region by itself: what became of every op."""
    for row in why.stages:
        rows = [
            [
                op_label(op),
                op.source.place if op.source else DASH,
                count_text(len(op.post_grad)),
                ", ".join(op.kernels) or DASH,
            ]
            for op in row.ops
        ]
        if rows:
            left = len(rows) - LISTED
            after = f"… and {plural(left, 'more op')} (--json has all)" if left > 0 else ""
            yield Section(
                f"Region {row.region}, {row.graph}: what became of each op",
                head=["op", "source", "nodes", "computed by"],
                rows=rows[:LISTED],
                left=(0, 1, 3),
                after=after,
            )


def kernel_page(why: Why, row: CompiledKernel) -> list[Section]:
    """One kernel: lines, nodes, traffic, launches, code."""
    labelled = [(line.label, line.text) for line in words.kernel_lines(why, row)]
    accesses = [*row.loads, *row.stores]
    exact = all(each.certainty == "exact" for each in accesses)
    titles = ["access", "tensor", "argument", "type", "shape", "stride", "bytes"]
    table = Section(
        "",
        head=titles if exact else [*titles, "certainty"],
        rows=[_access_cells(each)[: 7 + (not exact)] for each in accesses[:LISTED]],
        left=(0, 1, 2, 3, 4, 5) if exact else (0, 1, 2, 3, 4, 5, 7),
        after=f"… and {len(accesses) - LISTED} more (--json)" if len(accesses) > LISTED else "",
    )
    title = "Call in the wrapper" if row.extern else f"Generated code ({row.language})"
    page = [Section(words.kernel_title(row), labelled=labelled), table]
    page += [Section(title, code=_body(row.code))] if row.code else []
    return [part for part in page if part.labelled or part.rows or part.code]


def _body(code: str) -> str:
    """A Triton kernel without its imports and metadata, which `--json` has."""
    at, kept, inside = code.find("\n@triton.jit"), [], False
    for line in code[at + 1 :].splitlines():
        inside = line.startswith("@triton_heuristics") or (inside and line != "@triton.jit")
        kept += [] if inside else [line]
    return "\n".join(kept).strip("\n")


def _access_cells(each: Access) -> list[str]:
    tensor = each.tensor
    where = [each.mode, tensor.name, each.argument or DASH, tensor.dtype or DASH]
    return [*where, shape(tensor), stride(tensor), bytes_text(each.bytes), each.certainty]


def kernel_pages(why: Why, rows: Sequence[CompiledKernel], top: int) -> list[Section]:
    """The page of each; of many, a table to choose from."""
    if len(rows) > 4:
        names = [[row.calls[0].handle, *_kernel_cells(why, row)] for row in rows[:top]]
        titles = ["call", *kernels(why, 0).head]
        return [Section(words.title(why), head=titles, rows=names, left=(0, 1, 2))]
    return [part for row in rows for part in kernel_page(why, row)]
