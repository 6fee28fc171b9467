"""Results as notebooks show them."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import foretrace
from browser import hostile
from foretrace.analyses import run_all
from foretrace.comparison import compare
from foretrace.recordings import traces
from foretrace.render.html import notebook
from foretrace.schema.documents import encode
from foretrace.schema.verdict import Verdict


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
    "rect",
    "title",
}


def test_a_trace_shows_its_kernels_and_a_timeline() -> None:
    text = notebook.trace_html(foretrace.open(traces()["mlp_eager"], cache=False))
    assert "nvjet 256x128x64 tn bf16" in text
    assert text.count("<rect") > 20
    assert tags(text) <= PLAIN


def test_comparison_findings_and_verdicts() -> None:
    a, b = (foretrace.open(traces()[name], cache=False) for name in ("mlp_eager", "mlp_compiled"))
    compared = notebook.comparison_html(compare(a, b))
    assert "0.88x" in compared
    assert tags(compared) <= PLAIN
    assert tags(notebook.findings_html(run_all(a))) <= PLAIN
    shown = notebook.verdicts_html(
        [Verdict("kernels == 5", "hit", "5", "5"), Verdict("x", "unknown", why="no data")]
    )
    assert "✓ hit" in shown
    assert "? unknown" in shown


def test_what_python_returns_shows_itself() -> None:
    """The public functions, as a notebook meets them; lists of results are still lists."""
    a, b = (foretrace.open(traces()[name], cache=False) for name in ("mlp_eager", "mlp_compiled"))
    marked, found, look = (
        foretrace.check(a, ["kernels == 15"]),
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


@pytest.mark.parametrize("name", ["linear_eager", "llama_train_eager"])
def test_a_timeline_stays_small(name: str) -> None:
    assert len(notebook.timeline_svg(foretrace.open(traces()[name], cache=False))) < 300_000
