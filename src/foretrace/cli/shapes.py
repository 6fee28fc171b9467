"""Record and measure: Measure what a new input shape costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from foretrace.cli._options import as_json, builds_rung, one_form, rung_names, say, shows_bold
from foretrace.schema.rung import Choice


@click.command("shapes", epilog="See: foretrace docs shapes")
@click.argument("rung", shell_complete=rung_names)
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="NAME=A,B,C",
    help=(
        "Values of one of the rung's sizes; may be repeated, the last one changes fastest. One "
        "value fixes a size."
    ),
)
@click.option(
    "--contenders",
    metavar="A,B,C",
    default="",
    help="Only these, in this order: eager, static, dynamic, automatic, liger, …",
)
@builds_rung()
@click.option(
    "--keep-compiler-cache",
    "keep_cache",
    is_flag=True,
    help=(
        "Use your own Inductor cache; an empty one is the default, since a filled one hides the "
        "stalls."
    ),
)
@click.option("--plot", type=click.Path(path_type=Path), help="Also draw it here (.svg, .png).")
@click.option("--markdown", is_flag=True, help="Markdown instead of terminal tables.")
@as_json
def command(
    rung: str,
    sweeps: tuple[str, ...],
    contenders: str,
    keep_cache: bool,
    plot: Path | None,
    markdown: bool,
    as_json: bool,
    **choice: Any,
) -> None:
    """Say what each way of running RUNG pays when the shape changes, and how fast it is after that.

    \b
    foretrace shapes mlp                                     six shapes of batch, seq and hidden
    foretrace shapes mlp --sweep batch=8,16,64 --sweep seq=64,128
    foretrace shapes attention --contenders naive,automatic --small
    foretrace shapes mlp --plot shapes.svg

    The contenders are the rung's first variant as it is, compiled static, dynamic and automatic
    (what torch.compile does when nobody says), and its other variants. Each visits the same shapes
    in the same order, beginning with nothing compiled: a server that sees shape after shape.
    docs/shapes.md tells more.
    """
    from foretrace.ladder import rung as find
    from foretrace.ladder import shapes
    from foretrace.render.shapes import shapes_markdown, shapes_text
    from foretrace.render.shapes_plot import need_matplotlib, plot_shapes

    one_form(as_json, markdown)
    if plot:
        need_matplotlib(plot)
    names = [name.strip() for name in contenders.split(",") if name.strip()]
    document = shapes(find(rung), sweeps, names, Choice(**choice), keep_cache, say).document()
    if plot:
        plot_shapes(document, plot)
    click.echo(
        json.dumps(document, ensure_ascii=False, indent=1)
        if as_json
        else shapes_markdown(document)
        if markdown
        else shapes_text(document, bold=shows_bold())
    )
