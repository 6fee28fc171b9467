"""Write time by module for flame graphs and spreadsheets."""

from __future__ import annotations

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use

FOLDER = click.Path(exists=True)


@click.command("export", epilog="See: foretrace docs export")
@click.argument("trace", type=use.PATH)
@use.option("--speedscope FILE", "A flame graph for https://speedscope.app.")
@use.option("--collapsed FILE", "Lines of `module;op;kernel NANOSECONDS`.")
@use.option("--csv FILE", "One row per kernel, or per op of a CPU: module, shapes, time.")
@use.option("--captures FOLDER", "As in foretrace look.", type=FOLDER)
@use.flag("--overwrite", "Replace a file of that name.")
@use.opens_trace
def command(
    trace: str, captures: str | None, overwrite: bool, reading: use.Reading, **wanted: str | None
) -> int:
    """Write the GPU time of TRACE by nn.Module, op and kernel in the format of another tool.

    FILE may be - for stdout. Without recorded modules the stacks begin with record_function
    ranges. The times of kernels that ran at once count in full. A trace without GPU work gives
    its host time by nn.Module and op.

    \b
    foretrace export run.json.gz --speedscope run.speedscope.json
    foretrace export run.json.gz --collapsed - | flamegraph.pl --countname ns > run.svg
    """
    chosen = {form: path for form, path in wanted.items() if path is not None}
    if not chosen:
        raise UsageError("no format: pass --speedscope FILE, --collapsed FILE or --csv FILE")
    if [*chosen.values()].count("-") > 1:
        raise UsageError("only one format can go to stdout")
    targets = {
        form: None if path == "-" else use.new_file(path, overwrite=overwrite)
        for form, path in chosen.items()
    }
    from foretrace.base.files import write_text
    from foretrace.show.render.export import exported

    opened = reading.trace(trace, captures)
    use.warn_of_loss(opened)
    if not len(opened.gpu):
        use.say("the trace has no GPU work: times are host times, which include profiler overhead")
    for form, target in targets.items():
        text = exported(opened, form)
        if target is None:
            click.echo(text, nl=False)
        else:
            write_text(target, text)
            click.echo(str(target), err=None in targets.values())
    return 1 if reading.fails(opened) else 0
