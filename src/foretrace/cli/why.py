"""Show what torch.compile made of the code, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from foretrace.cli import _options as use

if TYPE_CHECKING:
    from foretrace.base.tables import Table


@click.command("why", epilog="See: foretrace docs why")
@click.argument("path", type=use.PATH)
@click.argument("kernel", required=False)
@use.in_tables
@use.flag("--not-fused", "What was not fused, why, and what it would save at most.")
@use.flag("--stages", "Every compiled graph, stage by stage: what became of each op.")
@use.flag("--kernels", "Every kernel with its lines, bytes, time and roof.")
@use.flag("--breaks", "Graph breaks and recompilations, with reasons and values.")
@use.flag("--cost", "Compile time by phase, caches, CUDA graphs.")
@use.flag("--strides", "Views by their recorded strides: what a transpose copies (nothing).")
@use.flag("--all", "Everything.")
@use.option(
    "--against PATH",
    "Another run of the program, such as one with max-autotune: what it made of each pair.",
    type=use.PATH,
)
@use.option("--html FILE", "Write a page: stages, kernels with their code, pairs not fused.")
@use.shown("--top", "How many kernels and pairs to list.", default=20, type=click.IntRange(0))
@use.opens_trace
def command(
    path: str,
    kernel: str | None,
    form: str,
    against: str | None,
    html: str | None,
    top: int,
    reading: use.Reading,
    **wanted: bool,
) -> int:
    """Show every compiled graph, stage by stage, with the time each part takes.

    PATH is what `foretrace record --why` left (traces/run), a folder or file of torch.compile's
    logs (TORCH_TRACE, TORCH_LOGS), or a trace with such logs beside it. KERNEL is the name of a
    kernel or a part of it: its lines, its graph nodes, its code, what it moves.

    \b
    foretrace why traces/run
    foretrace why traces/run triton_poi_fused_gelu_mul_0
    foretrace why traces/run --not-fused
    foretrace why traces/run --html why.html
    foretrace why traces/run --not-fused --against traces/tuned
    foretrace why torch_trace.log
    """
    from foretrace.read.compiler import one_run, read
    from foretrace.read.door import CompilerLog, TraceFile, TraceFolder
    from foretrace.trace.compiled.assemble import assemble
    from foretrace.why import explain, load, refuse_many, trace_of

    kinds = (TraceFile, TraceFolder, CompilerLog)
    given = reading.opened(path, *kinds)
    refuse_many(given.path)
    logs = read(given.path, reading.limits)
    found = trace_of(given, logs.path, reading.limits)
    trace = reading.trace(TraceFile(found)) if found else None
    logs = one_run(logs) if trace is None else trace.compiler_records.own_run(logs)
    use.warn_of_loss(trace)
    other = load(reading.opened(against, *kinds).path, reading.limits) if against else None
    why = explain(assemble(logs), trace, other)

    def page() -> list[Table]:
        from foretrace.why import lines as why_page

        if kernel is not None:
            return why_page.kernel_pages(why, why.kernels, top)
        return use.parts_page(why_page, why, wanted, top, why_page.PARTS)

    if kernel is not None:
        from foretrace.why.explained import kernels_named

        why.kernels = kernels_named(why, kernel)
    if html:
        from foretrace.pages.page import write_page
        from foretrace.pages.page_tables import why_html

        write_page(html, why_html(why), [path])
    use.answer_in_tables(form, why, page)
    return 1 if reading.strict and why.ledger.lost_data else 0
