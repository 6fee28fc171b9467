"""Record and measure: Count a script's memory traffic by level, kernel by kernel."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use
from foretrace.cli.run import steps_at

if TYPE_CHECKING:
    from foretrace.show.overview.counter_document import Exported

LAUNCHES = 1000
_READ = (".json", ".gz", ".zip")  # what a trace or a document is named, and no script


class _Counters(click.Command):
    """Options behind a TRACE are ours, those behind a SCRIPT are the script's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        reads = any(word.startswith("--ncu") or word.endswith(_READ) for word in args)
        runs = any(word.endswith(".py") or word in ("-m", "--module") for word in args)
        ctx.allow_interspersed_args = reads and not runs
        return super().parse_args(ctx, args)


@click.command(
    "counters",
    cls=_Counters,
    epilog="See: foretrace docs counters",
    context_settings={"ignore_unknown_options": True},
)
@use.flag("-m --module", "SCRIPT is the name of a module.")
@use.option(
    "--ncu",
    "Run nothing: join this CSV of `ncu --csv --page raw`, or this .ncu-rep, to a TRACE.",
    to="exports",
    multiple=True,
    type=click.Path(),
)
@use.option(
    "--against FILE", "Say what changed since these counters, a file of --json.", type=click.Path()
)
@use.option("--kernel REGEX", "Count only kernels whose function name matches.")
@use.shown(
    "--launches", "Count at most so many launches.", type=click.IntRange(1), default=LAUNCHES
)
@use.flag("--whole", "Count every launch of the script, not those of the last recorded step.")
@use.flag("--quick", "One run under Nsight Compute: HBM, L2 lookups and L1 alone.")
@use.shown("--steps", "Steps to record.", type=click.IntRange(1), default=3)
@use.shown("--warmup", "Steps before recording starts.", type=click.IntRange(0), default=3)
@steps_at
@use.option("-o --out", use.OUT, to="folder")
@use.flag("--all", "A sentence for each kernel, every level, roofs, how it was counted.")
@use.in_forms
@use.opens_trace
@click.argument("script", type=use.PATH, metavar="SCRIPT|TRACE")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    script: str,
    arguments: tuple[str, ...],
    exports: tuple[str, ...],
    against: str | None,
    form: str,
    reading: use.Reading,
    **given: Any,
) -> int:
    """Run SCRIPT once under torch's profiler and twice under Nsight Compute, and join the counters
    to the kernels of the trace: traffic by level, what stayed on chip, the rate beside each roof.

    \b
    foretrace counters train.py --epochs 1
    foretrace counters --json train.py > before.json
    foretrace counters --against before.json train.py --fused
    foretrace counters after.json --against before.json
    foretrace counters TRACE --ncu counters.csv
    foretrace counters --kernel 'gemm|nvjet' train.py

    It counts the last step that foretrace record records, and the script ends after it. A launch
    that could be several kernels of the trace is joined to none.
    """
    from foretrace.show.overview.counter_document import (
        counters_document,
        load_counters,
        with_earlier,
    )
    from foretrace.show.render.counters_page import page

    everything, trace, kernel = given.pop("all"), None, given["kernel"]
    try:
        re.compile(kernel or "")
    except re.error as problem:
        raise UsageError(f"--kernel {kernel}: not a regular expression: {problem}") from problem
    earlier = load_counters(against) if against else None
    if not exports and script.endswith(_READ):
        if arguments or not script.endswith(".json"):
            message = f"{script} is not a script: add --ncu FILE to join an export to a trace"
            raise UsageError(message)
        document = load_counters(script)  # a document of --json, shown again
    else:
        if exports:
            path, found = script, _read(arguments, exports, kernel)
        else:
            path, found = count(script, arguments, given)
        trace = reading.trace(path)
        use.warn_of_loss(trace)
        document = counters_document(trace, found)
    if earlier is not None and against is not None:
        document = with_earlier(document, earlier, against)
    every = everything or form == "markdown"
    use.answer_in_sections(form, document, lambda: page(document, every=every, width=use.width()))
    return int(reading.fails(trace))


def _read(
    arguments: tuple[str, ...], exports: tuple[str, ...], kernel: str | None
) -> list[Exported]:
    """Exports that exist already; needs no torch."""
    from foretrace.model.counters import Wanted
    from foretrace.read.ncu import read_export
    from foretrace.record.profiling.ncu import exported
    from foretrace.show.overview.counter_document import Exported

    if arguments:
        raise UsageError(f"with --ncu nothing runs: {arguments[0]!r} is not an argument of a trace")
    wanted = Wanted(None, kernel)
    return [Exported(read_export(exported(path), path), wanted) for path in exports]


def count(
    script: str, arguments: tuple[str, ...], given: dict[str, Any]
) -> tuple[str, list[Exported]]:
    """Run the script; neither its time nor its memory is that of reading a trace."""
    from foretrace.base.budget import apart
    from foretrace.record.profiling import need_torch
    from foretrace.record.profiling.ncu import find_ncu

    find_ncu()
    with apart():
        need_torch()
        from foretrace.record.experiments.counting import CountedScript, count_script

        folder = use.out_folder(given.pop("folder"))
        find, limit = given.pop("steps_at"), given.pop("launches")
        wanted = CountedScript(script, arguments, find=find, limit=limit, **given)
        path, found = count_script(wanted, folder, use.say)
    return str(path), found
