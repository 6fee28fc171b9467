"""The pages of `foretrace gemms` and `foretrace roofs`: sections and a plot, one file each."""

from __future__ import annotations

from msgspec import Struct

from foretrace.schema.device import BandwidthPoint, LatencyPoint, MeasuredRoofs
from foretrace.schema.documents.gemms import GemmsDocument, HeatPlane
from foretrace.show.html.page import page, safe
from foretrace.show.render.gemms_page import HEAT
from foretrace.show.render.gemms_page import sections as gemms_sections
from foretrace.show.render.roofs_page import sections as roofs_sections
from foretrace.show.render.terminal import plain


class GemmsPage(Struct, frozen=True):
    """What the script of the page reads."""

    head: object
    heat: HeatPlane | None
    title: str
    sections: list[object]


def gemms_html(document: GemmsDocument) -> str:
    """The page as HTML."""
    top, *rest = gemms_sections(document)
    data = GemmsPage(safe(top), document.heat, HEAT, [safe(each) for each in rest])
    return page(plain(top.title), data, main="gemms")


class RoofsPage(Struct, frozen=True):
    """What the script of the page reads."""

    head: object
    bandwidth: tuple[BandwidthPoint, ...]
    latency: tuple[LatencyPoint, ...]
    sections: list[object]


def roofs_html(document: MeasuredRoofs) -> str:
    """The page as HTML."""
    top, *rest = roofs_sections(document)
    tables = [safe(each) for each in rest]
    data = RoofsPage(safe(top), document.bandwidth, document.latency, tables)
    return page(plain(top.title), data, main="roofs")
