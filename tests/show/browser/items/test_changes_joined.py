"""Items 10 and 11: changes lead to their kernels, are joined on screen, and pictures hold what is shown."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from show.browser.looks import Page

pytestmark = pytest.mark.browser
# The colours in the gap between the GPU tracks of two traces, where ribbons are.
GAP = """
    const {rows} = foretrace.layout(), strips = rows.filter((row) => row.kind === 'strip');
    const above = rows.filter((row) => row.trace === 0 && row.kind === 'row').at(-1);
    const top = above.top + above.height + 8, bottom = strips[1].top - 2;
    const canvas = document.querySelector('.timeline canvas.tracks');
    const {data} = canvas.getContext('2d').getImageData(0, (top + bottom) / 2, canvas.width, 1);
    const seen = new Set();
    for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 60) {
        seen.add([data[at], data[at + 1], data[at + 2]].join());
    }
    return [...seen];
"""
SAVED = """
    (async () => {
        const blobs = [], made = URL.createObjectURL, clicked = HTMLAnchorElement.prototype.click;
        URL.createObjectURL = (blob) => { blobs.push(blob); return made.call(URL, blob); };
        HTMLAnchorElement.prototype.click = () => {};
        [...document.querySelectorAll('.exporting button')].find((each) => each.textContent === 'SVG').click();
        await new Promise((done) => setTimeout(done, 300));
        URL.createObjectURL = made; HTMLAnchorElement.prototype.click = clicked;
        return blobs.at(-1).text();
    })()
"""
BOX = re.compile(r"M([\d.-]+) ([\d.-]+)h([\d.]+)v([\d.]+)h-[\d.]+z")


def kernels(page: Page) -> list[list[float]]:
    """The range of the selected place on both sides, in shared time."""
    found: list[list[float]] = page.run("""
        const [joins] = foretrace.joins, {traces} = foretrace;
        const place = joins.places.find((each) => joins.changed(each));
        return place.sides.map((side, at) => [side.from - traces[at].zero, side.to - traces[at].zero]);
    """)
    return found


def test_a_change_goes_to_both_traces(compared: Page) -> None:
    plain = set(compared.run(GAP))
    assert plain
    compared.click(compared.found(".changelist button", "GeGLU"))
    selected = compared.state("selection")
    (a_from, a_to), (b_from, b_to) = kernels(compared)
    assert selected["kind"] == "range"
    assert selected["range"]["from"] == pytest.approx(min(a_from, b_from), abs=1)
    assert selected["range"]["to"] == pytest.approx(max(a_to, b_to), abs=1)
    start, end = compared.view()
    assert start < min(a_from, b_from)
    assert end > max(a_to, b_to)
    assert set(compared.run(GAP)) - plain  # its ribbon stands out
    pressed = "return document.querySelector('.changelist [aria-pressed=true]').innerText"
    assert "GeGLU" in compared.run(pressed)
    compared.press("Escape")
    compared.press("c")
    assert compared.state("selection") == selected
    said = compared.browser.console()
    assert [line for line in said if "getImageData" not in line] == []  # this test reads pixels


@pytest.mark.once
def test_a_change_zooms_each_trace_to_its_own_place(compared: Page) -> None:
    """C goes by size, and what changed begins at the same pixel in both traces."""
    compared.press("c")
    (a_from, _), (b_from, _) = kernels(compared)
    assert (a_from, b_from) == (0, 0)
    assert compared.run("return document.querySelector('.aligning select').value") == (
        compared.state("align")
    )
    sizes = "const {pair} = foretrace.joins[0]; return foretrace.joins[0].bySize().map((at) => "
    saved = compared.run(
        sizes + "Math.abs(pair.document.work[at].ns_a - pair.document.work[at].ns_b))"
    )
    assert saved == sorted(saved, reverse=True)
    compared.press("Escape")
    assert (compared.state("align"), compared.state("view")) == ("", None)


@pytest.mark.once
def test_lines_of_the_roofline_do_not_cross(compared: Page) -> None:
    compared.run("foretrace.store.set({tab: 'roofline'})")
    compared.settle()
    lines = compared.run(
        "return [...document.querySelectorAll('.joint:not(.crossing)')].map((line) => "
        "line.getAttribute('d').slice(1).split(/[ L]/).map(Number))"
    )
    hidden = compared.run(
        "return [...document.querySelectorAll('.joint.crossing')].map((line) => "
        "getComputedStyle(line).visibility)"
    )
    assert lines
    assert {*hidden} <= {"hidden"}
    for at, one in enumerate(lines):
        assert not any(crosses(one, other) for other in lines[:at])


def crosses(one: list[float], other: list[float]) -> bool:
    """Whether two lines cross anywhere but at a common end."""

    def side(line: list[float], x: float, y: float) -> float:
        ax, ay, bx, by = line
        turn = (bx - ax) * (y - ay) - (by - ay) * (x - ax)
        return 0 if abs(turn) < 1e-6 else turn

    return (
        side(one, *other[:2]) * side(one, *other[2:]) < 0
        and side(other, *one[:2]) * side(other, *one[2:]) < 0
    )


@pytest.mark.once
def test_any_two_traces_are_compared(compared: Page) -> None:
    compared.focus(".changelist select")
    compared.press("ArrowDown", "ArrowDown")
    assert compared.state("pair") == 2
    assert "mlp_liger against mlp_compiled" in compared.text(".changelist")
    assert "another kernel" in compared.text(".changelist")
    assert "SLOWER" in compared.text(".changelist") or "INCONCLUSIVE" in compared.text(
        ".changelist"
    )
    compared.run("foretrace.store.set({pair: 0})")


@pytest.mark.once
def test_an_address_restores_alignment_pair_and_selection(compared: Page) -> None:
    compared.run("foretrace.store.set({align: 'step 1', pair: 1, tab: 'changes'})")
    compared.wait("location.hash.includes('align=step+1')")
    compared.press("c")
    wanted = {key: compared.state(key) for key in ("align", "pair", "tab", "selection", "view")}
    compared.wait("location.hash.includes('align=change')")
    compared.wait("location.hash.includes('select=range')")
    address = compared.run("return location.href")
    compared.browser.open(address)
    for key in ("align", "pair", "tab"):
        assert compared.state(key) == wanted[key]
    for edge in ("from", "to"):
        assert compared.state("view")[edge] == pytest.approx(wanted["view"][edge], abs=1)
        found = compared.state("selection")["range"][edge]
        assert found == pytest.approx(wanted["selection"]["range"][edge], abs=1)


def strip_area(svg: str, top: float, height: float) -> float:
    """What the boxes of a strip cover, in shares of the strip's height times pixels."""
    total = 0.0
    for path in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}path"):
        if path.get("class") != "boxes" or path.get("opacity"):  # idle time is a tint
            continue
        for _, y, width, high in BOX.findall(path.get("d", "")):
            inside = float(y) >= top - 0.02 and float(y) + float(high) <= top + height + 0.02
            if inside and (width, high) != ("10", "10"):  # those are of the key of colours
                total += float(width) * float(high) / height
    return total


@pytest.mark.once
def test_busy_time_can_be_read_off_the_svg(shown: Page) -> None:
    svg = shown.answer(SAVED)
    seen = shown.layout()
    strip = next(row for row in seen["rows"] if row["kind"] == "strip")
    ruler = 22
    drawn = strip_area(svg, strip["top"] + ruler, strip["height"])
    range_ = {"from": seen["from"], "to": seen["to"]}
    busy: Any = shown.answer(
        "(async ({from, to}) => { const {zero, source} = foretrace.traces[0]; return "
        "(await source.rangeStats({from: from + zero, to: to + zero})).busyNs; })(arguments[0])",
        range_,
    )
    pixel = (seen["to"] - seen["from"]) / seen["width"]
    assert drawn * pixel == pytest.approx(busy, abs=2 * pixel)


@pytest.mark.once
def test_a_picture_names_tracks_traces_and_colours(compared: Page) -> None:
    root = ElementTree.fromstring(compared.answer(SAVED))
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "mlp_eager · mlp_compiled · mlp_liger" in texts
    assert {"mlp_eager", "mlp_compiled", "gemm", "pointwise"} <= {*texts}
    if compared.look.width == 1440:  # elsewhere the box is too narrow for its name
        assert any(text and "gelu" in text for text in texts)
