"""The report of recorded traces, opened from disk: it asks nothing of anybody, and shows what it was
given. What a person does with it is in `items`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from foretrace.read.recordings import traces
from foretrace.show.html import write_report
from opened_traces import opened
from show.browser.conftest import Browser

pytestmark = pytest.mark.browser
GUESSES = [
    ("3 gemm per mlp_fwd", "hit", "3", "3", ""),
    ("gpu idle < 1%", "miss", "27%", "< 1%", "launches"),
]
FIELDS = ("text", "verdict", "measured", "expected", "why")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory, climb: dict[str, Any]) -> dict[str, Path]:
    """The eager MLP with guesses and a climb, and both side by side."""
    folder = tmp_path_factory.mktemp("reports")
    eager, compiled = (opened(traces()[name]) for name in ("mlp_eager", "mlp_compiled"))
    guesses = {
        "schema": 1,
        "hits": 1,
        "misses": 1,
        "unknown": 0,
        "guesses": [dict(zip(FIELDS, guess, strict=True)) for guess in GUESSES],
    }
    return {
        "eager": write_report(folder / "eager.html", [eager], guesses=guesses, ladder=climb),
        "both": write_report(folder / "both.html", [eager, compiled]),
    }


@pytest.mark.parametrize("name", ["eager", "both"])
def test_opens_from_disk_without_a_word(
    browser: Browser, reports: dict[str, Path], name: str
) -> None:
    browser.open(reports[name].as_uri())
    assert browser.console() == []
    assert browser.requests() == [reports[name].as_uri()]
    assert browser.run("return foretrace.traces.length") == (2 if name == "both" else 1)


def test_guesses_and_ladder_are_shown_when_given(
    browser: Browser, reports: dict[str, Path]
) -> None:
    browser.open(reports["eager"].as_uri())
    browser.run("foretrace.store.set({tab: 'guesses'})")
    browser.settle()
    guesses = browser.find("#panel-guesses").text
    assert "✓ hit" in guesses
    assert "✗ miss" in guesses
    browser.run("foretrace.store.set({tab: 'ladder'})")
    browser.settle()
    ladder = browser.find("#panel-ladder").text
    assert "claims: holds " in ladder
    assert "holds on the A100" in ladder
    assert "the commentaries: holds " in ladder
    assert "what stayed the same" in ladder
    assert "GEMM" in ladder
    browser.run("document.querySelector('#panel-ladder details').open = true")
    assert "mlp eager, " in browser.find("#panel-ladder details").text


def test_kernels_that_changed_are_marked(browser: Browser, reports: dict[str, Path]) -> None:
    browser.open(reports["both"].as_uri())
    marks = browser.run("""
        return foretrace.traces.map(({facts, source: {events}}) => {
            const signs = new Set();
            for (let at = 0; at < events.count; at++) if (events.kind(at) === 'kernel') {
                signs.add(`${facts.marks[events.mark[at]]} ${events.label(at)}`);
            }
            return [...signs].sort();
        });
    """)
    nvjet = ["same nvjet 192x128x64 tn bf16", "same nvjet 256x128x64 tn bf16"]
    assert marks[0] == ["gone gelu", "gone mul bf16", *nvjet]
    assert marks[1] == ["new triton gelu+mul", *nvjet]
    changes = browser.run("return document.querySelector('#panel-changes').textContent")
    assert "GPU time falls by 12.2%" in changes


def test_a_link_of_a_stranger_does_no_harm(browser: Browser, reports: dict[str, Path]) -> None:
    """What is not sound in an address is left out."""
    wrong = "#view=9_1&select=event.9.1&tab=<img>&pin=x&mark=NaN&align=__proto__&filter=%3Cimg%3E"
    browser.open(f"{reports['eager'].as_uri()}{wrong}")
    browser.settle()
    assert browser.run("return foretrace.store.state.view") is None
    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert browser.console() == []
