"""The page of `why`: stages, every kernel with its source lines beside the generated code, and the
pairs that were not fused with their cost.
"""

from __future__ import annotations

from msgspec import Struct

from foretrace.schema.documents.why import CompiledKernel, Why
from foretrace.show.html.page import page, safe
from foretrace.show.html.trace_facts import code_text
from foretrace.show.overview import why as words
from foretrace.show.render import why_page
from foretrace.show.render.terminal import Section, plain

MOST_KERNELS = 100  # with their code; the table has all
TOP = 1_000  # rows of a table


class WhyKernel(Struct, frozen=True):
    """One kernel: what the terminal says of it, the lines it came from, and its code."""

    title: str
    about: object
    lines: list[tuple[str, str]]
    language: str
    code: str


class WhyPage(Struct, frozen=True):
    """What the script reads."""

    head: object
    sections: list[object]
    kernels: list[WhyKernel]
    left_out: int
    not_fused: list[object]


def why_data(why: Why) -> WhyPage:
    """What a page shows; kernels that take most time come first."""
    ordered = sorted(why.kernels, key=lambda row: (-(row.time_ns or 0), -(row.bytes or 0)))
    _, *tables = why_page.sections(why, {"stages", "kernels", "breaks", "cost"}, TOP)
    return WhyPage(
        safe(why_page.head(why)),
        [safe(each) for each in tables if each.filled],
        [_kernel(why, row) for row in ordered[:MOST_KERNELS]],
        max(len(ordered) - MOST_KERNELS, 0),
        [safe(each) for each in why_page.not_fused(why, TOP)],
    )


def why_html(why: Why) -> str:
    """The page as HTML."""
    return page(plain(words.title(why)), why_data(why), main="why")


def _kernel(why: Why, row: CompiledKernel) -> WhyKernel:
    about, *_ = why_page.kernel_page(why, row) or [Section("")]
    lines = [(plain(line.place), plain(line.code)) for line in row.sources]
    return WhyKernel(
        plain(words.kernel_title(row)), safe(about), lines, row.language, code_text(row.code)
    )
