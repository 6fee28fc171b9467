"""Results as notebooks show them."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import foretrace
from foretrace.base.tables import encode
from foretrace.check.verdict import Verdict
from foretrace.look.rules import run_all
from foretrace.pages import notebook
from foretrace.read.recordings import traces
from opened_traces import opened
from pages.browser import hostile


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)


def tags(text: str) -> set[str]:
    parser = Tags()
    parser.feed(text)
    return parser.seen


class Frame(HTMLParser):
    page = sandbox = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag == "iframe"
        found = dict(attrs)
        self.page, self.sandbox = found["srcdoc"] or "", found["sandbox"] or ""


PLAIN = {
    "div",
    "p",
    "strong",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "bdi",
    "ul",
    "li",
    "svg",
    "path",
    "text",
    "title",
}


def test_a_trace_shows_its_kernels_and_a_timeline() -> None:
    text = notebook.trace_html(opened(traces()["mlp_eager"]))
    assert "nvjet 256x128x64 tn bf16" in text
    assert text.count("<path") > 10
    assert tags(text) <= PLAIN


def test_what_python_returns_shows_itself() -> None:
    """The public functions, as a notebook meets them; lists of results are still lists."""
    a, b = (opened(traces()[name]) for name in ("mlp_eager", "mlp_compiled"))
    marked, found, look = (
        foretrace.check(a, ["total.kernels == 15"]),
        foretrace.findings(a),
        foretrace.look(a),
    )
    shown = [
        each._repr_html_()
        for each in (a, foretrace.compare(a, b), look, found, found[0], marked, marked[0])
    ]
    assert all(tags(text) <= PLAIN and "<table>" in text for text in shown)
    assert "✓ hit" in shown[-1]
    assert found[0].title in shown[2]
    assert (marked == list(marked), found == list(found)) == (True, True)
    assert set(json.loads(encode(look))) == set(look.__struct_fields__)


def test_hostile_names_are_text(tmp_path: Path) -> None:
    (tmp_path / "<img src=x>.json").write_bytes(hostile.trace_bytes())
    trace = foretrace.open(tmp_path / "<img src=x>.json", cache=False)
    verdicts = [Verdict(name, "miss", name, name, name) for name in hostile.NAMES.values()]
    looked = notebook.look_html(foretrace.look(trace))
    for text in (
        notebook.trace_html(trace),
        looked,
        notebook.findings_html(run_all(trace)),
        notebook.verdicts_html(verdicts),
    ):
        assert tags(text) <= PLAIN
        assert not re.search("[\u2028\u2029\u202e]", text)


@pytest.mark.parametrize("view", ["plot", "roofline", "flame"])
def test_views_are_pages_in_a_frame(view: str, tmp_path: Path) -> None:
    trace = opened(traces()["mlp_eager"])
    shown = getattr(trace, view)()
    cell = Frame()
    cell.feed(shown._repr_html_())
    assert cell.page == shown.page
    assert cell.sandbox == "allow-scripts allow-downloads allow-modals"  # and no same origin
    only = {"plot": "timeline"}.get(view, view)
    assert json.loads(re.findall(r'id="data">(.*?)</script>', shown.page, re.S)[0])["only"] == only
    assert shown.save(tmp_path / "view.html").read_text() == shown.page
    assert "a notebook shows it" in repr(shown)
