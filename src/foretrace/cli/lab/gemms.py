"""Show which kernel the library picks for which matmul."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use
from foretrace.schema.gemm_point import DTYPES, EPILOGUES, LAYOUTS

if TYPE_CHECKING:
    from foretrace.names.gemms.table import GemmMap
    from foretrace.schema.documents.gemms import GemmsDocument
    from foretrace.schema.gemm_point import GemmPoint

SHIPPED = "h200"
KIND = ("dtype", "layout", "epilogue")


@click.command("gemms", epilog="See: foretrace docs gemms")
@use.option("--near MxNxK", "Explain why this shape gets its kernel.")
@use.option("--predict MxNxK", "Predict kernel and time of this shape.")
@use.option("--show NAME|FILE", f"Show a map by M and N (`{SHIPPED}` ships).")
@use.shown("--dtype", "Type of the operands.", type=click.Choice(DTYPES), default="bf16")
@use.shown("--layout", "tn is what nn.Linear computes.", type=click.Choice(LAYOUTS), default="tn")
@use.shown("--epilogue", "What follows the matmul.", type=click.Choice(EPILOGUES), default="none")
@use.option("--device", "What to measure.", type=click.Choice(("cuda", "cpu")))
@use.option(
    "-o --output",
    "Write the map of a GPU here (.parquet), and what was measured beside it.",
    type=click.Path(path_type=Path, dir_okay=False),
)
@use.option(
    "--points",
    "Measure the matmuls of this file alone: MxNxK on a line, with layout, type, epilogue.",
    type=click.Path(path_type=Path, dir_okay=False),
)
@use.option("--most", "Measure at most so many matmuls.", type=click.IntRange(1))
@use.option("--html FILE", "Also write a page with the heat map.")
@use.flag("--accuracy", "How often predictions are right on matmuls that the map does not hold.")
@use.flag("--all", "Every tile, and where the kernel changes as M grows.")
@use.in_forms
def command(
    near: str | None,
    predict: str | None,
    show: str | None,
    html: str | None,
    form: str,
    **rest: Any,
) -> None:
    """Show which kernel the library picks for which matmul, and how long it takes.

    \b
    foretrace lab gemms --show h200               a map of 17,341 matmuls by M and N
    foretrace lab gemms --accuracy                how often its predictions are right
    foretrace lab gemms --near 8192x3072x768      why this shape gets its kernel (M x N x K)
    foretrace lab gemms --predict 5000x4096x4096  kernel and time of a shape that was not measured
    foretrace lab gemms                           measure this machine: GPU or CPU
    foretrace lab gemms -o my.parquet             the map of this GPU, about two minutes
    foretrace lab gemms --points FILE             measure the matmuls of your own model

    M is rows (tokens), N output features, K what is summed: x is MxK, the result MxN. --near and
    --predict read the map of --show, and need neither a GPU nor torch. --predict scales the nearest
    measured matmuls and says how far away they are. With the map's card in this machine it marks
    itself.
    """
    from foretrace.show.render.gemms_page import page

    if near and predict:
        raise UsageError("choose one of --near and --predict")
    if near or predict or show or rest["accuracy"]:
        document = _asked(near, predict, show or SHIPPED, rest)
    else:
        document = _measured(rest)
    if html:
        from foretrace.base.files import write_text
        from foretrace.show.html.page import gemms_html

        write_text(Path(html), gemms_html(document))
    accuracy = rest["accuracy"] and not (near or predict)
    every = rest["all"] or form == "markdown"
    use.answer_in_sections(form, document, lambda: page(document, every=every, accuracy=accuracy))


def _asked(near: str | None, predict: str | None, show: str, rest: dict[str, Any]) -> GemmsDocument:
    from foretrace.names.gemms import answers, table

    found = table.named(show)
    point = answers.parse_size(near or predict or "1x1x1", *(rest[name] for name in KIND))
    if near:
        return answers.document(found, near=answers.explain_shape(found, point))
    return _predicted(found, point) if predict else answers.mapped(found, point)


def _predicted(found: GemmMap, point: GemmPoint) -> GemmsDocument:
    """A prediction, marked where torch sees the card of the map."""
    from msgspec.structs import replace

    from foretrace.names.gemms.answers import document
    from foretrace.names.gemms.distance import Nearest

    answer = Nearest(found).predict(point)
    try:
        from foretrace.record.experiments.gemms.sweep import marked
    except ModuleNotFoundError:
        live, why = None, "torch is not installed"
    else:
        live, why = marked(found, point, answer.family, answer.us)
    answer = replace(answer, live=live, not_live=why)
    return document(found, accuracy=found.facts.held_out, predict=answer)


def _measured(rest: dict[str, Any]) -> GemmsDocument:
    from foretrace.names.gemms.answers import parse_points, parse_size
    from foretrace.record.profiling import need_torch

    need_torch()
    from foretrace.record.experiments.gemms.sweep import measured

    kind = parse_size("1x1x1", *(rest[name] for name in KIND))
    chosen = parse_points(rest["points"]) if rest["points"] else ()
    with use.on_terminal():
        return measured(rest["device"], rest["output"], rest["most"], kind, use.say, chosen)
