"""The three answers: in view before any click, with the numbers of `look --json`, on every recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import foretrace
from corpus.places import PUBLIC
from foretrace.base.units import percent_text, time_text
from foretrace.read.recordings import decoding, ladder, traces
from foretrace.schema.documents.look import Look as Document
from foretrace.show.html import write_report
from foretrace.show.overview import look
from opened_traces import opened, overview
from show.browser.looks import HEIGHTS, Look, Page
from sweep import part

pytestmark = pytest.mark.browser
RECORDED = sorted({**traces(), **ladder(), **decoding()}.values())
FOUND = sorted(Path(PUBLIC).glob("*.json.gz")) if PUBLIC else []
# Kinds of traces that are always looked at: bound by the host and by the GPU, nothing to do, no steps.
KINDS = ("llama_train_eager", "mlp_eager", "mlp_compiled")
SHOWN = [*(traces()[name] for name in KINDS), *part(RECORDED, every=12), *part(FOUND, every=6)]
SEEN = """
    const inside = (each) => { const box = each.getBoundingClientRect();
        return box.top >= 0 && box.bottom <= innerHeight && box.height > 0; };
    const text = (each) => each?.innerText ?? '';
    const rows = foretrace.layout().rows, top = foretrace.layout().top;
    const gpu = rows.filter((row) => row.kind === 'strip').map((row) => top + row.top + row.height);
    return {
        answers: [...document.querySelectorAll('.answer')].map(inside),
        cards: [...document.querySelectorAll('.card')].slice(0, 3).map(inside),
        cut: [...document.querySelectorAll('.answer')].filter((each) => each.scrollHeight > each.clientHeight + 1)
            .map((each) => each.className),
        menu: document.querySelector('.steps option').text,
        intervals: ['.insights .card', '#panel-findings td'].map((each) =>
            document.querySelectorAll(`${each} .bar.predicted .interval`).length),
        gpu, height: innerHeight, word: text(document.querySelector('.answer.bound .word')),
        told: document.querySelector('.answer.bound .told')?.title,
        stack: document.querySelector('.bar.stack')?.ariaLabel ?? '',
        first: text(document.querySelector('.answer.first')),
        order: document.querySelector('.answer.first .order')?.title ?? text(document.querySelector('.answer.first .told')),
        rows: [...document.querySelectorAll('.answer.where .row')].map((row) =>
            [...row.children].map((cell) => cell.innerText).filter(Boolean)),
    };
"""


def test_the_answers_are_in_view_and_those_of_look(page: Page, tmp_path: Path) -> None:
    for path in dict.fromkeys(SHOWN):
        trace = foretrace.open(path) if path in FOUND else opened(path)
        report = write_report(tmp_path / f"{path.name}.html", [trace])
        page.show(report, Look(1440, False))
        seen = page.run(SEEN)
        assert seen["answers"] == [True] * 3, path.name
        assert all(seen["cards"]), path.name
        assert seen["cut"] == [], path.name
        assert all(bottom <= HEIGHTS[1440] for bottom in seen["gpu"][:1]), path.name
        assert bool(seen["gpu"]) == (trace.gpu.usable.any()), path.name
        document = look(trace) if path in FOUND else overview(path).look
        agrees(seen, document, path.name)
        assert seen["intervals"] == [len(document.fixes)] * 2, path.name
        if seen["menu"].startswith("typical "):
            per = document.composition.per if document.composition else "per step"
            assert f"per {seen['menu'].removeprefix('typical ')}" in per, path.name


def agrees(seen: dict[str, Any], document: Document, name: str) -> None:
    """Word, composition, fix and groups are those of the document."""
    verdict, made = document.verdict, document.composition
    assert seen["told"] == verdict.text, name
    assert verdict.first.split(" (--")[0] in seen["order"], name
    if made is not None:
        assert seen["stack"].startswith(f"{time_text(made.wall_ns)} {made.per}"), name
        for piece in made.parts:
            share = percent_text(piece.ns / made.wall_ns)
            halves = {time_text(piece.ns), time_text(piece.ns * (1 + 1e-9))}  # a page rounds up
            assert any(f"{time} ({share})" in seen["stack"] for time in halves), name
        assert sum(piece.ns for piece in made.parts) == pytest.approx(made.wall_ns), name
    if document.step and document.fixes:
        now, then = time_text(document.step.ns), time_text(document.fixes[0].ns)
        assert f"{now} → about {then}" in seen["first"], name
    by_name = {row.name: row for row in document.groups}
    assert len(seen["rows"]) <= 6, name
    for label, time, share in seen["rows"]:
        row = by_name.get(label)
        if row is not None:
            assert (time, share) == (time_text(row.time_ns), percent_text(row.share)), name


@pytest.mark.once
def test_a_row_filters_the_timeline_and_its_strip(shown: Page) -> None:
    """Other work is faint in the strip too; what is chosen is as strong as before, at any zoom."""
    strip = """
        const {width, rows} = foretrace.layout(), {top, height} = rows.find((row) => row.kind === 'strip');
        const {data} = document.querySelector('canvas.tracks').getContext('2d').getImageData(0, top, width, height);
        let sum = 0;
        for (let at = 3; at < data.length; at += 4) sum += data[at];
        return sum / 255 / height / width;
    """
    whole = shown.run(strip)
    shown.click(".answer.where button.row")
    assert shown.state("filter").startswith("= ")
    shown.wait("document.querySelector('.answer.where .row').ariaPressed === 'true'")
    shown.settle()
    chosen = shown.run(strip)
    assert 0.3 * whole < chosen < 0.9 * whole
    shown.focus(".answer.where button.row")
    shown.press("Enter")
    assert shown.state("filter") == ""
    shown.settle()
    assert shown.run(strip) == pytest.approx(whole)
    shown.click(shown.found(".legend button", "gemm"))
    shown.settle()
    assert 0.3 * whole < shown.run(strip) < 0.95 * whole


@pytest.mark.colours
def test_colours_tell_groups_apart_and_can_be_read(shown: Page) -> None:
    """Labels on boxes have the contrast of text; problems alone are red, the selection purple."""
    found = shown.run("""
        const {colours, traces} = foretrace, style = getComputedStyle(document.documentElement);
        const part = (v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
        const rgb = (c) => c.match(/[0-9a-f]{2}/g).map((p) => parseInt(p, 16));
        const light = (c) => { const [r, g, b] = rgb(c).map(part); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const hue = (c) => { const [r, g, b] = rgb(c).map((v) => v / 255), high = Math.max(r, g, b), low = Math.min(r, g, b);
            if (high - low < 0.08) return null;
            const d = high - low, h = high === r ? ((g - b) / d) % 6 : high === g ? (b - r) / d + 2 : (r - g) / d + 4;
            return (h * 60 + 360) % 360; };
        return traces[0].facts.groups.filter((group) => !group.endsWith('annotation')).map((group) => {
            const fill = colours.group(group), ink = colours.ink(fill);
            const [high, low] = [light(fill), light(ink)].sort((a, b) => b - a);
            return [group, (high + 0.05) / (low + 0.05), hue(fill), light(fill), fill];
        });
    """)
    for group, contrast, hue, _, _ in found:
        assert contrast >= 4.5, group
        assert hue is None or not (hue < 12 or hue > 345 or 245 < hue < 300), group
    by = {group: (luminance, fill) for group, _, _, luminance, fill in found}
    assert (
        len(
            {
                by[name][1]
                for name in ("copy", "cpu_op", "other", "launch_call", "wait_call", "copy_call")
            }
        )
        == 6
    )
    if shown.look.dark:  # the host does not outshine the GPU
        assert (
            max(by[name][0] for name in ("cpu_op", "launch_call", "wait_call")) < by["gemm"][0] / 2
        )
