"""The page of `foretrace gemms`: one file that needs no network."""

from __future__ import annotations

from msgspec import Struct

from foretrace.schema.documents.gemms import GemmsDocument, HeatPlane
from foretrace.show.html.page import page
from foretrace.show.html.written import safe
from foretrace.show.render.gemms import HEAT, sections
from foretrace.show.render.safe import plain


class GemmsPage(Struct, frozen=True):
    """What the script of the page reads."""

    head: object
    heat: HeatPlane | None
    title: str
    sections: list[object]


def gemms_html(document: GemmsDocument) -> str:
    """The page as HTML."""
    top, *rest = sections(document)
    data = GemmsPage(safe(top), document.heat, HEAT, [safe(each) for each in rest])
    return page(plain(top.title), data, main="gemms")
