"""The page of `foretrace roofs`: every table and the curves, in one file that needs no network."""

from __future__ import annotations

from msgspec import Struct

from foretrace.schema.roofs import BandwidthPoint, LatencyPoint, MeasuredRoofs
from foretrace.show.html.page import page
from foretrace.show.html.written import safe
from foretrace.show.render.roofs import sections
from foretrace.show.render.safe import plain


class RoofsPage(Struct, frozen=True):
    """What the script of the page reads."""

    head: object
    bandwidth: tuple[BandwidthPoint, ...]
    latency: tuple[LatencyPoint, ...]
    sections: list[object]


def roofs_html(document: MeasuredRoofs) -> str:
    """The page as HTML."""
    top, *rest = sections(document)
    tables = [safe(each) for each in rest]
    data = RoofsPage(safe(top), document.bandwidth, document.latency, tables)
    return page(plain(top.title), data, main="roofs")
