"""The page of `foretrace roofs`: every table and the curve, in one file that needs no network."""

from __future__ import annotations

from foretrace.render.html.gemms import GemmsPage
from foretrace.render.html.page import page
from foretrace.render.html.written import safe
from foretrace.render.roofs import sections
from foretrace.render.safe import plain
from foretrace.schema.roofs import MeasuredRoofs


def roofs_html(document: MeasuredRoofs) -> str:
    """The page as HTML; its script is that of the map of products, without a plane."""
    top, *rest = sections(document)
    data = GemmsPage(safe(top), None, "", [safe(each) for each in rest])
    return page(plain(top.title), data, main="gemms")
