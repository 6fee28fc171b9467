"""Show which kernel the library picks for which matmul."""

from __future__ import annotations

import click

from foretrace.cli import _options as use
from foretrace.work.gemms.table import DTYPES, EPILOGUES, LAYOUTS


@click.command("gemms", epilog="See: foretrace docs gemms")
@click.argument("size", required=False, metavar="[MxNxK]")
@use.shown("--dtype", "Type of the operands.", type=click.Choice(DTYPES), default="bf16")
@use.shown("--layout", "tn is what nn.Linear computes.", type=click.Choice(LAYOUTS), default="tn")
@use.shown("--epilogue", "What follows the matmul.", type=click.Choice(EPILOGUES), default="none")
@use.flag("--all", "Every tile, and where the kernel changes as M grows.")
@use.in_tables
def command(
    size: str | None, dtype: str, layout: str, epilogue: str, form: str, **rest: bool
) -> None:
    """Show which kernel the library picks for a matmul, from 17,341 that were measured on an H200.

    \b
    foretrace lab gemms 8192x3072x768   why this shape gets its kernel (M x N x K)
    foretrace lab gemms                 the map by M and N

    M is rows (tokens), N output features, K what is summed: x is MxK, the result MxN. A shape that
    was not measured gets the nearest one that was. This needs neither a GPU nor torch.
    """
    from foretrace.work.gemms import answers, table
    from foretrace.work.gemms.documents import GemmsDocument, MatmulSize
    from foretrace.work.gemms.lines import page

    known = table.shipped()
    kind = MatmulSize(1, 1, 1, layout, dtype, epilogue)
    near = answers.explain_shape(known, answers.parse_size(size, kind)) if size else None
    heat = None if size else answers.plane(known, kind)
    facts = known.facts
    head = (facts.device, facts.command, facts.environment, known.frame.height)
    document = GemmsDocument(1, *head, heat=heat, near=near)
    every = rest["all"] or form == "markdown"
    use.answer_in_tables(form, document, lambda: page(document, every=every))
