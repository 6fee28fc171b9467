"""One author of every sentence: terminal, Markdown, HTML and notebook show the same summary."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

import foretrace as ft
from corpus.build import cut, gn
from foretrace.read import recordings
from foretrace.show.html import notebook, report
from foretrace.show.overview import summarize
from foretrace.show.overview.sentences import headline
from foretrace.show.render.look_page import first_screen
from foretrace.show.render.terminal import drawn, marked
from opened_traces import opened

NAMES = ("linear_eager", "mlp_eager", "mlp_compiled", "mlp_eager_train", "llama_train_eager")


def shown_everywhere(trace: ft.Trace) -> list[str]:
    """The sentences, after a check that each form shows them in this order and no other summary."""
    overview = summarize(trace)
    page, said, head = first_screen(overview), overview.look.sentences, headline(overview.look)
    for text in (drawn(page), re.sub(r"\\(.)", r"\1", marked(page)).replace("**", "")):
        flat = " ".join(text.split())
        places = [flat.index(line.text) for line in overview.lines]
        assert places == sorted(places)
        assert overview.notes in flat
        assert head in flat
    data = re.search(r'id="data">(.*?)</script>', report([trace]), re.DOTALL)
    assert data is not None
    shown = json.loads(data[1])["traces"][0]
    story = [f"{line['label']}: {line['text']}" for line in shown["story"]]
    assert shown["headline"] == head
    assert [*story, *filter(None, [shown["notes"]])] == said
    for text in (notebook.trace_html(trace), notebook.look_html(ft.look(trace))):
        assert head in html.unescape(text)
        assert said == [
            line for line in html.unescape(text).replace("<p>", "").split("</p>") if line in said
        ]
    return said


@pytest.mark.parametrize("name", NAMES)
def test_the_same_sentences_in_every_form(name: str) -> None:
    assert len(shown_everywhere(opened(recordings.traces()[name]))) > 2


def test_an_incomplete_trace_says_so_in_every_form(tmp_path: Path) -> None:
    whole = gn(50).bytes()
    (tmp_path / "cut.json").write_bytes(cut(whole, len(whole) // 2))
    said = shown_everywhere(ft.open(tmp_path / "cut.json", cache=False))
    assert said[0].startswith("INCOMPLETE: ")
