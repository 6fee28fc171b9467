"""What `foretrace try` measured, as a page and as a part of a report: a bar for each fix."""

from __future__ import annotations

import dataclasses
import os

from msgspec import Struct
from msgspec.structs import replace

from foretrace.schema.documents.tries import KEPT, TriedFix, TryDocument
from foretrace.show.html.page import page, safe
from foretrace.show.render import try_page
from foretrace.show.render.terminal import plain


class TriedBar(Struct, frozen=True):
    """A time per step with its interval, in nanoseconds; `state` is that of the fix."""

    state: str
    median_ns: float
    low_ns: float
    high_ns: float


class TryPage(Struct, frozen=True):
    """What a script draws: `bars` are those of the rows of `table`; `diff` is the patch."""

    head: object
    untouched: TriedBar
    bars: list[TriedBar]
    table: object
    sections: list[object]
    diff: list[str]


def try_html(document: TryDocument) -> str:
    """The page as HTML."""
    return page(f"try {plain(os.path.basename(document.script))}", tries(document), main="try")


def tries(document: TryDocument) -> TryPage:
    """What is drawn of a result; the folders it was made in stay behind."""
    patch = document.patch
    if patch is not None:
        patch = replace(patch, path=os.path.basename(patch.path))
    named = replace(document, script=os.path.basename(document.script), patch=patch)
    head, table, *rest = try_page.parts(named)
    fixes = try_page.measured(document)
    rows = [
        [*cells[:-1], fix.write if fix.state == KEPT else cells[-1]]
        for fix, cells in zip(fixes, table.rows, strict=True)
    ]
    base = document.baseline
    return TryPage(
        safe(head),
        TriedBar("untouched", base.median_ns, base.low_ns, base.high_ns),
        [_bar(fix) for fix in fixes],
        safe(dataclasses.replace(table, rows=rows)),
        [safe(each) for each in rest],
        [plain(line) for line in patch.diff.splitlines()] if patch else [],
    )


def _bar(fix: TriedFix) -> TriedBar:
    """The bar of a fix that was measured."""
    median = fix.median_ns or 0.0
    return TriedBar(fix.state, median, fix.low_ns or median, fix.high_ns or median)
